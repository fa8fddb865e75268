#include "base/strmap.h"

#include <stdlib.h>
#include <string.h>

uint64_t di_hash_bytes(const void *data, size_t len)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h ^ (h >> 32);
}

static di_strmap_entry *find(const di_strmap *map, const char *key, size_t len, uint32_t hash)
{
    const size_t mask = map->cap - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        di_strmap_entry *e = &map->entries[i];
        if (!e->key || (e->hash == hash && e->key_len == len && memcmp(e->key, key, len) == 0))
            return e;
    }
}

static di_status rehash(di_strmap *map, size_t cap)
{
    di_strmap_entry *fresh = calloc(cap, sizeof *fresh);
    if (!fresh)
        return di_fail_memory(cap * sizeof *fresh, "a string map");
    di_strmap grown = {.entries = fresh, .cap = cap};
    for (size_t i = 0; i < map->cap; i++) {
        const di_strmap_entry *e = &map->entries[i];
        if (e->key)
            *find(&grown, e->key, e->key_len, e->hash) = *e;
    }
    free(map->entries);
    map->entries = fresh;
    map->cap = cap;
    return DI_OK;
}

di_status di_strmap_put(di_strmap *map, const char *key, size_t len, int64_t value, bool *existed)
{
    if (len > UINT32_MAX)
        return di_fail(DI_ERR_INPUT, "a name of %zu bytes is too long", len);
    if ((map->n + 1) * 4 > map->cap * 3)
        DI_TRY(rehash(map, map->cap ? map->cap * 2 : 64));
    const uint32_t hash = (uint32_t)di_hash_bytes(key, len);
    di_strmap_entry *e = find(map, key, len, hash);
    if (existed)
        *existed = e->key != NULL;
    if (!e->key) {
        char *copy;
        DI_TRY(DI_ARENA_NEW(&map->keys, len + 1, &copy));
        memcpy(copy, key, len);
        copy[len] = 0;
        *e = (di_strmap_entry){.key = copy, .key_len = (uint32_t)len, .hash = hash};
        map->n++;
    }
    e->value = value;
    return DI_OK;
}

bool di_strmap_get(const di_strmap *map, const char *key, size_t len, int64_t *value)
{
    if (!map->cap)
        return false;
    const di_strmap_entry *e = find(map, key, len, (uint32_t)di_hash_bytes(key, len));
    if (e->key)
        *value = e->value;
    return e->key != NULL;
}

void di_strmap_free(di_strmap *map)
{
    free(map->entries);
    di_arena_free(&map->keys);
    *map = (di_strmap){0};
}
