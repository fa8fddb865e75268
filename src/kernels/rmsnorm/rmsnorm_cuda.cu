#include "kernels/cuda.cuh"

#include "kernels/rmsnorm/rmsnorm.h"

enum { THREADS = 256, TILE = 8192 };

/* A block a row. The row goes through shared memory; 16 threads add its squares in the lanes16
 * order (squares of bf16 are exact, hence fmaf). N: values a thread reads at once. */
template <int N>
static __global__ void __launch_bounds__(THREADS) rmsnorm(const di_rmsnorm_args a, int64_t n)
{
    __shared__ __align__(16) di_bf16 tile[TILE];
    __shared__ float total;
    for (int64_t row = blockIdx.x; row < n; row += gridDim.x) {
        const di_bf16 *x = a.x + row * a.x_stride;
        float lane = 0.0f;
        for (int64_t first = 0; first < a.dim; first += TILE) {
            const int width = (int)(a.dim - first < TILE ? a.dim - first : TILE);
            __syncthreads();
            for (int i = (int)threadIdx.x * N; i < width; i += THREADS * N)
                *(di_cu_vector<N> *)(tile + i) = *(const di_cu_vector<N> *)(x + first + i);
            __syncthreads();
            if (threadIdx.x < 32)
#pragma unroll 16
                for (int i = (int)threadIdx.x & 15; i < width; i += DI_LANES) {
                    const float v = di_bf16_to_f32(tile[i]);
                    lane = fmaf(v, v, lane);
                }
        }
        if (threadIdx.x < 32) {
            lane = di_cu_lanes_total(lane);
            if (threadIdx.x == 0)
                total = lane;
        }
        __syncthreads();
        const float rs = di_rsqrtf(total / (float)a.dim + a.eps);
        di_bf16 *y = a.y + row * a.y_stride;
        for (int64_t i = (int64_t)threadIdx.x * N; i < a.dim; i += THREADS * N) {
            float v[N], w[N];
            di_cu_load<N>(a.dim <= TILE ? tile + i : x + i, v);
            if (a.w_dtype == DI_F32)
                for (int j = 0; j < N; j++)
                    w[j] = ((const float *)a.w)[i + j];
            else
                di_cu_load<N>((const di_bf16 *)a.w + i, w);
#pragma unroll
            for (int j = 0; j < N; j++)
                v[j] = v[j] * rs * w[j];
            di_cu_store<N>(v, y + i);
        }
    }
}

di_status di_rmsnorm_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_rmsnorm_args *a = (const di_rmsnorm_args *)args;
    if (n_items == 0)
        return DI_OK;
    const bool is_wide =
        (a->dim | a->x_stride | a->y_stride) % 8 == 0 && di_cu_aligned(16, a->x, a->y, a->w);
    if (is_wide)
        rmsnorm<8><<<di_cu_grid(n_items), THREADS, 0, stream>>>(*a, n_items);
    else
        rmsnorm<1><<<di_cu_grid(n_items), THREADS, 0, stream>>>(*a, n_items);
    return di_cuda_launched("rmsnorm");
}
