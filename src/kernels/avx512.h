/* What the AVX-512 kernels share: loads and stores of bf16 rows with masked ends, the lanes16
 * total, and mathf.h's exponential, all with the bits of their scalar counterparts. Only for files
 * whose suffix names an AVX-512 level. */
#ifndef DI_KERNELS_AVX512_H
#define DI_KERNELS_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "base/fp.h"

/* The first n lanes (n may be more than 16, or negative). */
static inline __mmask16 di_mask16(int64_t n)
{
    return n >= 16 ? (__mmask16)0xffff : n <= 0 ? (__mmask16)0 : (__mmask16)((1u << n) - 1u);
}

static inline __m512 di_bf16_widen512(__m256i x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

static inline __m512 di_load_bf16_512(const di_bf16 *x)
{
    return di_bf16_widen512(_mm256_loadu_si256((const __m256i *)(const void *)x));
}

/* Lanes beyond the mask are 0 and not read. */
static inline __m512 di_load_bf16_mask512(const di_bf16 *x, __mmask16 mask)
{
    return di_bf16_widen512(_mm256_maskz_loadu_epi16(mask, x));
}

/* di_f32_to_bf16 of each lane. */
static inline __m256i di_round_bf16_512(__m512 x)
{
    const __m512i u = _mm512_castps_si512(x);
    const __m512i high = _mm512_srli_epi32(u, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_srli_epi32(
        _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd), 16);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(
        _mm512_mask_or_epi32(rounded, is_nan, high, _mm512_set1_epi32(0x40)));
}

/* di_round_bf16 of each lane: rounded, kept as fp32. */
static inline __m512 di_round_to_bf16_512(__m512 x)
{
    const __m512i u = _mm512_castps_si512(x);
    const __m512i high = _mm512_set1_epi32((int32_t)0xffff0000);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_mask_mov_epi32(sum, is_nan, quiet), high));
}

static inline void di_store_bf16_512(di_bf16 *y, __m512 x)
{
    _mm256_storeu_si256((__m256i *)(void *)y, di_round_bf16_512(x));
}

static inline void di_store_bf16_mask512(di_bf16 *y, __mmask16 mask, __m512 x)
{
    _mm256_mask_storeu_epi16(y, mask, di_round_bf16_512(x));
}

/* di_lanes_total: lanes 8, 4, 2, 1 apart. */
static inline float di_total512(__m512 x)
{
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}

/* The totals of four sums, each as di_total512 adds them, in lanes 0, 4, 8, 12. */
static inline __m512 di_total4_512(__m512 a, __m512 b, __m512 c, __m512 d)
{
    const __m512 ab =
        _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    const __m512 cd =
        _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    const __m512 s =
        _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    const __m512 t = _mm512_add_ps(s, _mm512_permute_ps(s, 0x4e));
    return _mm512_add_ps(t, _mm512_permute_ps(t, 0xb1));
}

/* The totals of sixteen sums, each as di_total512 adds them: that of s[i] in lane i. */
static inline __m512 di_total16_512(const __m512 s[16])
{
    __m512 half[8], quarter[4], pair[2];
    for (int i = 0; i < 8; i++) { /* of s[4 q + j], which is number q + 4 j, and the next one */
        const __m512 a = s[2 * i % 4 * 4 + i / 2], b = s[(2 * i + 1) % 4 * 4 + i / 2];
        half[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    }
    for (int i = 0; i < 4; i++)
        quarter[i] = _mm512_add_ps(_mm512_shuffle_f32x4(half[2 * i], half[2 * i + 1], 0x88),
                                   _mm512_shuffle_f32x4(half[2 * i], half[2 * i + 1], 0xdd));
    for (int i = 0; i < 2; i++) {
        const __m512d a = _mm512_castps_pd(quarter[2 * i]);
        const __m512d b = _mm512_castps_pd(quarter[2 * i + 1]);
        pair[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                                _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    return _mm512_add_ps(_mm512_shuffle_ps(pair[0], pair[1], 0x88),
                         _mm512_shuffle_ps(pair[0], pair[1], 0xdd));
}

/* The four results of di_total4_512. */
static inline void di_split4(__m512 totals, float out[4])
{
    out[0] = _mm512_cvtss_f32(totals);
    out[1] = _mm_cvtss_f32(_mm512_extractf32x4_ps(totals, 1));
    out[2] = _mm_cvtss_f32(_mm512_extractf32x4_ps(totals, 2));
    out[3] = _mm_cvtss_f32(_mm512_extractf32x4_ps(totals, 3));
}

/* di_e4m3_to_f32 of each code, NaN included. As fp16 bits a code is its value times 2^-8. */
static inline __m512 di_e4m3_512(__m128i codes)
{
    const __m256i half = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7),
                                          _mm256_set1_epi16((short)0xbfff));
    const __mmask16 is_nan =
        _mm_cmpeq_epi8_mask(_mm_and_si128(codes, _mm_set1_epi8(0x7f)), _mm_set1_epi8(0x7f));
    const __m512 value = _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0f));
    return _mm512_mask_mov_ps(value, is_nan, _mm512_set1_ps(__builtin_nanf("")));
}

/* The values of 16 e2m1 codes in 8 bytes, in order. */
static inline __m512 di_e2m1_512(const uint8_t *codes)
{
    const __m512 values = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, 0.0f,
                                         -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
    const __m512i shifts =
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    int32_t words[2];
    memcpy(words, codes, sizeof words);
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set1_epi32(words[0])),
                                            _mm256_set1_epi32(words[1]), 1);
    return _mm512_permutexvar_ps(_mm512_srlv_epi32(both, shifts), values);
}

/* di_expf of each lane: the same operations in the same order. */
static inline __m512 di_exp512(__m512 x)
{
    const __m512 shift = _mm512_set1_ps(0x1.8p23f);
    const __m512 n =
        _mm512_sub_ps(_mm512_add_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p0f)), shift), shift);
    const __m512 r =
        _mm512_sub_ps(_mm512_sub_ps(x, _mm512_mul_ps(n, _mm512_set1_ps(0x1.62e400p-1f))),
                      _mm512_mul_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f)));
    __m512 p = _mm512_set1_ps(1.9875691500e-4f);
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(1.3981999507e-3f));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(8.3334519073e-3f));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(4.1665795894e-2f));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(1.6666665459e-1f));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(5.0000001201e-1f));
    const __m512 y = _mm512_add_ps(_mm512_add_ps(_mm512_mul_ps(p, _mm512_mul_ps(r, r)), r),
                                   _mm512_set1_ps(1.0f));
    /* y is in [0.7, 1.42): scaling by 2^n is exact, overflow past the end included. */
    __m512 e = _mm512_scalef_ps(y, n);
    const __mmask16 is_small = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.33f), _CMP_LE_OQ);
    const __mmask16 is_large = _mm512_cmp_ps_mask(x, _mm512_set1_ps(88.72f), _CMP_GT_OQ);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    e = _mm512_mask_mov_ps(e, is_small, _mm512_setzero_ps());
    e = _mm512_mask_mov_ps(e, is_large, _mm512_set1_ps(INFINITY));
    return _mm512_mask_mov_ps(e, is_nan, x);
}

#endif
