/* Which layers of a model stand for all of them, and the configuration of those alone. */
#include <string.h>

#include "base/checked.h"
#include "bench/synthetic.h"

bool di_synthetic_has_engram(const di_config *c, int layer)
{
    for (int i = 0; i < c->n_engram_layers; i++)
        if (c->engram_layer_ids[i] == layer)
            return true;
    return false;
}

bool di_synthetic_is_same_kind(const di_config *c, int a, int b)
{
    return c->compress_ratios[a] == c->compress_ratios[b] &&
           c->is_kv_source[a] == c->is_kv_source[b] &&
           c->is_index_source[a] == c->is_index_source[b] &&
           di_synthetic_has_engram(c, a) == di_synthetic_has_engram(c, b);
}

/* --------------------------------------------------------------------------------------- picking
 */

/* Marks a layer and those whose entries, selection or candidates it reads. */
static void mark(const di_config *c, int layer, bool *is_picked)
{
    is_picked[layer] = true;
    if (c->compress_ratios[layer] == 0)
        return;
    is_picked[c->kv_source[layer]] = is_picked[c->index_source[layer]] = true;
    if (c->candidate_source >= 0 && layer > c->candidate_source)
        is_picked[c->candidate_source] = true;
}

static int count(const di_config *c, const bool *is_picked)
{
    int n = 0;
    for (int i = 0; i < c->n_layers; i++)
        n += is_picked[i];
    return n;
}

/* Picks the layer if it and what it needs are at most n with those picked so far. */
static void try_pick(const di_config *c, int layer, int n, bool *is_picked)
{
    bool with[DI_MAX_LAYERS];
    memcpy(with, is_picked, sizeof with);
    mark(c, layer, with);
    if (count(c, with) <= n)
        memcpy(is_picked, with, sizeof with);
}

static int kind_size(const di_config *c, int layer)
{
    int n = 0;
    for (int i = 0; i < c->n_layers; i++)
        n += di_synthetic_is_same_kind(c, i, layer);
    return n;
}

static bool is_first_of_kind(const di_config *c, int layer)
{
    for (int i = 0; i < layer; i++)
        if (di_synthetic_is_same_kind(c, i, layer))
            return false;
    return true;
}

di_status di_synthetic_pick(const di_config *c, int n, int *layers)
{
    bool is_picked[DI_MAX_LAYERS] = {false};
    if (n < 1 || n > c->n_layers)
        return di_fail(DI_ERR_ARGUMENT, "layers: found %d, wanted 1 to %d", n, c->n_layers);
    /* One of each kind, the largest kinds first and of equal ones the later; then whatever fits. */
    for (int size = c->n_layers; size > 0; size--)
        for (int layer = c->n_layers; layer-- > 0;)
            if (is_first_of_kind(c, layer) && kind_size(c, layer) == size)
                try_pick(c, layer, n, is_picked);
    for (int layer = 0; layer < c->n_layers; layer++)
        try_pick(c, layer, n, is_picked);
    const int found = count(c, is_picked);
    if (found < n)
        return di_fail(DI_ERR_ARGUMENT,
                       "layers: found %d, of which only %d can stand alone, wanted another number",
                       n, found);
    for (int layer = 0, i = 0; layer < c->n_layers; layer++)
        if (is_picked[layer])
            layers[i++] = layer;
    return DI_OK;
}

/* -------------------------------------------------------------------------------------- reducing
 */

static bool is_prime(int64_t n)
{
    if (n < 4)
        return n >= 2;
    if (n % 2 == 0)
        return false;
    for (int64_t i = 3; i * i <= n; i += 2)
        if (n % i == 0)
            return false;
    return true;
}

/* Tables of at most TABLE_BYTES: smaller hash ranges, of one prime each (model specification 4.6).
 */
static void shrink_tables(di_config *c)
{
    enum { TABLE_BYTES = 512 << 20 };
    const int64_t columns = (int64_t)(c->engram_max_ngram_size - 1) * c->engram_n_heads;
    const int64_t row_bytes = c->engram_head_dim + c->engram_head_dim / 32;
    if (c->engram_vocab_size * columns * row_bytes > TABLE_BYTES)
        c->engram_vocab_size = di_max_i64(2, TABLE_BYTES / (columns * row_bytes) - 1024);
    int64_t prime = c->engram_vocab_size;
    for (int l = 0; l < c->n_engram_layers; l++) {
        c->engram_num_embeddings[l] = 0;
        for (int64_t i = 0; i < columns; i++) {
            while (!is_prime(prime))
                prime++;
            c->engram_num_embeddings[l] += prime++;
        }
    }
}

void di_synthetic_reduce(const di_config *config, const int *layers, int n, di_config *out)
{
    di_config c = *config;
    c.n_layers = n;
    c.n_draft_blocks = c.n_dspark_targets = c.n_engram_layers = 0;
    c.has_vision = false;
    c.candidate_source = -1;
    memset(c.compress_ratios, 0, sizeof c.compress_ratios);
    memset(c.is_kv_source, 0, sizeof c.is_kv_source);
    memset(c.is_index_source, 0, sizeof c.is_index_source);
    int kv = -1, index = -1;
    for (int i = 0; i < n; i++) {
        const int from = layers[i];
        c.compress_ratios[i] = config->compress_ratios[from];
        c.is_kv_source[i] = config->is_kv_source[from];
        c.is_index_source[i] = config->is_index_source[from];
        kv = c.is_kv_source[i] ? i : kv;
        index = c.is_index_source[i] ? i : index;
        c.kv_source[i] = c.compress_ratios[i] ? kv : -1;
        c.index_source[i] = c.compress_ratios[i] ? index : -1;
        if (from == config->candidate_source)
            c.candidate_source = i;
        if (di_synthetic_has_engram(config, from))
            c.engram_layer_ids[c.n_engram_layers++] = i;
    }
    shrink_tables(&c);
    *out = c;
}
