#include "model/network.h"

#include "base/pcg64.h"

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

static bool is_used(const int64_t *used, int64_t n_used, int64_t n)
{
    for (int64_t i = 0; i < n_used; i++)
        if (used[i] == n)
            return true;
    return false;
}

/* The next n_heads primes from `first` on that no layer and order has taken yet. */
static void take_primes(int64_t first, int n_heads, int64_t *used, int64_t *n_used, int64_t *out)
{
    for (int head = 0; head < n_heads; first++) {
        if (!is_prime(first) || is_used(used, *n_used, first))
            continue;
        used[(*n_used)++] = first;
        out[head++] = first;
    }
}

static void draw_multipliers(const di_config *config, int layer, int64_t *out)
{
    const int64_t range = INT64_MAX / config->engram_compressed_vocab_size / 2;
    di_pcg64 rng;
    di_pcg64_seed(&rng, (uint64_t)10007 * (uint64_t)layer);
    for (int k = 0; k < config->engram_max_ngram_size; k++)
        out[k] = 2 * (int64_t)di_pcg64_below(&rng, (uint64_t)range) + 1;
}

di_status di_engram_constants_init(const di_config *config, di_arena *arena,
                                   di_engram_constants *out)
{
    const int n_orders = config->engram_max_ngram_size - 1, n_heads = config->engram_n_heads;
    const int n_columns = n_orders * n_heads;
    int64_t *used, n_used = 0;
    DI_TRY(DI_ARENA_NEW(arena, (size_t)(config->n_engram_layers * n_columns), &used));
    for (int l = 0; l < config->n_engram_layers; l++) {
        di_engram_constants *c = &out[l];
        DI_TRY(DI_ARENA_NEW(arena, (size_t)n_columns, &c->primes));
        DI_TRY(DI_ARENA_NEW(arena, (size_t)n_columns, &c->offsets));
        for (int order = 0; order < n_orders; order++)
            take_primes(config->engram_vocab_size, n_heads, used, &n_used,
                        c->primes + order * n_heads);
        int64_t total = 0;
        for (int i = 0; i < n_columns; i++) {
            c->offsets[i] = total;
            total += c->primes[i];
        }
        if (total != config->engram_num_embeddings[l])
            return di_fail(DI_ERR_INPUT,
                           "config: engram_num_embeddings[%d]: found %lld, wanted %lld, the sum of "
                           "the layer's primes from engram_vocab_size on",
                           l, (long long)config->engram_num_embeddings[l], (long long)total);
        draw_multipliers(config, config->engram_layer_ids[l], c->multipliers);
    }
    return DI_OK;
}

di_status di_network_init(const di_config *config, const di_weights *weights,
                          const int32_t *token_map, di_network *out)
{
    di_network n = {.config = config, .weights = weights, .token_map = token_map};
    di_status status = di_engram_constants_init(config, &n.arena, n.engram);
    const size_t half = (size_t)config->rope_dim / 2;
    if (status == DI_OK)
        status = DI_ARENA_NEW(&n.arena, half, &n.rope_plain);
    if (status == DI_OK)
        status = DI_ARENA_NEW(&n.arena, half, &n.rope_compressed);
    if (status != DI_OK) {
        di_arena_free(&n.arena);
        return status;
    }
    di_rope_frequencies(config->rope_dim, config->rope_theta, NULL, n.rope_plain);
    di_rope_frequencies(config->rope_dim, config->compress_rope_theta, &config->rope_scaling,
                        n.rope_compressed);
    *out = n;
    return DI_OK;
}

void di_network_free(di_network *network)
{
    di_arena_free(&network->arena);
    *network = (di_network){0};
}
