/* What CUDA kernels share. Device code is compiled without contraction and without fast-math: a
 * product and a sum are two roundings unless fmaf is written, as in the C references. */
#ifndef DI_KERNELS_CUDA_CUH
#define DI_KERNELS_CUDA_CUH

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cuda_runtime.h>

extern "C" {
#include "base/fp_codes.h"
#include "base/mathf.h"
#include "base/sum.h"
#include "device/cuda/error_cuda.h"
#include "kernels/all_cuda.h"
#include "kernels/paged.h"
}

/* ------------------------------------------------------------------------- formats */

/* e4m3 code to its value; 0x7f and 0xff are NaN. The exponent moves into fp32's place, subnormals
 * included, and the product moves it up by 120. */
static __device__ __forceinline__ float di_cu_e4m3(uint32_t code)
{
    const float x = __uint_as_float((code & 0x80u) << 24 | (code & 0x7fu) << 20) * 0x1p120f;
    return (code & 0x7fu) == 0x7fu ? __uint_as_float(0x7fffffffu) : x;
}

/* e2m1 code (its low 4 bits) to its value; -0 is 0. */
static __device__ __forceinline__ float di_cu_e2m1(uint32_t code)
{
    const float x = __uint_as_float((code & 7u) << 22) * 0x1p126f;
    return code & 8u ? 0.0f - x : x;
}

/* di_e8m0_to_f32 free of branches: code 0 is 2^-127, 255 NaN. */
static __device__ __forceinline__ float di_cu_e8m0(uint32_t code)
{
    const uint32_t is_special = code == 0 || code == 0xffu;
    return __uint_as_float(code << 23 | is_special << 22);
}

static __device__ __forceinline__ float di_cu_low(uint32_t pair) /* of two bf16 */
{
    return __uint_as_float(pair << 16);
}

static __device__ __forceinline__ float di_cu_high(uint32_t pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

static __device__ __forceinline__ uint32_t di_cu_pair(float low, float high)
{
    return (uint32_t)di_f32_to_bf16(low) | (uint32_t)di_f32_to_bf16(high) << 16;
}

/* ------------------------------------------------------------------------- memory */

/* 8 bf16 values, or fewer at the end of a row that is not a multiple of 8 long. */
template <int N> struct alignas(N * 2) di_cu_vector {
    di_bf16 x[N];
};

/* All of them are multiples of `bytes`. */
static inline bool di_cu_aligned(int bytes, const void *a, const void *b = NULL,
                                 const void *c = NULL)
{
    return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) & (uintptr_t)(bytes - 1)) == 0;
}

template <int N> static __device__ __forceinline__ void di_cu_load(const di_bf16 *from, float *to)
{
    if (N == 8) {
        const uint4 v = *(const uint4 *)(const void *)from;
        const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            to[(2 * i) % N] = di_cu_low(w[i]);
            to[(2 * i + 1) % N] = di_cu_high(w[i]);
        }
    } else {
        to[0] = di_bf16_to_f32(from[0]);
    }
}

template <int N> static __device__ __forceinline__ void di_cu_store(const float *from, di_bf16 *to)
{
    if (N == 8) {
        uint4 v;
        v.x = di_cu_pair(from[0], from[1 % N]);
        v.y = di_cu_pair(from[2 % N], from[3 % N]);
        v.z = di_cu_pair(from[4 % N], from[5 % N]);
        v.w = di_cu_pair(from[6 % N], from[7 % N]);
        *(uint4 *)(void *)to = v;
    } else {
        to[0] = di_f32_to_bf16(from[0]);
    }
}

static __device__ __forceinline__ void di_cu_copy16(void *shared, const void *global)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(at), "l"(global));
}

static __device__ __forceinline__ void di_cu_copy_commit(void)
{
    asm volatile("cp.async.commit_group;\n");
}

/* All but the N newest groups have arrived. */
template <int N> static __device__ __forceinline__ void di_cu_copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

/* ------------------------------------------------------------------------- sums */

/* di_lanes_total over 16 neighbouring threads: `value` is lane (thread & 15); thread 0 of the 16
 * has the total. Both halves of the warp must call it. */
static __device__ __forceinline__ float di_cu_lanes_total(float value)
{
#pragma unroll
    for (int step = DI_LANES / 2; step > 0; step /= 2)
        value += __shfl_down_sync(0xffffffffu, value, step, DI_LANES);
    return value;
}

/* ------------------------------------------------------------------------- launches */

static inline int64_t di_cu_blocks(int64_t n, int64_t a_block)
{
    return (n + a_block - 1) / a_block;
}

/* The grid of `blocks` blocks, capped: kernels step through what is left by gridDim.x. */
static inline unsigned di_cu_grid(int64_t blocks)
{
    const int64_t most = 1 << 20;
    return (unsigned)(blocks < 1 ? 1 : blocks > most ? most : blocks);
}

#endif
