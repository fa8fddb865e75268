#include "text/added_tokens.h"

#include <stdlib.h>

static di_status node_add(di_added_tokens *tokens, uint8_t byte, uint32_t *out)
{
    if (tokens->n_nodes == 0)
        tokens->n_nodes = 1; /* the root */
    if (tokens->n_nodes >= UINT32_MAX)
        return di_fail(DI_ERR_UNSUPPORTED, "found more than 4 GiB of added tokens");
    DI_TRY(DI_GROW(&tokens->nodes, &tokens->cap, tokens->n_nodes + 1));
    *out = (uint32_t)tokens->n_nodes++;
    tokens->nodes[*out] = (di_trie_node){.id = -1, .byte = byte};
    return DI_OK;
}

static uint32_t child_of(const di_added_tokens *tokens, uint32_t node, uint8_t byte)
{
    uint32_t child = tokens->nodes[node].child;
    while (child && tokens->nodes[child].byte != byte)
        child = tokens->nodes[child].sibling;
    return child;
}

di_status di_added_tokens_add(di_added_tokens *tokens, const char *content, size_t len, int32_t id)
{
    if (len == 0 || len > DI_ADDED_TOKEN_MAX_BYTES)
        return di_fail(DI_ERR_UNSUPPORTED, "added token %d: found %zu bytes, wanted 1 to %d", id,
                       len, DI_ADDED_TOKEN_MAX_BYTES);
    const uint8_t *bytes = (const uint8_t *)content;
    if (!tokens->roots[bytes[0]])
        DI_TRY(node_add(tokens, bytes[0], &tokens->roots[bytes[0]]));
    uint32_t node = tokens->roots[bytes[0]];
    for (size_t i = 1; i < len; i++) {
        uint32_t child = child_of(tokens, node, bytes[i]);
        if (!child) {
            DI_TRY(node_add(tokens, bytes[i], &child));
            tokens->nodes[child].sibling = tokens->nodes[node].child;
            tokens->nodes[node].child = child;
        }
        node = child;
    }
    if (tokens->nodes[node].id >= 0)
        return di_fail(DI_ERR_INPUT,
                       "added token %d has the text of added token %d, wanted another", id,
                       tokens->nodes[node].id);
    tokens->nodes[node].id = id;
    return DI_OK;
}

void di_added_tokens_free(di_added_tokens *tokens)
{
    free(tokens->nodes);
    *tokens = (di_added_tokens){0};
}

/* Longest token at text[0, len): its bytes, 0 if none. */
static size_t longest_at(const di_added_tokens *tokens, const char *text, size_t len, int32_t *id)
{
    size_t longest = 0;
    uint32_t node = tokens->roots[(uint8_t)text[0]];
    for (size_t i = 0; node; i++) {
        if (tokens->nodes[node].id >= 0) {
            longest = i + 1;
            *id = tokens->nodes[node].id;
        }
        if (i + 1 == len)
            break;
        node = child_of(tokens, node, (uint8_t)text[i + 1]);
    }
    return longest;
}

/* Leaves behind the spans that hold no byte at or after `at`. */
static void skip_plain(di_added_search *search, size_t at)
{
    while (search->next_plain < search->n_plain) {
        const di_text_span *span = &search->plain[search->next_plain];
        if (span->end > at && span->begin < span->end)
            return;
        search->next_plain++;
    }
}

bool di_added_search_next(di_added_search *search, size_t begin, size_t end, di_text_span *match,
                          int32_t *id)
{
    const uint32_t *roots = search->tokens->roots;
    size_t at = begin;
    while (at < end) {
        skip_plain(search, at);
        size_t stop = end; /* of the stretch in which tokens may lie */
        if (search->next_plain < search->n_plain) {
            const di_text_span *plain = &search->plain[search->next_plain];
            if (plain->begin <= at) {
                at = plain->end;
                continue;
            }
            stop = plain->begin < end ? plain->begin : end;
        }
        for (; at < stop; at++) {
            if (!roots[(uint8_t)search->text[at]])
                continue;
            const size_t len = longest_at(search->tokens, search->text + at, stop - at, id);
            if (len) {
                *match = (di_text_span){.begin = at, .end = at + len};
                return true;
            }
        }
    }
    return false;
}
