/* Activation and cache quantizers (model spec 3). Items: rows. dim is a multiple of 32.
 *
 * Q8    groups of 32: a = max(max|x|, 1e-4), s = pow2ceil(a / 448) as e8m0,
 *       code = e4m3(clamp(x / s))
 * Q4i   groups of 32: a = max(max|x|, 6 * 2^-126), s = pow2ceil(a / 6) as e8m0,
 *       code = e2m1(clamp(x / s))
 * Q4kv  groups of 16: a = max(max|x|, 6 * 2^-9), s = e4m3(a / 6), at most 448,
 *       code = e2m1(clamp(x / s))
 *
 * The divisions by 448 and by 6 under pow2ceil are products with fp32(1/448) and fp32(1/6). Q8
 * keeps the sign of zero, e2m1 has no -0. A group that holds a NaN or an infinity gets a scale of
 * NaN and so is NaN as a whole: e2m1 has no NaN, and a broken activation must stay visible.
 *
 * quantize_* gives the rounded values as bf16 (exact: 4 significant bits times a power of two; for
 * linears on FP8 inputs and for index queries). pack_* gives codes and scales, for the KV cache. */
#ifndef DI_KERNELS_QUANTIZE_H
#define DI_KERNELS_QUANTIZE_H

#include "base/fp.h"
#include "kernels/paged.h"

typedef struct di_quantize_args {
    const di_bf16 *x; /* [n, dim], row stride x_stride */
    di_bf16 *y;       /* [n, dim], row stride y_stride; may be x */
    int64_t dim, x_stride, y_stride;
} di_quantize_args;

/* Row i goes to the cache entry slots[i]; a negative slot is skipped. */
typedef struct di_pack_args {
    const di_bf16 *x; /* [n, dim], row stride x_stride */
    int64_t dim, x_stride;
    const int64_t *slots; /* [n]: block * block_len + place in the block */
    di_paged_out out;
} di_pack_args;

#endif
