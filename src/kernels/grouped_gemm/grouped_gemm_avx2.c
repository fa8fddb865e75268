#include "kernels/all.h"
#include "kernels/gemm/gemm_avx2.h"

void di_grouped_gemm_f4_avx2(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_grouped_gemm_args *a = args;
    di_grouped_gemm_run(a, begin, end, worker, di_gemm2_rows_that_fit(a->k), di_gemm2_block_run,
                        di_grouped_gemm_f4_ref);
}
