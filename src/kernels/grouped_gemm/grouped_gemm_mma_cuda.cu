#include "kernels/gemm/gemm_mma.cuh"

#include "kernels/grouped_gemm/grouped_gemm.h"

enum { MOST_ROWS = 16 }; /* tiles of 8 rows that a block takes at once */

template <int ROWS>
static __device__ __forceinline__ void expert_rows(const di_grouped_gemm_args &a, di_cu_gemm &g,
                                                   int row, int last, uint8_t *stages)
{
    g.n_rows = last - row < 8 * ROWS ? last - row : 8 * ROWS;
    g.rows = a.rows ? a.rows + row : NULL;
    g.x = a.rows ? a.x : a.x + row * a.x_stride;
    di_mma_gemm_rows<di_mma_f4, 1, ROWS>(g, stages);
}

/* A block some columns of one expert, for all its assignments in turn: how many there are the
 * device alone knows. */
static __global__ void __launch_bounds__(DI_MMA_THREADS, 2)
    grouped_gemm_mma(const di_grouped_gemm_args a, bool is_x_aligned)
{
    typedef di_mma_layout<di_mma_f4, 1, 1> L;
    extern __shared__ __align__(16) uint8_t stages[];
    const int64_t expert = blockIdx.x % a.n_active;
    const int64_t column = blockIdx.x / a.n_active * (int64_t)L::COLUMNS;
    const int first = a.expert_begin[expert], last = a.expert_begin[expert + 1];
    const di_qweight *weight = a.weights[expert];
    di_cu_gemm g;
    g.x_stride = a.x_stride;
    g.n_columns = (int)(a.n - column < L::COLUMNS ? a.n - column : L::COLUMNS);
    g.w = weight->codes + column * a.k / 2;
    g.scales = weight->scales;
    g.column = column;
    g.k = a.k;
    g.is_aligned = is_x_aligned && a.k / 32 % 4 == 0 && (uintptr_t)weight->codes % 16 == 0 &&
                   (uintptr_t)weight->scales % 4 == 0;
    g.y_stride = a.n;
    g.is_f32_out = false;
    for (int row = first; row < last;) {
        g.y = a.y + row * a.n + column;
        if (last - row <= 8) {
            expert_rows<1>(a, g, row, last, stages);
            row += 8;
        } else if (last - row <= 16) {
            expert_rows<2>(a, g, row, last, stages);
            row += 16;
        } else {
            expert_rows<MOST_ROWS>(a, g, row, last, stages);
            row += 8 * MOST_ROWS;
        }
    }
}

di_status di_grouped_gemm_f4_mma(const void *args, int64_t n_items, di_stream stream)
{
    typedef di_mma_layout<di_mma_f4, 1, 1> L;
    typedef di_mma_layout<di_mma_f4, 1, MOST_ROWS> L16;
    typedef di_mma_layout<di_mma_f4, 1, 2> L2;
    const di_grouped_gemm_args *a = (const di_grouped_gemm_args *)args;
    if (n_items == 0)
        return DI_OK;
    const int most = (int)L16::BYTES > (int)L2::BYTES ? (int)L16::BYTES : (int)L2::BYTES;
    const bool is_x_aligned = a->x_stride % 8 == 0 && di_cu_aligned(16, a->x);
    DI_CUDA_TRY(cudaFuncSetAttribute((const void *)grouped_gemm_mma,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, most),
                "grouped_gemm_f4");
    const int64_t blocks = di_cu_blocks(a->n, L::COLUMNS) * a->n_active;
    grouped_gemm_mma<<<(unsigned)blocks, DI_MMA_THREADS, (size_t)most, stream>>>(*a, is_x_aligned);
    return di_cuda_launched("grouped_gemm_f4");
}
