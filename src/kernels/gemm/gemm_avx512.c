#include "kernels/gemm/gemm_avx512.h"

#include "kernels/all.h"

DI_INLINE void gemm(const di_gemm_args *a, int64_t begin, int64_t end, int worker,
                    di_gemm_format format, di_range_fn reference)
{
    const int at_once = di_gemm_rows_that_fit(a->k);
    const int64_t scale_row = di_ceil_div(a->k, 32), first = (a->first_column + begin) / 32;
    const int64_t n_scales = (di_ceil_div(a->first_column + end, 32) - first) * scale_row;
    if (at_once == 0 || (format == DI_GEMM_F8 &&
                         !di_gemm_has_fast_scales(a->scales + first * scale_row, n_scales))) {
        reference(a, begin, end, worker);
        return;
    }
    di_gemm_block b = {
        .is_f32_out = a->is_f32_out,
        .codes = a->w,
        .scales = a->scales,
        .k = a->k,
        .y_first = a->first_column,
        .scratch = (char *)a->scratch + worker * a->scratch_stride,
    };
    for (int64_t row = 0; row < a->m; row += at_once) {
        b.n_rows = (int)di_min_i64(at_once, a->m - row);
        for (int r = 0; r < b.n_rows; r++) {
            const int64_t at = (row + r) * a->y_stride;
            b.x[r] = a->x + (row + r) * a->x_stride;
            b.y[r] = (char *)a->y + at * (a->is_f32_out ? 4 : 2);
        }
        di_gemm_block_run(&b, format, a->first_column + begin, a->first_column + end);
    }
}

void di_gemm_f8_avx512(const void *args, int64_t begin, int64_t end, int worker)
{
    gemm(args, begin, end, worker, DI_GEMM_F8, di_gemm_f8_ref);
}

void di_gemm_bf16_avx512(const void *args, int64_t begin, int64_t end, int worker)
{
    gemm(args, begin, end, worker, DI_GEMM_BF16, di_gemm_bf16_ref);
}
