/* What this machine can do at most: the ceilings that benchmarks are held against, measured by the
 * same program on the same threads.
 *
 * memory   bytes a second of reading a buffer much larger than the caches, in 2 MiB and 4 KiB pages
 * cache    bytes a second of reading a buffer of half an L2 a thread
 * the rest operations a second (a multiply-add is two) of independent instructions on registers */
#ifndef DI_BENCH_CEILING_H
#define DI_BENCH_CEILING_H

#include <stdio.h>

#include "base/cpu.h"
#include "base/team.h"
#include "bench/memory.h"

typedef enum di_ceiling {
    DI_CEILING_MEMORY, /* 2 MiB pages, where the system gives them */
    DI_CEILING_MEMORY_SMALL_PAGES,
    DI_CEILING_CACHE,
    DI_CEILING_FMA,      /* fp32 multiply-add */
    DI_CEILING_DOT_BF16, /* VDPBF16PS */
    DI_CEILING_DOT_INT8, /* VPDPBUSD */
    DI_CEILING_AMX_BF16,
    DI_CEILING_AMX_INT8,
    DI_N_CEILINGS
} di_ceiling;

typedef struct di_ceilings {
    int n_threads;
    bool is_pinned;             /* each thread to a CPU */
    double rate[DI_N_CEILINGS]; /* a second; 0: this machine has no such instruction */
    di_isa isa[DI_N_CEILINGS];  /* of the loop that reached it */
} di_ceilings;

/* "memory", "fma", ... */
const char *di_ceiling_name(di_ceiling ceiling);

/* Each loop runs for about `seconds`; the best of several runs counts. large and small: buffers in
 * large and in 4 KiB pages. */
DI_WARN_UNUSED di_status di_ceilings_measure(di_pool *pool, double seconds,
                                             const di_bench_memory *large,
                                             const di_bench_memory *small, di_ceilings *out);

/* The same with buffers of `bytes` of its own, where the teams' threads stay; prints a line of
 * ceilings for each. */
DI_WARN_UNUSED di_status di_ceilings_of_teams(const di_team *teams, int n, int64_t bytes,
                                              double seconds, FILE *out, di_ceilings *ceilings);

/* The loops: range functions over di_ceiling_args. A read's item is DI_CEILING_CHUNK bytes of data,
 * a peak's item DI_CEILING_ROUNDS rounds of its instructions. */
enum { DI_CEILING_CHUNK = 1 << 15, DI_CEILING_ROUNDS = 4096 };

typedef struct di_ceiling_args {
    const uint8_t *data; /* aligned to 64 bytes */
    int64_t chunk_mask;  /* a cache-sized read: item i reads chunk i & mask of its worker's part */
    int64_t part_bytes;  /* of a worker's part; 0: item i reads chunk i of data */
    uint64_t *sink;      /* [n_threads * 8]: keeps the results from being optimized away */
} di_ceiling_args;

/* The data an item of a read covers. */
static inline const uint8_t *di_ceiling_chunk(const di_ceiling_args *a, int64_t item, int worker)
{
    if (a->part_bytes == 0)
        return a->data + item * DI_CEILING_CHUNK;
    return a->data + worker * a->part_bytes + (item & a->chunk_mask) * DI_CEILING_CHUNK;
}

/* DI_CEILING(ceiling, isa, operations a round, name) */
#define DI_CEILING(ceiling, isa, ops, name)                                                        \
    void di_ceiling_##name(const void *args, int64_t begin, int64_t end, int worker);
#include "bench/ceilings.def"
#undef DI_CEILING

/* The CPU has VDPBF16PS (an extension of its own, of no level). */
bool di_ceiling_has_dot_bf16(void);

#endif
