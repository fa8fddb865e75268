/* The AMX linears' blocks, and how a strip of columns of each stored format becomes tiles of bf16.
 */
#ifndef DI_KERNELS_GEMM_AMX_WEIGHTS_H
#define DI_KERNELS_GEMM_AMX_WEIGHTS_H

#include <immintrin.h>
#include <string.h>

#include "kernels/avx512.h"
#include "kernels/gemm/gemm_block.h"

enum {
    DI_AMX_TILE = 1024, /* bytes: 16 rows of 64 */
    DI_AMX_ROWS = 256,  /* input rows of a block, at most */
    DI_AMX_DEPTH = 512, /* elements of a panel; 256 and 384 were slower */
    DI_AMX_GROUPS = DI_AMX_DEPTH / 32,
    DI_AMX_MAX_K = 1 << 15,
    DI_AMX_MAX_COLUMNS = 4096, /* of a block */
    DI_AMX_PANEL_BYTES = 2 * DI_AMX_GROUPS * DI_AMX_TILE,
    DI_AMX_MIN_SCALE = 127 - 53,
    DI_AMX_MAX_SCALE = 127 + 45,         /* 448 is below 2^9 */
    DI_AMX_MAX_WEIGHT = (127 + 54) << 7, /* bits of bf16 */
    DI_AMX_MIN_X = (127 - 57) << 7,
    DI_AMX_MAX_X = (127 + 58) << 7
};

/* Input rows, where their results go, and the columns [begin, end) of a weight. */
typedef struct di_amx_block {
    di_gemm_format format;
    const uint8_t *codes, *scales;
    int64_t k, begin, end;
    bool is_f32_out;
    int n_rows;
    const di_bf16 *x[DI_AMX_ROWS];
    void *y[DI_AMX_ROWS]; /* result of column begin */
    char *scratch;        /* DI_GEMM_SCRATCH_BYTES */
    /* results: what is to be computed again, otherwise */
    bool is_odd_row[DI_AMX_ROWS];
    bool is_odd_column[DI_AMX_MAX_COLUMNS];
    bool has_odd_columns;
} di_amx_block;

/* 16 columns from a multiple of 16 on, which are all of one F8 scale; those out of [begin, end)
 * repeat one inside. */
typedef struct di_amx_columns {
    int64_t first;
    const uint8_t *codes[16]; /* at the panel's first element */
    const uint8_t *scales;    /* F8 */
    __m512i f4_scales[4];     /* as di_transpose_bytes gives them */
} di_amx_columns;

/* A strip's decoded elements [k0, k0 + 32 n_groups): [groups][2] tiles. */
typedef struct di_amx_panel {
    di_amx_columns columns[2];
    int64_t strip, k0;
    int n_columns; /* tiles of them */
    int n_groups;
    bool is_last;   /* along k */
    intptr_t ahead; /* from its codes to those of the next panel */
} di_amx_panel;

/* Lane L is the 16 bytes at `at` of column 4 L + j. */
DI_INLINE __m512i di_load_columns(const uint8_t *const *codes, int j, int64_t at)
{
    const __m128i *c0 = (const __m128i *)(const void *)(codes[j] + at);
    const __m128i *c1 = (const __m128i *)(const void *)(codes[j + 4] + at);
    const __m128i *c2 = (const __m128i *)(const void *)(codes[j + 8] + at);
    const __m128i *c3 = (const __m128i *)(const void *)(codes[j + 12] + at);
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128(c0));
    v = _mm512_inserti32x4(v, _mm_loadu_si128(c1), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128(c2), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128(c3), 3);
}

/* v[j]: 16 bytes of columns 4 L + j. out[q], lane L: bytes 4 q .. 4 q + 3, each of its four
 * columns. */
DI_INLINE void di_transpose_bytes(const __m512i v[4], __m512i out[4])
{
    const __m512i a = _mm512_unpacklo_epi8(v[0], v[1]), b = _mm512_unpacklo_epi8(v[2], v[3]);
    const __m512i c = _mm512_unpackhi_epi8(v[0], v[1]), d = _mm512_unpackhi_epi8(v[2], v[3]);
    out[0] = _mm512_unpacklo_epi16(a, b);
    out[1] = _mm512_unpackhi_epi16(a, b);
    out[2] = _mm512_unpacklo_epi16(c, d);
    out[3] = _mm512_unpackhi_epi16(c, d);
}

/* Byte i of each column of such a lane, in both 16-bit halves of the column's 32 bits. */
DI_INLINE __m512i di_spread_bytes(__m512i v, int i)
{
    const __m512i first = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, -128, 0, -128, 1, -128, 1, -128, 2, -128, 2, -128, 3, -128, 3, -128));
    const __m512i step = _mm512_set1_epi16((short)(4 * i));
    return _mm512_shuffle_epi8(v, _mm512_add_epi8(first, step));
}

/* Marks columns of the tile that are odd: bit n of mask is column first + n. */
static __attribute__((noinline)) void di_mark_columns(di_amx_block *b, int64_t first, unsigned mask)
{
    for (int n = 0; n < 16; n++) {
        const int64_t column = first + n;
        if ((mask >> n & 1) && column >= b->begin && column < b->end)
            b->is_odd_column[column - b->begin] = b->has_odd_columns = true;
    }
}

/* e4m3 codes, each twice in its word, as bf16 times a scale; bias is its exponent less 7, shifted;
 * `small` has the subnormal values by mantissa and sign. NaN codes become numbers. */
DI_INLINE __m512i di_f8_to_bf16(__m512i code, __m512i bias, __m512i small)
{
    const __m512i magnitude =
        _mm512_and_si512(_mm512_srai_epi16(code, 4), _mm512_set1_epi16((short)0x87f0));
    const __mmask32 is_small = _mm512_testn_epi16_mask(code, _mm512_set1_epi16(0x7800));
    return _mm512_mask_permutexvar_epi16(_mm512_add_epi16(magnitude, bias), is_small,
                                         _mm512_srli_epi16(code, 7), small);
}

/* Subnormals' values times 2^(scale - 127), by sign + 2 mantissa. */
DI_INLINE __m512i di_f8_small(int scale)
{
    /* m 2^-9 as bf16 */
    static const uint16_t values[32] __attribute__((aligned(64))) = {
        0,      0,      0x3b00, 0xbb00, 0x3b80, 0xbb80, 0x3bc0, 0xbbc0,
        0x3c00, 0xbc00, 0x3c20, 0xbc20, 0x3c40, 0xbc40, 0x3c60, 0xbc60};
    const __m512i v = _mm512_load_si512(values);
    return _mm512_mask_add_epi16(v, _mm512_test_epi16_mask(v, v), v,
                                 _mm512_set1_epi16((short)((scale - 127) * 128)));
}

/* One tile: 32 elements of 16 columns, pairs of them in the columns' 32 bits of a row. */
DI_INLINE void di_decode_tile_f8(di_amx_block *b, const di_amx_columns *c,
                                 const uint8_t *const *codes, int64_t at, int group, __m512i *out)
{
    const int stored = c->scales[group];
    const bool is_fine = stored >= DI_AMX_MIN_SCALE && stored <= DI_AMX_MAX_SCALE;
    const int scale = is_fine ? stored : 127;
    const __m512i bias = _mm512_set1_epi16((short)((scale - 7) * 128)), small = di_f8_small(scale);
    __m512i most = _mm512_setzero_si512();
    for (int half = 0; half < 2; half++) {
        __m512i v[4];
        for (int j = 0; j < 4; j++) {
            v[j] = di_load_columns(codes, j, at + 16 * half);
            most = _mm512_max_epu8(most, _mm512_add_epi8(v[j], v[j]));
        }
        const __m512i a0 = _mm512_unpacklo_epi16(v[0], v[1]),
                      b0 = _mm512_unpacklo_epi16(v[2], v[3]);
        const __m512i a1 = _mm512_unpackhi_epi16(v[0], v[1]),
                      b1 = _mm512_unpackhi_epi16(v[2], v[3]);
        const __m512i pairs[4] = {_mm512_unpacklo_epi32(a0, b0), _mm512_unpackhi_epi32(a0, b0),
                                  _mm512_unpacklo_epi32(a1, b1), _mm512_unpackhi_epi32(a1, b1)};
        for (int q = 0; q < 4; q++) {
            const __m512i low = _mm512_unpacklo_epi8(pairs[q], pairs[q]);
            const __m512i high = _mm512_unpackhi_epi8(pairs[q], pairs[q]);
            _mm512_store_si512(out + 8 * half + 2 * q, di_f8_to_bf16(low, bias, small));
            _mm512_store_si512(out + 8 * half + 2 * q + 1, di_f8_to_bf16(high, bias, small));
        }
    }
    if (!is_fine || _mm512_cmpeq_epi8_mask(most, _mm512_set1_epi8((char)0xfe)) != 0) {
        unsigned odd = is_fine ? 0 : 0xffff;
        for (int n = 0; n < 16; n++)
            for (int i = 0; i < 32; i++)
                odd |= (unsigned)((codes[n][at + i] & 0x7f) == 0x7f) << n;
        di_mark_columns(b, c->first, odd);
    }
}

DI_INLINE void di_decode_tile_f4(di_amx_block *b, const di_amx_columns *c,
                                 const uint8_t *const *codes, int64_t at, int group, __m512i *out)
{
    /* the values times 2^60 as bf16, both zeros 0: a saturating difference keeps zero */
    const __m512i values = _mm512_broadcast_i64x4(_mm256_setr_epi16(
        0, 0x5d00, 0x5d80, 0x5dc0, 0x5e00, 0x5e40, 0x5e80, 0x5ec0, 0, (short)0xdd00, (short)0xdd80,
        (short)0xddc0, (short)0xde00, (short)0xde40, (short)0xde80, (short)0xdec0));
    const __m512i nibbles = _mm512_set1_epi32(4 << 16);
    const __m512i scale = di_spread_bytes(c->f4_scales[group / 4], group % 4);
    const __m512i low = _mm512_set1_epi16(DI_AMX_MIN_SCALE);
    const __mmask32 is_odd = _mm512_cmpgt_epu16_mask(
        _mm512_sub_epi16(scale, low), _mm512_set1_epi16(DI_AMX_MAX_SCALE - DI_AMX_MIN_SCALE));
    const __m512i down = _mm512_slli_epi16(_mm512_sub_epi16(_mm512_set1_epi16(127 + 60), scale), 7);
    __m512i v[4], bytes[4];
    for (int j = 0; j < 4; j++)
        v[j] = di_load_columns(codes, j, at);
    di_transpose_bytes(v, bytes);
    for (int p = 0; p < 16; p++) {
        const __m512i code = _mm512_srlv_epi16(di_spread_bytes(bytes[p / 4], p % 4), nibbles);
        _mm512_store_si512(out + p,
                           _mm512_subs_epu16(_mm512_permutexvar_epi16(code, values), down));
    }
    if (is_odd != 0) {
        unsigned odd = 0;
        for (int n = 0; n < 16; n++)
            odd |= (is_odd >> (2 * n) & 1) << n;
        di_mark_columns(b, c->first, odd);
    }
}

DI_INLINE void di_decode_tile_bf16(di_amx_block *b, const di_amx_columns *c,
                                   const uint8_t *const *codes, int64_t at, __m512i *out)
{
    __m512i most = _mm512_setzero_si512();
    for (int part = 0; part < 4; part++) {
        __m512i v[4];
        for (int j = 0; j < 4; j++) {
            v[j] = di_load_columns(codes, j, at + 16 * part);
            most = _mm512_max_epu16(most, _mm512_add_epi16(v[j], v[j]));
        }
        const __m512i a0 = _mm512_unpacklo_epi32(v[0], v[1]),
                      b0 = _mm512_unpacklo_epi32(v[2], v[3]);
        const __m512i a1 = _mm512_unpackhi_epi32(v[0], v[1]),
                      b1 = _mm512_unpackhi_epi32(v[2], v[3]);
        _mm512_store_si512(out + 4 * part, _mm512_unpacklo_epi64(a0, b0));
        _mm512_store_si512(out + 4 * part + 1, _mm512_unpackhi_epi64(a0, b0));
        _mm512_store_si512(out + 4 * part + 2, _mm512_unpacklo_epi64(a1, b1));
        _mm512_store_si512(out + 4 * part + 3, _mm512_unpackhi_epi64(a1, b1));
    }
    if (_mm512_cmpge_epu16_mask(most, _mm512_set1_epi16((short)(2 * DI_AMX_MAX_WEIGHT))) != 0) {
        unsigned odd = 0;
        for (int n = 0; n < 16; n++) {
            for (int i = 0; i < 32; i++) {
                uint16_t bits;
                memcpy(&bits, codes[n] + at + 2 * i, sizeof bits);
                odd |= (unsigned)((bits & 0x7fff) >= DI_AMX_MAX_WEIGHT) << n;
            }
        }
        di_mark_columns(b, c->first, odd);
    }
}

/* A tile of the panel: elements of one group of 16 columns. The same place of the next panel is
 * prefetched, since no hardware follows such short pieces. */
DI_INLINE void di_decode_tile(di_amx_block *b, di_gemm_format format, const di_amx_panel *p,
                              int which, int group, char *out)
{
    const di_amx_columns *c = &p->columns[which];
    __m512i *tile = (__m512i *)(void *)out;
    const uint8_t *const *codes = c->codes;
    int64_t at = di_format_bytes(format, 32 * group);
    uint8_t rest[16][64] __attribute__((aligned(64)));
    const uint8_t *rests[16];
    const int64_t left = b->k - p->k0 - 32 * group;
    if (left < 32) {
        memset(rest, 0, sizeof rest);
        for (int n = 0; n < 16; n++)
            rests[n] = memcpy(rest[n], codes[n] + at, (size_t)di_format_bytes(format, left));
        codes = rests;
        at = 0;
    } else if (at % 64 == 0) { /* a line's first group */
        for (int n = 0; n < 16; n++)
            _mm_prefetch((const char *)((intptr_t)codes[n] + at + p->ahead), _MM_HINT_T1);
    }
    if (format == DI_GEMM_F8)
        di_decode_tile_f8(b, c, codes, at, group, tile);
    else if (format == DI_GEMM_F4)
        di_decode_tile_f4(b, c, codes, at, group, tile);
    else
        di_decode_tile_bf16(b, c, codes, at, tile);
}

DI_INLINE void di_decode_groups(di_amx_block *b, di_gemm_format format, const di_amx_panel *p,
                                char *out)
{
    for (int g = 0; g < p->n_groups; g++)
        for (int i = 0; i < p->n_columns; i++)
            di_decode_tile(b, format, p, i, g, out + (2 * g + i) * DI_AMX_TILE);
}

static void di_decode_strip(di_amx_block *b, const di_amx_panel *p, char *out)
{
    if (b->format == DI_GEMM_F8)
        di_decode_groups(b, DI_GEMM_F8, p, out);
    else if (b->format == DI_GEMM_F4)
        di_decode_groups(b, DI_GEMM_F4, p, out);
    else
        di_decode_groups(b, DI_GEMM_BF16, p, out);
}

DI_INLINE int di_amx_groups_at(const di_amx_block *b, int64_t k0)
{
    return (int)di_min_i64(DI_AMX_GROUPS, (di_gemm_padded(b->k) - k0) / 32);
}

static void di_start_columns(const di_amx_block *b, int64_t first, int64_t k0, di_amx_columns *c)
{
    const int64_t row_groups = di_gemm_padded(b->k) / 32, group = k0 / 32;
    int64_t columns[16];
    for (int n = 0; n < 16; n++) {
        columns[n] = di_min_i64(di_max_i64(first + n, b->begin), b->end - 1);
        c->codes[n] = b->codes + di_format_bytes(b->format, columns[n] * b->k + k0);
    }
    c->first = first;
    if (b->format == DI_GEMM_F8)
        c->scales = b->scales + columns[0] / 32 * row_groups + group;
    if (b->format != DI_GEMM_F4)
        return;
    const __mmask16 mask = di_mask16(di_amx_groups_at(b, k0));
    __m512i v[4];
    for (int j = 0; j < 4; j++) {
        uint8_t bytes[64] __attribute__((aligned(64)));
        for (int lane = 0; lane < 4; lane++)
            _mm_store_si128(
                (__m128i *)(void *)(bytes + 16 * lane),
                _mm_maskz_loadu_epi8(mask, b->scales + group + columns[4 * lane + j] * row_groups));
        v[j] = _mm512_load_si512(bytes);
    }
    di_transpose_bytes(v, c->f4_scales);
}

#endif
