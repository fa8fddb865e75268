/* RMSNorm on sixteen lanes (vec.h). */
#ifndef DI_KERNELS_RMSNORM_VEC_H
#define DI_KERNELS_RMSNORM_VEC_H

#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/vec_math.h"

DI_VEC_KERNEL(rmsnorm)
{
    (void)worker;
    const di_rmsnorm_args *a = args;
    const di_bf16 *w16 = a->w;
    const float *w32 = a->w;
    const int64_t dim = a->dim;
    for (int64_t row = begin; row < end; row++) {
        const di_bf16 *x = a->x + row * a->x_stride;
        di_bf16 *y = a->y + row * a->y_stride;
        const di_vec rs = di_vec_set(di_rsqrtf(di_vec_sum_squares(x, dim) / (float)dim + a->eps));
        for (int64_t i = 0; i < dim; i += DI_VEC) {
            const di_vec w = a->w_dtype == DI_F32 ? di_vec_load(w32 + i, dim - i)
                                                  : di_vec_load_bf16(w16 + i, dim - i);
            const di_vec v = di_vec_mul(di_vec_load_bf16(x + i, dim - i), rs);
            di_vec_store_bf16(y + i, dim - i, di_vec_mul(v, w));
        }
    }
}

#endif
