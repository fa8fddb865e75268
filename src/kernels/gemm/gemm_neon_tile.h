/* The NEON linears' loops over one weight row, by how it is decoded. */
#ifndef DI_KERNELS_GEMM_NEON_TILE_H
#define DI_KERNELS_GEMM_NEON_TILE_H

#include "kernels/neon.h"

enum { DI_NEON_ROWS = 4 };

/* Elements [i, i + 16) of a weight row as fp32; those beyond the row's end are zeros. */
typedef di_lanes_neon (*di_decode_neon_fn)(const void *weight_row, int64_t i);

/* out[r] = x[r] . w for `rows` input rows (at most DI_NEON_ROWS) of k elements. */
static inline __attribute__((always_inline)) void di_dot_neon(const di_bf16 *const *x, int rows,
                                                              int64_t k, const void *weight_row,
                                                              di_decode_neon_fn decode, float *out)
{
    di_lanes_neon acc[DI_NEON_ROWS];
    for (int r = 0; r < rows; r++)
        acc[r] = di_lanes_zero_neon();
    int64_t i = 0;
    for (; i + 16 <= k; i += 16) {
        const di_lanes_neon w = decode(weight_row, i);
        for (int r = 0; r < rows; r++)
            acc[r] = di_fma_neon(acc[r], di_load_bf16_neon(x[r] + i), w);
    }
    if (i < k) {
        const di_lanes_neon w = decode(weight_row, i);
        for (int r = 0; r < rows; r++)
            acc[r] = di_fma_neon(acc[r], di_load_bf16_part_neon(x[r] + i, k - i), w);
    }
    for (int r = 0; r < rows; r++)
        out[r] = di_total_neon(acc[r]);
}

/* The same with the number of rows known to the compiler. */
static inline __attribute__((always_inline)) void di_dot_rows_neon(const di_bf16 *const *x,
                                                                   int rows, int64_t k,
                                                                   const void *weight_row,
                                                                   di_decode_neon_fn decode,
                                                                   float *out)
{
    if (rows == 4)
        di_dot_neon(x, 4, k, weight_row, decode, out);
    else if (rows == 3)
        di_dot_neon(x, 3, k, weight_row, decode, out);
    else if (rows == 2)
        di_dot_neon(x, 2, k, weight_row, decode, out);
    else
        di_dot_neon(x, 1, k, weight_row, decode, out);
}

/* A weight row that was decoded before. */
static inline di_lanes_neon di_decoded_neon(const void *weight_row, int64_t i)
{
    return di_load_f32_neon((const float *)weight_row + i);
}

#endif
