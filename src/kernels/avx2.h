/* What the AVX2 kernels share: avx512.h's counterparts. Sixteen lanes are two registers, lanes 0-7
 * and 8-15. Only for files whose suffix names AVX2. */
#ifndef DI_KERNELS_AVX2_H
#define DI_KERNELS_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "base/fp.h"

/* The first n of 8 lanes (n may be more than 8, or negative), for maskload and maskstore. */
static inline __m256i di_mask8(int64_t n)
{
    const int count = n >= 8 ? 8 : n <= 0 ? 0 : (int)n;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline __m256 di_bf16_widen256(__m128i x)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}

static inline __m256 di_load_bf16_256(const di_bf16 *x)
{
    return di_bf16_widen256(_mm_loadu_si128((const __m128i *)(const void *)x));
}

/* The first n < 8 elements, zeros behind them; reads no others. */
static inline __m256 di_load_bf16_part256(const di_bf16 *x, int64_t n)
{
    di_bf16 part[8] = {0};
    memcpy(part, x, (size_t)(n <= 0 ? 0 : n >= 8 ? 8 : n) * sizeof *x);
    return di_load_bf16_256(part);
}

/* di_f32_to_bf16 of each lane. */
static inline __m128i di_round_bf16_256(__m256 x)
{
    const __m256i u = _mm256_castps_si256(x);
    const __m256i high = _mm256_srli_epi32(u, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd), 16);
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i y =
        _mm256_blendv_epi8(rounded, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), is_nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
}

/* di_round_bf16 of each lane: rounded, kept as fp32. */
static inline __m256 di_round_to_bf16_256(__m256 x)
{
    return di_bf16_widen256(di_round_bf16_256(x));
}

static inline void di_store_bf16_256(di_bf16 *y, __m256 x)
{
    _mm_storeu_si128((__m128i *)(void *)y, di_round_bf16_256(x));
}

/* The first n < 8 elements. */
static inline void di_store_bf16_part256(di_bf16 *y, int64_t n, __m256 x)
{
    di_bf16 part[8];
    di_store_bf16_256(part, x);
    memcpy(y, part, (size_t)(n <= 0 ? 0 : n >= 8 ? 8 : n) * sizeof *y);
}

/* di_lanes_total of lanes 0-7 and 8-15. */
static inline float di_total256(__m256 low, __m256 high)
{
    const __m256 a = _mm256_add_ps(low, high);
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}

/* di_expf of each lane: the same operations in the same order. */
static inline __m256 di_exp256(__m256 x)
{
    const __m256 shift = _mm256_set1_ps(0x1.8p23f);
    const __m256 n =
        _mm256_sub_ps(_mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p0f)), shift), shift);
    const __m256 r =
        _mm256_sub_ps(_mm256_sub_ps(x, _mm256_mul_ps(n, _mm256_set1_ps(0x1.62e400p-1f))),
                      _mm256_mul_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f)));
    __m256 p = _mm256_set1_ps(1.9875691500e-4f);
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(1.3981999507e-3f));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(8.3334519073e-3f));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(4.1665795894e-2f));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(1.6666665459e-1f));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(5.0000001201e-1f));
    const __m256 y = _mm256_add_ps(_mm256_add_ps(_mm256_mul_ps(p, _mm256_mul_ps(r, r)), r),
                                   _mm256_set1_ps(1.0f));
    /* In two steps of half the exponent: 2^128 is no fp32. */
    const __m256i e = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(e, 1), rest = _mm256_sub_epi32(e, half);
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256 a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    const __m256 b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    __m256 z = _mm256_mul_ps(_mm256_mul_ps(y, a), b);
    const __m256 is_small = _mm256_cmp_ps(x, _mm256_set1_ps(-87.33f), _CMP_LE_OQ);
    const __m256 is_large = _mm256_cmp_ps(x, _mm256_set1_ps(88.72f), _CMP_GT_OQ);
    const __m256 is_nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    z = _mm256_andnot_ps(is_small, z);
    z = _mm256_blendv_ps(z, _mm256_set1_ps(INFINITY), is_large);
    return _mm256_blendv_ps(z, x, is_nan);
}

#endif
