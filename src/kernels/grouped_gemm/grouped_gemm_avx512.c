#include "kernels/grouped_gemm/grouped_gemm.h"

#include "kernels/all.h"
#include "kernels/gemm/gemm_avx512.h"

/* Columns [column, end) of one expert, for all its assignments. */
static void expert_columns(const di_grouped_gemm_args *a, int64_t expert, int64_t column,
                           int64_t end, int at_once, int worker)
{
    di_gemm_block b = {
        .codes = a->weights[expert]->codes,
        .scales = a->weights[expert]->scales,
        .k = a->k,
        .scratch = (char *)a->scratch + worker * a->scratch_stride,
    };
    const int32_t last = a->expert_begin[expert + 1];
    for (int32_t first = a->expert_begin[expert]; first < last; first += at_once) {
        b.n_rows = (int)di_min_i64(at_once, last - first);
        for (int r = 0; r < b.n_rows; r++) {
            const int64_t row = a->rows ? a->rows[first + r] : first + r;
            b.x[r] = a->x + row * a->x_stride;
            b.y[r] = a->y + (first + r) * a->n;
        }
        di_gemm_block_run(&b, DI_GEMM_F4, column, end);
    }
}

void di_grouped_gemm_f4_avx512(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_grouped_gemm_args *a = args;
    const int at_once = di_gemm_rows_that_fit(a->k);
    if (at_once == 0) {
        di_grouped_gemm_f4_ref(args, begin, end, worker);
        return;
    }
    for (int64_t e = 0; e < a->n_active; e++) { /* items c * n_active + e of [begin, end) */
        const int64_t first = begin <= e ? 0 : di_ceil_div(begin - e, a->n_active);
        const int64_t last = end <= e ? 0 : di_ceil_div(end - e, a->n_active);
        if (first < last)
            expert_columns(a, e, first, last, at_once, worker);
    }
}
