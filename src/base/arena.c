#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, DEFAULT_CHUNK_BYTES = 64 * 1024 };

struct di_arena_chunk {
    di_arena_chunk *next;
    size_t capacity;
    size_t used;
    size_t reserved; /* keeps the payload behind this header on its alignment */
    char padding[ALIGNMENT - 4 * sizeof(size_t)];
    char data[];
};

_Static_assert(sizeof(di_arena_chunk) == ALIGNMENT, "payload must start aligned");

static di_arena_chunk *chunk_with_room(di_arena *arena, size_t bytes)
{
    for (di_arena_chunk *c = arena->current; c; c = c->next) {
        if (c != arena->current)
            c->used = 0;
        arena->current = c;
        if (c->capacity - c->used >= bytes)
            return c;
    }
    return NULL;
}

static di_arena_chunk *chunk_add(di_arena *arena, size_t bytes)
{
    const size_t least = arena->chunk_bytes ? arena->chunk_bytes : DEFAULT_CHUNK_BYTES;
    const size_t capacity = bytes > least ? bytes : least;
    di_arena_chunk *c = NULL;
    if (posix_memalign((void **)&c, ALIGNMENT, sizeof *c + capacity) != 0)
        return NULL;
    *c = (di_arena_chunk){.capacity = capacity};
    di_arena_chunk **tail = &arena->first;
    while (*tail)
        tail = &(*tail)->next;
    *tail = c;
    arena->current = c;
    return c;
}

di_status di_arena_alloc(di_arena *arena, size_t n, size_t elem_bytes, void **out)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, elem_bytes, &bytes) || bytes > SIZE_MAX / 2)
        return di_fail(DI_ERR_MEMORY, "out of memory: %zu elements of %zu bytes", n, elem_bytes);
    bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    di_arena_chunk *c = chunk_with_room(arena, bytes);
    if (!c)
        c = chunk_add(arena, bytes);
    if (!c)
        return di_fail_memory(bytes, "an arena chunk");
    *out = c->data + c->used;
    c->used += bytes;
    arena->used_bytes += bytes;
    if (arena->used_bytes > arena->peak_bytes)
        arena->peak_bytes = arena->used_bytes;
    return DI_OK;
}

di_status di_arena_zalloc(di_arena *arena, size_t n, size_t elem_bytes, void **out)
{
    DI_TRY(di_arena_alloc(arena, n, elem_bytes, out));
    memset(*out, 0, n * elem_bytes);
    return DI_OK;
}

di_status di_arena_strdup(di_arena *arena, const char *s, char **out)
{
    const size_t n = strlen(s) + 1;
    DI_TRY(DI_ARENA_NEW(arena, n, out));
    memcpy(*out, s, n);
    return DI_OK;
}

void di_arena_reset(di_arena *arena)
{
    arena->current = arena->first;
    if (arena->first)
        arena->first->used = 0;
    arena->used_bytes = 0;
}

void di_arena_visit(const di_arena *arena, void (*fn)(void *user, void *data, size_t bytes),
                    void *user)
{
    for (di_arena_chunk *c = arena->first; c; c = c->next) {
        if (c->used > 0)
            fn(user, c->data, c->used);
        if (c == arena->current)
            return;
    }
}

di_arena_mark di_arena_save(const di_arena *arena)
{
    const di_arena_chunk *c = arena->current;
    return (di_arena_mark){arena->current, c ? c->used : 0, arena->used_bytes};
}

void di_arena_rewind(di_arena *arena, di_arena_mark mark)
{
    if (!mark.chunk) {
        di_arena_reset(arena);
        return;
    }
    arena->current = mark.chunk;
    mark.chunk->used = mark.chunk_used;
    arena->used_bytes = mark.used_bytes;
}

void di_arena_free(di_arena *arena)
{
    for (di_arena_chunk *c = arena->first, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    *arena = (di_arena){.chunk_bytes = arena->chunk_bytes};
}
