/* The AVX-512 linears' common loops: a few input rows by many weight rows ("columns" of y), for
 * each stored format of the weights. Sums have the lanes16 order of base/sum.h: one register holds
 * the 16 lanes of one result, which runs along k.
 *
 * Up to DI_GEMV_ROWS input rows, weights are decoded in registers on their way from memory. More
 * rows share a panel of DI_PANEL_COLUMNS decoded columns by DI_PANEL_DEPTH elements in the first
 * level cache.
 *
 * F4 registers hold the lanes in the order 0 8 1 9 .. 7 15: a shift of a 64-bit element by 4 q bits
 * has code q in its lower and code q + 8 in its upper half. Input rows are widened in that order,
 * totals undo it. */
#ifndef DI_KERNELS_GEMM_AVX512_H
#define DI_KERNELS_GEMM_AVX512_H

#include <string.h>

#include "kernels/avx512.h"
#include "kernels/gemm/gemm_block.h"
#include "kernels/gemm/gemm_f4_tables.h"

enum {
    DI_GEMV_ROWS = 8,
    DI_GEMV_COLUMNS = 4,
    DI_PANEL_ROWS = 4, /* a tile's; 4 x 6 sums fill the registers */
    DI_PANEL_COLUMNS = 6,
    DI_PANEL_DEPTH = 512,
    DI_PREFETCH_BYTES = 1024 /* ahead, in each stream; measured: 512 to 2048 are alike */
};

/* Rows that fit the scratch, twice if there are few (F8), next to the panel, the sums and the
 * scales; 0: k is too large. */
DI_INLINE int di_gemm_rows_that_fit(int64_t k)
{
    const int64_t fixed = DI_PANEL_COLUMNS * DI_PANEL_DEPTH * (int64_t)sizeof(float) +
                          DI_BLOCK_ROWS * DI_PANEL_COLUMNS * 64 +
                          DI_GEMV_COLUMNS * (di_gemm_padded(k) / 32 + 16) * (int64_t)sizeof(float);
    const int64_t rows =
        (DI_GEMM_SCRATCH_BYTES - fixed - 4096) / (di_gemm_padded(k) * (int64_t)sizeof(float));
    if (rows < 2 * DI_GEMV_ROWS)
        return rows < 4 ? (int)rows / 2 : (int)rows / 4 * 2; /* an even number takes no more */
    return (int)di_min_i64(DI_BLOCK_ROWS, rows / 4 * 4);
}

/* ------------------------------------------------------------------- weights */

/* di_e8m0_to_f32 of each code. */
DI_INLINE __m512 di_e8m0_512(__m128i codes)
{
    const __m512i c = _mm512_cvtepu8_epi32(codes);
    __m512i bits = _mm512_slli_epi32(c, 23);
    bits =
        _mm512_mask_mov_epi32(bits, _mm512_testn_epi32_mask(c, c), _mm512_set1_epi32(0x00400000));
    bits = _mm512_mask_mov_epi32(bits, _mm512_cmpeq_epi32_mask(c, _mm512_set1_epi32(255)),
                                 _mm512_set1_epi32(0x7fc00000));
    return _mm512_castsi512_ps(bits);
}

/* Scales as fp32, times what the decoder leaves out; writes whole registers. */
DI_INLINE void di_widen_scales(di_gemm_format format, const uint8_t *scales, int64_t n, float *out)
{
    const __m512 factor = _mm512_set1_ps(format == DI_GEMM_F8 ? 256.0f : 1.0f);
    for (int64_t i = 0; i < n; i += 16) {
        const __m128i codes = _mm_maskz_loadu_epi8(di_mask16(n - i), scales + i);
        _mm512_storeu_ps(out + i, _mm512_mul_ps(di_e8m0_512(codes), factor));
    }
}

/* 32 e4m3 codes times 2^-8: as fp16 bits, with one bit more of exponent, subnormals included. A NaN
 * code gives a number; returns words whose bit 14 is set for such codes alone. */
DI_INLINE __m512i di_decode_f8(const uint8_t *codes, __m512 w[2])
{
    const __m512i wide =
        _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)codes));
    const __m512i half =
        _mm512_and_si512(_mm512_slli_epi16(wide, 7), _mm512_set1_epi16((short)0xbfff));
    w[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(half));
    w[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1));
    return _mm512_add_epi16(half, _mm512_set1_epi16(0x80));
}

DI_INLINE bool di_has_nan_code(const uint8_t *codes, int64_t n)
{
    const __m512i nan = _mm512_set1_epi8(0x7f);
    __mmask64 found = 0;
    for (int64_t i = 0; i < n; i += 64) {
        const __mmask64 mask = n - i >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << (n - i)) - 1;
        const __m512i c = _mm512_and_si512(_mm512_maskz_loadu_epi8(mask, codes + i), nan);
        found |= _mm512_cmpeq_epi8_mask(c, nan);
    }
    return found != 0;
}

/* The e2m1 values times a scale, a table for the codes. */
DI_INLINE __m512 di_f4_table(float scale)
{
    const __m512 values = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, 0.0f,
                                         -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
    return _mm512_mul_ps(values, _mm512_set1_ps(scale));
}

/* 16 codes of 8 bytes through a table, in the order 0 8 1 9 .. 7 15. */
DI_INLINE __m512 di_decode_f4(const uint8_t *codes, __m512 table)
{
    int64_t bits;
    memcpy(&bits, codes, sizeof bits);
    const __m512i shifts = _mm512_setr_epi64(0, 4, 8, 12, 16, 20, 24, 28);
    return _mm512_permutexvar_ps(_mm512_srlv_epi64(_mm512_set1_epi64(bits), shifts), table);
}

/* 32 F4 weights. */
DI_INLINE void di_decode32_f4(const uint8_t *codes, uint8_t scale, __m512 w[2])
{
    const __m512 table = _mm512_load_ps(di_f4_tables[scale]);
    w[0] = di_decode_f4(codes, table);
    w[1] = di_decode_f4(codes + 8, table);
}

/* 32 weights with a scale of di_widen_scales. */
DI_INLINE void di_decode32(di_gemm_format format, const uint8_t *codes, float scale, __m512 w[2])
{
    if (format == DI_GEMM_F4) {
        const __m512 table = di_f4_table(scale);
        w[0] = di_decode_f4(codes, table);
        w[1] = di_decode_f4(codes + 8, table);
    } else if (format == DI_GEMM_F8) {
        di_decode_f8(codes, w);
        w[0] = _mm512_mul_ps(w[0], _mm512_set1_ps(scale));
        w[1] = _mm512_mul_ps(w[1], _mm512_set1_ps(scale));
    } else {
        w[0] = di_load_bf16_512((const di_bf16 *)(const void *)codes);
        w[1] = di_load_bf16_512((const di_bf16 *)(const void *)(codes + 32));
    }
}

/* The last n < 32 weights of a column, zeros behind them. */
DI_INLINE void di_decode_rest(di_gemm_format format, const uint8_t *codes, int64_t n, float scale,
                              __m512 w[2])
{
    uint8_t part[64] = {0};
    memcpy(part, codes, (size_t)di_format_bytes(format, n));
    di_decode32(format, part, scale, w);
}

/* ------------------------------------------------------------------- input rows and totals */

/* Widens the rows to x [rows, padded k], zeros behind k; then n_zero_rows of zeros. */
DI_INLINE void di_widen_rows(const di_gemm_block *b, di_gemm_format format, int n_zero_rows,
                             float *x)
{
    const int64_t padded = di_gemm_padded(b->k);
    const __m256i order = _mm256_setr_epi16(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    for (int r = 0; r < b->n_rows; r++) {
        const di_bf16 *row = b->x[r];
        for (int64_t i = 0; i < padded; i += 16) {
            __m256i v = _mm256_maskz_loadu_epi16(di_mask16(b->k - i), row + i);
            if (format == DI_GEMM_F4)
                v = _mm256_permutexvar_epi16(order, v);
            _mm512_store_ps(x + r * padded + i, di_bf16_widen512(v));
        }
    }
    memset(x + b->n_rows * padded, 0, (size_t)(n_zero_rows * padded) * sizeof *x);
}

/* The totals of four sums, in lanes 0, 4, 8, 12: lanes 8, 4, 2, 1 apart, as di_lanes_total adds. */
DI_INLINE __m512 di_total4(di_gemm_format format, __m512 a, __m512 b, __m512 c, __m512 d)
{
    if (format == DI_GEMM_F4) {
        const __m512i natural =
            _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
        a = _mm512_permutexvar_ps(natural, a);
        b = _mm512_permutexvar_ps(natural, b);
        c = _mm512_permutexvar_ps(natural, c);
        d = _mm512_permutexvar_ps(natural, d);
    }
    return di_total4_512(a, b, c, d);
}

/* ------------------------------------------------------------------- few rows */

/* Rows that few rows are computed as; those beyond are zeros and their results not stored. */
DI_INLINE int di_gemv_padded_rows(int n_rows)
{
    return n_rows <= 2 ? n_rows : (n_rows + 1) / 2 * 2;
}

/* Where the parts of a block's work lie in its scratch. */
typedef struct di_gemm_work {
    float *x;      /* widened rows */
    float *scaled; /* F8: rows times a column group's scales, or NULL */
    float *scales; /* [DI_GEMV_COLUMNS, padded k / 32 + 16] */
    float *panel;  /* [DI_PANEL_COLUMNS, DI_PANEL_DEPTH] */
    __m512 *sums;  /* [rows / 4, 4, DI_PANEL_COLUMNS] */
} di_gemm_work;

/* Columns that are computed at once. */
typedef struct di_gemv_streams {
    const uint8_t *codes[DI_GEMV_COLUMNS], *f4_scales[DI_GEMV_COLUMNS];
    const float *scales[DI_GEMV_COLUMNS]; /* F8 whose scales are not in the rows */
    const float *x;
    int64_t x_stride, n; /* of rows; groups of 32 elements */
    __m512 sums[24];     /* [rows, columns] */
    __m512i nan;         /* what di_decode_f8 returned */
} di_gemv_streams;

/* 32 weights of column c; `nan` gathers what di_decode_f8 returns. */
DI_INLINE void di_gemv_decode(di_gemm_format format, bool is_scaled, const di_gemv_streams *s,
                              int c, int64_t i, __m512 w[2], __m512i *nan)
{
    const uint8_t *codes = s->codes[c] + i * di_format_bytes(format, 32);
    _mm_prefetch((const char *)codes + DI_PREFETCH_BYTES, _MM_HINT_T0);
    if (is_scaled)
        *nan = _mm512_or_si512(*nan, di_decode_f8(codes, w));
    else if (format == DI_GEMM_F4)
        di_decode32_f4(codes, s->f4_scales[c][i], w);
    else
        di_decode32(format, codes, format == DI_GEMM_BF16 ? 1.0f : s->scales[c][i], w);
}

/* Half of 32 F4 weights. */
DI_INLINE __m512 di_gemv_f4_half(const di_gemv_streams *s, int c, int64_t i, int half)
{
    return di_decode_f4(s->codes[c] + i * 16 + half * 8,
                        _mm512_load_ps(di_f4_tables[s->f4_scales[c][i]]));
}

/* Adds the products of 32 elements. Of more than four rows an input is loaded for all columns,
 * whose weights are held meanwhile: as few as may be, since the sums take the registers. */
DI_INLINE void di_gemv_add(di_gemm_format format, bool is_scaled, int rows, int columns,
                           const di_gemv_streams *s, int64_t i,
                           __m512 sum[DI_GEMV_ROWS][DI_GEMV_COLUMNS], __m512i *nan)
{
    __m512 w[DI_GEMV_COLUMNS][2];
    const float *x = s->x + i * 32;
    for (int c = 0; c < columns; c++) {
        if (format == DI_GEMM_F4 && rows > 4)
            _mm_prefetch((const char *)s->codes[c] + i * 16 + DI_PREFETCH_BYTES, _MM_HINT_T0);
        else
            di_gemv_decode(format, is_scaled, s, c, i, w[c], nan);
        for (int r = 0; r < rows && rows <= 4; r++) {
            const float *v = x + r * s->x_stride;
            sum[r][c] = _mm512_fmadd_ps(w[c][0], _mm512_load_ps(v), sum[r][c]);
            sum[r][c] = _mm512_fmadd_ps(w[c][1], _mm512_load_ps(v + 16), sum[r][c]);
        }
    }
    for (int half = 0; half < 2 && rows > 4; half++) {
        for (int c = 0; c < columns && format == DI_GEMM_F4; c++)
            w[c][half] = di_gemv_f4_half(s, c, i, half);
        for (int r = 0; r < rows; r++) {
            const __m512 v = _mm512_load_ps(x + r * s->x_stride + half * 16);
            for (int c = 0; c < columns; c++)
                sum[r][c] = _mm512_fmadd_ps(w[c][half], v, sum[r][c]);
        }
    }
}

/* Sums of whole groups of 32. */
DI_INLINE void di_gemv_run(di_gemm_format format, bool is_scaled, int rows, int columns,
                           di_gemv_streams *s)
{
    __m512 sum[DI_GEMV_ROWS][DI_GEMV_COLUMNS];
    __m512i nan = _mm512_setzero_si512();
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++)
            sum[r][c] = _mm512_setzero_ps();
    for (int64_t i = 0; i < s->n; i++)
        di_gemv_add(format, is_scaled, rows, columns, s, i, sum, &nan);
    s->nan = nan;
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++)
            s->sums[r * columns + c] = sum[r][c];
}

/* Not inlined, so that each has the registers to itself. */
typedef void (*di_gemv_run_fn)(di_gemv_streams *s);
#define DI_GEMV_RUN(name, format, is_scaled, rows, columns)                                        \
    static __attribute__((noinline, unused)) void name(di_gemv_streams *s)                         \
    {                                                                                              \
        di_gemv_run(format, is_scaled, rows, columns, s);                                          \
    }
#define DI_GEMV_RUNS(name, format, is_scaled)                                                      \
    DI_GEMV_RUN(name##_1x1, format, is_scaled, 1, 1)                                               \
    DI_GEMV_RUN(name##_2x1, format, is_scaled, 2, 1)                                               \
    DI_GEMV_RUN(name##_4x1, format, is_scaled, 4, 1)                                               \
    DI_GEMV_RUN(name##_6x1, format, is_scaled, 6, 1)                                               \
    DI_GEMV_RUN(name##_8x1, format, is_scaled, 8, 1)                                               \
    DI_GEMV_RUN(name##_1x4, format, is_scaled, 1, 4)                                               \
    DI_GEMV_RUN(name##_2x4, format, is_scaled, 2, 4)                                               \
    DI_GEMV_RUN(name##_4x4, format, is_scaled, 4, 4)                                               \
    DI_GEMV_RUN(name##_6x3, format, is_scaled, 6, 3)                                               \
    DI_GEMV_RUN(name##_8x3, format, is_scaled, 8, 3)                                               \
    static const di_gemv_run_fn name[2][5] = {                                                     \
        /* one, several columns; by rows / 2 */                                                    \
        {name##_1x1, name##_2x1, name##_4x1, name##_6x1, name##_8x1},                              \
        {name##_1x4, name##_2x4, name##_4x4, name##_6x3, name##_8x3},                              \
    };
DI_GEMV_RUNS(di_gemv_run_f4, DI_GEMM_F4, false)
DI_GEMV_RUNS(di_gemv_run_f8, DI_GEMM_F8, false)
DI_GEMV_RUNS(di_gemv_run_f8_scaled, DI_GEMM_F8, true)
DI_GEMV_RUNS(di_gemv_run_bf16, DI_GEMM_BF16, false)

/* The last elements of each column, if they are fewer than 32. */
DI_INLINE void di_gemv_rest(di_gemm_format format, bool is_scaled, int rows, int columns, int64_t n,
                            di_gemv_streams *s)
{
    for (int c = 0; c < columns && n > 0; c++) {
        __m512 w[2];
        const float scale = format == DI_GEMM_F4 ? di_e8m0_to_f32(s->f4_scales[c][s->n])
                            : format == DI_GEMM_BF16 || is_scaled ? 1.0f
                                                                  : s->scales[c][s->n];
        di_decode_rest(format, s->codes[c] + di_format_bytes(format, 32 * s->n), n, scale, w);
        for (int r = 0; r < rows; r++) {
            const float *v = s->x + r * s->x_stride + s->n * 32;
            __m512 *sum = &s->sums[r * columns + c];
            *sum = _mm512_fmadd_ps(w[0], _mm512_load_ps(v), *sum);
            *sum = _mm512_fmadd_ps(w[1], _mm512_load_ps(v + 16), *sum);
        }
    }
}

/* Results of `rows` rows and of `columns` columns, `stride` apart. With is_scaled, x has the scales
 * (and 2^8) in it; false: there may be a NaN code. */
DI_INLINE bool di_gemv(const di_gemm_block *b, di_gemm_format format, bool is_scaled, int rows,
                       int columns, int64_t stride, int64_t column, const di_gemm_work *work)
{
    const int64_t padded = di_gemm_padded(b->k), n_scales = padded / 32 + 16;
    di_gemv_streams s;
    s.x = is_scaled ? work->scaled : work->x;
    s.x_stride = padded;
    s.n = b->k / 32;
    for (int c = 0; c < columns; c++) {
        const int64_t at = column + c * stride;
        s.codes[c] = di_column_codes(b, format, at);
        s.f4_scales[c] = format == DI_GEMM_F4 ? di_column_scales(b, format, at) : NULL;
        for (int64_t i = 0; i < s.n && format == DI_GEMM_F4; i += 64) /* the next column's */
            _mm_prefetch((const char *)s.f4_scales[c] + s.n + i, _MM_HINT_T0);
        s.scales[c] = work->scales + c * n_scales;
        if (format == DI_GEMM_F8 && !is_scaled)
            di_widen_scales(format, di_column_scales(b, format, at), padded / 32,
                            work->scales + c * n_scales);
    }
    const di_gemv_run_fn *runs = format == DI_GEMM_F4     ? di_gemv_run_f4[columns > 1]
                                 : format == DI_GEMM_BF16 ? di_gemv_run_bf16[columns > 1]
                                 : is_scaled              ? di_gemv_run_f8_scaled[columns > 1]
                                                          : di_gemv_run_f8[columns > 1];
    runs[rows / 2](&s);
    di_gemv_rest(format, is_scaled, rows, columns, b->k % 32, &s);
    for (int r = 0; r < rows && r < b->n_rows; r++) {
        float out[4];
        const __m512 zero = _mm512_setzero_ps(), *sum = s.sums + r * columns;
        di_split4(di_total4(format, sum[0], columns > 1 ? sum[1] : zero,
                            columns > 2 ? sum[2] : zero, columns > 3 ? sum[3] : zero),
                  out);
        for (int c = 0; c < columns; c++)
            di_put(b, r, column + c * stride, out[c]);
    }
    return !is_scaled ||
           (_mm512_test_epi16_mask(s.nan, _mm512_set1_epi16(0x4000)) == 0 && b->k % 32 == 0);
}

/* An F8 column whose codes hold a NaN is computed again through the table. */
static void di_gemv_check_nan(const di_gemm_block *b, int64_t column)
{
    const uint8_t *codes = di_column_codes(b, DI_GEMM_F8, column);
    if (!di_has_nan_code(codes, b->k))
        return;
    const uint8_t *scales = di_column_scales(b, DI_GEMM_F8, column);
    for (int r = 0; r < b->n_rows; r++) {
        float lane[16] = {0};
        for (int64_t i = 0; i < b->k; i++)
            lane[i % 16] += di_bf16_to_f32(b->x[r][i]) *
                            (di_e4m3_to_f32[codes[i]] * di_e8m0_to_f32(scales[i / 32]));
        di_put(b, r, column, di_total512(_mm512_loadu_ps(lane)));
    }
}

/* Columns [column, end) of up to DI_GEMV_ROWS rows, a few at a time. They are far apart, so that
 * each of the streams is read from its beginning to its end: the hardware prefetches one stream a
 * page. */
DI_INLINE void di_gemv_columns(const di_gemm_block *b, di_gemm_format format, bool is_scaled,
                               int rows, int at_once, int64_t column, int64_t end,
                               const di_gemm_work *work)
{
    const int64_t stride = (end - column) / at_once;
    for (int64_t i = 0; i < stride; i++)
        if (!di_gemv(b, format, is_scaled, rows, at_once, stride, column + i, work) ||
            (format == DI_GEMM_F8 && !is_scaled))
            for (int c = 0; c < at_once; c++)
                di_gemv_check_nan(b, column + i + c * stride);
    for (column += stride * at_once; column < end; column++)
        if (!di_gemv(b, format, is_scaled, rows, 1, 0, column, work) ||
            (format == DI_GEMM_F8 && !is_scaled))
            di_gemv_check_nan(b, column);
}

/* The same with the numbers of rows and columns known to the compiler; up to 24 sums. */
DI_INLINE void di_gemv_rows(const di_gemm_block *b, di_gemm_format format, bool is_scaled,
                            int64_t column, int64_t end, const di_gemm_work *work)
{
    switch (b->n_rows) {
    case 1:
        di_gemv_columns(b, format, is_scaled, 1, 4, column, end, work);
        break;
    case 2:
        di_gemv_columns(b, format, is_scaled, 2, 4, column, end, work);
        break;
    case 3:
    case 4:
        di_gemv_columns(b, format, is_scaled, 4, 4, column, end, work);
        break;
    case 5:
    case 6:
        di_gemv_columns(b, format, is_scaled, 6, 3, column, end, work);
        break;
    default:
        di_gemv_columns(b, format, is_scaled, 8, 3, column, end, work);
        break;
    }
}

/* F8: columns of one group of 32 share their scales, which go into the rows instead: a product by a
 * power of two is exact, so the sums keep their bits. Not where a row times a scale could overflow
 * or a scale is NaN. False: nothing was done. */
DI_INLINE bool di_scale_rows(const di_gemm_block *b, int64_t column, float largest,
                             const di_gemm_work *work)
{
    const int64_t padded = di_gemm_padded(b->k), groups = padded / 32;
    const int rows = di_gemv_padded_rows(b->n_rows);
    const uint8_t *scales = di_column_scales(b, DI_GEMM_F8, column);
    int most = 0;
    for (int64_t i = 0; i < groups; i++)
        most = scales[i] > most ? scales[i] : most;
    const int exponent = (int)(di_f32_bits(largest) >> 23); /* of |x|, biased */
    if (most == 255 || exponent == 255 || exponent + most + 8 - 127 >= 254)
        return false;
    for (int64_t i = 0; i < groups; i++) {
        const __m512 factor = _mm512_set1_ps(di_e8m0_to_f32(scales[i]) * 256.0f);
        for (int r = 0; r < rows; r++) {
            const float *x = work->x + r * padded + i * 32;
            float *y = work->scaled + r * padded + i * 32;
            _mm512_store_ps(y, _mm512_mul_ps(_mm512_load_ps(x), factor));
            _mm512_store_ps(y + 16, _mm512_mul_ps(_mm512_load_ps(x + 16), factor));
        }
    }
    return true;
}

/* The largest |x|; with a NaN among them, anything with the largest exponent. */
DI_INLINE float di_largest(const float *x, int64_t n)
{
    __m512i most = _mm512_setzero_si512();
    for (int64_t i = 0; i < n; i += 16)
        most = _mm512_max_epu32(
            most, _mm512_and_si512(_mm512_loadu_si512(x + i), _mm512_set1_epi32(0x7fffffff)));
    return di_f32_from_bits(_mm512_reduce_max_epu32(most));
}

DI_INLINE void di_gemv_block(const di_gemm_block *b, di_gemm_format format, int64_t column,
                             int64_t end, const di_gemm_work *work)
{
    if (format != DI_GEMM_F8) {
        di_gemv_rows(b, format, false, column, end, work);
        return;
    }
    const float largest = di_largest(work->x, b->n_rows * di_gemm_padded(b->k));
    while (column < end) {
        const int64_t stop = di_min_i64(end, (column / 32 + 1) * 32);
        if (di_scale_rows(b, column, largest, work))
            di_gemv_rows(b, format, true, column, stop, work);
        else
            di_gemv_rows(b, format, false, column, stop, work);
        column = stop;
    }
}

/* ------------------------------------------------------------------- many rows */

/* panel [columns, depth] = elements [k0, k0 + depth) of the columns; depth is a multiple of 32.
 * What the next panel needs is prefetched, since no hardware follows such short pieces. */
DI_INLINE void di_decode_panel(const di_gemm_block *b, di_gemm_format format, int64_t column,
                               int columns, int64_t k0, int64_t depth, float *panel)
{
    for (int c = 0; c < columns; c++) {
        const uint8_t *codes = di_column_codes(b, format, column + c);
        const char *next =
            (const char *)(k0 + depth < b->k
                               ? codes + di_format_bytes(format, k0 + depth)
                               : codes + di_format_bytes(format, DI_PANEL_COLUMNS * b->k));
        float scales[DI_PANEL_DEPTH / 32 + 16];
        if (format != DI_GEMM_BF16)
            di_widen_scales(format, di_column_scales(b, format, column + c) + k0 / 32, depth / 32,
                            scales);
        for (int64_t i = 0; i < depth; i += 32) {
            __m512 w[2];
            const int64_t at = k0 + i;
            const float scale = format == DI_GEMM_BF16 ? 1.0f : scales[i / 32];
            const uint8_t *from = codes + di_format_bytes(format, at);
            _mm_prefetch(next + di_format_bytes(format, i), _MM_HINT_T0);
            if (at + 32 <= b->k)
                di_decode32(format, from, scale, w);
            else
                di_decode_rest(format, from, b->k - at, scale, w);
            _mm512_store_ps(panel + c * DI_PANEL_DEPTH + i, w[0]);
            _mm512_store_ps(panel + c * DI_PANEL_DEPTH + i + 16, w[1]);
        }
    }
}

/* sums [4][columns] += rows x panel over `depth` elements. */
DI_INLINE void di_panel_tile(const float *x, int64_t x_stride, const float *panel, int64_t depth,
                             __m512 *sums)
{
    __m512 s[DI_PANEL_ROWS][DI_PANEL_COLUMNS];
    for (int r = 0; r < DI_PANEL_ROWS; r++)
        for (int c = 0; c < DI_PANEL_COLUMNS; c++)
            s[r][c] = sums[r * DI_PANEL_COLUMNS + c];
    for (int64_t i = 0; i < depth; i += 16) {
        __m512 v[DI_PANEL_ROWS];
        for (int r = 0; r < DI_PANEL_ROWS; r++)
            v[r] = _mm512_load_ps(x + r * x_stride + i);
        for (int c = 0; c < DI_PANEL_COLUMNS; c++) {
            const __m512 w = _mm512_load_ps(panel + c * DI_PANEL_DEPTH + i);
            for (int r = 0; r < DI_PANEL_ROWS; r++)
                s[r][c] = _mm512_fmadd_ps(v[r], w, s[r][c]);
        }
    }
    for (int r = 0; r < DI_PANEL_ROWS; r++)
        for (int c = 0; c < DI_PANEL_COLUMNS; c++)
            sums[r * DI_PANEL_COLUMNS + c] = s[r][c];
}

/* The rest of the last panel repeats its last column; those results are not stored. */
DI_INLINE void di_panel_columns(const di_gemm_block *b, di_gemm_format format, int64_t column,
                                int columns, const di_gemm_work *work)
{
    const int64_t padded = di_gemm_padded(b->k);
    const int tiles = (b->n_rows + DI_PANEL_ROWS - 1) / DI_PANEL_ROWS;
    const int tile_sums = DI_PANEL_ROWS * DI_PANEL_COLUMNS;
    for (int i = 0; i < tiles * tile_sums; i++)
        work->sums[i] = _mm512_setzero_ps();
    for (int64_t k0 = 0; k0 < padded; k0 += DI_PANEL_DEPTH) {
        const int64_t depth = di_min_i64(DI_PANEL_DEPTH, padded - k0);
        di_decode_panel(b, format, column, columns, k0, depth, work->panel);
        for (int t = 0; t < tiles; t++)
            di_panel_tile(work->x + t * DI_PANEL_ROWS * padded + k0, padded, work->panel, depth,
                          work->sums + t * tile_sums);
    }
    for (int t = 0; t < tiles; t++) {
        for (int c = 0; c < columns; c++) {
            const __m512 *s = work->sums + t * tile_sums + c;
            float out[4];
            di_split4(di_total4(format, s[0], s[DI_PANEL_COLUMNS], s[2 * DI_PANEL_COLUMNS],
                                s[3 * DI_PANEL_COLUMNS]),
                      out);
            for (int r = 0; r < 4 && t * 4 + r < b->n_rows; r++)
                di_put(b, t * 4 + r, column + c, out[r]);
        }
    }
}

DI_INLINE void di_panel_block(const di_gemm_block *b, di_gemm_format format, int64_t column,
                              int64_t end, const di_gemm_work *work)
{
    memset(work->panel, 0, DI_PANEL_COLUMNS * DI_PANEL_DEPTH * sizeof(float));
    for (; column < end; column += DI_PANEL_COLUMNS) {
        const int columns = (int)di_min_i64(DI_PANEL_COLUMNS, end - column);
        di_panel_columns(b, format, column, columns, work);
        for (int c = 0; c < columns && format == DI_GEMM_F8; c++)
            di_gemv_check_nan(b, column + c);
    }
}

/* ------------------------------------------------------------------- a block */

/* y = x W^T for columns [column, end) and all of the block's rows; at most
 * di_gemm_rows_that_fit(k) of them. */
DI_INLINE void di_gemm_block_run(const di_gemm_block *b, di_gemm_format format, int64_t column,
                                 int64_t end)
{
    const int64_t padded = di_gemm_padded(b->k);
    const bool is_few = b->n_rows <= DI_GEMV_ROWS;
    di_gemm_work work;
    char *at = b->scratch;
    work.panel = (float *)(void *)at;
    at += DI_PANEL_COLUMNS * DI_PANEL_DEPTH * sizeof(float);
    work.sums = (__m512 *)(void *)at;
    at += DI_BLOCK_ROWS * DI_PANEL_COLUMNS * 64;
    work.x = (float *)(void *)at;
    const int rows = is_few ? di_gemv_padded_rows(b->n_rows) : (b->n_rows + 3) / 4 * 4;
    at += (size_t)(rows * padded) * sizeof(float);
    work.scaled = (float *)(void *)at;
    if (is_few && format == DI_GEMM_F8)
        at += (size_t)(rows * padded) * sizeof(float);
    work.scales = (float *)(void *)at;
    di_widen_rows(b, format, rows - b->n_rows, work.x);
    if (is_few)
        di_gemv_block(b, format, column, end, &work);
    else
        di_panel_block(b, format, column, end, &work);
}

#endif
