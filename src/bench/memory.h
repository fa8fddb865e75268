/* Large memory of benchmarks, and what to fill it with. */
#ifndef DI_BENCH_MEMORY_H
#define DI_BENCH_MEMORY_H

#include <stdint.h>

#include "base/status.h"

typedef enum di_bench_pages {
    DI_PAGES_LARGE, /* 2 MiB, as far as the system gives them */
    DI_PAGES_SMALL  /* 4 KiB */
} di_bench_pages;

typedef struct di_bench_memory {
    uint8_t *data; /* aligned to 2 MiB */
    int64_t bytes; /* as asked for */
    void *mapping;
    int64_t mapping_bytes;
} di_bench_memory;

/* Zeroed, not touched yet. */
DI_WARN_UNUSED di_status di_bench_memory_new(int64_t bytes, di_bench_pages pages,
                                             di_bench_memory *out);
void di_bench_memory_free(di_bench_memory *memory); /* zeroed is fine */

/* Fillers, the same bytes for a seed. Values are normal and of moderate size in each format.
 *
 * weights  valid as e4m3 codes (magnitudes 2^-3 to 2), as e2m1 codes, as bf16 and as fp32 (2^-15 to
 * 2) scales   e8m0 codes of 2^-7 and 2^-6 codes    any bytes: e2m1 codes e4m3     positive e4m3
 * codes 0.25 to 2: scales of Q4kv entries */
void di_bench_fill_weights(uint8_t *out, int64_t bytes, uint64_t seed);
void di_bench_fill_scales(uint8_t *out, int64_t bytes, uint64_t seed);
void di_bench_fill_codes(uint8_t *out, int64_t bytes, uint64_t seed);
void di_bench_fill_e4m3(uint8_t *out, int64_t bytes, uint64_t seed);

#endif
