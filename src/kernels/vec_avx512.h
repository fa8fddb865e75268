/* Sixteen lanes for kernels that are written once for several levels (vec_avx2.h has the same names
 * on two registers): <folder>_vec.h holds such a kernel's loops, <folder>_<target>.c includes them
 * and is compiled for its level, which vec.h finds. Every function gives the bits of the scalar
 * expression in each lane: one rounding an operation, nothing fused, mathf.h's functions in their
 * own steps.
 *
 * Loads and stores take n, the number of elements left (at least 1): from 16 on all lanes, else the
 * first n; lanes beyond are 0 and their memory is not touched. */
#ifndef DI_KERNELS_VEC_AVX512_H
#define DI_KERNELS_VEC_AVX512_H

#include <stdbool.h>

#include "kernels/all.h"
#include "kernels/avx512.h"

enum {
    DI_VEC = 16,
    /* Dot products at once: rows and columns of a register tile. */
    DI_VEC_TILE_ROWS = 4,
    DI_VEC_TILE_COLUMNS = 6
};

/* The head of a kernel of this level. */
#define DI_VEC_KERNEL(op)                                                                          \
    void di_##op##_avx512(const void *args, int64_t begin, int64_t end, int worker)

typedef __m512 di_vec;
typedef __m512i di_ivec; /* sixteen 32-bit numbers */
typedef __mmask16 di_vmask;

/* ------------------------------------------------------------------- arithmetic */

static inline di_vec di_vec_set(float x)
{
    return _mm512_set1_ps(x);
}

static inline di_vec di_vec_add(di_vec a, di_vec b)
{
    return _mm512_add_ps(a, b);
}

static inline di_vec di_vec_sub(di_vec a, di_vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline di_vec di_vec_mul(di_vec a, di_vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline di_vec di_vec_div(di_vec a, di_vec b)
{
    return _mm512_div_ps(a, b);
}

static inline di_vec di_vec_sqrt(di_vec a)
{
    return _mm512_sqrt_ps(a);
}

/* a < b ? a : b, so b if one is NaN. */
static inline di_vec di_vec_min(di_vec a, di_vec b)
{
    return _mm512_min_ps(a, b);
}

/* a > b ? a : b, so b if one is NaN. */
static inline di_vec di_vec_max(di_vec a, di_vec b)
{
    return _mm512_max_ps(a, b);
}

/* ------------------------------------------------------------------- bits */

static inline di_ivec di_vec_bits(di_vec x)
{
    return _mm512_castps_si512(x);
}

static inline di_vec di_vec_from_bits(di_ivec x)
{
    return _mm512_castsi512_ps(x);
}

static inline di_ivec di_ivec_set(uint32_t x)
{
    return _mm512_set1_epi32((int32_t)x);
}

/* 0, 1, ... 15 */
static inline di_ivec di_ivec_count(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

static inline di_ivec di_ivec_add(di_ivec a, di_ivec b)
{
    return _mm512_add_epi32(a, b);
}

static inline di_ivec di_ivec_sub(di_ivec a, di_ivec b)
{
    return _mm512_sub_epi32(a, b);
}

static inline di_ivec di_ivec_and(di_ivec a, di_ivec b)
{
    return _mm512_and_si512(a, b);
}

static inline di_ivec di_ivec_or(di_ivec a, di_ivec b)
{
    return _mm512_or_si512(a, b);
}

static inline di_ivec di_ivec_xor(di_ivec a, di_ivec b)
{
    return _mm512_xor_si512(a, b);
}

/* The lower halves of unsigned products, and the upper ones. */
static inline di_ivec di_ivec_mul_wide(di_ivec a, di_ivec b, di_ivec *high)
{
    const __m512i even = _mm512_mul_epu32(a, b);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    *high = _mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd);
    return _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
}

static inline di_ivec di_ivec_shl(di_ivec a, int bits)
{
    return _mm512_slli_epi32(a, (unsigned)bits);
}

static inline di_ivec di_ivec_shr(di_ivec a, int bits)
{
    return _mm512_srli_epi32(a, (unsigned)bits);
}

/* Signed. */
static inline di_ivec di_ivec_max(di_ivec a, di_ivec b)
{
    return _mm512_max_epi32(a, b);
}

/* (float) of signed numbers. */
static inline di_vec di_vec_from_int(di_ivec a)
{
    return _mm512_cvtepi32_ps(a);
}

/* (int32_t), towards zero; of numbers that fit. */
static inline di_ivec di_vec_to_int(di_vec a)
{
    return _mm512_cvttps_epi32(a);
}

/* ------------------------------------------------------------------- masks */

/* False with a NaN. */
static inline di_vmask di_vec_less(di_vec a, di_vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

static inline di_vmask di_vec_equal(di_vec a, di_vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}

/* !(a <= b), so true with a NaN. */
static inline di_vmask di_vec_not_up_to(di_vec a, di_vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_NLE_UQ);
}

static inline di_vmask di_vec_is_nan(di_vec a)
{
    return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}

/* Signed. */
static inline di_vmask di_ivec_less(di_ivec a, di_ivec b)
{
    return _mm512_cmplt_epi32_mask(a, b);
}

static inline bool di_vmask_any(di_vmask m)
{
    return m != 0;
}

static inline di_vmask di_vmask_or(di_vmask a, di_vmask b)
{
    return (di_vmask)(a | b);
}

/* m ? a : b */
static inline di_vec di_vec_select(di_vmask m, di_vec a, di_vec b)
{
    return _mm512_mask_mov_ps(b, m, a);
}

static inline di_ivec di_ivec_select(di_vmask m, di_ivec a, di_ivec b)
{
    return _mm512_mask_mov_epi32(b, m, a);
}

/* ------------------------------------------------------------------- memory */

static inline di_vec di_vec_load(const float *x, int64_t n)
{
    return n >= DI_VEC ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps(di_mask16(n), x);
}

static inline void di_vec_store(float *y, int64_t n, di_vec x)
{
    if (n >= DI_VEC)
        _mm512_storeu_ps(y, x);
    else
        _mm512_mask_storeu_ps(y, di_mask16(n), x);
}

static inline di_vec di_vec_load_bf16(const di_bf16 *x, int64_t n)
{
    return n >= DI_VEC ? di_load_bf16_512(x) : di_load_bf16_mask512(x, di_mask16(n));
}

/* di_f32_to_bf16 of each lane. */
static inline void di_vec_store_bf16(di_bf16 *y, int64_t n, di_vec x)
{
    if (n >= DI_VEC)
        di_store_bf16_512(y, x);
    else
        di_store_bf16_mask512(y, di_mask16(n), x);
}

/* All lanes, of values that are bf16 (NaN included): their upper halves. */
static inline void di_vec_store_bf16_exact(di_bf16 *y, di_vec x)
{
    _mm256_storeu_si256((__m256i *)(void *)y,
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(x), 16)));
}

static inline di_ivec di_ivec_load(const uint32_t *x)
{
    return _mm512_loadu_si512(x);
}

static inline void di_ivec_store(int32_t *y, di_ivec x)
{
    _mm512_storeu_si512(y, x);
}

/* 16 bytes as numbers. */
static inline di_ivec di_ivec_load_bytes(const uint8_t *x)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)x));
}

/* Numbers 0 .. 255 as 16 bytes. */
static inline __m128i di_ivec_to_bytes(di_ivec x)
{
    return _mm512_cvtepi32_epi8(x);
}

static inline void di_ivec_store_bytes(uint8_t *y, di_ivec x)
{
    _mm_storeu_si128((__m128i *)(void *)y, di_ivec_to_bytes(x));
}

/* ------------------------------------------------------------------- whole registers */

/* di_lanes_total */
static inline float di_vec_total(di_vec x)
{
    return di_total512(x);
}

/* The largest lane, of lanes without NaN. */
static inline float di_vec_largest(di_vec x)
{
    return _mm512_reduce_max_ps(x);
}

/* Even lanes from a, odd lanes from b. */
static inline di_vec di_vec_even_odd(di_vec a, di_vec b)
{
    return _mm512_mask_mov_ps(a, 0xaaaa, b);
}

/* Lanes 2i and 2i + 1 change places. */
static inline di_vec di_vec_swap_pairs(di_vec x)
{
    return _mm512_permute_ps(x, 0xb1);
}

/* x[0], x[0], x[1], x[1], ...: the first n / 2 numbers at x, each twice. n is even. */
static inline di_vec di_vec_load_twice(const float *x, int64_t n)
{
    const __m512i at = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m256 half =
        n >= DI_VEC ? _mm256_loadu_ps(x) : _mm256_maskz_loadu_ps((__mmask8)di_mask16(n / 2), x);
    return _mm512_permutexvar_ps(at, _mm512_castps256_ps512(half));
}

/* di_expf */
static inline di_vec di_vec_exp(di_vec x)
{
    return di_exp512(x);
}

#endif
