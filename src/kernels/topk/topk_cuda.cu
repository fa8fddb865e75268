#include "kernels/cuda.cuh"

#include "kernels/topk/topk.h"

enum { THREADS = 1024, WARPS = THREADS / 32, NO_KEY = 0x10000 };

/* bf16 bits to an integer that sorts like the value; NaN lowest. */
static __device__ __forceinline__ uint32_t sort_key(uint32_t x)
{
    if ((x & 0x7fffu) > 0x7f80u)
        return 0;
    if ((x & 0x7fffu) == 0)
        return 0x8000u;
    return x & 0x8000u ? ~x & 0xffffu : x | 0x8000u;
}

struct entry_keys {
    const di_bf16 *scores;
    const uint8_t *candidates;
    uint32_t block_size;
    __device__ __forceinline__ uint32_t operator()(uint32_t i) const
    {
        if (candidates && !candidates[i / block_size])
            return NO_KEY;
        return sort_key(scores[i]);
    }
};

struct block_keys {
    const di_bf16 *scores;
    uint32_t n_visible, block_size;
    __device__ __forceinline__ uint32_t operator()(uint32_t block) const
    {
        const uint32_t first = block * block_size;
        if (first + block_size >= n_visible)
            return 0xffffu; /* above every number: the newest block is always in */
        uint32_t largest = 0;
        for (uint32_t i = first; i < first + block_size; i++)
            largest = max(largest, sort_key(scores[i]));
        return largest;
    }
};

/* ------------------------------------------------------------------------- the k-th largest key */

struct cut {
    uint32_t threshold; /* keys above it are in */
    uint32_t n_equal;   /* of the keys equal to it, the first n_equal are in */
};

struct shared_state {
    uint32_t bins[256];
    uint32_t sums[WARPS];
    uint32_t bin, rest, total;
};

/* One thread a bin: the bin, from above, in which the k-th key lies, and k's rest within it. bin is
 * 256 if there are fewer than k keys. The bins hold their counts. */
static __device__ void find_bin(shared_state &s, uint32_t k)
{
    const uint32_t t = threadIdx.x;
    if (t == 0)
        s.bin = 256;
    __syncthreads();
    uint32_t above = 0; /* keys in higher bins and in this one */
    if (t < 256) {
        const uint32_t bin = 255 - t;
        uint32_t sum = s.bins[bin];
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const uint32_t other = __shfl_up_sync(0xffffffffu, sum, step);
            sum += t % 32 >= step ? other : 0;
        }
        if (t % 32 == 31)
            s.sums[t / 32] = sum;
        above = sum;
    }
    __syncthreads();
    if (t < 256) {
        for (uint32_t w = 0; w < t / 32; w++)
            above += s.sums[w];
        const uint32_t bin = 255 - t, here = s.bins[bin];
        if (above >= k && above - here < k) {
            s.bin = bin;
            s.rest = k - (above - here);
        }
    }
    __syncthreads();
}

/* Adds one to each key's bin; NO_BIN: none. Keys of one bin in a warp, which scores have many of,
 * are one addition. All threads of the block call it together. */
enum { NO_BIN = 256 };

static __device__ __forceinline__ void count_key(uint32_t *bins, uint32_t bin)
{
    const uint32_t same = __match_any_sync(0xffffffffu, bin);
    if (bin != NO_BIN && (same & ((1u << threadIdx.x % 32) - 1u)) == 0)
        atomicAdd(&bins[bin], (uint32_t)__popc(same));
}

template <typename KEYS>
static __device__ cut find_cut(const KEYS &key, uint32_t n, uint32_t k, shared_state &s)
{
    for (uint32_t i = threadIdx.x; i < 256; i += THREADS)
        s.bins[i] = 0;
    __syncthreads();
    for (uint32_t first = 0; first < n; first += THREADS) {
        const uint32_t x = first + threadIdx.x < n ? key(first + threadIdx.x) : (uint32_t)NO_KEY;
        count_key(s.bins, x == NO_KEY ? (uint32_t)NO_BIN : x >> 8);
    }
    __syncthreads();
    find_bin(s, k);
    const uint32_t high = s.bin;
    if (high == 256) /* fewer than k in all: everything is in */
        return cut{0, UINT32_MAX};
    const uint32_t rest = s.rest;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < 256; i += THREADS)
        s.bins[i] = 0;
    __syncthreads();
    for (uint32_t first = 0; first < n; first += THREADS) {
        const uint32_t x = first + threadIdx.x < n ? key(first + threadIdx.x) : (uint32_t)NO_KEY;
        count_key(s.bins, x >> 8 == high ? x & 255u : (uint32_t)NO_BIN);
    }
    __syncthreads();
    find_bin(s, rest);
    return cut{high << 8 | s.bin, s.rest};
}

/* The sum of the values of the threads before this one; *total: of all. */
static __device__ uint32_t sum_before(uint32_t value, shared_state &s, uint32_t *total)
{
    uint32_t sum = value;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffu, sum, step);
        sum += threadIdx.x % 32 >= step ? other : 0;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 31)
        s.sums[threadIdx.x / 32] = sum;
    __syncthreads();
    uint32_t before = 0, all = 0;
    for (uint32_t w = 0; w < WARPS; w++) {
        before += w < threadIdx.x / 32 ? s.sums[w] : 0;
        all += s.sums[w];
    }
    *total = all;
    return before + sum - value;
}

/* Calls put(i, is_in, place among those that are in) for every i; returns how many are in. A thread
 * has neighbouring keys and counts them first, so that it knows its places. */
template <typename KEYS, typename PUT>
static __device__ uint32_t select_keys(const KEYS &key, uint32_t n, cut c, shared_state &s,
                                       const PUT &put)
{
    const uint32_t part = (n + THREADS - 1) / THREADS;
    const uint32_t first = min(threadIdx.x * part, n), last = min(first + part, n);
    uint32_t n_above = 0, n_equal = 0, total;
    for (uint32_t i = first; i < last; i++) {
        const uint32_t x = key(i);
        n_above += x != NO_KEY && x > c.threshold;
        n_equal += x == c.threshold;
    }
    const uint32_t equal_before = sum_before(n_equal, s, &total);
    uint32_t equal_left = c.n_equal > equal_before ? min(c.n_equal - equal_before, n_equal) : 0;
    uint32_t place = sum_before(n_above + equal_left, s, &total);
    for (uint32_t i = first; i < last; i++) {
        const uint32_t x = key(i);
        const bool is_equal = x == c.threshold && equal_left > 0;
        const bool is_in = is_equal || (x != NO_KEY && x > c.threshold);
        put(i, is_in, place);
        equal_left -= is_equal;
        place += is_in;
    }
    return total;
}

/* ------------------------------------------------------------------------- the kernels */

/* A block a row. */
static __global__ void __launch_bounds__(THREADS) topk(const di_topk_args a)
{
    __shared__ shared_state s;
    const int64_t row = blockIdx.x;
    const uint32_t n = (uint32_t)a.n_visible[row];
    const entry_keys key = {a.scores + row * a.score_stride,
                            a.candidates ? a.candidates + row * a.candidate_stride : NULL,
                            (uint32_t)a.block_size};
    const cut c = find_cut(key, n, (uint32_t)a.k, s);
    int32_t *out = a.indices + row * a.k;
    const uint32_t n_in = select_keys(key, n, c, s, [out](uint32_t i, bool is_in, uint32_t place) {
        if (is_in)
            out[place] = (int32_t)i;
    });
    if (threadIdx.x == 0)
        a.counts[row] = (int32_t)n_in;
}

di_status di_topk_cuda(const void *args, int64_t n_items, di_stream stream)
{
    if (n_items == 0)
        return DI_OK;
    topk<<<(unsigned)n_items, THREADS, 0, stream>>>(*(const di_topk_args *)args);
    return di_cuda_launched("topk");
}

static __global__ void __launch_bounds__(THREADS) candidate_blocks(const di_candidate_blocks_args a)
{
    __shared__ shared_state s;
    const int64_t row = blockIdx.x;
    const uint32_t n_visible = (uint32_t)a.n_visible[row], size = (uint32_t)a.block_size;
    const uint32_t n = (n_visible + size - 1) / size;
    const block_keys key = {a.scores + row * a.score_stride, n_visible, size};
    const cut c = find_cut(key, n, (uint32_t)a.k, s);
    uint8_t *out = a.candidates + row * a.candidate_stride;
    select_keys(key, n, c, s, [out](uint32_t i, bool is_in, uint32_t) { out[i] = is_in ? 1 : 0; });
}

di_status di_candidate_blocks_cuda(const void *args, int64_t n_items, di_stream stream)
{
    if (n_items == 0)
        return DI_OK;
    candidate_blocks<<<(unsigned)n_items, THREADS, 0, stream>>>(
        *(const di_candidate_blocks_args *)args);
    return di_cuda_launched("candidate_blocks");
}
