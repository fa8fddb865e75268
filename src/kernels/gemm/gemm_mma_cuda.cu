#include "kernels/gemm/gemm_mma.cuh"

#include "kernels/gemm/gemm.h"

/* A block COLUMNS columns of 8 ROWS rows, the blocks of the same columns one after the other. */
template <typename F, int TILES, int ROWS>
static __global__ void __launch_bounds__(DI_MMA_THREADS, 2)
    gemm_mma(const di_gemm_args a, bool is_aligned, int n_groups)
{
    typedef di_mma_layout<F, TILES, ROWS> L;
    extern __shared__ __align__(16) uint8_t stages[];
    const int64_t row = blockIdx.x % n_groups * (int64_t)L::N_ROWS;
    const int64_t column = blockIdx.x / n_groups * (int64_t)L::COLUMNS;
    const int64_t at = row * a.y_stride + column;
    di_cu_gemm g;
    g.x = a.x + row * a.x_stride;
    g.x_stride = a.x_stride;
    g.rows = NULL;
    g.n_rows = (int)(a.m - row < L::N_ROWS ? a.m - row : L::N_ROWS);
    g.n_columns = (int)(a.n - column < L::COLUMNS ? a.n - column : L::COLUMNS);
    g.w = (const uint8_t *)a.w + (a.first_column + column) * a.k * F::BITS / 8;
    g.scales = a.scales;
    g.column = a.first_column + column;
    g.k = a.k;
    g.is_aligned = is_aligned;
    g.y = (uint8_t *)a.y + at * (a.is_f32_out ? 4 : 2);
    g.y_stride = a.y_stride;
    g.is_f32_out = a.is_f32_out;
    di_mma_gemm_rows<F, TILES, ROWS>(g, stages);
}

template <typename F, int TILES, int ROWS>
static di_status launch(const di_gemm_args *a, di_stream stream, const char *what)
{
    typedef di_mma_layout<F, TILES, ROWS> L;
    const bool has_aligned_scales =
        !F::HAS_SCALES || ((a->k + 31) / 32 % 4 == 0 && di_cu_aligned(4, a->scales));
    const bool is_aligned = a->k * F::BITS % 128 == 0 && has_aligned_scales &&
                            (a->k | a->x_stride) % 8 == 0 && di_cu_aligned(16, a->x, a->w);
    const int64_t n_groups = di_cu_blocks(a->m, L::N_ROWS);
    void (*const kernel)(di_gemm_args, bool, int) = gemm_mma<F, TILES, ROWS>;
    DI_CUDA_TRY(cudaFuncSetAttribute((const void *)kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, L::BYTES),
                what);
    kernel<<<(unsigned)(di_cu_blocks(a->n, L::COLUMNS) * n_groups), DI_MMA_THREADS, L::BYTES,
             stream>>>(*a, is_aligned, (int)n_groups);
    return di_cuda_launched(what);
}

template <typename F>
static di_status choose(const void *args, int64_t n, di_stream stream, const char *what)
{
    enum { BLOCKS_WANTED = 200 };
    di_gemm_args a = *(const di_gemm_args *)args;
    a.n = n;
    if (a.m == 0 || n == 0)
        return DI_OK;
    if (a.m <= 8)
        return launch<F, 1, 1>(&a, stream, what);
    if (a.m <= 32)
        return launch<F, 1, 2>(&a, stream, what);
    if (di_cu_blocks(a.m, 128) * di_cu_blocks(n, 128) < BLOCKS_WANTED)
        return launch<F, 1, 8>(&a, stream, what);
    return launch<F, 2, 16>(&a, stream, what);
}

di_status di_gemm_f8_mma(const void *args, int64_t n_items, di_stream stream)
{
    return choose<di_mma_f8>(args, n_items, stream, "gemm_f8");
}

di_status di_gemm_bf16_mma(const void *args, int64_t n_items, di_stream stream)
{
    return choose<di_mma_bf16>(args, n_items, stream, "gemm_bf16");
}
