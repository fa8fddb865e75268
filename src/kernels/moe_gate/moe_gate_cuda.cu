#include "kernels/cuda.cuh"

#include "kernels/moe_gate/moe_gate.h"

enum { THREADS = 128, MOST_EXPERTS = 1024, MOST_K = 64 };

static __device__ __forceinline__ float softplus(float x)
{
    return x > 20.0f ? x : di_log1pf(di_expf(x));
}

/* A score with its expert: the larger, of equal ones the lower id; NaN never wins. */
struct best {
    float value;
    int id; /* -1: none */
};

static __device__ __forceinline__ best better(best a, best b)
{
    if (a.id < 0)
        return b;
    if (b.id < 0)
        return a;
    if (a.value != b.value)
        return a.value > b.value ? a : b;
    return a.id < b.id ? a : b;
}

/* The next expert, by one warp. As the reference reads it: the first that is not taken, unless
 * another's sum is greater; so a NaN there stays. `sums` of taken experts are -inf with their bit.
 */
static __device__ int pick(const float *sums, const uint32_t *taken, int n)
{
    best b = {0.0f, -1};
    int first = n;
    for (int e = (int)threadIdx.x % 32; e < n; e += 32) {
        if (taken[e / 32] >> (e % 32) & 1u)
            continue;
        first = min(first, e);
        if (sums[e] == sums[e])
            b = better(b, best{sums[e], e});
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        first = min(first, __shfl_xor_sync(0xffffffffu, first, step));
        best other;
        other.value = __shfl_xor_sync(0xffffffffu, b.value, step);
        other.id = __shfl_xor_sync(0xffffffffu, b.id, step);
        b = better(b, other);
    }
    return sums[first] != sums[first] || b.id < 0 ? first : b.id;
}

/* A block a row. */
static __global__ void __launch_bounds__(THREADS) moe_gate(const di_moe_gate_args a)
{
    __shared__ float scores[MOST_EXPERTS], sums[MOST_EXPERTS];
    __shared__ uint32_t taken[MOST_EXPERTS / 32];
    __shared__ int32_t experts[MOST_K];
    __shared__ float weights[MOST_K];
    const int n = (int)a.n_experts, k = (int)a.k;
    const int64_t row = blockIdx.x;
    for (int e = (int)threadIdx.x; e < n; e += THREADS) {
        scores[e] = sqrtf(softplus(a.logits[row * n + e]));
        sums[e] = scores[e] + a.bias[e];
    }
    if (threadIdx.x < MOST_EXPERTS / 32)
        taken[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++) {
        const int e = pick(sums, taken, n);
        sum += scores[e];
        __syncwarp();
        if (threadIdx.x == 0) {
            taken[e / 32] |= 1u << (e % 32);
            experts[i] = e;
            weights[i] = scores[e];
        }
        __syncwarp();
    }
    for (int i = (int)threadIdx.x; i < k; i += 32) { /* in ascending order of ids */
        float w = weights[i];
        if (a.is_normalized && k > 1)
            w /= sum + 1e-20f;
        w *= a.routed_scale;
        int place = 0;
        for (int j = 0; j < k; j++)
            place += experts[j] < experts[i];
        a.experts[row * k + place] = experts[i];
        a.weights[row * k + place] = w;
    }
}

di_status di_moe_gate_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_moe_gate_args *a = (const di_moe_gate_args *)args;
    if (a->n_experts > MOST_EXPERTS || a->k > MOST_K)
        return di_fail(
            DI_ERR_UNSUPPORTED,
            "moe_gate on a GPU: found %lld experts, %lld a token, wanted at most %d and %d",
            (long long)a->n_experts, (long long)a->k, MOST_EXPERTS, MOST_K);
    if (n_items == 0)
        return DI_OK;
    moe_gate<<<(unsigned)n_items, THREADS, 0, stream>>>(*a);
    return di_cuda_launched("moe_gate");
}

/* ------------------------------------------------------------------------- combine */

template <int N> static __global__ void moe_combine(const di_moe_combine_args a, int64_t n)
{
    const int64_t width = a.dim / N, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const int64_t row = i / width, at = i % width * N;
        float sum[N], v[N];
#pragma unroll
        for (int c = 0; c < N; c++)
            sum[c] = 0.0f;
        for (int64_t j = 0; j < a.k; j++) {
            di_cu_load<N>(a.routed + a.assignments[row * a.k + j] * a.dim + at, v);
#pragma unroll
            for (int c = 0; c < N; c++)
                sum[c] += v[c];
        }
        di_cu_load<N>(a.shared + row * a.dim + at, v);
#pragma unroll
        for (int c = 0; c < N; c++)
            sum[c] += v[c];
        di_cu_store<N>(sum, a.y + row * a.dim + at);
    }
}

di_status di_moe_combine_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_moe_combine_args *a = (const di_moe_combine_args *)args;
    const int64_t n = n_items * a->dim;
    if (n == 0)
        return DI_OK;
    if (a->dim % 8 == 0 && di_cu_aligned(16, a->routed, a->shared, a->y))
        moe_combine<8><<<di_cu_grid(di_cu_blocks(n / 8, 128)), 128, 0, stream>>>(*a, n / 8);
    else
        moe_combine<1><<<di_cu_grid(di_cu_blocks(n, 128)), 128, 0, stream>>>(*a, n);
    return di_cuda_launched("moe_combine");
}
