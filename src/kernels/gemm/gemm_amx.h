/* The AMX linears' common loops. A tile product, TDPBF16PS, takes 16 input rows by 32 elements and
 * 16 columns by the same elements, both bf16, which E4M3 and E2M1 values and their power-of-two
 * scales fit exactly.
 *
 * Order of a sum ("blocks32"): the elements of a group of 32 are added in two chains, the even ones
 * and the odd ones, each from zero in ascending order; the chains are added; the groups' sums are
 * added in ascending order. All in fp32, rounded to nearest, numbers below 2^-126 taken as zero.
 *
 * Input rows and columns that could come near the ends of fp32's range, or hold a NaN or infinity,
 * are computed by the AVX-512 kernel instead, each by what it holds itself: an element |x| that is
 * not 0 and not in [2^-57, 2^58), a weight times its scale of 2^54 and more, a scale below 2^-53.
 * For the others no sum overflows (k is at most DI_AMX_MAX_K), and no product of a quantized weight
 * is below 2^-126.
 *
 * Columns are computed in strips of two tiles by DI_AMX_DEPTH elements, whose decoded panel stays
 * in the first level cache while all rows go by; the sums meanwhile wait in the second. */
#ifndef DI_KERNELS_GEMM_AMX_H
#define DI_KERNELS_GEMM_AMX_H

#include <stdatomic.h>

#include "kernels/gemm/gemm_amx_weights.h"

/* How a block is computed. */
typedef struct di_amx_plan {
    int64_t first; /* column of the first tile: begin, down to a multiple of 16 */
    int n_columns; /* tiles */
    int n_rows;    /* tiles */
    int64_t n_strips;
    char *panel; /* DI_AMX_PANEL_BYTES */
    char *last;  /* [2 row tiles][2 column tiles] tiles */
    char *x;     /* [pairs of row tiles][DI_AMX_GROUPS][2] tiles */
    char *sums;  /* [column tiles][row tiles] tiles */
} di_amx_plan;

static void di_start_panel(const di_amx_block *b, const di_amx_plan *plan, int64_t strip,
                           int64_t k0, di_amx_panel *p)
{
    const int64_t row_bytes = di_format_bytes(b->format, b->k);
    p->strip = strip;
    p->k0 = k0;
    p->n_groups = di_amx_groups_at(b, k0);
    p->is_last = k0 + DI_AMX_DEPTH >= b->k;
    p->n_columns = strip * 2 + 1 < plan->n_columns ? 2 : 1;
    p->ahead = strip + 1 < plan->n_strips
                   ? 32 * row_bytes
                   : di_format_bytes(b->format, DI_AMX_DEPTH) - strip * 32 * row_bytes;
    for (int i = 0; i < p->n_columns; i++)
        di_start_columns(b, plan->first + strip * 32 + i * 16, k0, &p->columns[i]);
}

/* ------------------------------------------------------------------- rows to tiles */

/* Elements [k0, k0 + depth) of the rows; zeros fill the last tiles. Rows with an element out of
 * range are marked. */
static void di_pack_rows(di_amx_block *b, const di_amx_plan *plan, int64_t k0)
{
    const int n_groups = di_amx_groups_at(b, k0);
    const __m512i low = _mm512_set1_epi16(DI_AMX_MIN_X), sign = _mm512_set1_epi16(0x7fff);
    const __m512i limit = _mm512_set1_epi16((short)(DI_AMX_MAX_X - DI_AMX_MIN_X));
    for (int r = 0; r < plan->n_rows * 16; r++) {
        char *out = plan->x + (r / 32 * DI_AMX_GROUPS * 2 + r / 16 % 2) * DI_AMX_TILE + r % 16 * 64;
        const char *ahead = (const char *)(b->x[di_min_i64(r + 2, b->n_rows - 1)] + k0);
        __m512i most = _mm512_setzero_si512();
        for (int g = 0; g < n_groups; g++) {
            const int64_t at = k0 + 32 * g;
            _mm_prefetch(ahead + 64 * g, _MM_HINT_T0);
            __m512i v = _mm512_setzero_si512();
            if (r < b->n_rows && at + 32 <= b->k)
                v = _mm512_loadu_si512(b->x[r] + at);
            else if (r < b->n_rows)
                v = _mm512_maskz_loadu_epi16((1u << (b->k - at)) - 1, b->x[r] + at);
            const __m512i magnitude = _mm512_and_si512(v, sign);
            most = _mm512_max_epu16(
                most, _mm512_maskz_sub_epi16(_mm512_test_epi16_mask(v, sign), magnitude, low));
            _mm512_store_si512(out + 2 * g * DI_AMX_TILE, v);
        }
        if (r < b->n_rows && _mm512_cmpge_epu16_mask(most, limit) != 0)
            b->is_odd_row[r] = true;
    }
}

/* ------------------------------------------------------------------- products */

/* Palette 1: eight tiles of up to 16 rows of 64 bytes. */
typedef struct di_tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
} di_tile_config;

/* Sums are tiles 0 to 3, input rows 4 and 5, columns 6 and 7. */
static void di_configure_tiles(int n_rows)
{
    di_tile_config config __attribute__((aligned(64))) = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.bytes[i] = 64;
        config.rows[i] = i < 6 && n_rows < 16 ? (uint8_t)n_rows : 16;
    }
    atomic_signal_fence(memory_order_seq_cst); /* the intrinsics tell compilers too little */
    _tile_loadconfig(&config);
}

/* Prefetches part `group` of the sums that the next pair of row tiles needs; NULL: none. */
DI_INLINE void di_prefetch_sums(const di_amx_plan *plan, const char *sums, int group, int rows,
                                int columns)
{
    if (!sums)
        return;
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++)
            _mm_prefetch(sums + (c * plan->n_rows + r) * DI_AMX_TILE + 64 * group, _MM_HINT_T0);
}

DI_INLINE void di_prefetch_half_tile(const char *tile)
{
    for (int i = 0; i < DI_AMX_TILE / 2; i += 64)
        _mm_prefetch(tile + i, _MM_HINT_T0);
}

/* Stores of the first tiles, `row_next` bytes from one row tile to the next one. */
DI_INLINE void di_store_tiles(char *to, int64_t row_next, int64_t column_next, int rows,
                              int columns)
{
    _tile_stored(0, to, 64);
    if (columns == 2)
        _tile_stored(1, to + column_next, 64);
    if (rows == 2)
        _tile_stored(2, to + row_next, 64);
    if (rows == 2 && columns == 2)
        _tile_stored(3, to + row_next + column_next, 64);
}

DI_INLINE void di_load_sums(const char *from, int64_t column_next, int rows, int columns)
{
    _tile_loadd(0, from, 64);
    if (columns == 2)
        _tile_loadd(1, from + column_next, 64);
    if (rows == 2)
        _tile_loadd(2, from + DI_AMX_TILE, 64);
    if (rows == 2 && columns == 2)
        _tile_loadd(3, from + DI_AMX_TILE + column_next, 64);
}

DI_INLINE void di_zero_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* sums [columns][rows] += x [groups][rows] times the panel; the last panel's go to plan->last. Each
 * tile is loaded once its predecessor was used for the last time, and input rows are prefetched a
 * step before: 6 to 13% faster than without where two threads share a core. */
DI_INLINE void di_amx_multiply(const di_amx_plan *plan, const di_amx_panel *p,
                               const char *next_sums, int row, int rows, int columns)
{
    const char *x = plan->x + row * DI_AMX_GROUPS * DI_AMX_TILE;
    const char *w = plan->panel;
    const int64_t sum_next = plan->n_rows * DI_AMX_TILE;
    char *sums = plan->sums + (2 * p->strip * plan->n_rows + row) * DI_AMX_TILE;
    if (p->k0 == 0)
        di_zero_sums();
    else
        di_load_sums(sums, sum_next, rows, columns);
    _tile_loadd(4, x, 64);
    _tile_loadd(6, w, 64);
    if (columns == 2)
        _tile_loadd(7, w + DI_AMX_TILE, 64);
    if (rows == 2)
        _tile_loadd(5, x + DI_AMX_TILE, 64);
    for (int g = 0; g < p->n_groups - 1; g++) {
        x += 2 * DI_AMX_TILE;
        w += 2 * DI_AMX_TILE;
        _tile_dpbf16ps(0, 4, 6);
        di_prefetch_half_tile(x + 2 * DI_AMX_TILE);
        if (columns == 2)
            _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(4, x, 64);
        di_prefetch_half_tile(x + 5 * DI_AMX_TILE / 2);
        if (rows == 2)
            _tile_dpbf16ps(2, 5, 6);
        _tile_loadd(6, w, 64);
        if (rows == 2)
            di_prefetch_half_tile(x + 3 * DI_AMX_TILE);
        if (rows == 2 && columns == 2)
            _tile_dpbf16ps(3, 5, 7);
        if (columns == 2)
            _tile_loadd(7, w + DI_AMX_TILE, 64);
        if (rows == 2) {
            _tile_loadd(5, x + DI_AMX_TILE, 64);
            di_prefetch_half_tile(x + 7 * DI_AMX_TILE / 2);
        }
        di_prefetch_sums(plan, next_sums, g, rows, columns);
    }
    _tile_dpbf16ps(0, 4, 6);
    if (columns == 2)
        _tile_dpbf16ps(1, 4, 7);
    if (rows == 2)
        _tile_dpbf16ps(2, 5, 6);
    if (rows == 2 && columns == 2)
        _tile_dpbf16ps(3, 5, 7);
    di_prefetch_sums(plan, next_sums, p->n_groups - 1, rows, columns);
    if (!p->is_last)
        di_store_tiles(sums, DI_AMX_TILE, sum_next, rows, columns);
    else
        di_store_tiles(plan->last, 2 * DI_AMX_TILE, DI_AMX_TILE, rows, columns);
}

/* Results of a pair of row tiles and a strip, from plan->last. */
static void di_store_results(const di_amx_block *b, const di_amx_plan *plan, const di_amx_panel *p,
                             int row)
{
    const int end_row = (int)di_min_i64(b->n_rows, (row + 2) * 16);
    atomic_signal_fence(memory_order_seq_cst);
    for (int r = row * 16; r < end_row; r++) {
        const char *from = plan->last + (r / 16 - row) * 2 * DI_AMX_TILE + r % 16 * 64;
        for (int c = 0; c < p->n_columns; c++) {
            const int64_t first = p->columns[c].first;
            const int64_t begin = di_max_i64(first, b->begin), end = di_min_i64(first + 16, b->end);
            const __mmask16 mask = di_mask16(end - begin);
            const __m512 v = _mm512_maskz_loadu_ps(
                mask, (const float *)(const void *)(from + c * DI_AMX_TILE) + (begin - first));
            if (b->is_f32_out)
                _mm512_mask_storeu_ps((float *)b->y[r] + (begin - b->begin), mask, v);
            else
                di_store_bf16_mask512((di_bf16 *)b->y[r] + (begin - b->begin), mask, v);
        }
    }
}

/* All rows times the panel. */
static void di_multiply_panel(const di_amx_block *b, const di_amx_plan *plan, const di_amx_panel *p)
{
    atomic_signal_fence(memory_order_seq_cst);
    for (int row = 0; row < plan->n_rows; row += 2) {
        const bool has_two = row + 1 < plan->n_rows;
        const bool is_end = row + 2 >= plan->n_rows; /* the next pair is the next strip's first */
        const int64_t next = (2 * p->strip + 2 * is_end) * plan->n_rows + (is_end ? 0 : row + 2);
        const bool has_next = p->k0 > 0 && (!is_end || p->strip + 1 < plan->n_strips);
        const char *next_sums = has_next ? plan->sums + next * DI_AMX_TILE : NULL;
        if (p->n_columns == 2 && has_two)
            di_amx_multiply(plan, p, next_sums, row, 2, 2);
        else if (p->n_columns == 2)
            di_amx_multiply(plan, p, next_sums, row, 1, 2);
        else if (has_two)
            di_amx_multiply(plan, p, next_sums, row, 2, 1);
        else
            di_amx_multiply(plan, p, next_sums, row, 1, 1);
        if (p->is_last)
            di_store_results(b, plan, p, row);
    }
}

/* ------------------------------------------------------------------- a block */

enum { DI_AMX_FIXED_BYTES = DI_AMX_PANEL_BYTES + 4 * DI_AMX_TILE };

DI_INLINE int64_t di_amx_x_bytes(int n_rows)
{
    return (n_rows + 31) / 32 * (int64_t)(2 * DI_AMX_GROUPS * DI_AMX_TILE);
}

/* How many columns a block of so many rows may have, at most. */
DI_INLINE int64_t di_amx_block_columns(int n_rows)
{
    const int64_t rows = (n_rows + 15) / 16;
    const int64_t left = DI_GEMM_SCRATCH_BYTES - DI_AMX_FIXED_BYTES - di_amx_x_bytes(n_rows);
    const int64_t tiles = left / DI_AMX_TILE / rows;
    return di_min_i64((tiles - 1) * 16, DI_AMX_MAX_COLUMNS);
}

/* y = x W^T for the block's columns, at most di_amx_block_columns of them, and rows. What it marks
 * as odd is computed too, to no use. The tiles are left configured. */
static void di_amx_block_run(di_amx_block *b)
{
    const int64_t first = b->begin / 16 * 16;
    const int n_columns = (int)di_ceil_div(b->end - first, 16), n_rows = (b->n_rows + 15) / 16;
    const di_amx_plan plan = {
        .first = first,
        .n_columns = n_columns,
        .n_rows = n_rows,
        .n_strips = (n_columns + 1) / 2,
        .panel = b->scratch,
        .last = b->scratch + DI_AMX_PANEL_BYTES,
        .x = b->scratch + DI_AMX_FIXED_BYTES,
        .sums = b->scratch + DI_AMX_FIXED_BYTES + di_amx_x_bytes(b->n_rows),
    };
    memset(b->is_odd_row, 0, (size_t)b->n_rows);
    memset(b->is_odd_column, 0, (size_t)(b->end - b->begin));
    b->has_odd_columns = false;
    di_configure_tiles(b->n_rows);
    for (int64_t k0 = 0; k0 < b->k; k0 += DI_AMX_DEPTH) {
        di_pack_rows(b, &plan, k0);
        for (int64_t strip = 0; strip < plan.n_strips; strip++) {
            di_amx_panel panel;
            di_start_panel(b, &plan, strip, k0, &panel);
            di_decode_strip(b, &panel, plan.panel);
            di_multiply_panel(b, &plan, &panel);
        }
    }
}

/* The first odd column at or after `column`, and the end of their run; false: there is none. */
DI_INLINE bool di_next_odd_columns(const di_amx_block *b, int64_t column, int64_t *first,
                                   int64_t *end)
{
    while (column < b->end && !b->is_odd_column[column - b->begin])
        column++;
    *first = column;
    while (column < b->end && b->is_odd_column[column - b->begin])
        column++;
    *end = column;
    return *first < *end;
}

#endif
