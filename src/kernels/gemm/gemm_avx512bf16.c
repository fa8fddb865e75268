#include "kernels/gemm/gemm_avx512bf16.h"

#include "kernels/all.h"

void di_gemm_f8_avx512bf16(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_gemm_args *a = args;
    di_gemm_run(a, begin, end, worker, DI_GEMM_F8, di_dot_rows_that_fit(a->k), di_dot_block_run,
                di_gemm_f8_ref);
}

void di_gemm_bf16_avx512bf16(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_gemm_args *a = args;
    di_gemm_run(a, begin, end, worker, DI_GEMM_BF16, di_dot_rows_that_fit(a->k), di_dot_block_run,
                di_gemm_bf16_ref);
}
