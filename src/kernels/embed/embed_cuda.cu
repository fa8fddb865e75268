#include "kernels/cuda.cuh"

#include "kernels/embed/embed.h"

/* A block a row and stream. T: as many bytes as rows are aligned to. */
template <typename T> static __global__ void embed(const di_embed_args a, int64_t n)
{
    const int64_t width = a.dim * (int64_t)sizeof(di_bf16) / (int64_t)sizeof(T);
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        const T *from = (const T *)(const void *)a.table + a.token_ids[i / a.hc] * width;
        T *to = (T *)(void *)a.h + i * width;
        for (int64_t c = threadIdx.x; c < width; c += blockDim.x)
            to[c] = from[c];
    }
}

di_status di_embed_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_embed_args *a = (const di_embed_args *)args;
    const int64_t n = n_items * a->hc;
    if (n == 0)
        return DI_OK;
    if (a->dim % 8 == 0 && di_cu_aligned(16, a->table, a->h))
        embed<uint4><<<di_cu_grid(n), 256, 0, stream>>>(*a, n);
    else
        embed<di_bf16><<<di_cu_grid(n), 256, 0, stream>>>(*a, n);
    return di_cuda_launched("embed");
}
