/* Many small strings in an arena, back to back: the arena alone would round each to 64 bytes. */
#ifndef DI_WEIGHTS_NAME_POOL_H
#define DI_WEIGHTS_NAME_POOL_H

#include "base/arena.h"

typedef struct di_name_pool {
    di_arena *arena;
    char *at; /* what is left of the current block */
    size_t left;
} di_name_pool;

/* A NUL-terminated copy that lives as long as the arena. */
DI_WARN_UNUSED di_status di_name_pool_keep(di_name_pool *pool, const char *name, size_t len,
                                           const char **out);

#endif
