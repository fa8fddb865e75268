/* Sixteen lanes on two registers: vec_avx512.h's names for AVX2. */
#ifndef DI_KERNELS_VEC_AVX2_H
#define DI_KERNELS_VEC_AVX2_H

#include <stdbool.h>

#include "kernels/all.h"
#include "kernels/avx2.h"

enum { DI_VEC = 16, DI_VEC_TILE_ROWS = 2, DI_VEC_TILE_COLUMNS = 3 };

/* The head of a kernel of this level. */
#define DI_VEC_KERNEL(op)                                                                          \
    void di_##op##_avx2(const void *args, int64_t begin, int64_t end, int worker)

typedef struct di_vec {
    __m256 low, high;
} di_vec;

typedef struct di_ivec {
    __m256i low, high;
} di_ivec;

typedef di_ivec di_vmask; /* all bits of a lane, or none */

/* ------------------------------------------------------------------- arithmetic */

#define DI_VEC_OP2(name, intrinsic)                                                                \
    static inline di_vec di_vec_##name(di_vec a, di_vec b)                                         \
    {                                                                                              \
        return (di_vec){intrinsic(a.low, b.low), intrinsic(a.high, b.high)};                       \
    }
DI_VEC_OP2(add, _mm256_add_ps)
DI_VEC_OP2(sub, _mm256_sub_ps)
DI_VEC_OP2(mul, _mm256_mul_ps)
DI_VEC_OP2(div, _mm256_div_ps)
DI_VEC_OP2(min, _mm256_min_ps)
DI_VEC_OP2(max, _mm256_max_ps)
#undef DI_VEC_OP2

#define DI_IVEC_OP2(name, intrinsic)                                                               \
    static inline di_ivec di_ivec_##name(di_ivec a, di_ivec b)                                     \
    {                                                                                              \
        return (di_ivec){intrinsic(a.low, b.low), intrinsic(a.high, b.high)};                      \
    }
DI_IVEC_OP2(add, _mm256_add_epi32)
DI_IVEC_OP2(sub, _mm256_sub_epi32)
DI_IVEC_OP2(and, _mm256_and_si256)
DI_IVEC_OP2(or, _mm256_or_si256)
DI_IVEC_OP2(xor, _mm256_xor_si256)
DI_IVEC_OP2(max, _mm256_max_epi32)
#undef DI_IVEC_OP2

static inline di_vec di_vec_set(float x)
{
    const __m256 y = _mm256_set1_ps(x);
    return (di_vec){y, y};
}

static inline di_vec di_vec_sqrt(di_vec a)
{
    return (di_vec){_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)};
}

/* ------------------------------------------------------------------- bits */

static inline di_ivec di_vec_bits(di_vec x)
{
    return (di_ivec){_mm256_castps_si256(x.low), _mm256_castps_si256(x.high)};
}

static inline di_vec di_vec_from_bits(di_ivec x)
{
    return (di_vec){_mm256_castsi256_ps(x.low), _mm256_castsi256_ps(x.high)};
}

static inline di_ivec di_ivec_set(uint32_t x)
{
    const __m256i y = _mm256_set1_epi32((int32_t)x);
    return (di_ivec){y, y};
}

static inline di_ivec di_ivec_count(void)
{
    return (di_ivec){_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                     _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}

static inline __m256i di_mul_wide256(__m256i a, __m256i b, __m256i *high)
{
    const __m256i even = _mm256_mul_epu32(a, b);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

static inline di_ivec di_ivec_mul_wide(di_ivec a, di_ivec b, di_ivec *high)
{
    const __m256i low = di_mul_wide256(a.low, b.low, &high->low);
    return (di_ivec){low, di_mul_wide256(a.high, b.high, &high->high)};
}

static inline di_ivec di_ivec_shl(di_ivec a, int bits)
{
    return (di_ivec){_mm256_slli_epi32(a.low, bits), _mm256_slli_epi32(a.high, bits)};
}

static inline di_ivec di_ivec_shr(di_ivec a, int bits)
{
    return (di_ivec){_mm256_srli_epi32(a.low, bits), _mm256_srli_epi32(a.high, bits)};
}

static inline di_vec di_vec_from_int(di_ivec a)
{
    return (di_vec){_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)};
}

static inline di_ivec di_vec_to_int(di_vec a)
{
    return (di_ivec){_mm256_cvttps_epi32(a.low), _mm256_cvttps_epi32(a.high)};
}

/* ------------------------------------------------------------------- masks */

static inline di_vmask di_vec_less(di_vec a, di_vec b)
{
    return di_vec_bits((di_vec){_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ),
                                _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ)});
}

static inline di_vmask di_vec_equal(di_vec a, di_vec b)
{
    return di_vec_bits((di_vec){_mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ),
                                _mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ)});
}

static inline di_vmask di_vec_not_up_to(di_vec a, di_vec b)
{
    return di_vec_bits((di_vec){_mm256_cmp_ps(a.low, b.low, _CMP_NLE_UQ),
                                _mm256_cmp_ps(a.high, b.high, _CMP_NLE_UQ)});
}

static inline di_vmask di_vec_is_nan(di_vec a)
{
    return di_vec_bits((di_vec){_mm256_cmp_ps(a.low, a.low, _CMP_UNORD_Q),
                                _mm256_cmp_ps(a.high, a.high, _CMP_UNORD_Q)});
}

static inline di_vmask di_ivec_less(di_ivec a, di_ivec b)
{
    return (di_vmask){_mm256_cmpgt_epi32(b.low, a.low), _mm256_cmpgt_epi32(b.high, a.high)};
}

static inline bool di_vmask_any(di_vmask m)
{
    return _mm256_movemask_epi8(_mm256_or_si256(m.low, m.high)) != 0;
}

static inline di_vmask di_vmask_or(di_vmask a, di_vmask b)
{
    return di_ivec_or(a, b);
}

static inline di_ivec di_ivec_select(di_vmask m, di_ivec a, di_ivec b)
{
    return (di_ivec){_mm256_blendv_epi8(b.low, a.low, m.low),
                     _mm256_blendv_epi8(b.high, a.high, m.high)};
}

static inline di_vec di_vec_select(di_vmask m, di_vec a, di_vec b)
{
    return di_vec_from_bits(di_ivec_select(m, di_vec_bits(a), di_vec_bits(b)));
}

/* ------------------------------------------------------------------- memory */

/* The first n <= 16 numbers by way of memory: the masked loads of an emulator (QEMU 7) read all. */
static inline di_vec di_vec_load_part(const float *x, int64_t n)
{
    float part[DI_VEC] = {0};
    memcpy(part, x, (size_t)n * sizeof *x);
    return (di_vec){_mm256_loadu_ps(part), _mm256_loadu_ps(part + 8)};
}

static inline di_vec di_vec_load(const float *x, int64_t n)
{
    if (n >= DI_VEC)
        return (di_vec){_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
    return di_vec_load_part(x, n);
}

static inline void di_vec_store(float *y, int64_t n, di_vec x)
{
    float part[DI_VEC];
    float *const to = n >= DI_VEC ? y : part;
    _mm256_storeu_ps(to, x.low);
    _mm256_storeu_ps(to + 8, x.high);
    if (n < DI_VEC)
        memcpy(y, part, (size_t)n * sizeof *y);
}

static inline di_vec di_vec_load_bf16(const di_bf16 *x, int64_t n)
{
    if (n >= DI_VEC)
        return (di_vec){di_load_bf16_256(x), di_load_bf16_256(x + 8)};
    if (n >= 8)
        return (di_vec){di_load_bf16_256(x), di_load_bf16_part256(x + 8, n - 8)};
    return (di_vec){di_load_bf16_part256(x, n), _mm256_setzero_ps()};
}

static inline void di_vec_store_bf16(di_bf16 *y, int64_t n, di_vec x)
{
    if (n >= DI_VEC) {
        di_store_bf16_256(y, x.low);
        di_store_bf16_256(y + 8, x.high);
        return;
    }
    di_store_bf16_part256(y, n, x.low);
    if (n > 8)
        di_store_bf16_part256(y + 8, n - 8, x.high);
}

static inline __m128i di_upper_halves256(__m256 x)
{
    const __m256i y = _mm256_srli_epi32(_mm256_castps_si256(x), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
}

static inline void di_vec_store_bf16_exact(di_bf16 *y, di_vec x)
{
    _mm_storeu_si128((__m128i *)(void *)y, di_upper_halves256(x.low));
    _mm_storeu_si128((__m128i *)(void *)(y + 8), di_upper_halves256(x.high));
}

static inline di_ivec di_ivec_load(const uint32_t *x)
{
    return (di_ivec){_mm256_loadu_si256((const __m256i *)(const void *)x),
                     _mm256_loadu_si256((const __m256i *)(const void *)(x + 8))};
}

static inline void di_ivec_store(int32_t *y, di_ivec x)
{
    _mm256_storeu_si256((__m256i *)(void *)y, x.low);
    _mm256_storeu_si256((__m256i *)(void *)(y + 8), x.high);
}

static inline di_ivec di_ivec_load_bytes(const uint8_t *x)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)x);
    return (di_ivec){_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}

static inline __m128i di_ivec_to_bytes(di_ivec x)
{
    const __m128i low =
        _mm_packus_epi32(_mm256_castsi256_si128(x.low), _mm256_extracti128_si256(x.low, 1));
    const __m128i high =
        _mm_packus_epi32(_mm256_castsi256_si128(x.high), _mm256_extracti128_si256(x.high, 1));
    return _mm_packus_epi16(low, high);
}

static inline void di_ivec_store_bytes(uint8_t *y, di_ivec x)
{
    _mm_storeu_si128((__m128i *)(void *)y, di_ivec_to_bytes(x));
}

/* ------------------------------------------------------------------- whole registers */

static inline float di_vec_total(di_vec x)
{
    return di_total256(x.low, x.high);
}

static inline float di_vec_largest(di_vec x)
{
    const __m256 a = _mm256_max_ps(x.low, x.high);
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
}

static inline di_vec di_vec_even_odd(di_vec a, di_vec b)
{
    return (di_vec){_mm256_blend_ps(a.low, b.low, 0xaa), _mm256_blend_ps(a.high, b.high, 0xaa)};
}

static inline di_vec di_vec_swap_pairs(di_vec x)
{
    return (di_vec){_mm256_permute_ps(x.low, 0xb1), _mm256_permute_ps(x.high, 0xb1)};
}

static inline di_vec di_vec_load_twice(const float *x, int64_t n)
{
    const __m256 half = n >= DI_VEC ? _mm256_loadu_ps(x) : di_vec_load_part(x, n / 2).low;
    return (di_vec){_mm256_permutevar8x32_ps(half, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3)),
                    _mm256_permutevar8x32_ps(half, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7))};
}

static inline di_vec di_vec_exp(di_vec x)
{
    return (di_vec){di_exp256(x.low), di_exp256(x.high)};
}

#endif
