#include "kernels/cuda.cuh"

#include "kernels/compress/compress.h"

/* A thread a channel of a group. */
static __global__ void compress_pool(const di_compress_pool_args a, int64_t n)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const int64_t at = i / a.dim * 2 * a.dim + i % a.dim;
        const float g0 = a.gate[at], g1 = a.gate[at + a.dim];
        const float largest = g0 > g1 ? g0 : g1;
        const float e0 = di_expf(g0 - largest), e1 = di_expf(g1 - largest);
        const float sum = e0 + e1;
        a.latent[i] = di_f32_to_bf16(a.k[at] * (e0 / sum) + a.k[at + a.dim] * (e1 / sum));
    }
}

di_status di_compress_pool_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_compress_pool_args *a = (const di_compress_pool_args *)args;
    const int64_t n = n_items * a->dim;
    if (n == 0)
        return DI_OK;
    compress_pool<<<di_cu_grid(di_cu_blocks(n, 256)), 256, 0, stream>>>(*a, n);
    return di_cuda_launched("compress_pool");
}
