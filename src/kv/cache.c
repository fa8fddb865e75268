#include "kv/cache.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/checked.h"

di_status di_kv_cache_init(const di_config *config, const int64_t *n_blocks, di_kv_cache *out)
{
    di_kv_cache cache = {.window_len = config->sliding_window, .head_dim = config->head_dim};
    di_kv_layout_init(config, &cache.layout);
    for (int g = 0; g < cache.layout.n_groups; g++) {
        di_kv_pool *pool = &cache.pools[g];
        pool->n_blocks = n_blocks[g];
        /* calloc of this size maps fresh zero pages: they cost nothing until written. */
        pool->data = calloc((size_t)n_blocks[g], (size_t)cache.layout.groups[g].block_bytes);
        pool->free = calloc((size_t)n_blocks[g], sizeof *pool->free);
        if (!pool->data || !pool->free) {
            di_kv_cache_free(&cache);
            return di_fail_memory(n_blocks[g] * cache.layout.groups[g].block_bytes, "the KV cache");
        }
        for (int64_t i = 0; i < n_blocks[g]; i++) /* lowest id on top */
            pool->free[pool->n_free++] = (int32_t)(n_blocks[g] - 1 - i);
    }
    *out = cache;
    return DI_OK;
}

void di_kv_cache_free(di_kv_cache *cache)
{
    for (int g = 0; g < cache->layout.n_groups; g++) {
        free(cache->pools[g].data);
        free(cache->pools[g].free);
    }
    *cache = (di_kv_cache){.window_len = 0};
}

di_paged_out di_kv_cache_store(const di_kv_cache *cache, int layer, di_kv_store store)
{
    const di_kv_layout *layout = &cache->layout;
    const int g = store == DI_KV_WINDOW ? 0 : layout->group_of_layer[layer];
    const int64_t place = store == DI_KV_WINDOW ? layer : layout->place_in_group[layer];
    const di_kv_group *group = &layout->groups[g];
    const di_kv_entry *entry = &layout->entries[store];
    const int64_t n_blocks = cache->pools[g].n_blocks;
    const int64_t block_bytes = group->block_len * di_kv_entry_bytes(layout, store);
    /* A pool is store-major: every layer's compressed blocks, then every layer's index blocks. */
    int64_t offset = place * n_blocks * block_bytes;
    if (store == DI_KV_INDEX)
        offset += group->n_layers * n_blocks * group->block_len *
                  di_kv_entry_bytes(layout, DI_KV_COMPRESSED);
    return (di_paged_out){
        .data = cache->pools[g].data + offset,
        .block_bytes = block_bytes,
        .scales_offset = (int64_t)group->block_len * entry->code_bytes,
        .block_len = group->block_len,
        .code_bytes = entry->code_bytes,
        .scale_bytes = entry->scale_bytes,
    };
}

di_paged di_kv_cache_view(const di_kv_cache *cache, int layer, di_kv_store store)
{
    const di_paged_out p = di_kv_cache_store(cache, layer, store);
    return (di_paged){p.data,      p.block_bytes, p.scales_offset,
                      p.block_len, p.code_bytes,  p.scale_bytes};
}

di_status di_kv_seq_init(const di_kv_cache *cache, di_kv_seq *out)
{
    const size_t n = (size_t)(cache->layout.n_compressors * 2 * cache->head_dim);
    float *state = calloc(n ? n : 1, sizeof *state);
    if (!state)
        return di_fail_memory(n * sizeof *state, "a sequence's compressor state");
    *out = (di_kv_seq){.compressor_state = state};
    return DI_OK;
}

static void give_back(di_kv_cache *cache, di_kv_seq *seq, int group, int64_t block)
{
    di_kv_pool *pool = &cache->pools[group];
    pool->free[pool->n_free++] = seq->tables[group][block];
    seq->tables[group][block] = -1;
}

void di_kv_seq_release(di_kv_cache *cache, di_kv_seq *seq)
{
    for (int g = 0; g < cache->layout.n_groups; g++) {
        for (int64_t b = seq->n_blocks; b-- > seq->first_block[g];)
            give_back(cache, seq, g, b);
        free(seq->tables[g]);
    }
    free(seq->compressor_state);
    *seq = (di_kv_seq){.len = 0};
}

static void drop_left_window(di_kv_cache *cache, di_kv_seq *seq)
{
    const int64_t oldest = di_max_i64(0, seq->len - cache->window_len + 1); /* row `len` sees it */
    for (int g = 0; g < cache->layout.n_groups; g++)
        while (cache->layout.groups[g].is_window && seq->first_block[g] < seq->n_blocks &&
               (seq->first_block[g] + 1) * DI_KV_BLOCK_TOKENS <= oldest)
            give_back(cache, seq, g, seq->first_block[g]++);
}

di_status di_kv_seq_extend(di_kv_cache *cache, di_kv_seq *seq, int64_t new_len)
{
    drop_left_window(cache, seq);
    const int64_t n_blocks = di_ceil_div(new_len, DI_KV_BLOCK_TOKENS);
    const int64_t extra = n_blocks - seq->n_blocks;
    for (int g = 0; g < cache->layout.n_groups; g++) {
        if (extra > cache->pools[g].n_free)
            return di_fail(DI_ERR_MEMORY,
                           "KV cache full: wanted %lld blocks of %d tokens, %lld free",
                           (long long)extra, DI_KV_BLOCK_TOKENS, (long long)cache->pools[g].n_free);
        DI_TRY(DI_GROW(&seq->tables[g], &seq->table_caps[g], (size_t)n_blocks));
    }
    for (int g = 0; g < cache->layout.n_groups; g++) {
        di_kv_pool *pool = &cache->pools[g];
        for (int64_t b = seq->n_blocks; b < n_blocks; b++)
            seq->tables[g][b] = pool->free[--pool->n_free];
    }
    seq->n_blocks = di_max_i64(seq->n_blocks, n_blocks);
    seq->len = new_len;
    return DI_OK;
}

int64_t di_kv_seq_slot(const di_kv_cache *cache, const di_kv_seq *seq, int group, int64_t position)
{
    const di_kv_group *g = &cache->layout.groups[group];
    if ((position + 1) % g->ratio != 0)
        return -1;
    return di_paged_slot(seq->tables[group], g->block_len, position / g->ratio);
}
