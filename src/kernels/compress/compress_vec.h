/* The compressor's pooling on sixteen lanes (vec.h). */
#ifndef DI_KERNELS_COMPRESS_VEC_H
#define DI_KERNELS_COMPRESS_VEC_H

#include "kernels/compress/compress.h"
#include "kernels/vec_math.h"

DI_VEC_KERNEL(compress_pool)
{
    (void)worker;
    const di_compress_pool_args *a = args;
    const int64_t dim = a->dim;
    for (int64_t group = begin; group < end; group++) {
        const float *k = a->k + group * 2 * dim, *gate = a->gate + group * 2 * dim;
        for (int64_t i = 0; i < dim; i += DI_VEC) {
            const int64_t n = dim - i;
            const di_vec g0 = di_vec_load(gate + i, n), g1 = di_vec_load(gate + dim + i, n);
            const di_vec largest = di_vec_max(g0, g1);
            const di_vec e0 = di_vec_exp(di_vec_sub(g0, largest));
            const di_vec e1 = di_vec_exp(di_vec_sub(g1, largest));
            const di_vec sum = di_vec_add(e0, e1);
            const di_vec y0 = di_vec_mul(di_vec_load(k + i, n), di_vec_div(e0, sum));
            const di_vec y1 = di_vec_mul(di_vec_load(k + dim + i, n), di_vec_div(e1, sum));
            di_vec_store_bf16(a->latent + group * dim + i, n, di_vec_add(y0, y1));
        }
    }
}

#endif
