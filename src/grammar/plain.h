/* Plain text: whole characters but control characters, quotes and backslashes, in UTF-8, as they
 * stand in JSON strings and in most other texts. Which tokens are plain text is found once for a
 * vocabulary. Many places of grammars read plain text but for some characters, and come back to
 * where they were after each: then most of their tokens are the plain ones, and only what is below
 * the others has to be walked. Internal to the folder. */
#ifndef DI_GRAMMAR_PLAIN_H
#define DI_GRAMMAR_PLAIN_H

#include "grammar/acceptor.h"

/* States of the automaton of plain text: between characters, within one, dead. */
enum { DI_PLAIN_BETWEEN = 0, DI_PLAIN_DEAD = 8, DI_PLAIN_STATES };

/* Fewer nodes below one than this are walked. */
enum { DI_PLAIN_NODES = 8 };

uint8_t di_plain_step(uint8_t state, uint8_t byte);

/* Of a vocabulary whose trie is made. */
DI_WARN_UNUSED di_status di_vocab_find_plain(di_vocab *v);

/* What a set is to plain text. */
typedef struct di_plain_match {
    uint32_t set; /* DI_SET_UNKNOWN: free */
    uint8_t state;
    bool matches;   /* after the end of a character that is under way, if any: */
    bool returns;   /* on the way the place may have returned */
    uint64_t ok[4]; /* bytes that are plain and lead back, or are not plain and lead nowhere */
} di_plain_match;

/* Found sets, by number: a later one may take the place of another. */
enum { DI_PLAIN_MATCHES = 64 };

/* *match (valid until the next call): how the set goes on where plain text is in a state. */
DI_WARN_UNUSED di_status di_plain_match_of(di_acceptor *a, uint32_t set, uint8_t state,
                                           const di_plain_match **match);

/* Whether below a node of the trie, reached with this set, exactly the plain tokens can follow:
 * those that are plain text from the token's beginning on. */
DI_WARN_UNUSED di_status di_plain_below(di_acceptor *a, uint32_t node, uint32_t set,
                                        bool may_return, bool *is_plain);

#endif
