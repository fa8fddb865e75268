#include <float.h>

#include "kernels/cuda.cuh"

extern "C" {
#include "kernels/vocab/vocab.h"
}

enum { WARPS = 4 };

/* A warp a block of the vocabulary. */
static __global__ void row_peaks(const di_row_peaks_args a, int64_t n_blocks)
{
    const int64_t b = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (b >= n_blocks)
        return;
    float peak = -INFINITY;
    bool is_bad = false;
    for (int64_t i = b * DI_VOCAB_BLOCK + threadIdx.x % 32; i < (b + 1) * DI_VOCAB_BLOCK && i < a.n;
         i += 32) {
        const float x = a.row[i];
        is_bad |= !(x <= FLT_MAX);
        peak = x > peak ? x : peak;
    }
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, peak, step);
        peak = other > peak ? other : peak;
    }
    is_bad = __any_sync(0xffffffffu, is_bad);
    if (threadIdx.x % 32 == 0)
        a.peaks[b] = is_bad ? __uint_as_float(0x7fc00000u) : peak + 0.0f;
}

di_status di_row_peaks_cuda(const void *args, int64_t n_items, di_stream stream)
{
    if (n_items == 0)
        return DI_OK;
    row_peaks<<<(unsigned)di_cu_blocks(n_items, WARPS), WARPS * 32, 0, stream>>>(
        *(const di_row_peaks_args *)args, n_items);
    return di_cuda_launched("row_peaks");
}

/* A warp a block; sums of integers, in any order. */
static __global__ void exp_weights(const di_exp_weights_args a, int64_t n_blocks)
{
    const int64_t b = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (b >= n_blocks)
        return;
    unsigned long long sum = 0;
    for (int64_t i = b * DI_VOCAB_BLOCK + threadIdx.x % 32; i < (b + 1) * DI_VOCAB_BLOCK && i < a.n;
         i += 32)
        sum += di_exp_weight(a.row[i] - a.max);
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0)
        a.sums[b] = sum;
}

di_status di_exp_weights_cuda(const void *args, int64_t n_items, di_stream stream)
{
    if (n_items == 0)
        return DI_OK;
    exp_weights<<<(unsigned)di_cu_blocks(n_items, WARPS), WARPS * 32, 0, stream>>>(
        *(const di_exp_weights_args *)args, n_items);
    return di_cuda_launched("exp_weights");
}

/* A thread a Philox block. */
static __global__ void philox_bits(const di_philox_bits_args a, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    di_philox_counter counter = a.counter;
    uint32_t words[4];
    counter.word[1] = a.word_1[i];
    di_philox_block(counter, a.key, words);
#pragma unroll
    for (int w = 0; w < 4; w++)
        a.bits[w * a.n + i] = words[w];
}

di_status di_philox_bits_cuda(const void *args, int64_t n_items, di_stream stream)
{
    if (n_items == 0)
        return DI_OK;
    philox_bits<<<(unsigned)di_cu_blocks(n_items, 128), 128, 0, stream>>>(
        *(const di_philox_bits_args *)args, n_items);
    return di_cuda_launched("philox_bits");
}
