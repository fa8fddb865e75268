#include "kv/block_pool.h"

#include <stdlib.h>

di_status di_block_pool_init(di_block_pool *pool, int group, int64_t n_blocks)
{
    di_block *blocks = calloc((size_t)(n_blocks ? n_blocks : 1), sizeof *blocks);
    if (!blocks)
        return di_fail_memory(n_blocks * sizeof *blocks, "the block pool");
    for (int64_t i = 0; i < n_blocks; i++) {
        const int32_t next = i + 1 < n_blocks ? (int32_t)(i + 1) : -1;
        blocks[i] = (di_block){.node = -1, .prev = -1, .next = next};
    }
    *pool = (di_block_pool){
        .blocks = blocks,
        .n_blocks = n_blocks,
        .n_free = n_blocks,
        .first_free = n_blocks ? 0 : -1,
        .oldest = -1,
        .newest = -1,
        .group = group,
    };
    return DI_OK;
}

void di_block_pool_free(di_block_pool *pool)
{
    free(pool->blocks);
    *pool = (di_block_pool){.first_free = -1, .oldest = -1, .newest = -1};
}

static void push_free(di_block_pool *pool, int32_t block)
{
    pool->blocks[block].next = pool->first_free;
    pool->first_free = block;
    pool->n_free++;
}

static void push_cached(di_block_pool *pool, int32_t block)
{
    di_block *b = &pool->blocks[block];
    b->prev = pool->newest;
    b->next = -1;
    if (pool->newest >= 0)
        pool->blocks[pool->newest].next = block;
    else
        pool->oldest = block;
    pool->newest = block;
    pool->n_cached++;
}

static void remove_cached(di_block_pool *pool, int32_t block)
{
    di_block *b = &pool->blocks[block];
    if (b->prev >= 0)
        pool->blocks[b->prev].next = b->next;
    else
        pool->oldest = b->next;
    if (b->next >= 0)
        pool->blocks[b->next].prev = b->prev;
    else
        pool->newest = b->prev;
    b->prev = b->next = -1;
    pool->n_cached--;
}

int32_t di_block_pool_take(di_block_pool *pool)
{
    if (pool->n_free == 0) {
        const int32_t victim = pool->oldest;
        const int32_t node = pool->blocks[victim].node;
        di_block_pool_forget(pool, victim); /* cached -> free */
        pool->evict(pool->evict_user, pool->group, node);
    }
    const int32_t block = pool->first_free;
    di_block *b = &pool->blocks[block];
    pool->first_free = b->next;
    pool->n_free--;
    *b = (di_block){.n_owners = 1, .node = -1, .prev = -1, .next = -1};
    return block;
}

void di_block_pool_ref(di_block_pool *pool, int32_t block)
{
    if (pool->blocks[block].n_owners++ == 0)
        remove_cached(pool, block);
}

void di_block_pool_unref(di_block_pool *pool, int32_t block)
{
    di_block *b = &pool->blocks[block];
    if (--b->n_owners > 0)
        return;
    if (b->node >= 0)
        push_cached(pool, block);
    else
        push_free(pool, block);
}

void di_block_pool_set_node(di_block_pool *pool, int32_t block, int32_t node)
{
    pool->blocks[block].node = node;
}

void di_block_pool_forget(di_block_pool *pool, int32_t block)
{
    di_block *b = &pool->blocks[block];
    b->node = -1;
    if (b->n_owners == 0) {
        remove_cached(pool, block);
        push_free(pool, block);
    }
}
