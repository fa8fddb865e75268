/* The linears on tensor cores, by mma.sync of bf16: weights are decoded to bf16, which e4m3 and
 * e2m1 values are exactly, without their scales.
 *
 * Order of a sum ("tensor32"): the products of a group of 32 elements are added by the tensor
 * cores, 16 and then 16, from zero; the group's sum times its power-of-two scale is added to the
 * groups' before in fp32 by one fused multiply-add. It does not depend on the number of rows, on
 * tiles or on what else is in the call, hence rows are batch-invariant; how a tensor core adds 16
 * products is the chip's.
 *
 * Weights are the first operand (16 columns), inputs the second (8 rows): few rows waste little.
 * Thread t of four has elements 8 t .. 8 t + 7 of a group, of weights and inputs alike, so that
 * both are read from shared memory in one piece: which element meets which place of the operation
 * does not matter. */
#ifndef DI_KERNELS_GEMM_MMA_CUH
#define DI_KERNELS_GEMM_MMA_CUH

#include "kernels/gemm/gemm_cuda.cuh"

/* Warps of a block; each has 16 columns times tiles of columns, and all rows of the block. */
enum { DI_MMA_WARPS = 4, DI_MMA_THREADS = 32 * DI_MMA_WARPS };

static __device__ __forceinline__ void di_mma_16816(float (&d)[4], const uint32_t (&a)[4],
                                                    uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* ------------------------------------------------------------------------- formats */

static __device__ __forceinline__ uint32_t di_mma_times(uint32_t pair, uint32_t factors)
{
    uint32_t out; /* -0 as the addend keeps every product */
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(pair), "r"(factors), "r"(0x80008000u));
    return out;
}

/* 8 neighbouring weights of a column to 4 pairs of bf16. A bit of *nan that NAN_BITS has is set
 * where one of them is NaN, which the pairs do not show. */
struct di_mma_f8 : di_cu_f8 {
    static const uint32_t NAN_BITS = 0x80808080u;
    static __device__ __forceinline__ void decode8(const uint8_t *at, uint32_t (&pairs)[4],
                                                   uint32_t *nan)
    {
        const uint2 v = *(const uint2 *)(const void *)at;
        const uint32_t words[2] = {v.x, v.y};
#pragma unroll
        for (int i = 0; i < 4;
             i++) { /* exponents and digits in bf16's place: values times 2^-120 */
            const uint32_t t = __byte_perm(words[i / 2], 0, i % 2 ? 0x3424 : 0x1404);
            pairs[i] = di_mma_times((t & 0x80008000u) | (t >> 4 & 0x07f007f0u), 0x7b807b80u);
        }
        *nan |= ((words[0] & 0x7f7f7f7fu) + 0x01010101u) | ((words[1] & 0x7f7f7f7fu) + 0x01010101u);
    }
};

struct di_mma_f4 : di_cu_f4 {
    static const uint32_t NAN_BITS = 0; /* there is none */
    /* Bytes of the bf16 values of 0 0.5 1 1.5 2 3 4 6, picked by the codes' three low bits. */
    static __device__ __forceinline__ void decode8(const uint8_t *at, uint32_t (&pairs)[4],
                                                   uint32_t *)
    {
        const uint32_t codes = *(const uint32_t *)(const void *)at;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t four = codes >> (16 * i), which = four & 0x7777u;
            const uint32_t high = __byte_perm(0x3f3f3f00u, 0x40404040u, which);
            const uint32_t low = __byte_perm(0xc0800000u, 0xc0804000u, which);
            const uint32_t signs_01 = (four << 12 & 0x8000u) | (four << 24 & 0x80000000u);
            const uint32_t signs_23 = (four << 4 & 0x8000u) | (four << 16 & 0x80000000u);
            pairs[2 * i] = __byte_perm(low, high, 0x5140) | signs_01;
            pairs[2 * i + 1] = __byte_perm(low, high, 0x7362) | signs_23;
        }
    }
};

struct di_mma_bf16 : di_cu_bf16 {
    static const uint32_t NAN_BITS = 0; /* the pairs show it */
    static __device__ __forceinline__ void decode8(const uint8_t *at, uint32_t (&pairs)[4],
                                                   uint32_t *)
    {
        const uint4 v = *(const uint4 *)(const void *)at;
        pairs[0] = v.x, pairs[1] = v.y, pairs[2] = v.z, pairs[3] = v.w;
    }
};

/* ------------------------------------------------------------------------- stages */

/* TILES: of 16 columns, of a warp. ROWS: tiles of 8 rows, of a block. Rows of a stage are padded so
 * that what the threads of a warp read at once is in different banks. */
template <typename F, int TILES, int ROWS> struct di_mma_layout {
    enum {
        DEPTH = ROWS <= 2 ? 256 : 64,
        STAGES = ROWS <= 2 ? 4 : 3,
        COLUMNS = 16 * TILES * DI_MMA_WARPS,
        N_ROWS = 8 * ROWS,
        SCALES = DEPTH / 32,
        W_BYTES = DEPTH * F::BITS / 8,
        W_PITCH =
            W_BYTES + F::BITS * 4, /* 16, 32 or 64 more than a multiple of 128, or so it acts */
        X_BYTES = DEPTH * 2,
        X_PITCH = X_BYTES + 64,
        SCALE_PITCH = 8,
        SCALES_AT = COLUMNS * W_PITCH,
        X_AT = SCALES_AT + COLUMNS * SCALE_PITCH,
        STAGE_BYTES = X_AT + N_ROWS * X_PITCH,
        BYTES = STAGES * STAGE_BYTES
    };
};

/* Starts the copies of elements k0 .. k0 + DEPTH - 1; beyond the ends are zeros. */
template <typename F, typename L>
static __device__ __forceinline__ void di_mma_start(const di_cu_gemm &g, int64_t k0, uint8_t *stage)
{
    const int64_t row_bytes = g.k * F::BITS / 8, at = k0 * F::BITS / 8;
    for (int i = (int)threadIdx.x; i < L::COLUMNS * (L::W_BYTES / 16); i += DI_MMA_THREADS) {
        const int c = i / (L::W_BYTES / 16), piece = i % (L::W_BYTES / 16) * 16;
        const bool has = c < g.n_columns && at + piece < row_bytes;
        di_cu_copy16_or_0(stage + c * L::W_PITCH + piece,
                          has ? g.w + c * row_bytes + at + piece : g.w, has);
    }
    for (int i = (int)threadIdx.x; i < L::N_ROWS * (L::X_BYTES / 16); i += DI_MMA_THREADS) {
        const int r = i / (L::X_BYTES / 16), piece = i % (L::X_BYTES / 16) * 8;
        const bool has = r < g.n_rows && k0 + piece < g.k;
        di_cu_copy16_or_0(stage + L::X_AT + r * L::X_PITCH + piece * 2,
                          has ? di_cu_row(g, r) + k0 + piece : g.x, has);
    }
    /* Whole words of 4 scales: of a shallow stage the word that its scales are in. */
    enum { WORDS = F::HAS_SCALES ? (L::SCALES + 3) / 4 : 0 };
    const int64_t n_scales = (g.k + 31) / 32, first_scale = k0 / 32 / 4 * 4;
    for (int i = (int)threadIdx.x; i < L::COLUMNS * (int)WORDS; i += DI_MMA_THREADS) {
        const int c = i / (WORDS ? WORDS : 1), piece = i % (WORDS ? WORDS : 1) * 4;
        const bool has = c < g.n_columns && first_scale + piece < n_scales;
        di_cu_copy4_or_0(stage + L::SCALES_AT + c * L::SCALE_PITCH + piece,
                         has ? di_cu_scale_row<F>(g, c) + first_scale + piece : g.scales, has);
    }
}

/* The same for rows that lie anywhere, element by element. */
template <typename F, typename L>
static __device__ __noinline__ void di_mma_fill(const di_cu_gemm &g, int64_t k0, uint8_t *stage)
{
    const int64_t row_bytes = (g.k * F::BITS + 7) / 8, at = k0 * F::BITS / 8;
    for (int i = (int)threadIdx.x; i < L::COLUMNS * L::W_BYTES; i += DI_MMA_THREADS) {
        const int c = i / L::W_BYTES, b = i % L::W_BYTES;
        const bool has = c < g.n_columns && at + b < row_bytes;
        stage[c * L::W_PITCH + b] = has ? g.w[c * row_bytes + at + b] : 0;
    }
    enum { N_SCALES = F::HAS_SCALES ? L::COLUMNS * L::SCALES : 0 };
    for (int i = (int)threadIdx.x; i < (int)N_SCALES; i += DI_MMA_THREADS) {
        const int c = i / L::SCALES, s = i % L::SCALES;
        const bool has = c < g.n_columns && k0 / 32 + s < (g.k + 31) / 32;
        stage[L::SCALES_AT + c * L::SCALE_PITCH + k0 / 32 % 4 + s] =
            has ? di_cu_scale_row<F>(g, c)[k0 / 32 + s] : 0;
    }
    for (int i = (int)threadIdx.x; i < L::N_ROWS * L::DEPTH; i += DI_MMA_THREADS) {
        const int r = i / L::DEPTH, j = i % L::DEPTH;
        const bool has = r < g.n_rows && k0 + j < g.k;
        *(di_bf16 *)(void *)(stage + L::X_AT + r * L::X_PITCH + j * 2) =
            has ? di_cu_row(g, r)[k0 + j] : 0;
    }
}

/* ------------------------------------------------------------------------- sums */

template <typename F, int TILES, int ROWS>
static __device__ __forceinline__ void di_mma_accumulate(const uint8_t *stage, int first_scale,
                                                         float (&sums)[TILES][ROWS][4],
                                                         uint32_t (&nan)[TILES][2])
{
    typedef di_mma_layout<F, TILES, ROWS> L;
    const int lane = (int)threadIdx.x & 31, g = lane / 4, t = lane & 3;
    const int first = (int)(threadIdx.x / 32) * 16 * TILES + g;
#pragma unroll(ROWS <= 2 ? 8 : 1)
    for (int group = 0; group < L::SCALES; group++) {
        uint32_t w[TILES][2][4]; /* of column g and of column g + 8 */
        float scale[TILES][2];
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int c = first + 16 * tile + 8 * half;
                F::decode8(stage + c * L::W_PITCH + (group * 32 + t * 8) * F::BITS / 8,
                           w[tile][half], &nan[tile][half]);
                scale[tile][half] =
                    F::HAS_SCALES
                        ? di_cu_e8m0(stage[L::SCALES_AT + c * L::SCALE_PITCH + first_scale + group])
                        : 1.0f;
            }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const uint4 x =
                *(const uint4 *)(const void *)(stage + L::X_AT + (8 * r + g) * L::X_PITCH +
                                               group * 64 + t * 16);
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                const uint32_t a0[4] = {w[tile][0][0], w[tile][1][0], w[tile][0][1], w[tile][1][1]};
                const uint32_t a1[4] = {w[tile][0][2], w[tile][1][2], w[tile][0][3], w[tile][1][3]};
                float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
                di_mma_16816(d, a0, x.x, x.y);
                di_mma_16816(d, a1, x.z, x.w);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sums[tile][r][i] = fmaf(d[i], scale[tile][i / 2], sums[tile][r][i]);
            }
        }
    }
}

template <typename F, int TILES, int ROWS>
static __device__ __forceinline__ void di_mma_gemm_rows(const di_cu_gemm &g, uint8_t *stages)
{
    typedef di_mma_layout<F, TILES, ROWS> L;
    const int n_chunks = (int)((g.k + L::DEPTH - 1) / L::DEPTH);
    float sums[TILES][ROWS][4] = {};
    uint32_t nan[TILES][2] = {}; /* of the two columns of a tile, this thread's elements */
    __syncthreads();             /* the stages are free */
    if (g.is_aligned) {
        for (int i = 0; i < L::STAGES - 1; i++) {
            if (i < n_chunks)
                di_mma_start<F, L>(g, (int64_t)i * L::DEPTH, stages + i * L::STAGE_BYTES);
            di_cu_copy_commit();
        }
        for (int i = 0; i < n_chunks; i++) {
            di_cu_copy_wait<L::STAGES - 2>();
            __syncthreads();
            const int next = i + L::STAGES - 1;
            if (next < n_chunks)
                di_mma_start<F, L>(g, (int64_t)next * L::DEPTH,
                                   stages + next % L::STAGES * L::STAGE_BYTES);
            di_cu_copy_commit();
            di_mma_accumulate<F, TILES, ROWS>(stages + i % L::STAGES * L::STAGE_BYTES,
                                              i * L::SCALES % 4, sums, nan);
        }
    } else {
        for (int i = 0; i < n_chunks; i++) {
            __syncthreads();
            di_mma_fill<F, L>(g, (int64_t)i * L::DEPTH, stages);
            __syncthreads();
            di_mma_accumulate<F, TILES, ROWS>(stages, i * L::SCALES % 4, sums, nan);
        }
    }
    const int lane = (int)threadIdx.x & 31;
    const int first = (int)(threadIdx.x / 32) * 16 * TILES + lane / 4;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int half = 0; half < 2 && F::NAN_BITS;
             half++) { /* a NaN weight makes its column NaN */
            uint32_t bits = nan[tile][half];
            bits |= __shfl_xor_sync(0xffffffffu, bits, 1);
            bits |= __shfl_xor_sync(0xffffffffu, bits, 2);
#pragma unroll
            for (int r = 0; r < ROWS && (bits & F::NAN_BITS); r++)
                sums[tile][r][2 * half] = sums[tile][r][2 * half + 1] =
                    __uint_as_float(0x7fffffffu);
        }
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int column = first + 16 * tile + i / 2 * 8;
                const int row = 8 * r + (lane & 3) * 2 + i % 2;
                if (row >= g.n_rows || column >= g.n_columns)
                    continue;
                const int64_t at = row * g.y_stride + column;
                if (g.is_f32_out)
                    ((float *)g.y)[at] = sums[tile][r][i];
                else
                    ((di_bf16 *)g.y)[at] = di_f32_to_bf16(sums[tile][r][i]);
            }
}

#endif
