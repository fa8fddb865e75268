/* The reference linears' inner loop: one weight row times a tile of input rows. */
#ifndef DI_KERNELS_GEMM_TILE_H
#define DI_KERNELS_GEMM_TILE_H

#include "base/fp.h"
#include "base/sum.h"

enum { DI_GEMM_ROWS = 8, DI_GEMM_DEPTH = 256 };

/* lanes[r] += the products of x row r and w over `depth` elements (DI_GEMM_DEPTH but at the end, so
 * that element i of a row always meets lane i mod 16). */
static inline void di_gemm_accumulate(float lanes[][DI_LANES], const di_bf16 *const *x, int n_rows,
                                      const float *w, int64_t depth)
{
    for (int r = 0; r < n_rows; r++) {
        int64_t i = 0;
        for (; i + DI_LANES <= depth; i += DI_LANES)
            for (int j = 0; j < DI_LANES; j++)
                lanes[r][j] += di_bf16_to_f32(x[r][i + j]) * w[i + j];
        for (int j = 0; i + j < depth; j++)
            lanes[r][j] += di_bf16_to_f32(x[r][i + j]) * w[i + j];
    }
}

#endif
