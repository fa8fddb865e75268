#include "kernels/gemm/gemm_cuda.cuh"

#include "kernels/grouped_gemm/grouped_gemm.h"

/* A block some columns of one expert, for all its assignments in turn: how many there are the
 * device alone knows. */
template <int COLUMNS>
static __global__ void __launch_bounds__(128, 2)
    grouped_gemm_f4(const di_grouped_gemm_args a, bool is_x_aligned, int columns)
{
    extern __shared__ __align__(16) uint8_t stages[];
    const int64_t expert = blockIdx.x % a.n_active, column = blockIdx.x / a.n_active * columns;
    const int first = a.expert_begin[expert], last = a.expert_begin[expert + 1];
    const di_qweight *weight = a.weights[expert];
    di_cu_gemm g;
    g.x_stride = a.x_stride;
    g.n_columns = (int)(a.n - column < columns ? a.n - column : columns);
    g.w = weight->codes + column * a.k / 2;
    g.scales = weight->scales;
    g.column = column;
    g.k = a.k;
    g.is_aligned = is_x_aligned && a.k / 32 % 4 == 0 && (uintptr_t)weight->codes % 16 == 0 &&
                   (uintptr_t)weight->scales % 4 == 0;
    g.y_stride = a.n;
    g.is_f32_out = false;
    for (int row = first; row < last; row += DI_CU_ROWS) {
        g.n_rows = last - row < DI_CU_ROWS ? last - row : DI_CU_ROWS;
        g.rows = a.rows ? a.rows + row : NULL;
        g.x = a.rows ? a.x : a.x + row * a.x_stride;
        g.y = a.y + row * a.n + column;
        di_cu_gemm_block<di_cu_f4, COLUMNS>(g, stages);
    }
}

di_status di_grouped_gemm_f4_cuda(const void *args, int64_t n_items, di_stream stream)
{
    enum { BLOCKS_WANTED = 256 };
    const di_grouped_gemm_args *a = (const di_grouped_gemm_args *)args;
    if (n_items == 0)
        return DI_OK;
    const di_cu_shape s = di_cu_gemm_shape(a->n * a->n_active, BLOCKS_WANTED);
    const bool is_x_aligned = a->x_stride % 8 == 0 && di_cu_aligned(16, a->x);
    void (*const kernel)(di_grouped_gemm_args, bool, int) =
        s.columns_a_thread == 2 ? grouped_gemm_f4<2> : grouped_gemm_f4<1>;
    const int shared = di_cu_gemm_shared<di_cu_f4>(s.columns);
    DI_CUDA_TRY(cudaFuncSetAttribute((const void *)kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
                "grouped_gemm_f4");
    const int64_t blocks = di_cu_blocks(a->n, s.columns) * a->n_active;
    kernel<<<(unsigned)blocks, (unsigned)s.threads, (size_t)shared, stream>>>(*a, is_x_aligned,
                                                                              s.columns);
    return di_cuda_launched("grouped_gemm_f4");
}
