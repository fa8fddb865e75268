#include "kernels/cuda.cuh"

#include "kernels/engram/engram.h"

enum { THREADS = 256 };

/* ------------------------------------------------------------------------- hash */

/* A thread a row. */
static __global__ void engram_hash(const di_engram_hash_args a, int64_t n)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n)
        return;
    int64_t *out = a.rows + row * (a.max_ngram - 1) * a.n_heads;
    int64_t hash = 0;
    for (int64_t k = 0; k < a.max_ngram; k++) {
        const int64_t position = a.positions[row] - k;
        const int64_t id = position < 0 ? a.pad_id : a.history[row][position];
        hash ^= id * a.multipliers[k];
        for (int64_t head = 0; k > 0 && head < a.n_heads; head++) {
            const int64_t column = (k - 1) * a.n_heads + head;
            out[column] = hash % a.primes[column] + a.offsets[column];
        }
    }
}

di_status di_engram_hash_cuda(const void *args, int64_t n_items, di_stream stream)
{
    if (n_items == 0)
        return DI_OK;
    engram_hash<<<(unsigned)di_cu_blocks(n_items, 64), 64, 0, stream>>>(
        *(const di_engram_hash_args *)args, n_items);
    return di_cuda_launched("engram_hash");
}

/* ------------------------------------------------------------------------- gather */

/* A thread 4 codes of a table row. */
static __global__ void engram_gather(const di_engram_gather_args a, int64_t n)
{
    const int64_t width = a.dim / 4, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const int64_t row = a.rows[i / width], at = i % width * 4;
        const uint8_t *codes = a.codes + row * a.dim + at;
        const float scale = di_e8m0_to_f32(a.scales[row * (a.dim / 32) + at / 32]);
        di_bf16 *y = a.y + i / width * a.dim + at;
#pragma unroll
        for (int c = 0; c < 4; c++)
            y[c] = di_f32_to_bf16(di_cu_e4m3(codes[c]) * scale);
    }
}

di_status di_engram_gather_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_engram_gather_args *a = (const di_engram_gather_args *)args;
    const int64_t n = n_items * a->n_columns * (a->dim / 4);
    if (n == 0)
        return DI_OK;
    engram_gather<<<di_cu_grid(di_cu_blocks(n, THREADS)), THREADS, 0, stream>>>(*a, n);
    return di_cuda_launched("engram_gather");
}

/* ------------------------------------------------------------------------- gate */

/* One of the three sums of a gate, its lane of this thread. The product's factors are rounded one
 * after the other; squares of bf16 are exact. */
static __device__ float gate_lane(const di_engram_gate_args &a, const di_bf16 *h,
                                  const di_bf16 *key, int64_t j, int which)
{
    const di_bf16 *qw = a.q_weight + j * a.dim, *kw = a.k_weight + j * a.dim;
    const di_bf16 *square = which == 1 ? h : key;
    float lane = 0.0f;
#pragma unroll 4
    for (int64_t i = threadIdx.x & 15; i < a.dim; i += DI_LANES) {
        if (which == 0) {
            const float w = di_bf16_to_f32(qw[i]) * di_bf16_to_f32(kw[i]);
            lane += di_bf16_to_f32(h[i]) * w * di_bf16_to_f32(key[i]);
        } else {
            const float v = di_bf16_to_f32(square[i]);
            lane = fmaf(v, v, lane);
        }
    }
    return lane;
}

/* A block a stream of a row: three warps make the sums, all of them the result. */
static __global__ void __launch_bounds__(THREADS)
    engram_gate(const di_engram_gate_args a, double root, int64_t n)
{
    __shared__ float sums[3];
    __shared__ float gate;
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        const int64_t row = i / a.hc, j = i % a.hc;
        const di_bf16 *kv = a.kv + row * (a.hc + 1) * a.dim;
        const di_bf16 *key = kv + j * a.dim, *value = kv + (int64_t)a.hc * a.dim;
        di_bf16 *h = a.h + i * a.dim;
        const int which = (int)threadIdx.x / 32;
        if (which < 3) {
            const float total = di_cu_lanes_total(gate_lane(a, h, key, j, which));
            if (threadIdx.x % 32 == 0)
                sums[which] = total;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            const float dim = (float)a.dim;
            const float rh = di_rsqrtf(sums[1] / dim + a.norm_eps);
            const float rk = di_rsqrtf(sums[2] / dim + a.norm_eps);
            const float d = sums[0] * rh * rk * (float)root;
            const float magnitude = fabsf(d) > 1e-6f || d != d ? fabsf(d) : 1e-6f;
            gate = di_sigmoidf(copysignf(sqrtf(magnitude), d));
        }
        __syncthreads();
        for (int64_t c = threadIdx.x; c < a.dim; c += THREADS)
            h[c] = di_f32_to_bf16(di_bf16_to_f32(h[c]) + gate * di_bf16_to_f32(value[c]));
        __syncthreads();
    }
}

di_status di_engram_gate_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_engram_gate_args *a = (const di_engram_gate_args *)args;
    const int64_t n = n_items * a->hc;
    if (n == 0)
        return DI_OK;
    engram_gate<<<di_cu_grid(n), THREADS, 0, stream>>>(*a, 1.0 / sqrt((double)a->dim), n);
    return di_cuda_launched("engram_gate");
}
