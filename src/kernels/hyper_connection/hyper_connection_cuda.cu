#include "kernels/cuda.cuh"

#include "kernels/hyper_connection/hyper_connection.h"

enum { THREADS = 256, TILE = 1024 };

/* ------------------------------------------------------------------------- project */

/* A block one output of up to DI_HC_ROWS rows: 16 threads a row, a lane each. The weights' tile is
 * in shared memory, the rows come through the first level cache. */
static __global__ void __launch_bounds__(DI_HC_ROWS *DI_LANES)
    hc_project(const di_hc_project_args a, int64_t n_items)
{
    __shared__ float fn[TILE];
    const int64_t width = a.hc * a.dim, n_out = (2 + a.hc) * a.hc;
    const int lane_of = (int)threadIdx.x & 15;
    for (int64_t item = blockIdx.x; item < n_items; item += gridDim.x) {
        const int64_t k = item % (n_out + 1);
        const int64_t row = item / (n_out + 1) * DI_HC_ROWS + threadIdx.x / DI_LANES;
        const bool is_mine = row < a.n;
        const di_bf16 *x = a.h + (is_mine ? row : 0) * width;
        float lane = 0.0f;
        for (int64_t first = 0; first < width; first += TILE) {
            const int n = (int)(width - first < TILE ? width - first : TILE);
            if (k < n_out) {
                __syncthreads();
                for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
                    fn[i] = a.fn[k * width + first + i];
                __syncthreads();
            }
            if (k < n_out) {
#pragma unroll 16
                for (int i = lane_of; i < n; i += DI_LANES)
                    lane += fn[i] * di_bf16_to_f32(x[first + i]);
            } else {
#pragma unroll 16
                for (int i = lane_of; i < n; i += DI_LANES) {
                    const float v = di_bf16_to_f32(x[first + i]);
                    lane = fmaf(v, v, lane);
                }
            }
        }
        lane = di_cu_lanes_total(lane);
        if (is_mine && lane_of == 0)
            a.y[row * (n_out + 1) + k] = lane;
    }
}

di_status di_hc_project_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_hc_project_args *a = (const di_hc_project_args *)args;
    if (n_items == 0)
        return DI_OK;
    const int64_t rows = a->n < DI_HC_ROWS ? (a->n + 1) / 2 * 2 : DI_HC_ROWS; /* whole warps */
    hc_project<<<di_cu_grid(n_items), (unsigned)(rows * DI_LANES), 0, stream>>>(*a, n_items);
    return di_cuda_launched("hc_project");
}

/* ------------------------------------------------------------------------- mix */

static __device__ float column_sum(const float *c, int hc, int k)
{
    float sum = 0.0f;
    for (int j = 0; j < hc; j++)
        sum += c[j * hc + k];
    return sum;
}

static __device__ float row_sum(const float *row, int hc)
{
    float sum = 0.0f;
    for (int k = 0; k < hc; k++)
        sum += row[k];
    return sum;
}

/* A block a row, a thread an entry of comb: each makes the sum it divides by, in the order that the
 * reference has. */
static __global__ void hc_mix(const di_hc_mix_args a)
{
    __shared__ float c[DI_HC_LIMIT * DI_HC_LIMIT];
    const int hc = a.hc, n = hc * hc, t = (int)threadIdx.x;
    const int n_out = (2 + hc) * hc, j = t / hc, k = t % hc;
    const int64_t row = blockIdx.x;
    const float *products = a.products + row * (n_out + 1);
    const float rs = di_rsqrtf(products[n_out] / (float)(hc * a.dim) + a.norm_eps);
    for (int i = t; i < 2 * hc; i += (int)blockDim.x) {
        const float m = products[i] * rs;
        if (i < hc)
            a.pre[row * hc + i] = di_sigmoidf(m * a.scale[0] + a.base[i]) + a.eps;
        else
            a.post[row * hc + i - hc] = 2.0f * di_sigmoidf(m * a.scale[1] + a.base[i]);
    }
    const bool is_mine = t < n;
    if (is_mine)
        c[t] = products[2 * hc + t] * rs * a.scale[2] + a.base[2 * hc + t];
    __syncthreads();
    float x = 0.0f;
    if (is_mine) {
        float largest = c[j * hc];
        for (int i = 1; i < hc; i++)
            largest = c[j * hc + i] > largest ? c[j * hc + i] : largest;
        x = di_expf(c[t] - largest);
    }
    __syncthreads();
    if (is_mine)
        c[t] = x;
    __syncthreads();
    if (is_mine)
        x = x / row_sum(c + j * hc, hc) + a.eps;
    for (int i = 0; i < 2 * a.n_iters - 1; i++) { /* columns, rows, ..., columns */
        __syncthreads();
        if (is_mine)
            c[t] = x;
        __syncthreads();
        if (is_mine)
            x /= (i % 2 == 0 ? column_sum(c, hc, k) : row_sum(c + j * hc, hc)) + a.eps;
    }
    if (is_mine)
        a.comb[row * n + t] = x;
}

di_status di_hc_mix_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_hc_mix_args *a = (const di_hc_mix_args *)args;
    if (n_items == 0)
        return DI_OK;
    const unsigned threads = (unsigned)(a->hc * a->hc + 31) / 32 * 32;
    hc_mix<<<(unsigned)n_items, threads, 0, stream>>>(*a);
    return di_cuda_launched("hc_mix");
}

/* ------------------------------------------------------------------------- collapse, expand */

template <int N> static __global__ void hc_collapse(const di_hc_collapse_args a, int64_t n)
{
    const int64_t width = a.dim / N, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const int64_t row = i / width, at = i % width * N;
        const di_bf16 *h = a.h + row * a.hc * a.dim + at;
        float sum[N], v[N];
#pragma unroll
        for (int c = 0; c < N; c++)
            sum[c] = 0.0f;
        for (int j = 0; j < a.hc; j++) {
            const float pre = a.pre[row * a.hc + j];
            di_cu_load<N>(h + j * a.dim, v);
#pragma unroll
            for (int c = 0; c < N; c++)
                sum[c] += pre * v[c];
        }
        di_cu_store<N>(sum, a.y + row * a.dim + at);
    }
}

di_status di_hc_collapse_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_hc_collapse_args *a = (const di_hc_collapse_args *)args;
    const int64_t n = n_items * a->dim;
    if (n == 0)
        return DI_OK;
    if (a->dim % 8 == 0 && di_cu_aligned(16, a->h, a->y))
        hc_collapse<8><<<di_cu_grid(di_cu_blocks(n / 8, 128)), 128, 0, stream>>>(*a, n / 8);
    else
        hc_collapse<1><<<di_cu_grid(di_cu_blocks(n, 128)), 128, 0, stream>>>(*a, n);
    return di_cuda_launched("hc_collapse");
}

/* HC: streams, known when compiled so that they stay in registers; 0: any number, one value a
 * thread. */
template <int N, int HC> static __global__ void hc_expand(const di_hc_expand_args a, int64_t n)
{
    const int hc = HC ? HC : a.hc;
    const int64_t width = a.dim / N, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const int64_t row = i / width, at = i % width * N;
        di_bf16 *h = a.h + row * hc * a.dim + at;
        const float *post = a.post + row * hc, *comb = a.comb + row * hc * hc;
        float y[N], old[HC ? HC : DI_HC_LIMIT][N];
        di_cu_load<N>(a.y + row * a.dim + at, y);
#pragma unroll
        for (int j = 0; j < (HC ? HC : DI_HC_LIMIT); j++)
            if (j < hc)
                di_cu_load<N>(h + j * a.dim, old[j]);
        for (int k = 0; k < hc; k++) {
            float sum[N];
#pragma unroll
            for (int c = 0; c < N; c++)
                sum[c] = 0.0f;
#pragma unroll
            for (int j = 0; j < (HC ? HC : DI_HC_LIMIT); j++) {
                if (j < hc) {
                    const float weight = comb[j * hc + k];
#pragma unroll
                    for (int c = 0; c < N; c++)
                        sum[c] += weight * old[j][c];
                }
            }
#pragma unroll
            for (int c = 0; c < N; c++)
                sum[c] = post[k] * y[c] + sum[c];
            di_cu_store<N>(sum, h + k * a.dim);
        }
    }
}

di_status di_hc_expand_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_hc_expand_args *a = (const di_hc_expand_args *)args;
    const int64_t n = n_items * a->dim;
    if (n == 0)
        return DI_OK;
    if (a->hc == 4 && a->dim % 8 == 0 && di_cu_aligned(16, a->h, a->y))
        hc_expand<8, 4><<<di_cu_grid(di_cu_blocks(n / 8, 128)), 128, 0, stream>>>(*a, n / 8);
    else
        hc_expand<1, 0><<<di_cu_grid(di_cu_blocks(n, 128)), 128, 0, stream>>>(*a, n);
    return di_cuda_launched("hc_expand");
}
