#include "kernels/rope/rope.h"

#include "kernels/all.h"

void di_rope_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_rope_args *a = args;
    const int64_t half = a->rope_dim / 2;
    for (int64_t row = begin; row < end; row++) {
        const float *cos = a->cos + row * half, *sin = a->sin + row * half;
        for (int64_t head = 0; head < a->n_heads; head++) {
            di_bf16 *x = a->x + row * a->x_stride + (head + 1) * a->head_dim - a->rope_dim;
            for (int64_t i = 0; i < half; i++) {
                const float re = di_bf16_to_f32(x[2 * i]), im = di_bf16_to_f32(x[2 * i + 1]);
                const float c = cos[i], s = a->is_inverse ? -sin[i] : sin[i];
                x[2 * i] = di_f32_to_bf16(re * c - im * s);
                x[2 * i + 1] = di_f32_to_bf16(re * s + im * c);
            }
        }
    }
}
