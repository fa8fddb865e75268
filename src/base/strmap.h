/* Map from byte strings to int64 values. Open addressing; keys are copied. Not thread-safe to
 * write, free to read from many threads. */
#ifndef DI_BASE_STRMAP_H
#define DI_BASE_STRMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct di_strmap_entry {
    const char *key; /* NULL = free */
    uint32_t key_len;
    uint32_t hash;
    int64_t value;
} di_strmap_entry;

typedef struct di_strmap {
    di_strmap_entry *entries; /* [cap], cap a power of two */
    size_t cap;
    size_t n;
    di_arena keys;
} di_strmap;

/* Adds or overwrites. *existed (may be NULL) tells whether the key was there. */
DI_WARN_UNUSED di_status di_strmap_put(di_strmap *map, const char *key, size_t len, int64_t value,
                                       bool *existed);
/* True and *value set if the key is present. */
bool di_strmap_get(const di_strmap *map, const char *key, size_t len, int64_t *value);
void di_strmap_free(di_strmap *map);

/* 64-bit FNV-1a, for tables only: not a defence against chosen collisions. */
uint64_t di_hash_bytes(const void *data, size_t len);

#endif
