/* The linears with VDPBF16PS where it is faster than FP32 multiply-add (Zen 4 and later: twice),
 * for each stored format of the weights.
 *
 * The instruction adds to each of 16 sums two products of bf16 numbers, the odd element's first,
 * each as a multiply-add with its own rounding to nearest. With elements e and e + 16 of a group of
 * 32 as odd and even element of lane e the sums have the lanes16 order and its bits. Rows and
 * weights are in that order, "pairs"; F4 and F8 weights times their scales are exact in bf16.
 *
 * It takes numbers below 2^-126 as zero. So that none arise, inputs and weights must be multiples
 * of powers of two whose product is 2^-126 or more: then every sum is one. Columns for which the
 * smallest exponents do not show this are computed by the FP32 kernel (gemm_avx512.h), which has
 * the same bits.
 *
 * Weights are decoded in registers, a few columns at once, for each eight rows again: next to eight
 * VDPBF16PS that costs nothing on a core that shuffles elsewhere than it multiplies. F8 ones of
 * more than DI_DOT_F8_ROWS rows go through a panel in the first level cache, with their scales. */
#ifndef DI_KERNELS_GEMM_AVX512BF16_H
#define DI_KERNELS_GEMM_AVX512BF16_H

#include "kernels/gemm/gemm_avx512bf16_weights.h"

/* ------------------------------------------------------------------- few rows */

/* Columns that are computed at once. */
typedef struct di_dot_streams {
    const uint8_t *codes[4], *scales[4];
    const uint16_t *x;
    int64_t x_stride, n; /* of rows; groups of 64 elements */
    __m512 sums[24];     /* [rows, columns] */
    __m512i seen;        /* of BF16 weights, as di_dot_decode gathers it */
} di_dot_streams;

/* Half of 64 weights, in pairs; of F8 ones both halves are in w already, of F4 ones w[0] has the
 * codes. */
DI_INLINE __m512i di_dot_half(di_gemm_format format, const di_dot_f4_order *o,
                              const di_dot_streams *s, int c, int64_t i, int half,
                              const __m512i w[2], __m512i *seen)
{
    if (format == DI_GEMM_F4)
        return di_dot_f4(o, w[0], half, s->scales[c][2 * i + half]);
    if (format == DI_GEMM_F8)
        return w[half];
    const __m512i v = _mm512_loadu_si512(s->codes[c] + i * 128 + half * 64);
    *seen = _mm512_min_epu16(*seen, di_dot_less_one(v));
    return di_dot_pairs(v);
}

/* F8 and BF16 weights of one or two rows are read at the memory's rate if only the hardware
 * prefetches; of more rows into the second level cache, since the first one cannot wait for as many
 * lines. */
DI_INLINE void di_dot_prefetch(di_gemm_format format, int rows, const uint8_t *codes)
{
    const char *ahead = (const char *)codes + di_format_bytes(format, DI_DOT_AHEAD);
    if (format == DI_GEMM_F4)
        _mm_prefetch(ahead, _MM_HINT_T0);
    else if (rows > 2)
        _mm_prefetch(ahead, _MM_HINT_T1);
    if (rows > 2 && format == DI_GEMM_BF16)
        _mm_prefetch(ahead + 64, _MM_HINT_T1);
}

/* Sums of whole groups of 64. */
DI_INLINE void di_dot_run(di_gemm_format format, int rows, int columns, di_dot_streams *s)
{
    __m512 sum[DI_DOT_ROWS][4];
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++)
            sum[r][c] = _mm512_setzero_ps();
    const di_dot_f4_order o = di_dot_f4_begin();
    const int64_t step = di_format_bytes(format, 64);
    __m512i seen = di_dot_seen(format);
    for (int64_t i = 0; i < s->n; i++) {
        __m512i w[4][2], v[4];
        for (int c = 0; c < columns; c++) {
            const uint8_t *codes = s->codes[c] + i * step;
            di_dot_prefetch(format, rows, codes);
            if (format == DI_GEMM_F4)
                w[c][0] = di_dot_f4_codes(codes);
            else if (format == DI_GEMM_F8)
                di_dot_f8(_mm512_loadu_si512(codes), w[c]);
        }
        for (int half = 0; half < 2; half++) {
            for (int c = 0; c < columns; c++)
                v[c] = di_dot_half(format, &o, s, c, i, half, w[c], &seen);
            for (int r = 0; r < rows; r++) {
                const __m512i x = _mm512_load_si512(s->x + r * s->x_stride + i * 64 + half * 32);
                for (int c = 0; c < columns; c++)
                    sum[r][c] = di_dot_add(sum[r][c], v[c], x);
            }
        }
    }
    s->seen = seen;
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++)
            s->sums[r * columns + c] = sum[r][c];
}

/* Not inlined, so that each has the registers to itself. */
#define DI_DOT_RUN(name, format, rows, columns)                                                    \
    static __attribute__((noinline, unused)) void name(di_dot_streams *s)                          \
    {                                                                                              \
        di_dot_run(format, rows, columns, s);                                                      \
    }
typedef void (*di_dot_run_fn)(di_dot_streams *s);
#define DI_DOT_RUNS(name, format)                                                                  \
    DI_DOT_RUN(name##_1x1, format, 1, 1)                                                           \
    DI_DOT_RUN(name##_2x1, format, 2, 1)                                                           \
    DI_DOT_RUN(name##_4x1, format, 4, 1)                                                           \
    DI_DOT_RUN(name##_6x1, format, 6, 1)                                                           \
    DI_DOT_RUN(name##_8x1, format, 8, 1)                                                           \
    DI_DOT_RUN(name##_1x3, format, 1, 3)                                                           \
    DI_DOT_RUN(name##_2x3, format, 2, 3)                                                           \
    DI_DOT_RUN(name##_4x3, format, 4, 3)                                                           \
    DI_DOT_RUN(name##_6x3, format, 6, 3)                                                           \
    DI_DOT_RUN(name##_8x3, format, 8, 3)                                                           \
    DI_DOT_RUN(name##_1x4, format, 1, 4)                                                           \
    DI_DOT_RUN(name##_2x4, format, 2, 4)                                                           \
    DI_DOT_RUN(name##_4x4, format, 4, 4)                                                           \
    static const di_dot_run_fn name[5][5] = {                                                      \
        /* by columns, rows / 2 */                                                                 \
        [1] = {name##_1x1, name##_2x1, name##_4x1, name##_6x1, name##_8x1},                        \
        [3] = {name##_1x3, name##_2x3, name##_4x3, name##_6x3, name##_8x3},                        \
        [4] = {name##_1x4, name##_2x4, name##_4x4},                                                \
    };
DI_DOT_RUNS(di_dot_run_f4, DI_GEMM_F4)
DI_DOT_RUNS(di_dot_run_f8, DI_GEMM_F8)
DI_DOT_RUNS(di_dot_run_bf16, DI_GEMM_BF16)

/* The last elements of each column, if they are fewer than 64. */
DI_INLINE void di_dot_rest(di_gemm_format format, int rows, int columns, int64_t n_rest,
                           di_dot_streams *s)
{
    for (int c = 0; c < columns && n_rest > 0; c++) {
        __m512i w[2];
        di_dot_decode_rest(format, s->codes[c] + s->n * di_format_bytes(format, 64),
                           format == DI_GEMM_F4 ? s->scales[c] + 2 * s->n : NULL, n_rest, w,
                           &s->seen);
        for (int r = 0; r < rows; r++) {
            const uint16_t *v = s->x + r * s->x_stride + s->n * 64;
            __m512 *sum = &s->sums[r * columns + c];
            *sum = di_dot_add(*sum, w[0], _mm512_load_si512(v));
            *sum = di_dot_add(*sum, w[1], _mm512_load_si512(v + 32));
        }
    }
}

/* Rows that so many are computed as: eights, and of the rest 1, 2, 4 or 6. */
DI_INLINE int di_dot_padded_rows(int n_rows)
{
    return n_rows % 8 == 1 ? n_rows : (n_rows + 1) / 2 * 2;
}

/* Results of `columns` columns, `stride` apart. False: some column must be computed another way. */
DI_INLINE bool di_dot_columns(const di_gemm_block *b, di_gemm_format format, int columns,
                              int64_t stride, int64_t column, const di_dot_work *work)
{
    const int rows = di_dot_padded_rows(b->n_rows);
    const di_dot_run_fn *runs = format == DI_GEMM_F4   ? di_dot_run_f4[columns]
                                : format == DI_GEMM_F8 ? di_dot_run_f8[columns]
                                                       : di_dot_run_bf16[columns];
    di_dot_streams s = {.x_stride = di_dot_padded(b->k), .n = b->k / 64};
    for (int c = 0; c < columns; c++) {
        s.codes[c] = di_column_codes(b, format, column + c * stride);
        if (format != DI_GEMM_F4)
            continue;
        s.scales[c] = di_column_scales(b, format, column + c * stride);
        for (int64_t i = 0; i < b->k / 32; i += 64) /* the next column's */
            _mm_prefetch((const char *)s.scales[c] + b->k / 32 + i, _MM_HINT_T0);
    }
    for (int first = 0; first < rows; first += DI_DOT_ROWS) {
        const int n = rows - first < DI_DOT_ROWS ? rows - first : DI_DOT_ROWS;
        s.x = (format == DI_GEMM_F8 ? work->scaled : work->x) + first * s.x_stride;
        runs[n / 2](&s);
        di_dot_rest(format, n, columns, b->k % 64, &s);
        di_dot_results results;
        di_dot_total(b, s.sums, n * columns, &results);
        for (int r = 0; r < n && first + r < b->n_rows; r++)
            for (int c = 0; c < columns; c++)
                di_dot_put(b, &results, r * columns + c, first + r, column + c * stride);
    }
    bool is_exact = format == DI_GEMM_F8 || di_dot_may_see(format, s.seen, work);
    for (int c = 0; c < columns && format == DI_GEMM_F4; c++)
        is_exact &= di_dot_has_scales(s.scales[c], b->k / 32, work->low, work->high);
    return is_exact;
}

/* Columns [column, end), a few at once and far apart as in gemm_avx512.h. False: some must be
 * computed another way. */
DI_INLINE bool di_dot_few(const di_gemm_block *b, di_gemm_format format, int64_t column,
                          int64_t end, const di_dot_work *work)
{
    const int at_once = b->n_rows > 4 ? 3 : 4; /* up to 24 sums */
    const int64_t stride = (end - column) / at_once;
    bool is_exact = true;
    for (int64_t i = 0; i < stride; i++)
        is_exact &= di_dot_columns(b, format, at_once, stride, column + i, work);
    for (column += stride * at_once; column < end; column++)
        is_exact &= di_dot_columns(b, format, 1, 0, column, work);
    return is_exact;
}

/* F8: the scales of a group of 32 columns go into the rows. False: nothing was done. */
DI_INLINE bool di_dot_scale_rows(const di_gemm_block *b, int64_t column, const di_dot_work *work)
{
    const int64_t padded = di_dot_padded(b->k), groups = di_gemm_padded(b->k) / 32;
    const uint8_t *scales = di_column_scales(b, DI_GEMM_F8, column);
    const int high = (int)di_min_i64(work->high, 254 + 127 - work->most);
    if (work->most == 255 || !di_dot_has_scales(scales, groups, work->low, high))
        return false;
    const int rows = di_dot_padded_rows(b->n_rows);
    for (int r = 0; r < rows; r++) {
        const uint16_t *x = work->x + r * padded;
        uint16_t *y = work->scaled + r * padded;
        for (int64_t i = 0; i < groups; i++)
            _mm512_store_si512(y + i * 32, di_dot_scale(_mm512_load_si512(x + i * 32), scales[i]));
        if (groups * 32 < padded)
            _mm512_store_si512(y + groups * 32, _mm512_setzero_si512());
    }
    return true;
}

/* ------------------------------------------------------------------- many rows, F8 */

/* Prefetches part `i` of n parts of what the next panel needs, the elements from k0 on: no hardware
 * follows such short pieces, and the memory needs the time that tiles take. */
DI_INLINE void di_dot_prefetch_panel(const di_gemm_block *b, int64_t column, int64_t k0, int i,
                                     int n)
{
    if (k0 >= b->k) {
        column += DI_DOT_COLUMNS;
        k0 = 0;
    }
    const int lines = (int)(di_min_i64(DI_DOT_DEPTH, b->k - k0) / 64);
    const int all = lines * DI_DOT_COLUMNS, end = all * (i + 1) / n;
    for (int j = all * i / n; j < end; j++)
        _mm_prefetch((const char *)di_column_codes(b, DI_GEMM_F8, column + j / lines) + k0 +
                         j % lines * 64,
                     _MM_HINT_T1);
}

/* panel [columns, depth] = elements [k0, k0 + depth) of the columns in pairs, times their scales.
 */
DI_INLINE void di_dot_decode_panel(const di_gemm_block *b, int64_t column, int columns, int64_t k0,
                                   int64_t depth, uint16_t *panel, __m512i *seen)
{
    for (int c = 0; c < columns; c++) {
        const uint8_t *codes = di_column_codes(b, DI_GEMM_F8, column + c);
        const uint8_t *scales = di_column_scales(b, DI_GEMM_F8, column + c);
        for (int64_t at = k0; at < k0 + depth; at += 64) {
            __m512i w[2];
            if (at + 64 <= b->k)
                di_dot_decode(DI_GEMM_F8, codes + at, NULL, w, seen);
            else
                di_dot_decode_rest(DI_GEMM_F8, codes + at, NULL, b->k - at, w, seen);
            w[0] = di_dot_scale(w[0], scales[at / 32]);
            if (at + 32 < b->k)
                w[1] = di_dot_scale(w[1], scales[at / 32 + 1]);
            uint16_t *to = panel + c * DI_DOT_DEPTH + at - k0;
            _mm512_store_si512(to, w[0]);
            _mm512_store_si512(to + 32, w[1]);
        }
    }
}

/* sums [4][columns] += rows x panel over `depth` elements. */
DI_INLINE void di_dot_tile(const uint16_t *x, int64_t x_stride, const uint16_t *panel,
                           int64_t depth, __m512 *sums)
{
    __m512 s[DI_DOT_PANEL_ROWS][DI_DOT_COLUMNS];
    for (int r = 0; r < DI_DOT_PANEL_ROWS; r++)
        for (int c = 0; c < DI_DOT_COLUMNS; c++)
            s[r][c] = sums[r * DI_DOT_COLUMNS + c];
    for (int64_t i = 0; i < depth; i += 32) {
        __m512i v[DI_DOT_PANEL_ROWS];
        for (int r = 0; r < DI_DOT_PANEL_ROWS; r++)
            v[r] = _mm512_load_si512(x + r * x_stride + i);
        for (int c = 0; c < DI_DOT_COLUMNS; c++) {
            const __m512i w = _mm512_load_si512(panel + c * DI_DOT_DEPTH + i);
            for (int r = 0; r < DI_DOT_PANEL_ROWS; r++)
                s[r][c] = di_dot_add(s[r][c], w, v[r]);
        }
    }
    for (int r = 0; r < DI_DOT_PANEL_ROWS; r++)
        for (int c = 0; c < DI_DOT_COLUMNS; c++)
            sums[r * DI_DOT_COLUMNS + c] = s[r][c];
}

/* Columns of one panel; false: some must be computed another way. */
DI_INLINE bool di_dot_panel(const di_gemm_block *b, int64_t column, int columns,
                            const di_dot_work *work)
{
    const int64_t padded = di_dot_padded(b->k);
    const int tiles = (b->n_rows + DI_DOT_PANEL_ROWS - 1) / DI_DOT_PANEL_ROWS;
    const int tile_sums = DI_DOT_PANEL_ROWS * DI_DOT_COLUMNS;
    __m512i seen = di_dot_seen(DI_GEMM_F8);
    for (int i = 0; i < tiles * tile_sums; i++)
        work->sums[i] = _mm512_setzero_ps();
    for (int64_t k0 = 0; k0 < padded; k0 += DI_DOT_DEPTH) {
        const int64_t depth = di_min_i64(DI_DOT_DEPTH, padded - k0);
        di_dot_decode_panel(b, column, columns, k0, depth, work->panel, &seen);
        for (int t = 0; t < tiles; t++) {
            di_dot_prefetch_panel(b, column, k0 + depth, t, tiles);
            di_dot_tile(work->x + t * DI_DOT_PANEL_ROWS * padded + k0, padded, work->panel, depth,
                        work->sums + t * tile_sums);
        }
    }
    for (int t = 0; t < tiles; t++) {
        di_dot_results results;
        di_dot_total(b, work->sums + t * tile_sums, tile_sums, &results);
        for (int r = 0; r < DI_DOT_PANEL_ROWS && t * DI_DOT_PANEL_ROWS + r < b->n_rows; r++)
            for (int c = 0; c < columns; c++)
                di_dot_put(b, &results, r * DI_DOT_COLUMNS + c, t * DI_DOT_PANEL_ROWS + r,
                           column + c);
    }
    bool is_exact = di_dot_may_see(DI_GEMM_F8, seen, work);
    for (int c = 0; c < columns; c++)
        is_exact &= di_dot_has_scales(di_column_scales(b, DI_GEMM_F8, column + c),
                                      di_gemm_padded(b->k) / 32, work->low, work->high);
    return is_exact;
}

/* ------------------------------------------------------------------- a block */

/* Divides the scratch and packs the rows. */
DI_INLINE void di_dot_begin(const di_gemm_block *b, di_gemm_format format, di_dot_work *work)
{
    const int64_t padded = di_dot_padded(b->k);
    const bool is_few = di_dot_is_few(format, b->n_rows);
    const int rows = is_few ? di_dot_padded_rows(b->n_rows) : (b->n_rows + 3) / 4 * 4;
    char *at = b->scratch;
    work->panel = (uint16_t *)(void *)at;
    at += DI_DOT_COLUMNS * DI_DOT_DEPTH * sizeof(uint16_t);
    work->sums = (__m512 *)(void *)at;
    at += DI_BLOCK_ROWS * DI_DOT_COLUMNS * 64;
    work->x = (uint16_t *)(void *)at;
    work->scaled = work->x + (is_few && format == DI_GEMM_F8 ? rows * padded : 0);
    di_dot_pack_rows(b, rows - b->n_rows, work);
    di_dot_set_limits(format, work);
    memset(work->panel, 0, DI_DOT_COLUMNS * DI_DOT_DEPTH * sizeof(uint16_t));
}

/* Columns [column, end), as many as are worth a look at their exactness. */
DI_INLINE bool di_dot_piece(const di_gemm_block *b, di_gemm_format format, int64_t column,
                            int64_t end, const di_dot_work *work)
{
    if (!di_dot_is_few(format, b->n_rows))
        return di_dot_panel(b, column, (int)(end - column), work);
    if (format == DI_GEMM_F8 && !di_dot_scale_rows(b, column, work))
        return false;
    return di_dot_few(b, format, column, end, work);
}

/* The same columns by the FP32 kernel, which has room for fewer rows. */
static __attribute__((noinline)) void di_dot_fall_back(const di_gemm_block *b,
                                                       di_gemm_format format, int64_t column,
                                                       int64_t end)
{
    di_gemm_block part = *b;
    const int at_once = di_gemm_rows_that_fit(b->k);
    for (int first = 0; first < b->n_rows; first += at_once) {
        part.n_rows = b->n_rows - first < at_once ? b->n_rows - first : at_once;
        for (int r = 0; r < part.n_rows; r++) {
            part.x[r] = b->x[first + r];
            part.y[r] = b->y[first + r];
        }
        if (format == DI_GEMM_F4)
            di_gemm_block_run(&part, DI_GEMM_F4, column, end);
        else if (format == DI_GEMM_F8)
            di_gemm_block_run(&part, DI_GEMM_F8, column, end);
        else
            di_gemm_block_run(&part, DI_GEMM_BF16, column, end);
    }
}

/* y = x W^T for columns [column, end) and all of the block's rows; at most
 * di_dot_rows_that_fit(k) of them. */
DI_INLINE void di_dot_block_run(const di_gemm_block *b, di_gemm_format format, int64_t column,
                                int64_t end)
{
    if (format == DI_GEMM_F4 && b->n_rows == 1 && b->k < DI_DOT_F4_K) {
        di_gemm_block_run(b, format, column, end);
        return;
    }
    di_dot_work work;
    di_dot_begin(b, format, &work);
    while (column < end) {
        const int64_t at_once = !di_dot_is_few(format, b->n_rows) ? DI_DOT_COLUMNS
                                : format == DI_GEMM_F8            ? 32 - column % 32
                                                                  : 192;
        const int64_t stop = di_min_i64(end, column + at_once);
        if (!di_dot_piece(b, format, column, stop, &work)) {
            di_dot_fall_back(b, format, column, stop);
            di_dot_begin(b, format, &work);
        }
        column = stop;
    }
}

#endif
