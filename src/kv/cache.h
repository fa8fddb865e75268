/* Paged KV cache: a pool of blocks per group, and sequences that own blocks through block tables.
 * Blocks may be shared: by samples of one prompt (di_kv_seq_fork) and through the prefix cache
 * (kv/prefix_cache.h). A block is written only while it has one owner. Used by one thread. */
#ifndef DI_KV_CACHE_H
#define DI_KV_CACHE_H

#include "base/status.h"
#include "kernels/paged.h"
#include "kv/block_pool.h"
#include "kv/layout.h"

/* Content that must be copied from one block to another before the next pass (copy-on-write). */
typedef struct di_kv_copy {
    int group;
    int32_t from, to;
} di_kv_copy;

typedef struct di_kv_cache {
    di_kv_layout layout;
    int64_t window_len; /* sliding_window */
    int64_t head_dim;
    di_block_pool pools[DI_MAX_KV_GROUPS];
    uint8_t *data[DI_MAX_KV_GROUPS]; /* per group its stores one after another (di_kv_cache_store);
                                        NULL: bookkeeping only, for tests without a model */
    di_kv_copy *copies;              /* taken and cleared by whoever makes the next pass */
    size_t n_copies, copies_cap;
} di_kv_cache;

/* What one sequence owns. Block tables map logical block (position / DI_KV_BLOCK_TOKENS) to block
 * id; entries of the window group before first_block have been given back and hold -1. */
typedef struct di_kv_seq {
    int64_t len;         /* tokens that have their place */
    int64_t n_uncertain; /* the last ones that may turn out not to be: rows may yet begin there */
    int64_t easy_len;    /* up to this length it grows without a change to its blocks */
    int64_t n_blocks;    /* logical blocks, the same in every group */
    int64_t n_given; /* logical blocks whose ids the device has been given, for whoever makes the
                        passes; lowered where an id changes */
    int64_t n_registered;  /* logical blocks the prefix cache has been told of, from the first */
    int64_t write_floor;   /* tokens below it have shared compressed entries: never written again */
    int64_t window_floor;  /* positions below it are in no window (after a replay), else 0 */
    int64_t decoder_start; /* as in di_batch_seq: set by the owner before the first extension */
    int32_t *tables[DI_MAX_KV_GROUPS];
    size_t table_caps[DI_MAX_KV_GROUPS];
    int64_t first_block[DI_MAX_KV_GROUPS]; /* first logical block still owned */
    int64_t fork_block; /* logical blocks that the prefix cache knew, more than it could give: other
                           sequences go on differently there; else 0 */
    uint64_t chain;     /* identity of the last registered block (prefix_cache.h) */
} di_kv_seq;

/* n_blocks [n_groups]: size of each pool. has_drafter: with windows for the draft blocks. Memory is
 * reserved, not touched. */
DI_WARN_UNUSED di_status di_kv_cache_init(const di_config *config, bool has_drafter,
                                          const int64_t *n_blocks, di_kv_cache *out);
/* The same without memory for entries. */
DI_WARN_UNUSED di_status di_kv_cache_init_dry(const di_config *config, bool has_drafter,
                                              const int64_t *n_blocks, di_kv_cache *out);
void di_kv_cache_free(di_kv_cache *cache);

/* The paged store of a layer: of its window (draft block m is layer n_layers + m), or of a KV
 * source's compressed entries or index keys. */
di_paged_out di_kv_cache_store(const di_kv_cache *cache, int layer, di_kv_store store);
di_paged di_kv_cache_view(const di_kv_cache *cache, int layer, di_kv_store store);
/* Copies a block's entries of all layers and stores. */
void di_kv_cache_copy_block(const di_kv_cache *cache, const di_kv_copy *copy);

/* A sequence starts zeroed. Release gives all blocks back, the newest first, and frees the tables.
 */
void di_kv_seq_release(di_kv_cache *cache, di_kv_seq *seq);
/* Blocks that extending to new_len takes from a group (after the window's left blocks are dropped).
 */
int64_t di_kv_seq_blocks_needed(const di_kv_cache *cache, const di_kv_seq *seq, int group,
                                int64_t new_len);
/* Gives the sequence places for tokens up to new_len: first drops window blocks no row from `len`,
 * less what is uncertain, on can see, then makes a shared last block its own (a copy is noted in
 * cache->copies), then takes blocks. On DI_ERR_MEMORY (a pool has too few) the sequence keeps its
 * length. */
DI_WARN_UNUSED di_status di_kv_seq_extend_blocks(di_kv_cache *cache, di_kv_seq *seq,
                                                 int64_t new_len);
DI_WARN_UNUSED static inline di_status di_kv_seq_extend(di_kv_cache *cache, di_kv_seq *seq,
                                                        int64_t new_len)
{
    if (new_len <= seq->len || new_len > seq->easy_len)
        return di_kv_seq_extend_blocks(cache, seq, new_len);
    seq->len = new_len;
    return DI_OK;
}
/* Makes room for extending n different sequences, seqs[i] to new_lens[i]: what di_kv_seq_extend
 * needs beside blocks, and checks that the pools have the blocks of all of them. After it, and
 * before anything else takes blocks, extending them cannot fail. */
DI_WARN_UNUSED di_status di_kv_cache_reserve(di_kv_cache *cache, di_kv_seq *const *seqs,
                                             const int64_t *new_lens, int32_t n);
/* Slot of the entry that the token at `position` completes in a group, by the group's block table;
 * -1 if it completes none or the entry is not to be written, being below write_floor. */
static inline int64_t di_kv_slot(const di_kv_cache *cache, const int32_t *table, int group,
                                 int64_t write_floor, int64_t position)
{
    const di_kv_group *g = &cache->layout.groups[group];
    const uint64_t at = (uint64_t)position;
    /* ratios are powers of two: a block's entries stand for DI_KV_BLOCK_TOKENS tokens */
    const uint64_t ratio = (uint64_t)g->ratio;
    if (((at + 1) & (ratio - 1)) != 0 || (!g->is_window && position < write_floor))
        return -1;
    const int64_t block = table[at / DI_KV_BLOCK_TOKENS];
    return block * g->block_len + (int64_t)(at % DI_KV_BLOCK_TOKENS >> __builtin_ctzll(ratio));
}
static inline int64_t di_kv_seq_slot(const di_kv_cache *cache, const di_kv_seq *seq, int group,
                                     int64_t position)
{
    return di_kv_slot(cache, seq->tables[group], group, seq->write_floor, position);
}
/* *out shares all blocks of seq. */
DI_WARN_UNUSED di_status di_kv_seq_fork(di_kv_cache *cache, di_kv_seq *seq, di_kv_seq *out);

#endif
