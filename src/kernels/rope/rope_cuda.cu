#include "kernels/cuda.cuh"

#include "kernels/rope/rope.h"

/* A thread a pair. */
static __global__ void rope(const di_rope_args a, int64_t n)
{
    const int64_t half = a.rope_dim / 2;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const int64_t pair = i % half, head = i / half % a.n_heads, row = i / half / a.n_heads;
        di_bf16 *x = a.x + row * a.x_stride + (head + 1) * a.head_dim - a.rope_dim + 2 * pair;
        const float re = di_bf16_to_f32(x[0]), im = di_bf16_to_f32(x[1]);
        const float c = a.cos[row * half + pair], sine = a.sin[row * half + pair];
        const float s = a.is_inverse ? -sine : sine;
        x[0] = di_f32_to_bf16(re * c - im * s);
        x[1] = di_f32_to_bf16(re * s + im * c);
    }
}

di_status di_rope_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_rope_args *a = (const di_rope_args *)args;
    const int64_t n = n_items * a->n_heads * (a->rope_dim / 2);
    if (n == 0)
        return DI_OK;
    rope<<<di_cu_grid(di_cu_blocks(n, 256)), 256, 0, stream>>>(*a, n);
    return di_cuda_launched("rope");
}
