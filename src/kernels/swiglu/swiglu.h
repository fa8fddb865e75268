/* SwiGLU of an expert (model spec 4.5): y = bf16(silu(min(gate, limit)) * clamp(up, +-limit) *
 * weight). Items: rows. */
#ifndef DI_KERNELS_SWIGLU_H
#define DI_KERNELS_SWIGLU_H

#include "base/fp.h"

typedef struct di_swiglu_args {
    const di_bf16 *gate, *up; /* [n, dim] */
    const float *weights;     /* [n] routing weights, or NULL (shared expert) */
    di_bf16 *y;               /* [n, dim]; may be gate or up */
    int64_t dim;
    float limit;
} di_swiglu_args;

#endif
