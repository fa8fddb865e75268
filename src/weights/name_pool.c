#include "weights/name_pool.h"

#include <string.h>

enum { BLOCK_BYTES = 64 * 1024 };

di_status di_name_pool_keep(di_name_pool *pool, const char *name, size_t len, const char **out)
{
    const size_t bytes = len + 1;
    if (bytes > pool->left) {
        const size_t block = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        pool->left = 0;
        DI_TRY(DI_ARENA_NEW(pool->arena, block, &pool->at));
        pool->left = block;
    }
    if (len)
        memcpy(pool->at, name, len);
    pool->at[len] = 0;
    *out = pool->at;
    pool->at += bytes;
    pool->left -= bytes;
    return DI_OK;
}
