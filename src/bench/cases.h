/* Calls of every operation at the model's shapes, for timing: synthetic weights, spread over more
 * memory than the caches hold, so that a small batch reads them from memory as the engine does;
 * activations few and so in the caches, as after the operation before. */
#ifndef DI_BENCH_CASES_H
#define DI_BENCH_CASES_H

#include "base/arena.h"
#include "base/fp.h"
#include "bench/memory.h"
#include "core/config.h"
#include "kernels/kernel.h"
#include "kernels/paged.h"

enum { DI_BENCH_SHAPE_BYTES = 64 };

/* Calls that differ in what they read: turn i uses args + i % n_turns * args_bytes. */
typedef struct di_bench_case {
    di_op op;
    char shape[DI_BENCH_SHAPE_BYTES];
    const char *args;
    size_t args_bytes;
    int64_t n_turns;
    int64_t n_items;           /* of every turn, */
    const int64_t *turn_items; /* or, if not NULL, [n_turns] of each */
    int64_t n_rows; /* of the pass: which kernels are used (DI_WIDE_ROWS), and di_bench_cost_of */
} di_bench_case;

typedef struct di_bench_cases di_bench_cases;
struct di_bench_cases {
    const di_config *config;
    int64_t rotation_bytes; /* of weights or entries, that turns go through */
    di_bench_pages pages;
    int max_threads;
    bool is_dry; /* shapes only: memory is not filled */
    di_status (*emit)(void *user, const di_bench_case *c);
    void *user;

    di_bench_memory weights, scales; /* shared by all cases, made when first wanted */
    di_bench_memory store;           /* of one operation's cases */
    di_arena arena;                  /* of one operation's cases */
    void *scratch;                   /* the kernels' scratch, per worker */
    int64_t scratch_bytes;           /* of one worker */
    uint64_t random;
};

/* Makes every case of an operation in turn, and calls emit with it. */
DI_WARN_UNUSED di_status di_bench_cases_run(di_bench_cases *b, di_op op);
void di_bench_cases_free(di_bench_cases *b);

#define DI_OP(op) DI_WARN_UNUSED di_status di_bench_cases_##op(di_bench_cases *b);
#include "kernels/ops.def"
#undef DI_OP

/* --------------------------------------------------------------------------- for the cases */

#define DI_BENCH_NEW(b, n, out) DI_ARENA_NEW(&(b)->arena, (size_t)(n), (out))

/* Uniform below n. */
int64_t di_bench_below(di_bench_cases *b, int64_t n);
/* Quantized or bf16 weights of `bytes` a turn, scales or none (0 bytes) with them: *n_turns of
 * them,
 * `*stride` bytes apart. fp32 weights are as good. */
typedef struct di_bench_weights {
    const uint8_t *codes, *scales;
    int64_t stride, scales_stride;
    int64_t n_turns;
} di_bench_weights;
DI_WARN_UNUSED di_status di_bench_weights_take(di_bench_cases *b, int64_t bytes,
                                               int64_t scale_bytes, di_bench_weights *out);
/* Activations: bf16 2^-4 to 1; bf16 values of e4m3 (q8) or e2m1 codes (q4); fp32 -4 to 4. */
DI_WARN_UNUSED di_status di_bench_bf16(di_bench_cases *b, int64_t n, di_bf16 **out);
DI_WARN_UNUSED di_status di_bench_q8(di_bench_cases *b, int64_t n, di_bf16 **out);
DI_WARN_UNUSED di_status di_bench_q4(di_bench_cases *b, int64_t n, di_bf16 **out);
DI_WARN_UNUSED di_status di_bench_f32(di_bench_cases *b, int64_t n, float **out);
/* A paged store of about rotation_bytes in `store`, at least n_entries entries; is_q4kv: its scales
 * are e4m3. *n_blocks: how many it has. */
DI_WARN_UNUSED di_status di_bench_store(di_bench_cases *b, di_paged *shape, int64_t n_entries,
                                        bool is_q4kv, int64_t *n_blocks);
/* n tables of sequences of n_entries entries, one after another through n_blocks blocks. */
DI_WARN_UNUSED di_status di_bench_tables(di_bench_cases *b, int64_t n, int64_t n_entries,
                                         int32_t block_len, int64_t n_blocks,
                                         const int32_t *const **out);
/* n_turns copies of *args to fill in, in *out; then emit with the given shape text. */
DI_WARN_UNUSED di_status di_bench_turns(di_bench_cases *b, const void *args, size_t bytes,
                                        int64_t n_turns, void **out);
DI_WARN_UNUSED di_status di_bench_emit(di_bench_cases *b, di_bench_case *c, const char *shape, ...)
    DI_PRINTF(3, 4);

#endif
