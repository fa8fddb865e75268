/* The AVX2 linears' loops: gemm_avx512.h's for registers of 8 lanes. Sums have the lanes16 order of
 * base/sum.h: lanes 0-7 and 8-15 are two registers, which are added up independently.
 *
 * Up to DI_GEMV2_ROWS input rows, weights are decoded in registers. More rows share a panel of
 * DI_PANEL2_COLUMNS decoded columns by DI_PANEL2_DEPTH elements in the first level cache, which a
 * tile goes through twice: for the lower and for the upper lanes, so that 3 x 4 sums fill the
 * registers. */
#ifndef DI_KERNELS_GEMM_AVX2_H
#define DI_KERNELS_GEMM_AVX2_H

#include <string.h>

#include "kernels/avx2.h"
#include "kernels/gemm/gemm_block.h"

enum {
    DI_GEMV2_ROWS = 4,
    DI_PANEL2_ROWS = 3,
    DI_PANEL2_COLUMNS = 4,
    DI_PANEL2_DEPTH = 512,
    DI_PANEL2_SUMS = 2 * DI_PANEL2_ROWS * DI_PANEL2_COLUMNS, /* registers of a tile */
    DI_BLOCK2_ROWS = 63,
    DI_PREFETCH2_BYTES = 1024
};

/* Rows that fit the scratch beside the panel and the sums; 0: k is too large. */
DI_INLINE int di_gemm2_rows_that_fit(int64_t k)
{
    const int64_t fixed =
        DI_PANEL2_COLUMNS * DI_PANEL2_DEPTH * (int64_t)sizeof(float) +
        DI_BLOCK2_ROWS / DI_PANEL2_ROWS * DI_PANEL2_SUMS * (int64_t)sizeof(__m256);
    const int64_t rows =
        (DI_GEMM_SCRATCH_BYTES - fixed) / (di_gemm_padded(k) * (int64_t)sizeof(float));
    if (rows < DI_PANEL2_ROWS)
        return (int)rows;
    return (int)di_min_i64(DI_BLOCK2_ROWS, rows / DI_PANEL2_ROWS * DI_PANEL2_ROWS);
}

/* ------------------------------------------------------------------- weights */

/* What a column's next codes look like once decoded, and whether an F8 code among them was NaN:
 * bit 14 of a word of `nan`. */
typedef struct di_column2 {
    const uint8_t *codes, *scales;
    __m256i nan;
} di_column2;

DI_INLINE di_column2 di_column2_at(const di_gemm_block *b, di_gemm_format format, int64_t column)
{
    return (di_column2){di_column_codes(b, format, column),
                        format == DI_GEMM_BF16 ? NULL : di_column_scales(b, format, column),
                        _mm256_setzero_si256()};
}

/* 32 e2m1 codes: twice their values as bytes, then as fp32 times half the scale. */
DI_INLINE void di_decode32_f4_256(const uint8_t *codes, float scale, __m256 w[4])
{
    const __m128i twice = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    const __m128i low = _mm_set1_epi8(15);
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)codes);
    const __m128i even = _mm_shuffle_epi8(twice, _mm_and_si128(v, low));
    const __m128i odd = _mm_shuffle_epi8(twice, _mm_and_si128(_mm_srli_epi16(v, 4), low));
    const __m128i a = _mm_unpacklo_epi8(even, odd), b = _mm_unpackhi_epi8(even, odd);
    const __m256 half = _mm256_set1_ps(scale * 0.5f);
    w[0] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(a)), half);
    w[1] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(a, 8))), half);
    w[2] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b)), half);
    w[3] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(b, 8))), half);
}

/* 32 e4m3 codes by way of fp16 bits with one bit more of exponent, subnormals included. A NaN code
 * gives a number, and is noted in *nan. */
DI_INLINE void di_decode32_f8_256(const uint8_t *codes, float scale, __m256i *nan, __m256 w[4])
{
    const __m256 factor = _mm256_set1_ps(scale * 256.0f);
    for (int i = 0; i < 2; i++) {
        const __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(codes + 16 * i));
        const __m256i half = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(c), 7),
                                              _mm256_set1_epi16((short)0xbfff));
        *nan = _mm256_or_si256(*nan, _mm256_add_epi16(half, _mm256_set1_epi16(0x80)));
        w[2 * i] = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(half)), factor);
        w[2 * i + 1] = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)), factor);
    }
}

/* Elements [i, i + 32) of a column, zeros behind k; i is a multiple of 32. */
DI_INLINE void di_decode32_256(di_gemm_format format, di_column2 *c, int64_t i, int64_t k,
                               __m256 w[4])
{
    const uint8_t *codes = c->codes + di_format_bytes(format, i);
    uint8_t part[64];
    if (i + 32 > k) {
        memset(part, 0, sizeof part);
        memcpy(part, codes, (size_t)di_format_bytes(format, k - i));
        codes = part;
    }
    if (format == DI_GEMM_F4)
        di_decode32_f4_256(codes, di_e8m0_to_f32(c->scales[i / 32]), w);
    else if (format == DI_GEMM_F8)
        di_decode32_f8_256(codes, di_e8m0_to_f32(c->scales[i / 32]), &c->nan, w);
    else
        for (int j = 0; j < 4; j++)
            w[j] = di_load_bf16_256((const di_bf16 *)(const void *)codes + 8 * j);
}

/* An F8 column that had a NaN code is computed again through the table. */
static void di_redo_if_nan(const di_gemm_block *b, const di_column2 *c, int64_t column)
{
    if (_mm256_testz_si256(c->nan, _mm256_set1_epi16(0x4000)))
        return;
    for (int r = 0; r < b->n_rows; r++) {
        float lane[16] = {0};
        for (int64_t i = 0; i < b->k; i++)
            lane[i % 16] += di_bf16_to_f32(b->x[r][i]) *
                            (di_e4m3_to_f32[c->codes[i]] * di_e8m0_to_f32(c->scales[i / 32]));
        di_put(b, r, column, di_total256(_mm256_loadu_ps(lane), _mm256_loadu_ps(lane + 8)));
    }
}

/* ------------------------------------------------------------------- few rows */

/* x [rows, padded k] = the rows as fp32, zeros behind k; then n_zero_rows of zeros. */
DI_INLINE void di_widen_rows_256(const di_gemm_block *b, int n_zero_rows, float *x)
{
    const int64_t padded = di_gemm_padded(b->k);
    for (int r = 0; r < b->n_rows; r++)
        for (int64_t i = 0; i < padded; i += 8)
            _mm256_store_ps(x + r * padded + i, i + 8 <= b->k ? di_load_bf16_256(b->x[r] + i)
                                                : i < b->k
                                                    ? di_load_bf16_part256(b->x[r] + i, b->k - i)
                                                    : _mm256_setzero_ps());
    memset(x + b->n_rows * padded, 0, (size_t)(n_zero_rows * padded) * sizeof *x);
}

/* Results of `rows` rows and of `columns` columns, `stride` apart. */
DI_INLINE void di_gemv_256(const di_gemm_block *b, di_gemm_format format, int rows, int columns,
                           int64_t stride, int64_t column, const float *x)
{
    const int64_t padded = di_gemm_padded(b->k);
    di_column2 from[4];
    __m256 sum[DI_GEMV2_ROWS][4][2];
    for (int c = 0; c < columns; c++) {
        from[c] = di_column2_at(b, format, column + c * stride);
        for (int r = 0; r < rows; r++)
            sum[r][c][0] = sum[r][c][1] = _mm256_setzero_ps();
    }
    for (int64_t i = 0; i < padded; i += 32) {
        for (int c = 0; c < columns; c++) {
            __m256 w[4];
            _mm_prefetch((const char *)from[c].codes + di_format_bytes(format, i) +
                             DI_PREFETCH2_BYTES,
                         _MM_HINT_T0);
            di_decode32_256(format, &from[c], i, b->k, w);
            for (int r = 0; r < rows; r++)
                for (int j = 0; j < 4; j++)
                    sum[r][c][j % 2] = _mm256_fmadd_ps(
                        w[j], _mm256_load_ps(x + r * padded + i + 8 * j), sum[r][c][j % 2]);
        }
    }
    for (int c = 0; c < columns; c++) {
        for (int r = 0; r < rows; r++)
            di_put(b, r, column + c * stride, di_total256(sum[r][c][0], sum[r][c][1]));
        if (format == DI_GEMM_F8)
            di_redo_if_nan(b, &from[c], column + c * stride);
    }
}

/* Columns [column, end), `at_once` at a time and far apart, so that each is a stream that is read
 * from its beginning to its end. */
DI_INLINE void di_gemv_columns_256(const di_gemm_block *b, di_gemm_format format, int rows,
                                   int at_once, int64_t column, int64_t end, const float *x)
{
    const int64_t stride = (end - column) / at_once;
    for (int64_t i = 0; i < stride; i++)
        di_gemv_256(b, format, rows, at_once, stride, column + i, x);
    for (column += stride * at_once; column < end; column++)
        di_gemv_256(b, format, rows, 1, 0, column, x);
}

/* ------------------------------------------------------------------- many rows */

/* sums [3][4] += rows x panel over `depth` elements, for eight lanes of each sixteen. */
DI_INLINE void di_panel_tile_256(const float *x, int64_t x_stride, const float *panel,
                                 int64_t depth, __m256 *sums)
{
    __m256 s[DI_PANEL2_ROWS][DI_PANEL2_COLUMNS];
    for (int r = 0; r < DI_PANEL2_ROWS; r++)
        for (int c = 0; c < DI_PANEL2_COLUMNS; c++)
            s[r][c] = sums[r * DI_PANEL2_COLUMNS + c];
    for (int64_t i = 0; i < depth; i += 16) {
        __m256 v[DI_PANEL2_ROWS];
        for (int r = 0; r < DI_PANEL2_ROWS; r++)
            v[r] = _mm256_load_ps(x + r * x_stride + i);
        for (int c = 0; c < DI_PANEL2_COLUMNS; c++) {
            const __m256 w = _mm256_load_ps(panel + c * DI_PANEL2_DEPTH + i);
            for (int r = 0; r < DI_PANEL2_ROWS; r++)
                s[r][c] = _mm256_fmadd_ps(v[r], w, s[r][c]);
        }
    }
    for (int r = 0; r < DI_PANEL2_ROWS; r++)
        for (int c = 0; c < DI_PANEL2_COLUMNS; c++)
            sums[r * DI_PANEL2_COLUMNS + c] = s[r][c];
}

/* Up to four columns of all rows; what the panel holds beyond `columns` is computed, not stored. */
DI_INLINE void di_panel_columns_256(const di_gemm_block *b, di_gemm_format format, int64_t column,
                                    int columns, const float *x, float *panel, __m256 *sums)
{
    const int64_t padded = di_gemm_padded(b->k);
    const int tiles = (b->n_rows + DI_PANEL2_ROWS - 1) / DI_PANEL2_ROWS;
    const int half = DI_PANEL2_SUMS / 2;
    di_column2 from[DI_PANEL2_COLUMNS];
    for (int c = 0; c < columns; c++)
        from[c] = di_column2_at(b, format, column + c);
    for (int i = 0; i < tiles * DI_PANEL2_SUMS; i++)
        sums[i] = _mm256_setzero_ps();
    for (int64_t k0 = 0; k0 < padded; k0 += DI_PANEL2_DEPTH) {
        const int64_t depth = di_min_i64(DI_PANEL2_DEPTH, padded - k0);
        for (int c = 0; c < columns; c++) {
            for (int64_t i = 0; i < depth; i += 32) {
                __m256 w[4];
                di_decode32_256(format, &from[c], k0 + i, b->k, w);
                for (int j = 0; j < 4; j++)
                    _mm256_store_ps(panel + c * DI_PANEL2_DEPTH + i + 8 * j, w[j]);
            }
        }
        for (int t = 0; t < 2 * tiles; t++)
            di_panel_tile_256(x + t / 2 * DI_PANEL2_ROWS * padded + k0 + t % 2 * 8, padded,
                              panel + t % 2 * 8, depth, sums + t * half);
    }
    for (int c = 0; c < columns; c++) {
        for (int r = 0; r < b->n_rows; r++) {
            const __m256 *s = sums + r / DI_PANEL2_ROWS * DI_PANEL2_SUMS +
                              r % DI_PANEL2_ROWS * DI_PANEL2_COLUMNS + c;
            di_put(b, r, column + c, di_total256(s[0], s[half]));
        }
        if (format == DI_GEMM_F8)
            di_redo_if_nan(b, &from[c], column + c);
    }
}

/* ------------------------------------------------------------------- a block */

/* y = x W^T for columns [column, end) and all of the block's rows; at most
 * di_gemm2_rows_that_fit(k) of them. */
DI_INLINE void di_gemm2_block_run(const di_gemm_block *b, di_gemm_format format, int64_t column,
                                  int64_t end)
{
    float *panel = (float *)(void *)b->scratch;
    __m256 *sums = (__m256 *)(void *)(panel + DI_PANEL2_COLUMNS * DI_PANEL2_DEPTH);
    float *x = (float *)(void *)(sums + DI_BLOCK2_ROWS / DI_PANEL2_ROWS * DI_PANEL2_SUMS);
    if (b->n_rows <= DI_GEMV2_ROWS) {
        di_widen_rows_256(b, 0, x);
        if (b->n_rows == 1)
            di_gemv_columns_256(b, format, 1, 4, column, end, x);
        else if (b->n_rows == 2)
            di_gemv_columns_256(b, format, 2, 2, column, end, x);
        else if (b->n_rows == 3)
            di_gemv_columns_256(b, format, 3, 1, column, end, x);
        else
            di_gemv_columns_256(b, format, 4, 1, column, end, x);
        return;
    }
    di_widen_rows_256(b, (DI_PANEL2_ROWS - b->n_rows % DI_PANEL2_ROWS) % DI_PANEL2_ROWS, x);
    memset(panel, 0, DI_PANEL2_COLUMNS * DI_PANEL2_DEPTH * sizeof *panel);
    for (; column < end; column += DI_PANEL2_COLUMNS)
        di_panel_columns_256(b, format, column, (int)di_min_i64(DI_PANEL2_COLUMNS, end - column), x,
                             panel, sums);
}

#endif
