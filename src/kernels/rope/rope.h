/* Rotary embedding of the last rope_dim channels of each head, in place; adjacent pairs (2i, 2i+1)
 * as complex numbers, fp32 inside, result rounded to bf16 (model spec 3). Items: rows (tokens). */
#ifndef DI_KERNELS_ROPE_H
#define DI_KERNELS_ROPE_H

#include <stdbool.h>

#include "base/fp.h"

typedef struct di_rope_args {
    di_bf16 *x;             /* [n, n_heads, head_dim], row stride x_stride */
    const float *cos, *sin; /* [n, rope_dim / 2] */
    int64_t n_heads, head_dim, rope_dim, x_stride;
    bool is_inverse; /* rotate back (conjugate) */
} di_rope_args;

#endif
