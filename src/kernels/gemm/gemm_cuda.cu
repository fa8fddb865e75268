#include "kernels/gemm/gemm_cuda.cuh"

#include "kernels/gemm/gemm.h"

/* Blocks: columns by groups of DI_CU_ROWS rows, the groups of the same columns one after the other
 * so that their weights come from the second level cache. */
template <typename F, int COLUMNS>
static __global__ void __launch_bounds__(128, 2)
    gemm(const di_gemm_args a, bool is_aligned, int n_groups, int columns)
{
    extern __shared__ __align__(16) uint8_t stages[];
    const int64_t group = blockIdx.x % n_groups, column = blockIdx.x / n_groups * (int64_t)columns;
    const int64_t row = group * DI_CU_ROWS, at = row * a.y_stride + column;
    di_cu_gemm g;
    g.x = a.x + row * a.x_stride;
    g.x_stride = a.x_stride;
    g.rows = NULL;
    g.n_rows = (int)(a.m - row < DI_CU_ROWS ? a.m - row : DI_CU_ROWS);
    g.n_columns = (int)(a.n - column < columns ? a.n - column : columns);
    g.w = (const uint8_t *)a.w + (a.first_column + column) * a.k * F::BITS / 8;
    g.scales = a.scales;
    g.column = a.first_column + column;
    g.k = a.k;
    g.is_aligned = is_aligned;
    g.y = (uint8_t *)a.y + at * (a.is_f32_out ? 4 : 2);
    g.y_stride = a.y_stride;
    g.is_f32_out = a.is_f32_out;
    di_cu_gemm_block<F, COLUMNS>(g, stages);
}

template <typename F>
static di_status launch(const di_gemm_args *a, int64_t n, di_stream stream, const char *what)
{
    enum { BLOCKS_WANTED = 256 };
    if (a->m == 0 || n == 0)
        return DI_OK;
    const int64_t n_groups = di_cu_blocks(a->m, DI_CU_ROWS);
    const di_cu_shape s = di_cu_gemm_shape(n * n_groups, BLOCKS_WANTED);
    const bool has_aligned_scales =
        !F::HAS_SCALES || ((a->k + 31) / 32 % 4 == 0 && di_cu_aligned(4, a->scales));
    const bool is_aligned = a->k * F::BITS % 128 == 0 && has_aligned_scales &&
                            (a->k | a->x_stride) % 8 == 0 && di_cu_aligned(16, a->x, a->w);
    di_gemm_args args = *a;
    args.n = n;
    void (*const kernel)(di_gemm_args, bool, int, int) =
        s.columns_a_thread == 2 ? gemm<F, 2> : gemm<F, 1>;
    const int shared = di_cu_gemm_shared<F>(s.columns);
    DI_CUDA_TRY(cudaFuncSetAttribute((const void *)kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
                what);
    const int64_t blocks = di_cu_blocks(n, s.columns) * n_groups;
    kernel<<<(unsigned)blocks, (unsigned)s.threads, (size_t)shared, stream>>>(
        args, is_aligned, (int)n_groups, s.columns);
    return di_cuda_launched(what);
}

di_status di_gemm_f8_cuda(const void *args, int64_t n_items, di_stream stream)
{
    return launch<di_cu_f8>((const di_gemm_args *)args, n_items, stream, "gemm_f8");
}

di_status di_gemm_bf16_cuda(const void *args, int64_t n_items, di_stream stream)
{
    return launch<di_cu_bf16>((const di_gemm_args *)args, n_items, stream, "gemm_bf16");
}
