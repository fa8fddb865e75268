/* What tokens can follow at a place, as far as that does not depend on where it will return to:
 * most tokens are decided here, once per state of the automaton (xgrammar's context-independent
 * tokens). A token that returns out of the place's rule is noted with the trie node where it does;
 * the rest of it is read from the callers. Internal to the folder. */
#ifndef DI_GRAMMAR_TOKEN_STATIC_H
#define DI_GRAMMAR_TOKEN_STATIC_H

#include "grammar/acceptor.h"

/* Tokens at and below `node` have returned when they reach it, after `count` counts. */
typedef struct di_token_return {
    uint32_t node, count;
} di_token_return;

struct di_token_static {
    uint64_t *bits; /* NULL: `ids` instead */
    uint32_t *ids;  /* [n_ids]; counted: all tokens, by the counts they need */
    uint32_t n_ids;
    uint32_t *needs; /* counted: ids[needs[k] .. needs[k + 1]) need k counts; [n_needs + 1] */
    uint32_t n_needs;
    di_token_return *returns;
    uint32_t n_returns;
    /* Also those of another place (shared; NULL: none), but for those below some nodes of the
     * trie's first level, in ascending order. */
    const di_token_static *base;
    uint32_t *not_base; /* [n_not_base] */
    uint32_t n_not_base;
    size_t bytes;
    bool is_shared; /* owned by the vocabulary */
};

/* Of a state without register, or of a counted loop. Owned by the acceptor or its vocabulary. */
DI_WARN_UNUSED di_status di_token_static_of(di_acceptor *a, uint32_t state,
                                            const di_token_static **out);
/* Whether its walk has not ended. */
bool di_token_static_is_under_way(const di_acceptor *a, uint32_t state);
void di_token_static_free(di_token_static *tokens);
void di_statics_free(di_acceptor *a);

/* grammar/signature.c: a text that is equal for two states, of any grammars, if the same texts can
 * follow until they return. *len 0: too large, or it has registers of members. `key` is allocated.
 */
DI_WARN_UNUSED di_status di_state_signature(const di_grammar *grammar, uint32_t state, char **key,
                                            size_t *len);

#endif
