/* Hyper-connections on sixteen lanes (vec.h). */
#ifndef DI_KERNELS_HYPER_CONNECTION_VEC_H
#define DI_KERNELS_HYPER_CONNECTION_VEC_H

#include "kernels/hyper_connection/hyper_connection.h"
#include "kernels/vec_math.h"

enum {
    HC_COLUMNS = 24, /* outputs whose lanes are kept while the depth is walked through */
    HC_DEPTH = 2048  /* elements: HC_COLUMNS of fn and DI_HC_ROWS of h stay in the cache */
};

typedef float hc_lanes[DI_HC_ROWS][HC_COLUMNS][DI_VEC];

/* lanes[r][k] += fn row k times h row r over `depth` elements, for a tile of n_rows x n_columns
 * (constants where this is called, for the sums to be registers). */
static inline __attribute__((always_inline)) void hc_tile(const di_hc_project_args *a, int n_rows,
                                                          int n_columns, const di_bf16 *h,
                                                          const float *fn, int64_t depth,
                                                          float (*lanes)[HC_COLUMNS][DI_VEC])
{
    const int64_t width = a->hc * a->dim;
    di_vec sum[DI_VEC_TILE_ROWS][DI_VEC_TILE_COLUMNS];
    for (int r = 0; r < n_rows; r++)
        for (int k = 0; k < n_columns; k++)
            sum[r][k] = di_vec_load(lanes[r][k], DI_VEC);
    int64_t i = 0;
    for (; i + DI_VEC <= depth; i += DI_VEC) {
        di_vec x[DI_VEC_TILE_ROWS];
        for (int r = 0; r < n_rows; r++)
            x[r] = di_vec_load_bf16(h + r * width + i, DI_VEC);
        for (int k = 0; k < n_columns; k++) {
            const di_vec w = di_vec_load(fn + k * width + i, DI_VEC);
            for (int r = 0; r < n_rows; r++)
                sum[r][k] = di_vec_add(sum[r][k], di_vec_mul(w, x[r]));
        }
    }
    for (int k = 0; i < depth && k < n_columns; k++)
        for (int r = 0; r < n_rows; r++)
            sum[r][k] =
                di_vec_add(sum[r][k], di_vec_mul(di_vec_load(fn + k * width + i, depth - i),
                                                 di_vec_load_bf16(h + r * width + i, depth - i)));
    for (int r = 0; r < n_rows; r++)
        for (int k = 0; k < n_columns; k++)
            di_vec_store(lanes[r][k], DI_VEC, sum[r][k]);
}

/* A block's rows for one group of tile columns. */
static inline __attribute__((always_inline)) void hc_tile_rows(const di_hc_project_args *a,
                                                               int n_rows, int n_columns,
                                                               const di_bf16 *h, const float *fn,
                                                               int64_t depth,
                                                               float (*lanes)[HC_COLUMNS][DI_VEC])
{
    const int64_t width = a->hc * a->dim;
    int r = 0;
    for (; r + DI_VEC_TILE_ROWS <= n_rows; r += DI_VEC_TILE_ROWS)
        hc_tile(a, DI_VEC_TILE_ROWS, n_columns, h + r * width, fn, depth, lanes + r);
    for (; r < n_rows; r++)
        hc_tile(a, 1, n_columns, h + r * width, fn, depth, lanes + r);
}

/* Products with fn's rows [first, first + n_columns), at most HC_COLUMNS, of n_rows rows. */
static void hc_project_columns(const di_hc_project_args *a, int64_t row, int n_rows, int first,
                               int n_columns)
{
    const int64_t width = a->hc * a->dim, n_out = (2 + a->hc) * a->hc;
    const int64_t step = n_rows > DI_VEC_TILE_ROWS ? HC_DEPTH : width; /* few rows: long reads */
    hc_lanes lanes;
    for (int r = 0; r < n_rows; r++)
        memset(lanes[r], 0, (size_t)n_columns * sizeof lanes[r][0]);
    for (int64_t at = 0; at < width; at += step) {
        const int64_t depth = width - at < step ? width - at : step;
        const di_bf16 *h = a->h + row * width + at;
        const float *fn = a->fn + first * width + at;
        int k = 0;
        for (; k + DI_VEC_TILE_COLUMNS <= n_columns; k += DI_VEC_TILE_COLUMNS)
            hc_tile_rows(a, n_rows, DI_VEC_TILE_COLUMNS, h, fn + k * width, depth,
                         (float(*)[HC_COLUMNS][DI_VEC]) & lanes[0][k]);
        for (; k < n_columns; k++)
            hc_tile_rows(a, n_rows, 1, h, fn + k * width, depth,
                         (float(*)[HC_COLUMNS][DI_VEC]) & lanes[0][k]);
    }
    for (int r = 0; r < n_rows; r++)
        for (int k = 0; k < n_columns; k++)
            a->y[(row + r) * (n_out + 1) + first + k] =
                di_vec_total(di_vec_load(lanes[r][k], DI_VEC));
}

/* Outputs [first, end) of a block of rows. */
static void hc_project_block(const di_hc_project_args *a, int64_t row, int n_rows, int first,
                             int end)
{
    const int n_out = (2 + a->hc) * a->hc;
    const int64_t width = a->hc * a->dim;
    for (int k = first; k < end && k < n_out; k += HC_COLUMNS) {
        const int left = (end < n_out ? end : n_out) - k;
        hc_project_columns(a, row, n_rows, k, left < HC_COLUMNS ? left : HC_COLUMNS);
    }
    for (int r = 0; end > n_out && r < n_rows; r++)
        a->y[(row + r) * (n_out + 1) + n_out] = di_vec_sum_squares(a->h + (row + r) * width, width);
}

DI_VEC_KERNEL(hc_project)
{
    (void)worker;
    const di_hc_project_args *a = args;
    const int64_t n_columns = (2 + a->hc) * a->hc + 1;
    for (int64_t item = begin; item < end;) {
        const int64_t row = item / n_columns * DI_HC_ROWS, first = item % n_columns;
        const int64_t left = end - item, n_left = a->n - row;
        const int64_t last = first + left < n_columns ? first + left : n_columns;
        hc_project_block(a, row, n_left < DI_HC_ROWS ? (int)n_left : DI_HC_ROWS, (int)first,
                         (int)last);
        item += last - first;
    }
}

DI_VEC_KERNEL(hc_collapse)
{
    (void)worker;
    const di_hc_collapse_args *a = args;
    const int64_t dim = a->dim;
    for (int64_t row = begin; row < end; row++) {
        const di_bf16 *h = a->h + row * a->hc * dim;
        const float *pre = a->pre + row * a->hc;
        for (int64_t i = 0; i < dim; i += DI_VEC) {
            di_vec sum = di_vec_set(0.0f);
            for (int j = 0; j < a->hc; j++)
                sum = di_vec_add(sum, di_vec_mul(di_vec_set(pre[j]),
                                                 di_vec_load_bf16(h + j * dim + i, dim - i)));
            di_vec_store_bf16(a->y + row * dim + i, dim - i, sum);
        }
    }
}

static inline __attribute__((always_inline)) void hc_expand_row(const di_hc_expand_args *a, int hc,
                                                                int64_t row)
{
    const int64_t dim = a->dim;
    di_bf16 *h = a->h + row * hc * dim;
    const di_bf16 *y = a->y + row * dim;
    const float *post = a->post + row * hc, *comb = a->comb + row * hc * hc;
    for (int64_t i = 0; i < dim; i += DI_VEC) {
        const di_vec v = di_vec_load_bf16(y + i, dim - i);
        di_vec old[DI_HC_LIMIT];
        for (int j = 0; j < hc; j++)
            old[j] = di_vec_load_bf16(h + j * dim + i, dim - i);
        for (int k = 0; k < hc; k++) {
            di_vec sum = di_vec_set(0.0f);
            for (int j = 0; j < hc; j++)
                sum = di_vec_add(sum, di_vec_mul(di_vec_set(comb[j * hc + k]), old[j]));
            di_vec_store_bf16(h + k * dim + i, dim - i,
                              di_vec_add(di_vec_mul(di_vec_set(post[k]), v), sum));
        }
    }
}

DI_VEC_KERNEL(hc_expand)
{
    (void)worker;
    const di_hc_expand_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        if (a->hc == 4) /* a constant: unrolled */
            hc_expand_row(a, 4, row);
        else
            hc_expand_row(a, a->hc, row);
    }
}

#endif
