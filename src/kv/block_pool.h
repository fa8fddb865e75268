/* Blocks of one KV group: who owns them, which are free, and which hold content that no sequence
 * owns but the prefix cache still knows. Every block is in exactly one of three states:
 *
 *     used    one or more owners (sequences)
 *     cached  no owner, known to the prefix cache; in a list by time of last use
 *     free    neither
 *
 * Taking a block prefers free ones; else the least recently used cached one is evicted. */
#ifndef DI_KV_BLOCK_POOL_H
#define DI_KV_BLOCK_POOL_H

#include <stdbool.h>

#include "base/status.h"

typedef struct di_block {
    int32_t n_owners;
    int32_t node;       /* of the prefix cache; -1 = unknown to it */
    int32_t prev, next; /* in the cached list; next also in the free list; -1 = none */
} di_block;

/* Called when a cached block is taken for new content: the node loses it. */
typedef void (*di_block_evict_fn)(void *user, int group, int32_t node);

typedef struct di_block_pool {
    di_block *blocks; /* [n_blocks] */
    int64_t n_blocks, n_free, n_cached;
    int32_t first_free;
    int32_t oldest, newest; /* ends of the cached list */
    int group;
    di_block_evict_fn evict; /* NULL until there is a prefix cache */
    void *evict_user;
} di_block_pool;

DI_WARN_UNUSED di_status di_block_pool_init(di_block_pool *pool, int group, int64_t n_blocks);
void di_block_pool_free(di_block_pool *pool);

/* Blocks that can be taken: free and cached. */
static inline int64_t di_block_pool_available(const di_block_pool *pool)
{
    return pool->n_free + pool->n_cached;
}

/* A block with one owner; the pool must have one available. */
int32_t di_block_pool_take(di_block_pool *pool);
/* One owner more: of a used block, or of a cached one, which becomes used. */
void di_block_pool_ref(di_block_pool *pool, int32_t block);
/* One owner less; without owners it becomes cached (most recently used) or free. */
void di_block_pool_unref(di_block_pool *pool, int32_t block);
/* The prefix cache knows the (used) block from now on. */
void di_block_pool_set_node(di_block_pool *pool, int32_t block, int32_t node);
/* The prefix cache forgets it: a cached block becomes free. */
void di_block_pool_forget(di_block_pool *pool, int32_t block);

#endif
