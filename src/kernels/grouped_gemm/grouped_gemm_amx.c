#include "kernels/all.h"
#include "kernels/gemm/gemm_amx.h"

/* Columns [begin, end) of assignments first .. last - 1 of one expert, by the other kernel. */
static void run_avx512(const di_grouped_gemm_args *a, int64_t expert, const int32_t assignments[2],
                       int64_t begin, int64_t end, int worker)
{
    di_grouped_gemm_args one = *a;
    one.weights = a->weights + expert;
    one.expert_begin = assignments;
    one.n_active = 1;
    di_grouped_gemm_f4_avx512(&one, begin, end, worker);
}

static void redo_odd(const di_grouped_gemm_args *a, const di_amx_block *b, int64_t expert,
                     int32_t first, int worker)
{
    for (int32_t r = 0; r < b->n_rows; r++) {
        const int32_t one[2] = {first + r, first + r + 1};
        if (b->is_odd_row[r])
            run_avx512(a, expert, one, b->begin, b->end, worker);
    }
    if (!b->has_odd_columns)
        return;
    const int32_t all[2] = {first, first + b->n_rows};
    int64_t begin, end = b->begin;
    while (di_next_odd_columns(b, end, &begin, &end))
        run_avx512(a, expert, all, begin, end, worker);
}

/* Columns [begin, end) of one expert, for all its assignments. */
static void expert_columns(const di_grouped_gemm_args *a, int64_t expert, int64_t begin,
                           int64_t end, int worker, di_amx_block *b)
{
    const int32_t last = a->expert_begin[expert + 1];
    if (last - a->expert_begin[expert] < DI_GROUPED_GEMM_AMX_ROWS) {
        run_avx512(a, expert, a->expert_begin + expert, begin, end, worker);
        return;
    }
    b->codes = a->weights[expert]->codes;
    b->scales = a->weights[expert]->scales;
    for (int32_t first = a->expert_begin[expert]; first < last; first += DI_AMX_ROWS) {
        b->n_rows = (int)di_min_i64(DI_AMX_ROWS, last - first);
        const int64_t at_once = di_amx_block_columns(b->n_rows);
        for (int64_t column = begin; column < end; column += at_once) {
            b->begin = column;
            b->end = di_min_i64(end, column + at_once);
            for (int r = 0; r < b->n_rows; r++) {
                const int64_t row = a->rows ? a->rows[first + r] : first + r;
                b->x[r] = a->x + row * a->x_stride;
                b->y[r] = a->y + (first + r) * a->n + column;
            }
            di_amx_block_run(b);
            redo_odd(a, b, expert, first, worker);
        }
    }
}

void di_grouped_gemm_f4_amx(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_grouped_gemm_args *a = args;
    if (a->k > DI_AMX_MAX_K) {
        di_grouped_gemm_f4_avx512(args, begin, end, worker);
        return;
    }
    di_amx_block b;
    b.format = DI_GEMM_F4;
    b.k = a->k;
    b.is_f32_out = false;
    b.scratch = (char *)a->scratch + worker * a->scratch_stride;
    for (int64_t e = 0; e < a->n_active; e++) { /* items c * n_active + e of [begin, end) */
        const int64_t first = begin <= e ? 0 : di_ceil_div(begin - e, a->n_active);
        const int64_t last = end <= e ? 0 : di_ceil_div(end - e, a->n_active);
        if (first < last)
            expert_columns(a, e, first, last, worker, &b);
    }
    _tile_release();
}
