/* Paged KV cache: a pool of blocks per group, and sequences that own blocks through block tables.
 * Used by one thread. */
#ifndef DI_KV_CACHE_H
#define DI_KV_CACHE_H

#include "base/status.h"
#include "kernels/paged.h"
#include "kv/layout.h"

typedef struct di_kv_pool {
    uint8_t *data; /* stores one after another; see di_kv_cache_store */
    int64_t n_blocks;
    int32_t *free; /* stack of free block ids */
    int64_t n_free;
} di_kv_pool;

typedef struct di_kv_cache {
    di_kv_layout layout;
    int64_t window_len; /* sliding_window */
    int64_t head_dim;
    di_kv_pool pools[DI_MAX_KV_GROUPS];
} di_kv_cache;

/* What one sequence owns. Block tables map logical block (position / DI_KV_BLOCK_TOKENS) to block
 * id; entries of the window group before first_block have been given back and hold -1. */
typedef struct di_kv_seq {
    int64_t len; /* tokens that have their place */
    int32_t *tables[DI_MAX_KV_GROUPS];
    size_t table_caps[DI_MAX_KV_GROUPS];
    int64_t n_blocks;                      /* logical blocks, the same in every group */
    int64_t first_block[DI_MAX_KV_GROUPS]; /* first logical block still owned */
    float *compressor_state;               /* [n_compressors, 2, head_dim] */
} di_kv_seq;

/* n_blocks [n_groups]: size of each pool. Memory is reserved, not touched. */
DI_WARN_UNUSED di_status di_kv_cache_init(const di_config *config, const int64_t *n_blocks,
                                          di_kv_cache *out);
void di_kv_cache_free(di_kv_cache *cache);

/* The paged store of a layer: of its window, or of a KV source's compressed entries or index keys.
 */
di_paged_out di_kv_cache_store(const di_kv_cache *cache, int layer, di_kv_store store);
di_paged di_kv_cache_view(const di_kv_cache *cache, int layer, di_kv_store store);

DI_WARN_UNUSED di_status di_kv_seq_init(const di_kv_cache *cache, di_kv_seq *out);
/* Gives all blocks back and frees the tables. */
void di_kv_seq_release(di_kv_cache *cache, di_kv_seq *seq);
/* Gives the sequence places for tokens up to new_len: first drops window blocks no row from `len`
 * on can see, then takes blocks. On DI_ERR_MEMORY (pool empty) the sequence keeps its old length.
 */
DI_WARN_UNUSED di_status di_kv_seq_extend(di_kv_cache *cache, di_kv_seq *seq, int64_t new_len);
/* Slot of the entry that the token at `position` completes in a group, or -1. */
int64_t di_kv_seq_slot(const di_kv_cache *cache, const di_kv_seq *seq, int group, int64_t position);

#endif
