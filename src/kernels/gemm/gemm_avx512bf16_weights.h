/* Rows, weights and results of the linears with VDPBF16PS (gemm_avx512bf16.h): elements in pairs,
 * what is exact, sums' totals. */
#ifndef DI_KERNELS_GEMM_AVX512BF16_WEIGHTS_H
#define DI_KERNELS_GEMM_AVX512BF16_WEIGHTS_H

#include "kernels/gemm/gemm_avx512.h"
#include "kernels/gemm/gemm_bf16_tables.h"

enum {
    DI_DOT_ROWS = 8,     /* at once, with weights decoded in registers */
    DI_DOT_F8_ROWS = 16, /* of F8 weights, whose scales then go into the rows */
    DI_DOT_F4_K = 4096, /* one F4 row of a smaller k is the FP32 kernel's; measured at 2304, 5120 */
    DI_DOT_AHEAD = 2048, /* elements, in each stream */
    DI_DOT_DEPTH = 1024,
    DI_DOT_PANEL_ROWS = 4, /* a tile's; 4 x 6 sums fill the registers */
    DI_DOT_COLUMNS = 6,
    DI_DOT_NEVER = 1 << 16 /* exponent of what has no element but zeros */
};

/* Elements of a row or a column with the last group of 64 filled up. */
DI_INLINE int64_t di_dot_padded(int64_t k)
{
    return (k + 63) / 64 * 64;
}

/* Where the parts of a block's work lie in its scratch, and how small the inputs are. */
typedef struct di_dot_work {
    uint16_t *x;      /* rows in pairs */
    uint16_t *scaled; /* F8, few rows: times the scales of a column group */
    uint16_t *panel;  /* [DI_DOT_COLUMNS, DI_DOT_DEPTH] */
    __m512 *sums;     /* [rows / 4, 4, DI_DOT_COLUMNS] */
    int least, most;  /* exponent fields of the inputs but zeros; DI_DOT_NEVER and 0: all are 0 */
    int low, high;    /* scales, or exponent fields of BF16 weights, with which sums are exact */
} di_dot_work;

/* Whether weights are decoded in registers, for each eight rows again; else in panels. */
DI_INLINE bool di_dot_is_few(di_gemm_format format, int n_rows)
{
    return format != DI_GEMM_F8 || n_rows <= DI_DOT_F8_ROWS;
}

DI_INLINE int64_t di_dot_fixed_bytes(void)
{
    return DI_DOT_COLUMNS * DI_DOT_DEPTH * 2 + DI_BLOCK_ROWS * DI_DOT_COLUMNS * 64;
}

DI_INLINE int di_dot_rows_that_fit(int64_t k)
{
    const int64_t rows = (DI_GEMM_SCRATCH_BYTES - di_dot_fixed_bytes()) / (di_dot_padded(k) * 2);
    if (rows < 2 * DI_DOT_F8_ROWS)
        return di_gemm_rows_that_fit(k) > 0 ? (int)rows / 4 * 2 : 0;
    return (int)di_min_i64(DI_BLOCK_ROWS, rows / 4 * 4);
}

/* ------------------------------------------------------------------- pairs */

/* 32 elements: the odd of pair e is e, the even one e + 16. */
DI_INLINE __m512i di_dot_pairs(__m512i v)
{
    const __m512i order =
        _mm512_set_epi16(15, 31, 14, 30, 13, 29, 12, 28, 11, 27, 10, 26, 9, 25, 8, 24, 7, 23, 6, 22,
                         5, 21, 4, 20, 3, 19, 2, 18, 1, 17, 0, 16);
    return _mm512_permutexvar_epi16(order, v);
}

DI_INLINE __mmask32 di_mask32(int64_t n)
{
    return n >= 32 ? ~(__mmask32)0 : n <= 0 ? (__mmask32)0 : ((__mmask32)1 << n) - 1;
}

/* Twice the magnitudes' bits less one: of zero 0xffff. */
DI_INLINE __m512i di_dot_less_one(__m512i v)
{
    return _mm512_add_epi16(_mm512_add_epi16(v, v), _mm512_set1_epi16(-1));
}

/* The smallest exponent field of what di_dot_less_one gave, DI_DOT_NEVER for zeros. */
DI_INLINE int di_dot_least(__m512i less_one)
{
    uint16_t v[32];
    _mm512_storeu_si512(v, less_one);
    int least = 0xffff;
    for (int i = 0; i < 32; i++)
        least = v[i] < least ? v[i] : least;
    return least == 0xffff ? DI_DOT_NEVER : (least + 1) >> 8;
}

/* Puts rows into work->x, zeros behind k and n_zero_rows rows of them. */
DI_INLINE void di_dot_pack_rows(const di_gemm_block *b, int n_zero_rows, di_dot_work *work)
{
    const int64_t padded = di_dot_padded(b->k);
    __m512i least = _mm512_set1_epi16(-1), most = _mm512_setzero_si512();
    for (int r = 0; r < b->n_rows; r++) {
        for (int64_t i = 0; i < padded; i += 32) {
            const __m512i v = _mm512_maskz_loadu_epi16(di_mask32(b->k - i), b->x[r] + i);
            least = _mm512_min_epu16(least, di_dot_less_one(v));
            most = _mm512_max_epu16(most, _mm512_and_si512(v, _mm512_set1_epi16(0x7fff)));
            _mm512_store_si512(work->x + r * padded + i, di_dot_pairs(v));
        }
    }
    memset(work->x + b->n_rows * padded, 0, (size_t)(n_zero_rows * padded) * sizeof *work->x);
    uint16_t v[32];
    _mm512_storeu_si512(v, most);
    work->most = 0;
    for (int i = 0; i < 32; i++)
        work->most = v[i] >> 7 > work->most ? v[i] >> 7 : work->most;
    work->least = di_dot_least(least);
}

/* ------------------------------------------------------------------- weights */

/* Constants of F4 decoding: which two bytes a word gets, for elements 0 .. 31 and 32 .. 63 of 64,
 * and how far it is shifted. */
typedef struct di_dot_f4_order {
    __m512i bytes[2], shifts;
} di_dot_f4_order;

DI_INLINE di_dot_f4_order di_dot_f4_begin(void)
{
    di_dot_f4_order o;
    o.bytes[0] =
        _mm512_setr_epi32(0x01000908, 0x01000908, 0x01000908, 0x01000908, 0x03020b0a, 0x03020b0a,
                          0x03020b0a, 0x03020b0a, 0x05040d0c, 0x05040d0c, 0x05040d0c, 0x05040d0c,
                          0x07060f0e, 0x07060f0e, 0x07060f0e, 0x07060f0e);
    o.bytes[1] = _mm512_add_epi8(o.bytes[0], _mm512_set1_epi8(16));
    o.shifts = _mm512_set4_epi32(0x000c000c, 0x00080008, 0x00040004, 0);
    /* to stay in registers: there is one load a cycle */
    __asm__("" : "+v"(o.bytes[0]), "+v"(o.bytes[1]), "+v"(o.shifts));
    return o;
}

DI_INLINE __m512i di_dot_f4_codes(const uint8_t *codes)
{
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)codes));
}

/* Half of 64 F4 weights, in pairs; the table takes the lower bits of a word. */
DI_INLINE __m512i di_dot_f4(const di_dot_f4_order *o, __m512i codes, int half, uint8_t scale)
{
    const __m512i four = _mm512_permutexvar_epi8(o->bytes[half], codes);
    return _mm512_permutexvar_epi16(_mm512_srlv_epi16(four, o->shifts),
                                    _mm512_load_si512(di_f4_bf16_tables[scale]));
}

/* 64 F8 weights without their scales, in pairs; NaN included. Returns high bytes of magnitudes:
 * 0x7f of NaN alone. */
DI_INLINE __m512i di_dot_f8(__m512i codes, __m512i w[2])
{
    const __m512i order =
        _mm512_setr_epi32(0x01110010, 0x03130212, 0x21312030, 0x23332232, 0x05150414, 0x07170616,
                          0x25352434, 0x27372636, 0x09190818, 0x0b1b0a1a, 0x29392838, 0x2b3b2a3a,
                          0x0d1d0c1c, 0x0f1f0e1e, 0x2d3d2c3c, 0x2f3f2e3e);
    const uint8_t(*t)[128] = di_e4m3_bf16_bytes;
    const __m512i c = _mm512_permutexvar_epi8(order, codes);
    const __m512i low =
        _mm512_permutex2var_epi8(_mm512_load_si512(t[0]), c, _mm512_load_si512(t[0] + 64));
    const __m512i magnitude =
        _mm512_permutex2var_epi8(_mm512_load_si512(t[1]), c, _mm512_load_si512(t[1] + 64));
    const __m512i high = _mm512_ternarylogic_epi32(magnitude, c, _mm512_set1_epi8((char)0x80),
                                                   0xf8); /* magnitude | (c & sign) */
    w[0] = _mm512_unpacklo_epi8(low, high);
    w[1] = _mm512_unpackhi_epi8(low, high);
    return magnitude;
}

/* bf16 numbers times 2^(scale - 127), zero and normal results only; no NaN. */
DI_INLINE __m512i di_dot_scale(__m512i v, int scale)
{
    const __mmask32 is_not_zero = _mm512_test_epi16_mask(v, _mm512_set1_epi16(0x7fff));
    return _mm512_mask_add_epi16(v, is_not_zero, v,
                                 _mm512_set1_epi16((short)((scale - 127) * 128)));
}

/* 64 weights in pairs; F8 without scales. `seen` gathers of BF16 ones the least di_dot_less_one, of
 * F8 ones the largest that di_dot_f8 returns. */
DI_INLINE void di_dot_decode(di_gemm_format format, const uint8_t *codes, const uint8_t *scales,
                             __m512i w[2], __m512i *seen)
{
    if (format == DI_GEMM_F4) {
        const di_dot_f4_order o = di_dot_f4_begin();
        const __m512i all = di_dot_f4_codes(codes);
        w[0] = di_dot_f4(&o, all, 0, scales[0]);
        w[1] = di_dot_f4(&o, all, 1, scales[1]);
    } else if (format == DI_GEMM_F8) {
        *seen = _mm512_max_epu8(*seen, di_dot_f8(_mm512_loadu_si512(codes), w));
    } else {
        w[0] = _mm512_loadu_si512(codes);
        w[1] = _mm512_loadu_si512(codes + 64);
        *seen =
            _mm512_min_epu16(*seen, _mm512_min_epu16(di_dot_less_one(w[0]), di_dot_less_one(w[1])));
        w[0] = di_dot_pairs(w[0]);
        w[1] = di_dot_pairs(w[1]);
    }
}

/* The last n < 64 weights of a column, zeros behind them. */
DI_INLINE void di_dot_decode_rest(di_gemm_format format, const uint8_t *codes,
                                  const uint8_t *scales, int64_t n, __m512i w[2], __m512i *seen)
{
    uint8_t part[128] = {0}, part_scales[2] = {127, 127};
    memcpy(part, codes, (size_t)di_format_bytes(format, n));
    if (format == DI_GEMM_F4)
        memcpy(part_scales, scales, n > 32 ? 2 : 1);
    di_dot_decode(format, part, part_scales, w, seen);
}

/* With which scales, or exponent fields of BF16 weights, all sums are multiples of 2^-126 or more
 * and weights are normal numbers. */
DI_INLINE void di_dot_set_limits(di_gemm_format format, di_dot_work *work)
{
    const int x = work->least;
    if (format == DI_GEMM_F4) { /* multiples of 2^(x - 134) by 2^(scale - 128) */
        work->low = 136 - x < 2 ? 2 : 136 - x;
        work->high = 252;
    } else if (format == DI_GEMM_F8) { /* 2^(x - 134) by 2^(scale - 136) */
        work->low = 144 - x < 10 ? 10 : 144 - x;
        work->high = 246;
    } else { /* 2^(x - 134) by 2^(w - 134) */
        work->low = 142 - x < 1 ? 1 : 142 - x;
        work->high = 255;
    }
}

/* All of n scales are in [low, high]. */
DI_INLINE bool di_dot_has_scales(const uint8_t *scales, int64_t n, int low, int high)
{
    if (low > high)
        return false;
    const __m512i first = _mm512_set1_epi8((char)low), span = _mm512_set1_epi8((char)(high - low));
    __mmask64 beyond = 0;
    for (int64_t i = 0; i < n; i += 64) {
        const __mmask64 mask = n - i >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << (n - i)) - 1;
        const __m512i v = _mm512_sub_epi8(_mm512_maskz_loadu_epi8(mask, scales + i), first);
        beyond |= _mm512_mask_cmpgt_epu8_mask(mask, v, span);
    }
    return beyond == 0;
}

/* What `seen` of di_dot_decode begins with. */
DI_INLINE __m512i di_dot_seen(di_gemm_format format)
{
    return format == DI_GEMM_BF16 ? _mm512_set1_epi16(-1) : _mm512_setzero_si512();
}

/* Of BF16 weights: none has a smaller exponent field than allowed; of F8 ones: none is NaN. */
DI_INLINE bool di_dot_may_see(di_gemm_format format, __m512i seen, const di_dot_work *work)
{
    if (format == DI_GEMM_F8)
        return _mm512_cmpeq_epi8_mask(seen, _mm512_set1_epi8(0x7f)) == 0;
    const int least = work->low < 255 ? work->low * 256 - 1 : 0xfffe;
    return format == DI_GEMM_F4 ||
           _mm512_cmplt_epu16_mask(seen, _mm512_set1_epi16((short)least)) == 0;
}

/* Results of columns' sums: out[i] is that of sums[i]; n is at most 24. */
typedef struct di_dot_results {
    union {
        float f32[32];
        uint16_t bf16[32];
    };
} di_dot_results;

DI_INLINE void di_dot_total(const di_gemm_block *b, const __m512 *sums, int n, di_dot_results *out)
{
    for (int i = 0; i < n; i += 16) {
        __m512 s[16];
        for (int j = 0; j < 16; j++)
            s[j] = i + j < n ? sums[i + j] : _mm512_setzero_ps();
        const __m512 total = di_total16_512(s);
        if (b->is_f32_out)
            _mm512_storeu_ps(out->f32 + i, total);
        else
            di_store_bf16_512(out->bf16 + i, total);
    }
}

DI_INLINE void di_dot_put(const di_gemm_block *b, const di_dot_results *results, int i, int row,
                          int64_t column)
{
    if (b->is_f32_out)
        ((float *)b->y[row])[column - b->y_first] = results->f32[i];
    else
        ((di_bf16 *)b->y[row])[column - b->y_first] = results->bf16[i];
}

DI_INLINE __m512 di_dot_add(__m512 sum, __m512i w, __m512i x)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)w);
}

#endif
