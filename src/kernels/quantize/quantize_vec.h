/* The quantizers on sixteen lanes (vec.h).
 *
 * Scales are powers of two but for q4kv, so that x / s and x * (1 / s) are the same number rounded
 * once; 1 / s is exact, as no scale is below 2^-126 or above 2^126 (but for NaN). Codes of both
 * formats come from the magnitude's bits: from a format's smallest normal number on the mantissa is
 * rounded in place, below it by an addition that leaves the multiple of the smallest step. */
#ifndef DI_KERNELS_QUANTIZE_VEC_H
#define DI_KERNELS_QUANTIZE_VEC_H

#include "core/tensor.h"
#include "kernels/quantize/quantize.h"
#include "kernels/vec_math.h"

typedef struct vec_format {
    float limit;         /* largest value */
    float least_normal;  /* smallest normal number */
    float step_shift;    /* 2^23 times the smallest step */
    int dropped;         /* mantissa bits that rounding drops */
    uint32_t first_code; /* (exponent field of least_normal << kept bits) - its code */
} vec_format;

static const vec_format vec_e4m3 = {448.0f, 0x1p-6f, 0x1p14f, 20, (127 - 7) << 3};
static const vec_format vec_e2m1 = {6.0f, 1.0f, 0x1p22f, 22, (127 - 1) << 1};

/* max |x| of a group of 16 or 32 (1 or 2 loads), no less than `least`; NaN if there is one. */
static inline float vec_largest(const di_bf16 *x, int n, float least)
{
    /* As unsigned numbers the magnitudes of bf16 have their order, infinities and then NaN on top.
     */
    const __m256i sign = _mm256_set1_epi16((short)0x8000);
    __m256i a = _mm256_andnot_si256(sign, _mm256_loadu_si256((const __m256i *)(const void *)x));
    if (n > 16)
        a = _mm256_max_epu16(
            a,
            _mm256_andnot_si256(sign, _mm256_loadu_si256((const __m256i *)(const void *)(x + 16))));
    const __m128i b = _mm_max_epu16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    const __m128i ones = _mm_set1_epi16(-1);
    const __m128i c = _mm_minpos_epu16(_mm_xor_si128(b, ones)); /* the largest, complemented */
    const float m = di_bf16_to_f32((di_bf16)~_mm_extract_epi16(c, 0));
    return m > least || m != m ? m : least;
}

static inline uint8_t vec_e8m0_scale(float y)
{
    return y != y ? 0xff : di_pow2ceil_e8m0(y);
}

static inline uint8_t vec_q8_scale(const di_bf16 *x)
{
    return vec_e8m0_scale(vec_largest(x, 32, 1e-4f) * (1.0f / 448.0f));
}

static inline uint8_t vec_q4i_scale(const di_bf16 *x)
{
    return vec_e8m0_scale(vec_largest(x, 32, 6.0f * 0x1p-126f) * (1.0f / 6.0f));
}

/* Magnitude bits of |v| (at most the limit) rounded to the format; of a NaN one that is NaN. */
static inline di_ivec vec_round_bits(di_vec magnitude, const vec_format *f)
{
    const di_ivec u = di_vec_bits(magnitude), one = di_ivec_set(1);
    const di_ivec odd = di_ivec_and(di_ivec_shr(u, f->dropped), one);
    const di_ivec half = di_ivec_set((1u << (f->dropped - 1)) - 1);
    return di_ivec_add(di_ivec_add(u, half), odd);
}

/* v = x / scale to the nearest value of the format, as fp32. */
static inline di_vec vec_rounded(di_vec v, const vec_format *f)
{
    const di_vec shift = di_vec_set(f->step_shift);
    const di_vec m = di_vec_min(di_vec_set(f->limit), di_vec_abs(v));
    const di_ivec kept = di_ivec_set(~((1u << f->dropped) - 1));
    const di_vec normal = di_vec_from_bits(di_ivec_and(vec_round_bits(m, f), kept));
    const di_vec small = di_vec_sub(di_vec_add(m, shift), shift);
    return di_vec_select(di_vec_less(m, di_vec_set(f->least_normal)), small, normal);
}

/* The code of v = x / scale without its sign; of a NaN the format's last. */
static inline di_ivec vec_code(di_vec v, const vec_format *f)
{
    const di_vec shift = di_vec_set(f->step_shift);
    const di_vec m = di_vec_min(di_vec_set(f->limit), di_vec_abs(v));
    const di_ivec normal =
        di_ivec_sub(di_ivec_shr(vec_round_bits(m, f), f->dropped), di_ivec_set(f->first_code));
    const di_ivec small = di_ivec_sub(di_vec_bits(di_vec_add(m, shift)), di_vec_bits(shift));
    const di_ivec code = di_ivec_select(di_vec_less(m, di_vec_set(f->least_normal)), small, normal);
    const di_ivec last = di_ivec_set(f == &vec_e4m3 ? 0x7f : 7);
    return di_ivec_select(di_vec_is_nan(v), last, code);
}

static inline di_ivec vec_sign(di_vec x)
{
    return di_ivec_and(di_vec_bits(x), di_ivec_set(0x80000000u));
}

/* 1 / 2^(code - 127); NaN of code 255. */
static inline float vec_reciprocal(uint8_t code)
{
    return code == 0xff ? __builtin_nanf("") : di_f32_from_bits((254u - code) << 23);
}

static inline void vec_quantize(const di_quantize_args *a, int64_t row, const vec_format *f)
{
    for (int64_t g = 0; g < a->dim; g += 32) {
        const di_bf16 *x = a->x + row * a->x_stride + g;
        di_bf16 *y = a->y + row * a->y_stride + g;
        const uint8_t code = f == &vec_e4m3 ? vec_q8_scale(x) : vec_q4i_scale(x);
        const di_vec scale = di_vec_set(di_e8m0_to_f32(code));
        const di_vec reciprocal = di_vec_set(vec_reciprocal(code));
        for (int i = 0; i < 32; i += DI_VEC) {
            const di_vec v = di_vec_load_bf16(x + i, DI_VEC);
            const di_vec r = di_vec_mul(vec_rounded(di_vec_mul(v, reciprocal), f), scale);
            /* e4m3 keeps the sign of zero; e2m1 has one zero. */
            const di_ivec sign = f == &vec_e4m3 ? vec_sign(v)
                                                : di_ivec_select(di_vec_equal(r, di_vec_set(0.0f)),
                                                                 di_ivec_set(0), vec_sign(v));
            di_vec_store_bf16_exact(y + i, di_vec_from_bits(di_ivec_or(di_vec_bits(r), sign)));
        }
    }
}

DI_VEC_KERNEL(quantize_q8)
{
    (void)worker;
    for (int64_t row = begin; row < end; row++)
        vec_quantize(args, row, &vec_e4m3);
}

DI_VEC_KERNEL(quantize_q4i)
{
    (void)worker;
    for (int64_t row = begin; row < end; row++)
        vec_quantize(args, row, &vec_e2m1);
}

/* ------------------------------------------------------------------- packing */

static inline uint8_t *vec_out_codes(const di_paged_out *p, int64_t slot)
{
    return p->data + slot / p->block_len * p->block_bytes + slot % p->block_len * p->code_bytes;
}

static inline uint8_t *vec_out_scales(const di_paged_out *p, int64_t slot)
{
    return p->data + slot / p->block_len * p->block_bytes + p->scales_offset +
           slot % p->block_len * p->scale_bytes;
}

DI_VEC_KERNEL(pack_q8)
{
    (void)worker;
    const di_pack_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        if (a->slots[row] < 0)
            continue;
        uint8_t *codes = vec_out_codes(&a->out, a->slots[row]);
        uint8_t *scales = vec_out_scales(&a->out, a->slots[row]);
        for (int64_t g = 0; g < a->dim / 32; g++) {
            const di_bf16 *x = a->x + row * a->x_stride + g * 32;
            scales[g] = vec_q8_scale(x);
            const di_vec scale = di_vec_set(di_e8m0_to_f32(scales[g]));
            for (int i = 0; i < 32; i += DI_VEC) {
                const di_vec v = di_vec_div(di_vec_load_bf16(x + i, DI_VEC), scale);
                const di_ivec code =
                    di_ivec_or(vec_code(v, &vec_e4m3), di_ivec_shr(vec_sign(v), 24));
                di_ivec_store_bytes(codes + g * 32 + i, code);
            }
        }
    }
}

/* 16 values to 8 bytes of e2m1 codes, low nibble first. */
static inline void vec_pack_nibbles(const di_bf16 *x, di_vec scale, uint8_t *out)
{
    const di_vec v = di_vec_div(di_vec_load_bf16(x, DI_VEC), scale);
    const di_ivec code = vec_code(v, &vec_e2m1), zero = di_ivec_set(0);
    const di_ivec sign =
        di_ivec_select(di_ivec_less(zero, code), di_ivec_shr(vec_sign(v), 28), zero);
    const __m128i bytes = di_ivec_to_bytes(di_ivec_or(code, sign));
    /* low + 16 * high of each two */
    const __m128i pairs = _mm_maddubs_epi16(bytes, _mm_set1_epi16(0x1001));
    _mm_storel_epi64((__m128i *)(void *)out, _mm_packus_epi16(pairs, pairs));
}

DI_VEC_KERNEL(pack_q4i)
{
    (void)worker;
    const di_pack_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        if (a->slots[row] < 0)
            continue;
        uint8_t *codes = vec_out_codes(&a->out, a->slots[row]);
        uint8_t *scales = vec_out_scales(&a->out, a->slots[row]);
        for (int64_t g = 0; g < a->dim / 32; g++) {
            const di_bf16 *x = a->x + row * a->x_stride + g * 32;
            scales[g] = vec_q4i_scale(x);
            const di_vec scale = di_vec_set(di_e8m0_to_f32(scales[g]));
            vec_pack_nibbles(x, scale, codes + g * 16);
            vec_pack_nibbles(x + 16, scale, codes + g * 16 + 8);
        }
    }
}

DI_VEC_KERNEL(pack_q4kv)
{
    (void)worker;
    const di_pack_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        if (a->slots[row] < 0)
            continue;
        uint8_t *codes = vec_out_codes(&a->out, a->slots[row]);
        uint8_t *scales = vec_out_scales(&a->out, a->slots[row]);
        for (int64_t g = 0; g < a->dim / 16; g++) {
            const di_bf16 *x = a->x + row * a->x_stride + g * 16;
            const float largest = vec_largest(x, 16, 6.0f * 0x1p-9f);
            scales[g] = isinf(largest) ? 0x7f : di_f32_to_e4m3(largest / 6.0f);
            vec_pack_nibbles(x, di_vec_set(di_e4m3_to_f32[scales[g]]), codes + g * 8);
        }
    }
}

#endif
