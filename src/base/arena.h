/* Bump allocator. Everything taken from an arena is freed together: model, engine, step (reset
 * after each step) and request each have one. Memory is zeroed on first hand-out only by
 * di_arena_zalloc. Not thread-safe. A reset arena keeps its chunks, so a warm step allocates
 * nothing. */
#ifndef DI_BASE_ARENA_H
#define DI_BASE_ARENA_H

#include "base/status.h"

typedef struct di_arena_chunk di_arena_chunk;

typedef struct di_arena {
    di_arena_chunk *first; /* in order of use */
    di_arena_chunk *current;
    size_t chunk_bytes; /* least size of a new chunk; 0 = 64 KiB */
    size_t used_bytes;  /* handed out since the last reset */
    size_t peak_bytes;  /* largest used_bytes ever */
} di_arena;

/* 64-byte aligned memory for n elements of elem_bytes, checked against overflow. n = 0 is fine. */
DI_WARN_UNUSED di_status di_arena_alloc(di_arena *arena, size_t n, size_t elem_bytes, void **out);
DI_WARN_UNUSED di_status di_arena_zalloc(di_arena *arena, size_t n, size_t elem_bytes, void **out);
DI_WARN_UNUSED di_status di_arena_strdup(di_arena *arena, const char *s, char **out);
void di_arena_reset(di_arena *arena);

/* Calls fn with what has been handed out since the last reset, chunk by chunk. */
void di_arena_visit(const di_arena *arena, void (*fn)(void *user, void *data, size_t bytes),
                    void *user);

/* Scratch: everything taken after the mark is given back by the rewind. Marks nest. */
typedef struct di_arena_mark {
    di_arena_chunk *chunk;
    size_t chunk_used, used_bytes;
} di_arena_mark;
di_arena_mark di_arena_save(const di_arena *arena);
void di_arena_rewind(di_arena *arena, di_arena_mark mark);

void di_arena_free(di_arena *arena);

/* DI_ARENA_NEW(arena, n, &ptr): ptr becomes n uninitialised elements of its own type. */
#define DI_ARENA_NEW(arena, n, out)  di_arena_alloc((arena), (n), sizeof **(out), (void **)(out))
#define DI_ARENA_ZNEW(arena, n, out) di_arena_zalloc((arena), (n), sizeof **(out), (void **)(out))

#endif
