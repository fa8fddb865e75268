#include "kv/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/checked.h"

di_status di_kv_cache_init_dry(const di_config *config, bool has_drafter, const int64_t *n_blocks,
                               di_kv_cache *out)
{
    di_kv_cache cache = {.window_len = config->sliding_window, .head_dim = config->head_dim};
    di_kv_layout_init(config, has_drafter, &cache.layout);
    for (int g = 0; g < cache.layout.n_groups; g++) {
        const di_status status = di_block_pool_init(&cache.pools[g], g, n_blocks[g]);
        if (status != DI_OK) {
            di_kv_cache_free(&cache);
            return status;
        }
    }
    *out = cache;
    return DI_OK;
}

di_status di_kv_cache_init(const di_config *config, bool has_drafter, const int64_t *n_blocks,
                           di_kv_cache *out)
{
    di_kv_cache cache;
    DI_TRY(di_kv_cache_init_dry(config, has_drafter, n_blocks, &cache));
    for (int g = 0; g < cache.layout.n_groups; g++) {
        /* calloc of this size maps fresh zero pages: they cost nothing until written. */
        const size_t n = (size_t)(n_blocks[g] ? n_blocks[g] : 1);
        const size_t block_bytes = (size_t)cache.layout.groups[g].block_bytes;
        cache.data[g] = calloc(n, block_bytes);
        if (!cache.data[g]) {
            di_kv_cache_free(&cache);
            return di_fail_memory(n * block_bytes, "the KV cache");
        }
    }
    *out = cache;
    return DI_OK;
}

void di_kv_cache_free(di_kv_cache *cache)
{
    for (int g = 0; g < cache->layout.n_groups; g++) {
        di_block_pool_free(&cache->pools[g]);
        free(cache->data[g]);
    }
    free(cache->copies);
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
        .data = cache->data[g] + offset,
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

static void give_back(di_kv_cache *cache, di_kv_seq *seq, int group, int64_t block)
{
    di_block_pool_unref(&cache->pools[group], seq->tables[group][block]);
    seq->tables[group][block] = -1;
}

void di_kv_seq_release(di_kv_cache *cache, di_kv_seq *seq)
{
    for (int g = 0; g < cache->layout.n_groups; g++) {
        for (int64_t b = seq->n_blocks; b-- > seq->first_block[g];)
            give_back(cache, seq, g, b);
        free(seq->tables[g]);
    }
    *seq = (di_kv_seq){.len = 0};
}

/* First logical block that rows from `len` on still see. */
static int64_t first_seen(const di_kv_cache *cache, const di_kv_seq *seq, int group)
{
    if (!cache->layout.groups[group].is_window)
        return 0;
    const int64_t oldest = di_max_i64(0, seq->len - seq->n_uncertain - cache->window_len + 1);
    return di_min_i64(oldest / DI_KV_BLOCK_TOKENS, seq->n_blocks);
}

/* Whether the next token goes into a block that others own too. */
static bool must_copy_last(const di_kv_cache *cache, const di_kv_seq *seq, int group)
{
    if (seq->len % DI_KV_BLOCK_TOKENS == 0 || seq->len < seq->write_floor)
        return false;
    const int32_t last = seq->tables[group][seq->n_blocks - 1];
    return cache->pools[group].blocks[last].n_owners > 1;
}

int64_t di_kv_seq_blocks_needed(const di_kv_cache *cache, const di_kv_seq *seq, int group,
                                int64_t new_len)
{
    if (new_len <= seq->len)
        return 0;
    const int64_t n_blocks = di_ceil_div(new_len, DI_KV_BLOCK_TOKENS);
    return di_max_i64(0, n_blocks - seq->n_blocks) + must_copy_last(cache, seq, group);
}

static void drop_left_window(di_kv_cache *cache, di_kv_seq *seq)
{
    for (int g = 0; g < cache->layout.n_groups; g++)
        while (seq->first_block[g] < first_seen(cache, seq, g))
            give_back(cache, seq, g, seq->first_block[g]++);
}

static di_status check_available(const di_kv_cache *cache, int group, int64_t need)
{
    const int64_t available = di_block_pool_available(&cache->pools[group]);
    if (need > available)
        return di_fail(DI_ERR_MEMORY,
                       "KV cache full: wanted %lld blocks of %d tokens, %lld available",
                       (long long)need, DI_KV_BLOCK_TOKENS, (long long)available);
    return DI_OK;
}

/* Room in the tables and in the list of copies, so that the rest cannot fail. */
static di_status make_room(di_kv_cache *cache, di_kv_seq *seq, int64_t new_len)
{
    const int64_t n_blocks = di_ceil_div(new_len, DI_KV_BLOCK_TOKENS);
    DI_TRY(DI_GROW(&cache->copies, &cache->copies_cap, cache->n_copies + DI_MAX_KV_GROUPS));
    for (int g = 0; g < cache->layout.n_groups; g++) {
        DI_TRY(check_available(cache, g, di_kv_seq_blocks_needed(cache, seq, g, new_len)));
        DI_TRY(DI_GROW(&seq->tables[g], &seq->table_caps[g], (size_t)n_blocks));
    }
    return DI_OK;
}

di_status di_kv_cache_reserve(di_kv_cache *cache, di_kv_seq *const *seqs, const int64_t *new_lens,
                              int32_t n)
{
    const size_t most_copies = (size_t)n * DI_MAX_KV_GROUPS;
    DI_TRY(DI_GROW(&cache->copies, &cache->copies_cap, cache->n_copies + most_copies));
    int64_t need[DI_MAX_KV_GROUPS] = {0};
    for (int32_t i = 0; i < n; i++) {
        drop_left_window(cache, seqs[i]);
        DI_TRY(make_room(cache, seqs[i], new_lens[i]));
        for (int g = 0; g < cache->layout.n_groups; g++)
            need[g] += di_kv_seq_blocks_needed(cache, seqs[i], g, new_lens[i]);
    }
    for (int g = 0; g < cache->layout.n_groups; g++)
        DI_TRY(check_available(cache, g, need[g]));
    return DI_OK;
}

static void own_last_block(di_kv_cache *cache, di_kv_seq *seq, int group)
{
    int32_t *last = &seq->tables[group][seq->n_blocks - 1];
    const int32_t fresh = di_block_pool_take(&cache->pools[group]);
    cache->copies[cache->n_copies++] = (di_kv_copy){group, *last, fresh};
    di_block_pool_unref(&cache->pools[group], *last);
    *last = fresh;
    seq->n_given = di_min_i64(seq->n_given, seq->n_blocks - 1);
}

/* How far the sequence may grow within its last blocks, which are its own, before one leaves the
 * window. */
static int64_t easy_len(const di_kv_cache *cache, const di_kv_seq *seq)
{
    int64_t len = seq->n_blocks * DI_KV_BLOCK_TOKENS;
    for (int g = 0; g < cache->layout.n_groups; g++)
        if (cache->layout.groups[g].is_window)
            len = di_min_i64(len, (seq->first_block[g] + 1) * DI_KV_BLOCK_TOKENS +
                                      cache->window_len - 1);
    return len;
}

di_status di_kv_seq_extend_blocks(di_kv_cache *cache, di_kv_seq *seq, int64_t new_len)
{
    drop_left_window(cache, seq);
    DI_TRY(make_room(cache, seq, new_len));
    if (new_len <= seq->len)
        return DI_OK;
    const int64_t n_blocks = di_ceil_div(new_len, DI_KV_BLOCK_TOKENS);
    for (int g = 0; g < cache->layout.n_groups; g++) {
        if (must_copy_last(cache, seq, g))
            own_last_block(cache, seq, g);
        for (int64_t b = seq->n_blocks; b < n_blocks; b++)
            seq->tables[g][b] = di_block_pool_take(&cache->pools[g]);
    }
    seq->n_blocks = di_max_i64(seq->n_blocks, n_blocks);
    seq->len = new_len;
    seq->easy_len = easy_len(cache, seq);
    return DI_OK;
}

di_status di_kv_seq_fork(di_kv_cache *cache, di_kv_seq *seq, di_kv_seq *out)
{
    di_kv_seq fork = {.len = 0};
    for (int g = 0; g < cache->layout.n_groups; g++) {
        const di_status status =
            DI_GROW(&fork.tables[g], &fork.table_caps[g], (size_t)seq->n_blocks);
        if (status != DI_OK) {
            di_kv_seq_release(cache, &fork);
            return status;
        }
    }
    for (int g = 0; g < cache->layout.n_groups; g++) {
        fork.first_block[g] = seq->first_block[g];
        for (int64_t b = 0; b < seq->n_blocks; b++) {
            fork.tables[g][b] = seq->tables[g][b];
            if (b >= seq->first_block[g])
                di_block_pool_ref(&cache->pools[g], seq->tables[g][b]);
        }
    }
    fork.len = seq->len;
    fork.n_blocks = seq->n_blocks;
    fork.n_registered = seq->n_registered;
    fork.chain = seq->chain;
    fork.write_floor = seq->write_floor;
    fork.window_floor = seq->window_floor;
    fork.decoder_start = seq->decoder_start;
    seq->easy_len = 0; /* its last blocks are no longer its own */
    *out = fork;
    return DI_OK;
}

/* A pool's stores: every layer's compressed blocks, then every layer's index blocks. */
static void copy_in_store(uint8_t *store, int64_t n_layers, int64_t n_blocks, int64_t block_bytes,
                          const di_kv_copy *copy)
{
    for (int64_t layer = 0; layer < n_layers; layer++) {
        uint8_t *blocks = store + layer * n_blocks * block_bytes;
        memcpy(blocks + copy->to * block_bytes, blocks + copy->from * block_bytes,
               (size_t)block_bytes);
    }
}

void di_kv_cache_copy_block(const di_kv_cache *cache, const di_kv_copy *copy)
{
    const di_kv_group *group = &cache->layout.groups[copy->group];
    const int64_t n_blocks = cache->pools[copy->group].n_blocks;
    uint8_t *data = cache->data[copy->group];
    if (group->is_window) {
        copy_in_store(data, group->n_layers, n_blocks,
                      group->block_len * di_kv_entry_bytes(&cache->layout, DI_KV_WINDOW), copy);
        return;
    }
    const int64_t compressed =
        group->block_len * di_kv_entry_bytes(&cache->layout, DI_KV_COMPRESSED);
    copy_in_store(data, group->n_layers, n_blocks, compressed, copy);
    copy_in_store(data + group->n_layers * n_blocks * compressed, group->n_layers, n_blocks,
                  group->block_len * di_kv_entry_bytes(&cache->layout, DI_KV_INDEX), copy);
}
