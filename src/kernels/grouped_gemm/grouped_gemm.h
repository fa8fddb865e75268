/* Routed experts' linears: rows grouped by expert, F4 weights (model spec 2.1, 3), x rounded by
 * quantize_q8. Row j of y belongs to assignment j; assignments are sorted by expert, and those of
 * the active expert number e are expert_begin[e] .. expert_begin[e+1]-1. Items: n * n_active, item
 * column * n_active + e, so that an even split gives every worker the same share of every expert.
 * The sums are those of gemm.h. k is a multiple of 32; an expert may have no assignment. */
#ifndef DI_KERNELS_GROUPED_GEMM_H
#define DI_KERNELS_GROUPED_GEMM_H

#include "base/fp.h"
#include "core/tensor.h"
#include "kernels/gemm/gemm.h"

/* The AMX kernel has the order blocks32 (gemm_amx.h) for experts of so many assignments and more,
 * lanes16 for others, whose few rows are not worth a tile. */
enum { DI_GROUPED_GEMM_AMX_ROWS = 7 };

typedef struct di_grouped_gemm_args {
    const di_bf16 *x; /* rows of k, row stride x_stride */
    int64_t x_stride;
    const int32_t *rows; /* [n_assignments]: the row of x, or NULL: assignment j reads row j */
    const di_qweight *const *weights; /* [n_active]: F4 [n, k] */
    const int32_t *expert_begin;      /* [n_active + 1] */
    di_bf16 *y;                       /* [n_assignments, n] */
    int64_t n_active, n, k;
    void *scratch;          /* per worker: DI_GEMM_SCRATCH_BYTES, aligned to 64 bytes */
    int64_t scratch_stride; /* bytes from one worker's scratch to the next one's */
} di_grouped_gemm_args;

#endif
