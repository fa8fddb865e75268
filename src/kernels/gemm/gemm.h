/* Linear layers y = x W^T (model spec 3): fp32 accumulation, one rounding of the result.
 *
 * gemm_f8   W is F8 (e4m3 codes, e8m0 scales per 32x32). x is bf16; for the quantized linears the
 *           caller has rounded it with quantize_q8, for wo_a it is used as it is.
 * gemm_bf16 W is bf16.
 * Any k, n and first_column: a last group of fewer than 32 columns has its own scale.
 *
 * Items: output columns (0 .. n-1), each for all m rows. Products are exact in fp32, the sum runs
 * over k in the lanes16 order whatever m is, hence rows are batch-invariant. Kernels may fuse
 * multiplication and addition: that is the same as long as no product x w is below 2^-126 (of
 * trained weights and normalised activations none is), and off by at most k 2^-149 else. A product
 * of 2^128 and more may be infinite or take part in the sum as it is. */
#ifndef DI_KERNELS_GEMM_H
#define DI_KERNELS_GEMM_H

#include <stdbool.h>

#include "base/fp.h"
#include "core/tensor.h"

enum { DI_GEMM_SCRATCH_BYTES = 1 << 20 };

typedef struct di_gemm_args {
    const di_bf16 *x; /* [m, k], row stride x_stride */
    int64_t x_stride;
    const void *w;         /* [>= first_column + n, k]: e4m3 codes or bf16 */
    const uint8_t *scales; /* F8: [ceil(rows of w / 32), ceil(k / 32)] */
    void *y;               /* [m, n] bf16, or fp32 with is_f32_out; row stride y_stride */
    int64_t y_stride;
    int64_t m, n, k;
    int64_t first_column; /* of W: columns first_column .. first_column + n - 1 are computed */
    bool is_f32_out;
    void *scratch;          /* per worker: DI_GEMM_SCRATCH_BYTES, aligned to 64 bytes */
    int64_t scratch_stride; /* bytes from one worker's scratch to the next one's */
} di_gemm_args;

#endif
