/* What the vector linears share whatever their vectors are: a block of input rows, where its
 * weights and results lie, and how the operations' items become blocks. */
#ifndef DI_KERNELS_GEMM_BLOCK_H
#define DI_KERNELS_GEMM_BLOCK_H

#include <stdbool.h>

#include "base/checked.h"
#include "base/threads.h"
#include "kernels/gemm/gemm.h"
#include "kernels/grouped_gemm/grouped_gemm.h"

enum { DI_BLOCK_ROWS = 64 }; /* input rows that are widened at once, at most */

#define DI_INLINE static inline __attribute__((always_inline))

typedef enum di_gemm_format { DI_GEMM_F4, DI_GEMM_F8, DI_GEMM_BF16 } di_gemm_format;

/* Input rows, where their results go, and the weights. */
typedef struct di_gemm_block {
    const di_bf16 *x[DI_BLOCK_ROWS];
    void *y[DI_BLOCK_ROWS]; /* result of column y_first */
    int64_t y_first;
    int n_rows;
    bool is_f32_out;
    const uint8_t *codes, *scales;
    int64_t k;
    char *scratch; /* DI_GEMM_SCRATCH_BYTES */
} di_gemm_block;

/* y = x W^T for columns [column, end) and all of the block's rows. */
typedef void (*di_gemm_block_fn)(const di_gemm_block *b, di_gemm_format format, int64_t column,
                                 int64_t end);

/* k with its last group of 32 filled up. */
DI_INLINE int64_t di_gemm_padded(int64_t k)
{
    return (k + 31) / 32 * 32;
}

/* 2^8 times every F8 scale of items [begin, end) is finite, or NaN; others are left to the
 * reference. */
DI_INLINE bool di_gemm_has_fast_scales(const di_gemm_args *a, int64_t begin, int64_t end)
{
    const int64_t row = di_ceil_div(a->k, 32);
    const int64_t first = (a->first_column + begin) / 32 * row;
    const int64_t last = di_ceil_div(a->first_column + end, 32) * row;
    for (int64_t i = first; i < last; i++)
        if (a->scales[i] > 246 && a->scales[i] != 255)
            return false;
    return true;
}

/* Bytes of n elements, n even. */
DI_INLINE int64_t di_format_bytes(di_gemm_format format, int64_t n)
{
    return format == DI_GEMM_F4 ? n / 2 : format == DI_GEMM_F8 ? n : 2 * n;
}

DI_INLINE const uint8_t *di_column_codes(const di_gemm_block *b, di_gemm_format format,
                                         int64_t column)
{
    return b->codes + di_format_bytes(format, column * b->k);
}

DI_INLINE const uint8_t *di_column_scales(const di_gemm_block *b, di_gemm_format format,
                                          int64_t column)
{
    return b->scales + (format == DI_GEMM_F4 ? column : column / 32) * (di_gemm_padded(b->k) / 32);
}

DI_INLINE void di_put(const di_gemm_block *b, int row, int64_t column, float value)
{
    if (b->is_f32_out)
        ((float *)b->y[row])[column - b->y_first] = value;
    else
        ((di_bf16 *)b->y[row])[column - b->y_first] = di_f32_to_bf16(value);
}

/* Items [begin, end) of a gemm, at most `at_once` rows a block; what a block cannot do (at_once 0,
 * scales out of range) the reference does. */
DI_INLINE void di_gemm_run(const di_gemm_args *a, int64_t begin, int64_t end, int worker,
                           di_gemm_format format, int at_once, di_gemm_block_fn run,
                           di_range_fn reference)
{
    if (at_once == 0 || (format == DI_GEMM_F8 && !di_gemm_has_fast_scales(a, begin, end))) {
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
        run(&b, format, a->first_column + begin, a->first_column + end);
    }
}

/* Columns [column, end) of one expert, for all its assignments. */
DI_INLINE void di_expert_columns(const di_grouped_gemm_args *a, int64_t expert, int64_t column,
                                 int64_t end, int at_once, char *scratch, di_gemm_block_fn run)
{
    di_gemm_block b = {
        .codes = a->weights[expert]->codes,
        .scales = a->weights[expert]->scales,
        .k = a->k,
        .scratch = scratch,
    };
    const int32_t last = a->expert_begin[expert + 1];
    for (int32_t first = a->expert_begin[expert]; first < last; first += at_once) {
        b.n_rows = (int)di_min_i64(at_once, last - first);
        for (int r = 0; r < b.n_rows; r++) {
            const int64_t row = a->rows ? a->rows[first + r] : first + r;
            b.x[r] = a->x + row * a->x_stride;
            b.y[r] = a->y + (first + r) * a->n;
        }
        run(&b, DI_GEMM_F4, column, end);
    }
}

/* Items [begin, end) of a grouped gemm, an expert after the other. */
DI_INLINE void di_grouped_gemm_run(const di_grouped_gemm_args *a, int64_t begin, int64_t end,
                                   int worker, int at_once, di_gemm_block_fn run,
                                   di_range_fn reference)
{
    if (at_once == 0) {
        reference(a, begin, end, worker);
        return;
    }
    char *scratch = (char *)a->scratch + worker * a->scratch_stride;
    for (int64_t e = 0; e < a->n_active; e++) { /* items c * n_active + e of [begin, end) */
        const int64_t first = begin <= e ? 0 : di_ceil_div(begin - e, a->n_active);
        const int64_t last = end <= e ? 0 : di_ceil_div(end - e, a->n_active);
        if (first < last)
            di_expert_columns(a, e, first, last, at_once, scratch, run);
    }
}

#endif
