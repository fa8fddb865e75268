/* The tokens of a vocabulary as a trie over their bytes, in one array in the order of a walk: what
 * masks are computed over. Constant once made, but for the cache of finished token sets, which has
 * its own lock: share it between threads. */
#ifndef DI_GRAMMAR_VOCAB_H
#define DI_GRAMMAR_VOCAB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct di_tokenizer di_tokenizer;
typedef struct di_token_static di_token_static;

/* The first byte of an added token, before those of its text: no text of UTF-8 has it, so that only
 * grammars that name the token (DI_EXPR_TOKEN) let it in. */
#define DI_VOCAB_ADDED 0xFFu

typedef struct di_vocab_node {
    uint32_t skip;        /* the next node that is not below this one */
    uint32_t first_token; /* of those in the order of their bytes: at and below this node */
    uint32_t n_own;       /* tokens that end here, the first ones */
    uint16_t depth;       /* bytes from the root */
    uint8_t byte;
} di_vocab_node;

typedef struct di_vocab_token {
    const char *bytes; /* NULL: never part of a constrained text (special tokens) */
    uint32_t len;
} di_vocab_token;

typedef struct di_shared_static {
    char *key; /* what the automaton from a state looks like */
    size_t len;
    di_token_static *tokens;
} di_shared_static;

typedef struct di_vocab {
    atomic_int n_refs;
    uint32_t n_ids, n_tokens, n_words; /* n_words: of a mask, 64 ids each */
    uint32_t max_len;
    di_vocab_token *tokens; /* [n_ids]; the bytes are the vocabulary's own */
    char *text;
    uint32_t *sorted; /* [n_tokens] ids in the order of their bytes */
    di_vocab_node *nodes;
    uint64_t *below; /* [n_nodes] bit b % 64 for each byte b that follows a node */
    uint32_t n_nodes;
    /* grammar/plain.h */
    uint64_t *plain;           /* [n_words]: the tokens that are plain text */
    uint8_t *plain_state;      /* [n_nodes]: of plain text, after the bytes to a node */
    uint32_t *wide;            /* [n_nodes]: which of wide_bytes; UINT32_MAX: few nodes below */
    uint64_t (*wide_bytes)[4]; /* the bytes that occur below a node */
    pthread_mutex_t lock;      /* of what follows */
    di_shared_static *shared;
    size_t n_shared, cap_shared, shared_bytes;
} di_vocab;

/* tokens [n_ids]; copied. Tokens longer than 65,535 bytes are left out. */
DI_WARN_UNUSED di_status di_vocab_create(const di_vocab_token *tokens, uint32_t n_ids,
                                         di_vocab **out);
/* Of a tokenizer: all but its special tokens; added ones behind DI_VOCAB_ADDED. */
DI_WARN_UNUSED di_status di_vocab_from_tokenizer(const di_tokenizer *tokenizer, di_vocab **out);
/* Whether there is an added token of this text. */
bool di_vocab_has_added(const di_vocab *vocab, const char *text, size_t len);
di_vocab *di_vocab_ref(di_vocab *vocab);
void di_vocab_unref(di_vocab *vocab);

/* One past the last token at and below a node. */
static inline uint32_t di_vocab_end_token(const di_vocab *v, uint32_t node)
{
    const uint32_t skip = v->nodes[node].skip;
    return skip == v->n_nodes ? v->n_tokens : v->nodes[skip].first_token;
}

#endif
