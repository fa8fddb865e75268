#include "kernels/cuda.cuh"

#include "kernels/quantize/quantize.h"

enum { THREADS = 256 };

/* ------------------------------------------------------------------------- scales and codes */

/* A thread has 8 values of one group of 32, or of 16; its neighbours have the rest. Magnitudes as
 * bf16 bits: NaN sorts above infinity, hence one NaN makes the group's NaN. */
template <int N_THREADS>
static __device__ __forceinline__ float largest_magnitude(const uint32_t *pairs, float least)
{
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        largest = max(largest, pairs[i] & 0x7fffu);
        largest = max(largest, pairs[i] >> 16 & 0x7fffu);
    }
#pragma unroll
    for (int step = N_THREADS / 2; step > 0; step /= 2)
        largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    const float x = __uint_as_float(largest << 16);
    return x < least ? least : x;
}

static __device__ __forceinline__ uint32_t e8m0_scale(float y)
{
    return y != y ? 0xffu : di_pow2ceil_e8m0(y);
}

static __device__ __forceinline__ float clamp_magnitude(float x, float limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}

/* A NaN keeps its sign, that of a broken scale is positive. */
static __device__ __forceinline__ uint32_t q8_code(float x, float scale)
{
    const float v = x / scale;
    if (v != v)
        return x != x ? 0x7fu | (__float_as_uint(x) >> 24 & 0x80u) : 0x7fu;
    return di_e4m3_of_f32(clamp_magnitude(v, 448.0f));
}

static __device__ __forceinline__ uint32_t q4_code(float x, float scale)
{
    return di_e2m1_of_f32(clamp_magnitude(x / scale, 6.0f));
}

struct q8 {
    enum { THREADS_A_GROUP = 4, BITS = 8 };
    static __device__ __forceinline__ uint32_t scale(const uint32_t *pairs)
    {
        return e8m0_scale(largest_magnitude<4>(pairs, 1e-4f) * (1.0f / 448.0f));
    }
    static __device__ __forceinline__ float value(uint32_t scale)
    {
        return di_e8m0_to_f32((uint8_t)scale);
    }
    static __device__ __forceinline__ uint32_t code(float x, float scale)
    {
        return q8_code(x, scale);
    }
    static __device__ __forceinline__ float decode(uint32_t code)
    {
        return di_cu_e4m3(code);
    }
};

struct q4i {
    enum { THREADS_A_GROUP = 4, BITS = 4 };
    static __device__ __forceinline__ uint32_t scale(const uint32_t *pairs)
    {
        return e8m0_scale(largest_magnitude<4>(pairs, 6.0f * 0x1p-126f) * (1.0f / 6.0f));
    }
    static __device__ __forceinline__ float value(uint32_t scale)
    {
        return di_e8m0_to_f32((uint8_t)scale);
    }
    static __device__ __forceinline__ uint32_t code(float x, float scale)
    {
        return q4_code(x, scale);
    }
    static __device__ __forceinline__ float decode(uint32_t code)
    {
        return di_cu_e2m1(code);
    }
};

struct q4kv {
    enum { THREADS_A_GROUP = 2, BITS = 4 };
    static __device__ __forceinline__ uint32_t scale(const uint32_t *pairs)
    {
        const float largest = largest_magnitude<2>(pairs, 6.0f * 0x1p-9f);
        return isinf(largest) ? 0x7fu : di_e4m3_of_f32(largest / 6.0f);
    }
    static __device__ __forceinline__ float value(uint32_t scale)
    {
        return di_cu_e4m3(scale);
    }
    static __device__ __forceinline__ uint32_t code(float x, float scale)
    {
        return q4_code(x, scale);
    }
};

/* ------------------------------------------------------------------------- loops */

template <bool IS_WIDE>
static __device__ __forceinline__ void load8(const di_bf16 *x, uint32_t *pairs)
{
    if (IS_WIDE) {
        const uint4 v = *(const uint4 *)(const void *)x;
        pairs[0] = v.x, pairs[1] = v.y, pairs[2] = v.z, pairs[3] = v.w;
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            pairs[i] = (uint32_t)x[2 * i] | (uint32_t)x[2 * i + 1] << 16;
    }
}

/* A thread 8 values; whole warps take part in the groups' maxima, hence the last one too. */
template <typename FORMAT, bool IS_WIDE>
static __global__ void __launch_bounds__(THREADS) quantize(const di_quantize_args a, int64_t n)
{
    const int64_t width = a.dim / 8, step = (int64_t)gridDim.x * THREADS;
    const int64_t all = (n + 31) / 32 * 32;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < all; i += step) {
        const int64_t row = i / width, at = i % width * 8;
        uint32_t pairs[4] = {0};
        if (i < n)
            load8<IS_WIDE>(a.x + row * a.x_stride + at, pairs);
        const float scale = FORMAT::value(FORMAT::scale(pairs));
        if (i >= n)
            continue;
        di_bf16 *y = a.y + row * a.y_stride + at;
        uint32_t out[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float low = FORMAT::decode(FORMAT::code(di_cu_low(pairs[j]), scale)) * scale;
            const float high = FORMAT::decode(FORMAT::code(di_cu_high(pairs[j]), scale)) * scale;
            out[j] = di_cu_pair(low, high);
        }
        if (IS_WIDE) {
            uint4 v;
            v.x = out[0], v.y = out[1], v.z = out[2], v.w = out[3];
            *(uint4 *)(void *)y = v;
        } else {
#pragma unroll
            for (int j = 0; j < 8; j++)
                y[j] = (di_bf16)(out[j / 2] >> (j % 2 * 16));
        }
    }
}

template <typename FORMAT, bool IS_WIDE>
static __global__ void __launch_bounds__(THREADS) pack(const di_pack_args a, int64_t n)
{
    const int64_t width = a.dim / 8, step = (int64_t)gridDim.x * THREADS;
    const int64_t all = (n + 31) / 32 * 32;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < all; i += step) {
        const int64_t row = i / width, at = i % width * 8;
        uint32_t pairs[4] = {0};
        if (i < n)
            load8<IS_WIDE>(a.x + row * a.x_stride + at, pairs);
        const uint32_t scale_code = FORMAT::scale(pairs);
        const float scale = FORMAT::value(scale_code);
        const int64_t slot = i < n ? a.slots[row] : -1;
        if (slot < 0)
            continue;
        uint8_t *block = a.out.data + slot / a.out.block_len * a.out.block_bytes;
        const int64_t place = slot % a.out.block_len;
        uint8_t *codes = block + place * a.out.code_bytes + at * FORMAT::BITS / 8;
        if (threadIdx.x % FORMAT::THREADS_A_GROUP == 0)
            block[a.out.scales_offset + place * a.out.scale_bytes +
                  at / (8 * FORMAT::THREADS_A_GROUP)] = (uint8_t)scale_code;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint32_t low = FORMAT::code(di_cu_low(pairs[j]), scale);
            const uint32_t high = FORMAT::code(di_cu_high(pairs[j]), scale);
            if (FORMAT::BITS == 8) {
                codes[2 * j] = (uint8_t)low;
                codes[2 * j + 1] = (uint8_t)high;
            } else {
                codes[j] = (uint8_t)(low | high << 4);
            }
        }
    }
}

template <typename FORMAT>
static di_status launch_quantize(const void *args, int64_t n_items, di_stream stream,
                                 const char *what)
{
    const di_quantize_args *a = (const di_quantize_args *)args;
    const int64_t n = n_items * (a->dim / 8);
    if (n == 0)
        return DI_OK;
    const unsigned grid = di_cu_grid(di_cu_blocks(n, THREADS));
    if ((a->x_stride | a->y_stride) % 8 == 0 && di_cu_aligned(16, a->x, a->y))
        quantize<FORMAT, true><<<grid, THREADS, 0, stream>>>(*a, n);
    else
        quantize<FORMAT, false><<<grid, THREADS, 0, stream>>>(*a, n);
    return di_cuda_launched(what);
}

template <typename FORMAT>
static di_status launch_pack(const void *args, int64_t n_items, di_stream stream, const char *what)
{
    const di_pack_args *a = (const di_pack_args *)args;
    const int64_t n = n_items * (a->dim / 8);
    if (n == 0)
        return DI_OK;
    const unsigned grid = di_cu_grid(di_cu_blocks(n, THREADS));
    if (a->x_stride % 8 == 0 && di_cu_aligned(16, a->x))
        pack<FORMAT, true><<<grid, THREADS, 0, stream>>>(*a, n);
    else
        pack<FORMAT, false><<<grid, THREADS, 0, stream>>>(*a, n);
    return di_cuda_launched(what);
}

di_status di_quantize_q8_cuda(const void *args, int64_t n_items, di_stream stream)
{
    return launch_quantize<q8>(args, n_items, stream, "quantize_q8");
}

di_status di_quantize_q4i_cuda(const void *args, int64_t n_items, di_stream stream)
{
    return launch_quantize<q4i>(args, n_items, stream, "quantize_q4i");
}

di_status di_pack_q8_cuda(const void *args, int64_t n_items, di_stream stream)
{
    return launch_pack<q8>(args, n_items, stream, "pack_q8");
}

di_status di_pack_q4i_cuda(const void *args, int64_t n_items, di_stream stream)
{
    return launch_pack<q4i>(args, n_items, stream, "pack_q4i");
}

di_status di_pack_q4kv_cuda(const void *args, int64_t n_items, di_stream stream)
{
    return launch_pack<q4kv>(args, n_items, stream, "pack_q4kv");
}
