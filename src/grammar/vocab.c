#include "grammar/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "grammar/plain.h"
#include "grammar/token_static.h"
#include "text/tokenizer.h"

enum { N_BUCKETS = 65536 };

/* Tokens sort by their first eight bytes as a number, then by the rest. */
typedef struct sort_key {
    uint64_t prefix;
    const char *bytes;
    uint32_t len, id;
} sort_key;

static uint64_t prefix_of(const di_vocab_token *token)
{
    uint64_t prefix = 0;
    for (uint32_t i = 0; i < 8; i++)
        prefix = prefix << 8 | (i < token->len ? (unsigned char)token->bytes[i] : 0);
    return prefix;
}

static int by_bytes(const void *a, const void *b)
{
    const sort_key *x = a, *y = b;
    if (x->prefix != y->prefix)
        return x->prefix < y->prefix ? -1 : 1;
    const uint32_t n = x->len < y->len ? x->len : y->len;
    const int order = memcmp(x->bytes, y->bytes, n);
    if (order != 0)
        return order;
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static di_status copy_tokens(di_vocab *v, const di_vocab_token *tokens)
{
    size_t n_bytes = 0;
    for (uint32_t i = 0; i < v->n_ids; i++)
        n_bytes += tokens[i].bytes == NULL ? 0 : tokens[i].len;
    v->tokens = calloc((size_t)v->n_ids + 1, sizeof *v->tokens);
    v->text = malloc(n_bytes + 1);
    v->sorted = malloc(((size_t)v->n_ids + 1) * sizeof *v->sorted);
    if (v->tokens == NULL || v->text == NULL || v->sorted == NULL)
        return di_fail_memory(n_bytes, "the tokens of a vocabulary");
    char *text = v->text;
    for (uint32_t i = 0; i < v->n_ids; i++) {
        if (tokens[i].bytes == NULL || tokens[i].len == 0 || tokens[i].len > UINT16_MAX)
            continue;
        memcpy(text, tokens[i].bytes, tokens[i].len);
        v->tokens[i] = (di_vocab_token){text, tokens[i].len};
        text += tokens[i].len;
        v->n_tokens++;
        if (tokens[i].len > v->max_len)
            v->max_len = tokens[i].len;
    }
    return DI_OK;
}

/* Places by the first two bytes: first[b] becomes where bucket b begins. */
static void bucket_tokens(const di_vocab *v, uint32_t *first, sort_key *keys)
{
    for (uint32_t i = 0; i < v->n_ids; i++)
        if (v->tokens[i].bytes != NULL)
            first[(prefix_of(&v->tokens[i]) >> 48) + 1]++;
    for (uint32_t b = 0; b < N_BUCKETS; b++)
        first[b + 1] += first[b];
    for (uint32_t i = 0; i < v->n_ids; i++) {
        const di_vocab_token *token = &v->tokens[i];
        if (token->bytes == NULL)
            continue;
        const uint64_t prefix = prefix_of(token);
        keys[first[prefix >> 48]++] = (sort_key){prefix, token->bytes, token->len, i};
    }
    memmove(first + 1, first, N_BUCKETS * sizeof *first);
    first[0] = 0;
}

static di_status sort_tokens(di_vocab *v)
{
    sort_key *keys = malloc(((size_t)v->n_tokens + 1) * sizeof *keys);
    uint32_t *first = calloc(N_BUCKETS + 1, sizeof *first);
    if (keys == NULL || first == NULL) {
        free(keys);
        free(first);
        return di_fail_memory(v->n_tokens * sizeof *keys, "the tokens of a vocabulary");
    }
    bucket_tokens(v, first, keys);
    for (uint32_t b = 0; b < N_BUCKETS; b++)
        if (first[b + 1] - first[b] > 1)
            qsort(keys + first[b], first[b + 1] - first[b], sizeof *keys, by_bytes);
    for (uint32_t i = 0; i < v->n_tokens; i++)
        v->sorted[i] = keys[i].id;
    free(keys);
    free(first);
    return DI_OK;
}

static uint32_t common_prefix(const di_vocab_token *a, const di_vocab_token *b)
{
    uint32_t n = 0;
    while (n < a->len && n < b->len && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

/* path[d]: the last node at depth d, whose end is not known yet. */
static di_status build_trie(di_vocab *v, uint32_t *path)
{
    size_t cap = 0;
    uint32_t depth = 0;
    DI_TRY(DI_GROW(&v->nodes, &cap, 1));
    v->nodes[v->n_nodes++] = (di_vocab_node){0};
    path[0] = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        const di_vocab_token *token = &v->tokens[v->sorted[i]];
        const uint32_t shared = i == 0 ? 0 : common_prefix(&v->tokens[v->sorted[i - 1]], token);
        while (depth > shared)
            v->nodes[path[depth--]].skip = v->n_nodes;
        while (depth < token->len) {
            DI_TRY(DI_GROW(&v->nodes, &cap, (size_t)v->n_nodes + 1));
            const uint8_t byte = (uint8_t)token->bytes[depth++];
            v->nodes[v->n_nodes] =
                (di_vocab_node){.first_token = i, .depth = (uint16_t)depth, .byte = byte};
            path[depth] = v->n_nodes++;
        }
        v->nodes[path[depth]].n_own++;
    }
    for (;; depth--) {
        v->nodes[path[depth]].skip = v->n_nodes;
        if (depth == 0)
            return DI_OK;
    }
}

/* path[d]: the last node at depth d. */
static di_status note_bytes(di_vocab *v, uint32_t *path)
{
    v->below = calloc(v->n_nodes, sizeof *v->below);
    if (v->below == NULL)
        return di_fail_memory(v->n_nodes * sizeof *v->below, "the tokens of a vocabulary");
    for (uint32_t i = 1; i < v->n_nodes; i++) {
        const di_vocab_node *n = &v->nodes[i];
        path[n->depth] = i;
        v->below[n->depth == 1 ? 0 : path[n->depth - 1]] |= (uint64_t)1 << (n->byte % 64);
    }
    return DI_OK;
}

static di_status fill(di_vocab *v, const di_vocab_token *tokens)
{
    DI_TRY(copy_tokens(v, tokens));
    DI_TRY(sort_tokens(v));
    uint32_t *path = malloc(((size_t)v->max_len + 1) * sizeof *path);
    if (path == NULL)
        return di_fail_memory(v->max_len * sizeof *path, "the tokens of a vocabulary");
    di_status status = build_trie(v, path);
    if (status == DI_OK)
        status = note_bytes(v, path);
    free(path);
    return status == DI_OK ? di_vocab_find_plain(v) : status;
}

di_status di_vocab_create(const di_vocab_token *tokens, uint32_t n_ids, di_vocab **out)
{
    di_vocab *v = calloc(1, sizeof *v);
    if (v == NULL)
        return di_fail_memory(sizeof *v, "a vocabulary");
    atomic_init(&v->n_refs, 1);
    pthread_mutex_init(&v->lock, NULL);
    v->n_ids = n_ids;
    v->n_words = (n_ids + 63) / 64;
    const di_status status = fill(v, tokens);
    if (status != DI_OK) {
        di_vocab_unref(v);
        return status;
    }
    *out = v;
    return DI_OK;
}

static di_status mark_added(di_arena *scratch, di_vocab_token *token)
{
    char *bytes;
    DI_TRY(DI_ARENA_NEW(scratch, (size_t)token->len + 1, &bytes));
    bytes[0] = (char)DI_VOCAB_ADDED;
    memcpy(bytes + 1, token->bytes, token->len);
    token->bytes = bytes;
    token->len++;
    return DI_OK;
}

di_status di_vocab_from_tokenizer(const di_tokenizer *tokenizer, di_vocab **out)
{
    const uint32_t n_ids = (uint32_t)di_tokenizer_n_ids(tokenizer);
    di_arena scratch = {0};
    di_vocab_token *tokens;
    di_status status = DI_ARENA_ZNEW(&scratch, (size_t)n_ids + 1, &tokens);
    for (uint32_t i = 0; i < n_ids && status == DI_OK; i++) {
        const di_token *token = di_tokenizer_token(tokenizer, i);
        if (token == NULL || token->text == NULL || token->is_special)
            continue;
        if (!token->is_added && memchr(token->bytes, DI_VOCAB_ADDED, token->n_bytes) != NULL)
            continue; /* bytes of no text */
        tokens[i] = (di_vocab_token){token->bytes, token->n_bytes};
        if (token->is_added)
            status = mark_added(&scratch, &tokens[i]);
    }
    if (status == DI_OK)
        status = di_vocab_create(tokens, n_ids, out);
    di_arena_free(&scratch);
    return status;
}

/* The child of a node that `byte` leads to; 0: none. */
static uint32_t child_of(const di_vocab *v, uint32_t node, uint8_t byte)
{
    for (uint32_t i = node + 1; i < v->nodes[node].skip; i = v->nodes[i].skip)
        if (v->nodes[i].byte == byte)
            return i;
    return 0;
}

bool di_vocab_has_added(const di_vocab *v, const char *text, size_t len)
{
    uint32_t node = child_of(v, 0, DI_VOCAB_ADDED);
    for (size_t i = 0; i < len && node != 0; i++)
        node = child_of(v, node, (uint8_t)text[i]);
    return node != 0 && v->nodes[node].n_own > 0;
}

di_vocab *di_vocab_ref(di_vocab *vocab)
{
    atomic_fetch_add(&vocab->n_refs, 1);
    return vocab;
}

void di_vocab_unref(di_vocab *v)
{
    if (v == NULL || atomic_fetch_sub(&v->n_refs, 1) > 1)
        return;
    for (size_t i = 0; i < v->n_shared; i++) {
        free(v->shared[i].key);
        di_token_static_free(v->shared[i].tokens);
    }
    free(v->shared);
    free(v->tokens);
    free(v->text);
    free(v->sorted);
    free(v->nodes);
    free(v->below);
    free(v->plain);
    free(v->plain_state);
    free(v->wide);
    free(v->wide_bytes);
    pthread_mutex_destroy(&v->lock);
    free(v);
}
