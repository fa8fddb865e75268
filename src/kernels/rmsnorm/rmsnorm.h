/* RMSNorm (model spec 3): y = bf16(x * rsqrt(mean(x^2) + eps) * w), one rounding, fp32 inside.
 * Items: rows. */
#ifndef DI_KERNELS_RMSNORM_H
#define DI_KERNELS_RMSNORM_H

#include "base/fp.h"
#include "core/tensor.h"

typedef struct di_rmsnorm_args {
    const di_bf16 *x; /* [n, dim], row stride x_stride */
    const void *w;    /* [dim], w_dtype */
    di_bf16 *y;       /* [n, dim], row stride y_stride; may be x */
    int64_t dim, x_stride, y_stride;
    di_dtype w_dtype; /* DI_BF16 or DI_F32 */
    float eps;
} di_rmsnorm_args;

#endif
