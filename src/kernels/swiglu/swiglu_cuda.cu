#include "kernels/cuda.cuh"

#include "kernels/swiglu/swiglu.h"

/* A thread N neighbouring values of a row. */
template <int N> static __global__ void swiglu(const di_swiglu_args a, int64_t n)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        float gate[N], up[N];
        di_cu_load<N>(a.gate + i * N, gate);
        di_cu_load<N>(a.up + i * N, up);
        const float weight = a.weights ? a.weights[i * N / a.dim] : 0.0f;
#pragma unroll
        for (int j = 0; j < N; j++) {
            const float g = gate[j] > a.limit ? a.limit : gate[j];
            const float u = up[j] > a.limit ? a.limit : up[j] < -a.limit ? -a.limit : up[j];
            const float v = di_siluf(g) * u;
            gate[j] = a.weights ? v * weight : v;
        }
        di_cu_store<N>(gate, a.y + i * N);
    }
}

di_status di_swiglu_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_swiglu_args *a = (const di_swiglu_args *)args;
    const int64_t n = n_items * a->dim;
    if (n == 0)
        return DI_OK;
    if (a->dim % 8 == 0 && di_cu_aligned(16, a->gate, a->up, a->y))
        swiglu<8><<<di_cu_grid(di_cu_blocks(n / 8, 128)), 128, 0, stream>>>(*a, n / 8);
    else
        swiglu<1><<<di_cu_grid(di_cu_blocks(n, 128)), 128, 0, stream>>>(*a, n);
    return di_cuda_launched("swiglu");
}
