/* Finds added tokens in text: a trie over their bytes. */
#ifndef DI_TEXT_ADDED_TOKENS_H
#define DI_TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "core/text_span.h"

enum { DI_ADDED_TOKEN_MAX_BYTES = 1024 }; /* bounds the search at one position */

typedef struct di_trie_node {
    uint32_t child;   /* first child, 0 = none */
    uint32_t sibling; /* next child of the same parent, 0 = none */
    int32_t id;       /* token that ends here, -1 = none */
    uint8_t byte;
} di_trie_node;

typedef struct di_added_tokens {
    di_trie_node *nodes; /* [n_nodes]; node 0 is the root */
    size_t n_nodes;
    size_t cap;
    uint32_t roots[256]; /* child of the root for each first byte, 0 = none */
} di_added_tokens;

/* Content must not be empty, longer than DI_ADDED_TOKEN_MAX_BYTES, or there already. */
DI_WARN_UNUSED di_status di_added_tokens_add(di_added_tokens *tokens, const char *content,
                                             size_t len, int32_t id);
void di_added_tokens_free(di_added_tokens *tokens);

/* A search over one text from left to right. Nothing that touches a plain span is found. */
typedef struct di_added_search {
    const di_added_tokens *tokens;
    const char *text;
    const di_text_span *plain; /* sorted, not overlapping */
    size_t n_plain;
    size_t next_plain; /* first span that ends behind the place searched last; starts at 0 */
} di_added_search;

/* Finds the leftmost, and there the longest, token within [begin, end). begin must not go back from
 * call to call. */
bool di_added_search_next(di_added_search *search, size_t begin, size_t end, di_text_span *match,
                          int32_t *id);

#endif
