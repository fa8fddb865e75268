#include "kernels/cuda.cuh"

#include "kernels/hyper_connection/hyper_connection.h"

enum { THREADS = 256 };

/* ------------------------------------------------------------------------- project */

/* A block one output of up to DI_HC_ROWS rows: 16 threads a row, a lane each. Weights and rows come
 * through shared memory by asynchronous copies, STAGES deep. */
enum {
    TILE = 512,
    STAGES = 3,
    ROW_PITCH = TILE * 2 + 32,
    STAGE_BYTES = TILE * 4 + DI_HC_ROWS * ROW_PITCH
};

/* Elements first .. first + TILE - 1 of the weights' row (none if NULL) and of n_rows rows. */
static __device__ __forceinline__ void start_tile(const float *fn, const di_bf16 *h, int64_t width,
                                                  int64_t first, int n_rows, bool is_aligned,
                                                  uint8_t *stage)
{
    const int n = (int)(width - first < TILE ? width - first : TILE);
    di_bf16 *rows = (di_bf16 *)(void *)(stage + TILE * 4);
    if (is_aligned) {
        for (int i = (int)threadIdx.x * 4; fn && i < n; i += THREADS * 4)
            di_cu_copy16((float *)(void *)stage + i, fn + first + i);
        for (int i = (int)threadIdx.x * 8; i < n_rows * TILE; i += THREADS * 8) {
            const int r = i / TILE, c = i % TILE;
            if (c < n)
                di_cu_copy16(rows + r * (ROW_PITCH / 2) + c, h + r * width + first + c);
        }
        return;
    }
    for (int i = (int)threadIdx.x; fn && i < n; i += THREADS)
        ((float *)(void *)stage)[i] = fn[first + i];
    for (int i = (int)threadIdx.x; i < n_rows * TILE; i += THREADS)
        if (i % TILE < n)
            rows[i / TILE * (ROW_PITCH / 2) + i % TILE] = h[i / TILE * width + first + i % TILE];
}

static __global__ void __launch_bounds__(THREADS)
    hc_project(const di_hc_project_args a, bool is_aligned, int64_t n_items)
{
    extern __shared__ __align__(16) uint8_t stages[];
    const int64_t width = a.hc * a.dim, n_out = (2 + a.hc) * a.hc;
    const int lane_of = (int)threadIdx.x & 15, r = (int)threadIdx.x / DI_LANES;
    const int n_tiles = (int)((width + TILE - 1) / TILE);
    for (int64_t item = blockIdx.x; item < n_items; item += gridDim.x) {
        const int64_t k = item % (n_out + 1), row = item / (n_out + 1) * DI_HC_ROWS;
        const int n_rows = (int)(a.n - row < DI_HC_ROWS ? a.n - row : DI_HC_ROWS);
        const float *fn = k < n_out ? a.fn + k * width : NULL;
        const di_bf16 *h = a.h + row * width;
        float lane = 0.0f;
        __syncthreads(); /* the stages are free */
        for (int i = 0; i < STAGES - 1; i++) {
            if (i < n_tiles)
                start_tile(fn, h, width, (int64_t)i * TILE, n_rows, is_aligned,
                           stages + i * STAGE_BYTES);
            di_cu_copy_commit();
        }
        for (int i = 0; i < n_tiles; i++) {
            di_cu_copy_wait<STAGES - 2>();
            __syncthreads();
            const int next = i + STAGES - 1;
            if (next < n_tiles)
                start_tile(fn, h, width, (int64_t)next * TILE, n_rows, is_aligned,
                           stages + next % STAGES * STAGE_BYTES);
            di_cu_copy_commit();
            const float *w = (const float *)(const void *)(stages + i % STAGES * STAGE_BYTES);
            const di_bf16 *x = (const di_bf16 *)(const void *)(w + TILE) + r * (ROW_PITCH / 2);
            const int64_t left = width - (int64_t)i * TILE;
            const int n = r < n_rows ? (int)(left < TILE ? left : TILE) : 0;
            if (fn) {
#pragma unroll 16
                for (int c = lane_of; c < n; c += DI_LANES)
                    lane += w[c] * di_bf16_to_f32(x[c]);
            } else {
#pragma unroll 16
                for (int c = lane_of; c < n; c += DI_LANES) {
                    const float v = di_bf16_to_f32(x[c]);
                    lane = fmaf(v, v, lane);
                }
            }
        }
        lane = di_cu_lanes_total(lane);
        if (r < n_rows && lane_of == 0)
            a.y[(row + r) * (n_out + 1) + k] = lane;
    }
}

di_status di_hc_project_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_hc_project_args *a = (const di_hc_project_args *)args;
    if (n_items == 0)
        return DI_OK;
    const bool is_aligned = a->hc * a->dim % 8 == 0 && di_cu_aligned(16, a->h, a->fn);
    DI_CUDA_TRY(cudaFuncSetAttribute((const void *)hc_project,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     STAGES * STAGE_BYTES),
                "hc_project");
    hc_project<<<di_cu_grid(n_items), THREADS, STAGES * STAGE_BYTES, stream>>>(*a, is_aligned,
                                                                               n_items);
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

/* The same for 4 streams, in registers: thread t of 16 has entry t, sums come by shuffles. */
static __global__ void __launch_bounds__(32) hc_mix_4(const di_hc_mix_args a)
{
    enum { HC = 4, N_OUT = (2 + HC) * HC };
    const int t = (int)threadIdx.x & 15, j = t / HC, k = t % HC;
    const int64_t row = blockIdx.x;
    const float *products = a.products + row * (N_OUT + 1);
    const float rs = di_rsqrtf(products[N_OUT] / (float)(HC * a.dim) + a.norm_eps);
    if (threadIdx.x < 2 * HC) {
        const float m = products[threadIdx.x] * rs;
        const float x = m * a.scale[threadIdx.x / HC] + a.base[threadIdx.x];
        if (threadIdx.x < HC)
            a.pre[row * HC + k] = di_sigmoidf(x) + a.eps;
        else
            a.post[row * HC + k] = 2.0f * di_sigmoidf(x);
    }
    __syncwarp();
    float x = products[2 * HC + t] * rs * a.scale[2] + a.base[2 * HC + t];
    float v[HC], largest;
#pragma unroll
    for (int i = 0; i < HC; i++)
        v[i] = __shfl_sync(0xffffffffu, x, j * HC + i, DI_LANES);
    largest = v[0];
#pragma unroll
    for (int i = 1; i < HC; i++)
        largest = v[i] > largest ? v[i] : largest;
    x = di_expf(x - largest);
    for (int round = -1; round < 2 * a.n_iters - 1; round++) { /* softmax, columns, rows, ... */
        const bool is_rows = round % 2 != 0;
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < HC; i++)
            sum += __shfl_sync(0xffffffffu, x, is_rows ? j * HC + i : i * HC + k, DI_LANES);
        x = round < 0 ? x / sum + a.eps : x / (sum + a.eps);
    }
    if (threadIdx.x < 16)
        a.comb[row * HC * HC + t] = x;
}

di_status di_hc_mix_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_hc_mix_args *a = (const di_hc_mix_args *)args;
    if (n_items == 0)
        return DI_OK;
    const unsigned threads = (unsigned)(a->hc * a->hc + 31) / 32 * 32;
    if (a->hc == 4)
        hc_mix_4<<<(unsigned)n_items, 32, 0, stream>>>(*a);
    else
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
