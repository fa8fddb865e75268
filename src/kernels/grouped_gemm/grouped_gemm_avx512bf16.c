#include "kernels/all.h"
#include "kernels/gemm/gemm_avx512bf16.h"

void di_grouped_gemm_f4_avx512bf16(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_grouped_gemm_args *a = args;
    di_grouped_gemm_run(a, begin, end, worker, di_dot_rows_that_fit(a->k), di_dot_block_run,
                        di_grouped_gemm_f4_ref);
}
