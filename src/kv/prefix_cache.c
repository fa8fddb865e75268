#include "kv/prefix_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/checked.h"

enum { FIRST_BUCKETS = 256 };

static int64_t window_blocks(const di_prefix_cache *cache)
{
    return di_ceil_div(cache->kv->window_len, DI_KV_BLOCK_TOKENS);
}

/* ------------------------------------------------------------------------------- nodes */

static uint64_t node_hash(uint64_t parent, const int32_t *tokens)
{
    uint64_t h = parent * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < DI_KV_BLOCK_TOKENS; i += 2) {
        const uint64_t pair = (uint64_t)(uint32_t)tokens[i] << 32 | (uint32_t)tokens[i + 1];
        h = (h ^ pair) * 0x9fb21c651e98df25u;
        h ^= h >> 32;
    }
    return h;
}

static int32_t *bucket_of(const di_prefix_cache *cache, uint64_t parent, const int32_t *tokens)
{
    return &cache->buckets[node_hash(parent, tokens) & (cache->n_buckets - 1)];
}

static int32_t find_node(const di_prefix_cache *cache, uint64_t parent, const int32_t *tokens)
{
    int32_t n = *bucket_of(cache, parent, tokens);
    for (; n >= 0; n = cache->nodes[n].next) {
        const di_prefix_node *node = &cache->nodes[n];
        if (node->parent == parent && memcmp(node->tokens, tokens, sizeof node->tokens) == 0)
            break;
    }
    return n;
}

static di_status grow_buckets(di_prefix_cache *cache)
{
    const size_t n_buckets = cache->n_buckets * 2;
    int32_t *buckets = malloc(n_buckets * sizeof *buckets);
    if (!buckets)
        return di_fail_memory(n_buckets * sizeof *buckets, "the prefix cache");
    memset(buckets, 0xff, n_buckets * sizeof *buckets);
    free(cache->buckets);
    cache->buckets = buckets;
    cache->n_buckets = n_buckets;
    for (size_t i = 0; i < cache->n_nodes; i++) {
        di_prefix_node *node = &cache->nodes[i];
        if (!node->id)
            continue;
        int32_t *bucket = bucket_of(cache, node->parent, node->tokens);
        node->next = *bucket;
        *bucket = (int32_t)i;
    }
    return DI_OK;
}

static di_status add_node(di_prefix_cache *cache, uint64_t parent, const int32_t *tokens,
                          int32_t *out)
{
    if (cache->first_unused < 0) {
        DI_TRY(DI_GROW(&cache->nodes, &cache->nodes_cap, cache->n_nodes + 1));
        if (cache->n_nodes + 1 > cache->n_buckets)
            DI_TRY(grow_buckets(cache));
        cache->nodes[cache->n_nodes] = (di_prefix_node){.next = -1};
        cache->first_unused = (int32_t)cache->n_nodes++;
    }
    const int32_t n = cache->first_unused;
    di_prefix_node *node = &cache->nodes[n];
    cache->first_unused = node->next;
    int32_t *bucket = bucket_of(cache, parent, tokens);
    *node = (di_prefix_node){.id = ++cache->last_id, .parent = parent, .next = *bucket};
    memcpy(node->tokens, tokens, sizeof node->tokens);
    for (int g = 0; g < DI_MAX_KV_GROUPS; g++)
        node->blocks[g] = -1;
    *bucket = n;
    *out = n;
    return DI_OK;
}

static void remove_node(di_prefix_cache *cache, int32_t n)
{
    di_prefix_node *node = &cache->nodes[n];
    int32_t *link = bucket_of(cache, node->parent, node->tokens);
    while (*link != n)
        link = &cache->nodes[*link].next;
    *link = node->next;
    for (int g = 0; g < cache->kv->layout.n_groups; g++)
        if (node->blocks[g] >= 0)
            di_block_pool_forget(&cache->kv->pools[g], node->blocks[g]);
    node->id = 0;
    node->next = cache->first_unused;
    cache->first_unused = n;
}

static bool is_window(const di_prefix_cache *cache, int group)
{
    return cache->kv->layout.groups[group].is_window;
}

/* Whether the node can still serve a hit: all its compressed blocks are there. */
static bool is_whole(const di_prefix_cache *cache, const di_prefix_node *node)
{
    for (int g = 0; g < cache->kv->layout.n_groups; g++)
        if (node->blocks[g] < 0 && !is_window(cache, g))
            return false;
    return true;
}

static void on_evict(void *user, int group, int32_t n)
{
    di_prefix_cache *cache = user;
    cache->nodes[n].blocks[group] = -1;
    if (!is_whole(cache, &cache->nodes[n]))
        remove_node(cache, n);
}

/* ------------------------------------------------------------------------------- life */

di_status di_prefix_cache_init(di_kv_cache *kv, di_prefix_mode mode, int64_t seam_blocks,
                               di_prefix_cache *out)
{
    int32_t *buckets = malloc(FIRST_BUCKETS * sizeof *buckets);
    if (!buckets)
        return di_fail_memory(FIRST_BUCKETS * sizeof *buckets, "the prefix cache");
    memset(buckets, 0xff, FIRST_BUCKETS * sizeof *buckets);
    *out = (di_prefix_cache){
        .kv = kv,
        .mode = kv->layout.n_groups > 1 ? mode : DI_PREFIX_OFF,
        .seam_blocks = seam_blocks,
        .first_unused = -1,
        .buckets = buckets,
        .n_buckets = FIRST_BUCKETS,
    };
    for (int g = 0; g < kv->layout.n_groups; g++) {
        kv->pools[g].evict = on_evict;
        kv->pools[g].evict_user = out;
    }
    return DI_OK;
}

void di_prefix_cache_free(di_prefix_cache *cache)
{
    free(cache->nodes);
    free(cache->buckets);
    *cache = (di_prefix_cache){.first_unused = -1};
}

void di_prefix_cache_flush(di_prefix_cache *cache)
{
    for (size_t i = 0; i < cache->n_nodes; i++)
        if (cache->nodes[i].id)
            remove_node(cache, (int32_t)i);
}

/* ------------------------------------------------------------------------------- hits */

/* Whether the windows before the seam after logical block `last` are all there, as a sequence whose
 * decoder rows begin at `start` needs them. */
static bool has_window(const di_prefix_cache *cache, const int32_t *chain, int64_t last,
                       int64_t start)
{
    for (int64_t b = di_max_i64(0, last + 1 - window_blocks(cache)); b <= last; b++) {
        const di_prefix_node *node = &cache->nodes[chain[b]];
        if (node->blocks[0] < 0 ||
            !di_truncation_can_share(&cache->truncation, start, node->decoder_start,
                                     (b + 1) * DI_KV_BLOCK_TOKENS))
            return false;
    }
    return true;
}

/* The nodes of the longest known beginning of tokens: chain[return value]. */
static int64_t walk(const di_prefix_cache *cache, const int32_t *tokens, int64_t n_blocks,
                    int32_t *chain)
{
    uint64_t parent = 0;
    for (int64_t b = 0; b < n_blocks; b++) {
        chain[b] = find_node(cache, parent, tokens + b * DI_KV_BLOCK_TOKENS);
        if (chain[b] < 0)
            return b;
        parent = cache->nodes[chain[b]].id;
    }
    return n_blocks;
}

static di_status make_tables(const di_prefix_cache *cache, di_kv_seq *seq, int64_t n_blocks)
{
    for (int g = 0; g < cache->kv->layout.n_groups; g++)
        DI_TRY(DI_GROW(&seq->tables[g], &seq->table_caps[g], (size_t)n_blocks));
    return DI_OK;
}

static void share_blocks(di_prefix_cache *cache, di_kv_seq *seq, const int32_t *chain, int group,
                         int64_t first, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++) {
        int32_t block = -1;
        if (b >= first) {
            block = cache->nodes[chain[b]].blocks[group];
            di_block_pool_ref(&cache->kv->pools[group], block);
        }
        seq->tables[group][b] = block;
    }
    seq->first_block[group] = first;
}

/* Replay: the window blocks before the seam are the sequence's own, to be recomputed. */
static void take_window(di_prefix_cache *cache, di_kv_seq *seq, int64_t first, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++)
        seq->tables[0][b] = b < first ? -1 : di_block_pool_take(&cache->kv->pools[0]);
    seq->first_block[0] = first;
}

static void adopt_chain(di_prefix_cache *cache, di_kv_seq *seq, const int32_t *chain,
                        int64_t n_blocks, bool is_exact)
{
    const int64_t first = di_max_i64(0, n_blocks - window_blocks(cache));
    for (int g = 0; g < cache->kv->layout.n_groups; g++)
        if (!is_window(cache, g))
            share_blocks(cache, seq, chain, g, 0, n_blocks);
    if (is_exact)
        share_blocks(cache, seq, chain, 0, first, n_blocks);
    else
        take_window(cache, seq, first, n_blocks);
    seq->n_blocks = seq->n_registered = n_blocks;
    seq->chain = cache->nodes[chain[n_blocks - 1]].id;
    seq->write_floor = n_blocks * DI_KV_BLOCK_TOKENS;
    seq->len = (is_exact ? n_blocks : first) * DI_KV_BLOCK_TOKENS;
    seq->window_floor = is_exact ? 0 : seq->len;
}

static di_status adopt_longest(di_prefix_cache *cache, di_kv_seq *seq, const int32_t *chain,
                               int64_t n_known, di_prefix_hit *hit)
{
    int64_t n_exact = n_known;
    while (n_exact > 0 && !has_window(cache, chain, n_exact - 1, seq->decoder_start))
        n_exact--;
    int64_t n_blocks = n_exact;
    /* A replay recomputes window_blocks blocks: worth it only if it saves more than that. */
    const bool replays = cache->mode == DI_PREFIX_REPLAY &&
                         n_known - window_blocks(cache) > n_exact &&
                         di_block_pool_available(&cache->kv->pools[0]) >= window_blocks(cache);
    if (replays)
        n_blocks = n_known;
    seq->fork_block = n_known > n_blocks ? n_known : 0;
    if (n_blocks == 0)
        return DI_OK;
    DI_TRY(make_tables(cache, seq, n_blocks));
    adopt_chain(cache, seq, chain, n_blocks, !replays);
    hit->n_tokens = n_blocks * DI_KV_BLOCK_TOKENS;
    hit->replay_from = seq->len;
    return DI_OK;
}

di_status di_prefix_cache_adopt(di_prefix_cache *cache, di_kv_seq *seq, const int32_t *tokens,
                                int64_t n, di_prefix_hit *hit)
{
    *hit = (di_prefix_hit){0, 0};
    if (cache->mode == DI_PREFIX_OFF)
        return DI_OK;
    const int64_t n_blocks = (n - 1) / DI_KV_BLOCK_TOKENS;
    if (n_blocks <= 0)
        return DI_OK;
    int32_t *chain = malloc((size_t)n_blocks * sizeof *chain);
    if (!chain)
        return di_fail_memory(n_blocks * sizeof *chain, "a prefix lookup");
    const int64_t n_known = walk(cache, tokens, n_blocks, chain);
    const di_status status = adopt_longest(cache, seq, chain, n_known, hit);
    free(chain);
    return status;
}

/* ------------------------------------------------------------------------------- registering */

/* Whether the window of logical block b is within window_len before a seam: one every seam_blocks,
 * one where the sequence leaves others that began alike, one at the end of the prompt. */
static bool keeps_window(const di_prefix_cache *cache, const di_kv_seq *seq, int64_t b,
                         int64_t prompt_len)
{
    const int64_t reach = window_blocks(cache);
    if (b < seq->fork_block && b >= seq->fork_block - reach)
        return true;
    /* The same prompt again can use (prompt_len - 1) / block blocks, a longer one all of them. */
    if (b < prompt_len / DI_KV_BLOCK_TOKENS && b >= (prompt_len - 1) / DI_KV_BLOCK_TOKENS - reach)
        return true;
    if (cache->seam_blocks <= 0)
        return false;
    const int64_t seam = di_ceil_div(b + 1, cache->seam_blocks) * cache->seam_blocks;
    return b >= seam - reach;
}

/* Gives a node the sequence's block of a group if it has none yet. */
static void offer_block(di_prefix_cache *cache, int32_t n, const di_kv_seq *seq, int group,
                        int64_t b)
{
    di_prefix_node *node = &cache->nodes[n];
    if (b < seq->first_block[group] || node->blocks[group] >= 0)
        return;
    const int32_t block = seq->tables[group][b];
    if (cache->kv->pools[group].blocks[block].node >= 0)
        return;
    node->blocks[group] = block;
    if (group == 0)
        node->decoder_start = seq->decoder_start;
    di_block_pool_set_node(&cache->kv->pools[group], block, n);
}

static di_status register_block(di_prefix_cache *cache, di_kv_seq *seq, const int32_t *tokens,
                                int64_t b, bool keeps)
{
    const int32_t *own = tokens + b * DI_KV_BLOCK_TOKENS;
    int32_t n = find_node(cache, seq->chain, own);
    if (n < 0)
        DI_TRY(add_node(cache, seq->chain, own, &n));
    for (int g = 0; g < cache->kv->layout.n_groups; g++)
        if (!is_window(cache, g))
            offer_block(cache, n, seq, g, b);
    if (keeps)
        offer_block(cache, n, seq, 0, b);
    seq->chain = cache->nodes[n].id;
    if (!is_whole(cache, &cache->nodes[n]))
        remove_node(cache, n);
    return DI_OK;
}

/* The windows before the end of a sequence, whose nodes exist already. */
static void keep_end_windows(di_prefix_cache *cache, const di_kv_seq *seq, const int32_t *tokens,
                             int64_t n_blocks)
{
    uint64_t parent = 0;
    for (int64_t b = 0; b < n_blocks; b++) {
        const int32_t n = find_node(cache, parent, tokens + b * DI_KV_BLOCK_TOKENS);
        if (n < 0)
            return;
        if (b >= n_blocks - window_blocks(cache))
            offer_block(cache, n, seq, 0, b);
        parent = cache->nodes[n].id;
    }
}

di_status di_prefix_cache_register(di_prefix_cache *cache, di_kv_seq *seq, const int32_t *tokens,
                                   int64_t n_known, int64_t prompt_len, bool is_end)
{
    /* Windows rebuilt by a replay are approximate, and so is all that follows them. */
    if (cache->mode == DI_PREFIX_OFF || seq->window_floor > 0)
        return DI_OK;
    const int64_t n_blocks = n_known / DI_KV_BLOCK_TOKENS;
    for (int64_t b = seq->n_registered; b < n_blocks; b++) {
        DI_TRY(register_block(cache, seq, tokens, b, keeps_window(cache, seq, b, prompt_len)));
        seq->n_registered = b + 1;
    }
    if (is_end)
        keep_end_windows(cache, seq, tokens, n_blocks);
    return DI_OK;
}
