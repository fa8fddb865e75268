/* RoPE on sixteen lanes (vec.h): eight pairs at a time. */
#ifndef DI_KERNELS_ROPE_VEC_H
#define DI_KERNELS_ROPE_VEC_H

#include "kernels/rope/rope.h"
#include "kernels/vec_math.h"

DI_VEC_KERNEL(rope)
{
    (void)worker;
    const di_rope_args *a = args;
    const int64_t dim = a->rope_dim / 2 * 2;
    for (int64_t row = begin; row < end; row++) {
        const float *cos = a->cos + row * (dim / 2), *sin = a->sin + row * (dim / 2);
        di_bf16 *first = a->x + row * a->x_stride + a->head_dim - a->rope_dim;
        for (int64_t i = 0; i < dim; i += DI_VEC) {
            const di_vec c = di_vec_load_twice(cos + i / 2, dim - i);
            const di_vec s = di_vec_load_twice(sin + i / 2, dim - i);
            const di_vec t = a->is_inverse ? di_vec_negate(s) : s;
            for (int64_t head = 0; head < a->n_heads; head++) {
                /* re c - im s in even lanes, re s + im c in odd ones */
                di_bf16 *x = first + head * a->head_dim + i;
                const di_vec v = di_vec_load_bf16(x, dim - i), w = di_vec_swap_pairs(v);
                const di_vec vc = di_vec_mul(v, c), ws = di_vec_mul(w, t);
                const di_vec y = di_vec_even_odd(di_vec_sub(vc, ws), di_vec_add(ws, vc));
                di_vec_store_bf16(x, dim - i, y);
            }
        }
    }
}

#endif
