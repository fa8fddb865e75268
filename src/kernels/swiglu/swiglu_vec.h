/* SwiGLU on sixteen lanes (vec.h). */
#ifndef DI_KERNELS_SWIGLU_VEC_H
#define DI_KERNELS_SWIGLU_VEC_H

#include "kernels/swiglu/swiglu.h"
#include "kernels/vec_math.h"

DI_VEC_KERNEL(swiglu)
{
    (void)worker;
    const di_swiglu_args *a = args;
    const di_vec limit = di_vec_set(a->limit), least = di_vec_set(-a->limit);
    for (int64_t row = begin; row < end; row++) {
        const di_bf16 *gate = a->gate + row * a->dim, *up = a->up + row * a->dim;
        const di_vec weight = di_vec_set(a->weights ? a->weights[row] : 1.0f); /* x 1 is exact */
        for (int64_t i = 0; i < a->dim; i += DI_VEC) {
            const int64_t n = a->dim - i;
            const di_vec g = di_vec_min(limit, di_vec_load_bf16(gate + i, n));
            const di_vec u = di_vec_max(least, di_vec_min(limit, di_vec_load_bf16(up + i, n)));
            const di_vec v = di_vec_mul(di_vec_silu(g), u);
            di_vec_store_bf16(a->y + row * a->dim + i, n, di_vec_mul(v, weight));
        }
    }
}

#endif
