#include "kernels/gemm/gemm_amx.h"

#include "kernels/all.h"

/* Rows first .. first + m - 1 of a gemm. */
static di_gemm_args rows_of(const di_gemm_args *a, int64_t first, int64_t m)
{
    di_gemm_args part = *a;
    part.x += first * a->x_stride;
    part.y = (char *)a->y + first * a->y_stride * (a->is_f32_out ? 4 : 2);
    part.m = m;
    return part;
}

/* What the block has marked, by the other kernel. */
static void redo_odd(const di_gemm_args *a, const di_amx_block *b, int64_t row, int worker,
                     di_range_fn other)
{
    for (int r = 0; r < b->n_rows; r++) {
        const di_gemm_args one = rows_of(a, row + r, 1);
        if (b->is_odd_row[r])
            other(&one, b->begin - a->first_column, b->end - a->first_column, worker);
    }
    if (!b->has_odd_columns)
        return;
    const di_gemm_args rows = rows_of(a, row, b->n_rows);
    int64_t first, end = b->begin;
    while (di_next_odd_columns(b, end, &first, &end))
        other(&rows, first - a->first_column, end - a->first_column, worker);
}

static void gemm(const di_gemm_args *a, int64_t begin, int64_t end, int worker,
                 di_gemm_format format, di_range_fn other)
{
    if (a->k > DI_AMX_MAX_K) {
        other(a, begin, end, worker);
        return;
    }
    di_amx_block b;
    b.format = format;
    b.codes = a->w;
    b.scales = a->scales;
    b.k = a->k;
    b.is_f32_out = a->is_f32_out;
    b.scratch = (char *)a->scratch + worker * a->scratch_stride;
    for (int64_t row = 0; row < a->m; row += DI_AMX_ROWS) {
        b.n_rows = (int)di_min_i64(DI_AMX_ROWS, a->m - row);
        const int64_t at_once = di_amx_block_columns(b.n_rows);
        for (int64_t column = begin; column < end; column += at_once) {
            b.begin = a->first_column + column;
            b.end = a->first_column + di_min_i64(end, column + at_once);
            for (int r = 0; r < b.n_rows; r++) {
                const int64_t at = (row + r) * a->y_stride + column;
                b.x[r] = a->x + (row + r) * a->x_stride;
                b.y[r] = (char *)a->y + at * (a->is_f32_out ? 4 : 2);
            }
            di_amx_block_run(&b);
            redo_odd(a, &b, row, worker, other);
        }
    }
    _tile_release();
}

void di_gemm_f8_amx(const void *args, int64_t begin, int64_t end, int worker)
{
    gemm(args, begin, end, worker, DI_GEMM_F8, di_gemm_f8_avx512);
}

void di_gemm_bf16_amx(const void *args, int64_t begin, int64_t end, int worker)
{
    gemm(args, begin, end, worker, DI_GEMM_BF16, di_gemm_bf16_avx512);
}
