/* The exact linears on CUDA cores: sums in the lanes16 order, for every number of rows (gemm.h).
 *
 * Four threads compute a column: thread t has lanes 4 t .. 4 t + 3, which are chains over the whole
 * of k, so that k is never split. Weights, scales and inputs come through shared memory by
 * asynchronous copies of DI_CU_DEPTH elements, DI_CU_STAGES deep. Products are exact, hence fmaf.
 */
#ifndef DI_KERNELS_GEMM_CUDA_CUH
#define DI_KERNELS_GEMM_CUDA_CUH

#include "kernels/cuda.cuh"

#include <cuda_fp16.h>

enum { DI_CU_DEPTH = 256, DI_CU_STAGES = 4, DI_CU_ROWS = 8, DI_CU_SCALES = DI_CU_DEPTH / 32 };

/* Rows of inputs times columns of weights: what a block computes. */
struct di_cu_gemm {
    const di_bf16 *x;
    int64_t x_stride;
    const int32_t *rows;   /* of the rows' places in x, or NULL: row i is at i */
    int n_rows, n_columns; /* at most DI_CU_ROWS; of the block */
    const uint8_t *w;      /* of the first column */
    const uint8_t *scales; /* of the whole matrix */
    int64_t column;        /* the first column's number in the matrix, for its scales */
    int64_t k;
    bool is_aligned; /* rows of w and x start at multiples of 16 bytes, those of scales of 4 */
    void *y;         /* of the first row and column */
    int64_t y_stride;
    bool is_f32_out;
};

/* ------------------------------------------------------------------------- formats */

#if __CUDA_ARCH__ >= 890
static __device__ __forceinline__ float2 di_cu_e4m3_pair(uint32_t codes)
{
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((uint16_t)codes));
    return __half22float2(*(const __half2 *)&halves);
}
#else
static __device__ __forceinline__ float2 di_cu_e4m3_pair(uint32_t codes)
{
    return make_float2(di_cu_e4m3(codes & 0xffu), di_cu_e4m3(codes >> 8 & 0xffu));
}
#endif

/* Formats: how 4 neighbouring weights of a column are read and decoded. A row of a stage is PAD
 * bytes longer than its data, for the columns of a warp to be in different banks. */
struct di_cu_f8 {
    enum { BITS = 8, PAD = 16, HAS_SCALES = 1, SCALE_ROWS = 32 };
    static __device__ __forceinline__ void decode(const uint8_t *at, float scale, float *w)
    {
        const uint32_t codes = *(const uint32_t *)(const void *)at;
        const float2 low = di_cu_e4m3_pair(codes & 0xffffu), high = di_cu_e4m3_pair(codes >> 16);
        w[0] = low.x * scale, w[1] = low.y * scale;
        w[2] = high.x * scale, w[3] = high.y * scale;
    }
};

struct di_cu_f4 {
    enum { BITS = 4, PAD = 16, HAS_SCALES = 1, SCALE_ROWS = 1 };
    /* An e2m1 code's exponent and digit, in fp16's place, are its value times 2^-14. */
    static __device__ __forceinline__ float value(uint32_t code, float scale)
    {
        const uint32_t half = (code & 7u) << 9 | (code & 8u) << 12;
        return __half2float(__ushort_as_half((unsigned short)half)) * 0x1p14f * scale;
    }
    static __device__ __forceinline__ void decode(const uint8_t *at, float scale, float *w)
    {
        const uint32_t codes = *(const uint16_t *)(const void *)at;
#pragma unroll
        for (int i = 0; i < 4; i++)
            w[i] = value(codes >> (4 * i) & 15u, scale);
    }
};

struct di_cu_bf16 {
    enum { BITS = 16, PAD = 32, HAS_SCALES = 0, SCALE_ROWS = 1 };
    static __device__ __forceinline__ void decode(const uint8_t *at, float, float *w)
    {
        const uint2 v = *(const uint2 *)(const void *)at;
        w[0] = di_cu_low(v.x), w[1] = di_cu_high(v.x);
        w[2] = di_cu_low(v.y), w[3] = di_cu_high(v.y);
    }
};

/* ------------------------------------------------------------------------- stages */

template <typename F> struct di_cu_layout {
    enum {
        W_BYTES = DI_CU_DEPTH * F::BITS / 8, /* of a column in a stage */
        W_PITCH = W_BYTES + F::PAD,
        X_PITCH = DI_CU_DEPTH * 2 + 16
    };
    /* Bytes of a stage: columns of weights, columns of scales, rows of inputs. */
    static __host__ __device__ __forceinline__ int scales_at(int columns)
    {
        return columns * W_PITCH;
    }
    static __host__ __device__ __forceinline__ int x_at(int columns)
    {
        return scales_at(columns) + columns * DI_CU_SCALES;
    }
    static __host__ __device__ __forceinline__ int bytes(int columns)
    {
        return x_at(columns) + DI_CU_ROWS * X_PITCH;
    }
};

/* 16 or 4 bytes, or zeros. */
static __device__ __forceinline__ void di_cu_copy16_or_0(void *shared, const void *global, bool has)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(at), "l"(global),
                 "r"(has ? 16 : 0));
}

static __device__ __forceinline__ void di_cu_copy4_or_0(void *shared, const void *global, bool has)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(at), "l"(global),
                 "r"(has ? 4 : 0));
}

static __device__ __forceinline__ const di_bf16 *di_cu_row(const di_cu_gemm &g, int row)
{
    return g.x + (g.rows ? g.rows[row] : row) * g.x_stride;
}

template <typename F>
static __device__ __forceinline__ const uint8_t *di_cu_scale_row(const di_cu_gemm &g, int column)
{
    return g.scales + (g.column + column) / F::SCALE_ROWS * ((g.k + 31) / 32);
}

/* Starts the copies of elements k0 .. k0 + DI_CU_DEPTH - 1; beyond the ends are zeros. */
template <typename F>
static __device__ void di_cu_start(const di_cu_gemm &g, int64_t k0, int columns, int n_rows,
                                   uint8_t *stage)
{
    typedef di_cu_layout<F> L;
    enum { PIECES = L::W_BYTES / 16, X_PIECES = DI_CU_DEPTH * 2 / 16 };
    const int64_t row_bytes = g.k * F::BITS / 8, at = k0 * F::BITS / 8;
    for (int i = (int)threadIdx.x; i < columns * PIECES; i += (int)blockDim.x) {
        const int c = i / PIECES, piece = i % PIECES * 16;
        const bool has = c < g.n_columns && at + piece < row_bytes;
        di_cu_copy16_or_0(stage + c * L::W_PITCH + piece,
                          has ? g.w + c * row_bytes + at + piece : g.w, has);
    }
    for (int i = (int)threadIdx.x; F::HAS_SCALES && i < columns * (DI_CU_SCALES / 4);
         i += (int)blockDim.x) {
        const int c = i / (DI_CU_SCALES / 4), piece = i % (DI_CU_SCALES / 4) * 4;
        const bool has = c < g.n_columns && k0 / 32 + piece < (g.k + 31) / 32;
        di_cu_copy4_or_0(stage + L::scales_at(columns) + c * DI_CU_SCALES + piece,
                         has ? di_cu_scale_row<F>(g, c) + k0 / 32 + piece : g.scales, has);
    }
    for (int i = (int)threadIdx.x; i < n_rows * X_PIECES; i += (int)blockDim.x) {
        const int r = i / X_PIECES, piece = i % X_PIECES * 8;
        const bool has = r < g.n_rows && k0 + piece < g.k;
        di_cu_copy16_or_0(stage + L::x_at(columns) + r * L::X_PITCH + piece * 2,
                          has ? di_cu_row(g, r) + k0 + piece : g.x, has);
    }
}

/* The same for rows that lie anywhere, element by element. */
template <typename F>
static __device__ void di_cu_fill(const di_cu_gemm &g, int64_t k0, int columns, int n_rows,
                                  uint8_t *stage)
{
    typedef di_cu_layout<F> L;
    const int64_t row_bytes = (g.k * F::BITS + 7) / 8, at = k0 * F::BITS / 8;
    for (int i = (int)threadIdx.x; i < columns * L::W_BYTES; i += (int)blockDim.x) {
        const int c = i / L::W_BYTES, b = i % L::W_BYTES;
        const bool has = c < g.n_columns && at + b < row_bytes;
        stage[c * L::W_PITCH + b] = has ? g.w[c * row_bytes + at + b] : 0;
    }
    for (int i = (int)threadIdx.x; F::HAS_SCALES && i < columns * DI_CU_SCALES;
         i += (int)blockDim.x) {
        const int c = i / DI_CU_SCALES, s = i % DI_CU_SCALES;
        const bool has = c < g.n_columns && k0 / 32 + s < (g.k + 31) / 32;
        stage[L::scales_at(columns) + i] = has ? di_cu_scale_row<F>(g, c)[k0 / 32 + s] : 0;
    }
    for (int i = (int)threadIdx.x; i < n_rows * DI_CU_DEPTH; i += (int)blockDim.x) {
        const int r = i / DI_CU_DEPTH, j = i % DI_CU_DEPTH;
        const bool has = r < g.n_rows && k0 + j < g.k;
        *(di_bf16 *)(void *)(stage + L::x_at(columns) + r * L::X_PITCH + j * 2) =
            has ? di_cu_row(g, r)[k0 + j] : 0;
    }
}

/* ------------------------------------------------------------------------- sums */

template <typename F, int ROWS, int COLUMNS>
static __device__ __forceinline__ void di_cu_accumulate(const uint8_t *stage, int columns,
                                                        float (&lanes)[ROWS][COLUMNS][4])
{
    typedef di_cu_layout<F> L;
    const int t = (int)threadIdx.x & 3;
    const int first = (int)(threadIdx.x / 32) * 8 * COLUMNS + ((int)threadIdx.x & 31) / 4;
    const uint8_t *x = stage + L::x_at(columns) + t * 8;
#pragma unroll(ROWS == 1 ? 8 : 2)
    for (int group = 0; group < DI_CU_SCALES; group++) {
        float scale[COLUMNS];
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            scale[c] =
                F::HAS_SCALES
                    ? di_cu_e8m0(
                          stage[L::scales_at(columns) + (first + 8 * c) * DI_CU_SCALES + group])
                    : 1.0f;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int step = group * 2 + half;
            float w[COLUMNS][4];
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                F::decode(stage + (first + 8 * c) * L::W_PITCH + (step * 16 + t * 4) * F::BITS / 8,
                          scale[c], w[c]);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const uint2 v = *(const uint2 *)(const void *)(x + r * L::X_PITCH + step * 32);
                const float in[4] = {di_cu_low(v.x), di_cu_high(v.x), di_cu_low(v.y),
                                     di_cu_high(v.y)};
#pragma unroll
                for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        lanes[r][c][i] = fmaf(in[i], w[c][i], lanes[r][c][i]);
            }
        }
    }
}

/* di_lanes_total of a column's lanes in four neighbouring threads; thread 0 of them has it. */
static __device__ __forceinline__ float di_cu_quad_total(float (&lane)[4])
{
#pragma unroll
    for (int step = 2; step > 0; step /= 2) /* 8 and 4 lanes apart */
#pragma unroll
        for (int i = 0; i < 4; i++)
            lane[i] += __shfl_down_sync(0xffffffffu, lane[i], step, 4);
    lane[0] += lane[2];
    lane[1] += lane[3];
    return lane[0] + lane[1];
}

template <typename F, int ROWS, int COLUMNS>
static __device__ void di_cu_gemm_rows(const di_cu_gemm &g, uint8_t *stages)
{
    typedef di_cu_layout<F> L;
    const int columns = (int)blockDim.x / 4 * COLUMNS, bytes = L::bytes(columns);
    const int n_chunks = (int)((g.k + DI_CU_DEPTH - 1) / DI_CU_DEPTH);
    float lanes[ROWS][COLUMNS][4] = {};
    __syncthreads(); /* the stages are free */
    if (g.is_aligned) {
        for (int i = 0; i < DI_CU_STAGES - 1; i++) {
            if (i < n_chunks)
                di_cu_start<F>(g, (int64_t)i * DI_CU_DEPTH, columns, ROWS, stages + i * bytes);
            di_cu_copy_commit();
        }
        for (int i = 0; i < n_chunks; i++) {
            di_cu_copy_wait<DI_CU_STAGES - 2>();
            __syncthreads();
            const int next = i + DI_CU_STAGES - 1;
            if (next < n_chunks)
                di_cu_start<F>(g, (int64_t)next * DI_CU_DEPTH, columns, ROWS,
                               stages + next % DI_CU_STAGES * bytes);
            di_cu_copy_commit();
            di_cu_accumulate<F, ROWS, COLUMNS>(stages + i % DI_CU_STAGES * bytes, columns, lanes);
        }
    } else {
        for (int i = 0; i < n_chunks; i++) {
            __syncthreads();
            di_cu_fill<F>(g, (int64_t)i * DI_CU_DEPTH, columns, ROWS, stages);
            __syncthreads();
            di_cu_accumulate<F, ROWS, COLUMNS>(stages, columns, lanes);
        }
    }
    const int first = (int)(threadIdx.x / 32) * 8 * COLUMNS + ((int)threadIdx.x & 31) / 4;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            const float sum = di_cu_quad_total(lanes[r][c]);
            const int column = first + 8 * c;
            if ((threadIdx.x & 3) != 0 || r >= g.n_rows || column >= g.n_columns)
                continue;
            const int64_t at = r * g.y_stride + column;
            if (g.is_f32_out)
                ((float *)g.y)[at] = sum;
            else
                ((di_bf16 *)g.y)[at] = di_f32_to_bf16(sum);
        }
}

/* As few rows' registers as the block needs: the bits are the same. */
template <typename F, int COLUMNS>
static __device__ __forceinline__ void di_cu_gemm_block(const di_cu_gemm &g, uint8_t *stages)
{
    if (g.n_rows == 1)
        di_cu_gemm_rows<F, 1, COLUMNS>(g, stages);
    else if (g.n_rows <= 4)
        di_cu_gemm_rows<F, 4, COLUMNS>(g, stages);
    else
        di_cu_gemm_rows<F, DI_CU_ROWS, COLUMNS>(g, stages);
}

/* ------------------------------------------------------------------------- shapes of a launch */

/* Threads of a block and columns a thread: wide blocks where there are enough columns to fill the
 * device (`blocks_wanted` of them), narrow ones else. */
struct di_cu_shape {
    int threads, columns_a_thread, columns;
};

static inline di_cu_shape di_cu_gemm_shape(int64_t n_columns, int64_t blocks_wanted)
{
    if (n_columns >= 64 * blocks_wanted)
        return di_cu_shape{128, 2, 64};
    if (n_columns >= 32 * blocks_wanted)
        return di_cu_shape{64, 2, 32};
    if (n_columns >= 16 * blocks_wanted)
        return di_cu_shape{64, 1, 16};
    return di_cu_shape{32, 1, 8};
}

template <typename F> static inline int di_cu_gemm_shared(int columns)
{
    return DI_CU_STAGES * di_cu_layout<F>::bytes(columns);
}

#endif
