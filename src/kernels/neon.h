/* What the NEON kernels share: avx512.h's counterparts. Sixteen lanes are four registers. Only for
 * files whose suffix names NEON. */
#ifndef DI_KERNELS_NEON_H
#define DI_KERNELS_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#include "base/fp.h"

/* Lanes 0-3, 4-7, 8-11, 12-15. */
typedef struct di_lanes_neon {
    float32x4_t v[4];
} di_lanes_neon;

static inline di_lanes_neon di_lanes_zero_neon(void)
{
    const float32x4_t zero = vdupq_n_f32(0.0f);
    return (di_lanes_neon){{zero, zero, zero, zero}};
}

static inline di_lanes_neon di_bf16_widen_neon(uint16x8_t low, uint16x8_t high)
{
    return (di_lanes_neon){{
        vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(low), 16)),
        vreinterpretq_f32_u32(vshll_high_n_u16(low, 16)),
        vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(high), 16)),
        vreinterpretq_f32_u32(vshll_high_n_u16(high, 16)),
    }};
}

static inline di_lanes_neon di_load_bf16_neon(const di_bf16 *x)
{
    return di_bf16_widen_neon(vld1q_u16(x), vld1q_u16(x + 8));
}

/* The first n < 16 elements, zeros behind them; reads no others. */
static inline di_lanes_neon di_load_bf16_part_neon(const di_bf16 *x, int64_t n)
{
    di_bf16 part[16] = {0};
    memcpy(part, x, (size_t)n * sizeof *x);
    return di_load_bf16_neon(part);
}

static inline di_lanes_neon di_load_f32_neon(const float *x)
{
    return (di_lanes_neon){{vld1q_f32(x), vld1q_f32(x + 4), vld1q_f32(x + 8), vld1q_f32(x + 12)}};
}

static inline void di_store_f32_neon(float *y, di_lanes_neon x)
{
    for (int i = 0; i < 4; i++)
        vst1q_f32(y + 4 * i, x.v[i]);
}

/* acc + a b, fused. */
static inline di_lanes_neon di_fma_neon(di_lanes_neon acc, di_lanes_neon a, di_lanes_neon b)
{
    for (int i = 0; i < 4; i++)
        acc.v[i] = vfmaq_f32(acc.v[i], a.v[i], b.v[i]);
    return acc;
}

static inline di_lanes_neon di_scale_neon(di_lanes_neon a, float scale)
{
    for (int i = 0; i < 4; i++)
        a.v[i] = vmulq_n_f32(a.v[i], scale);
    return a;
}

/* di_lanes_total: lanes 8, 4, 2, 1 apart. */
static inline float di_total_neon(di_lanes_neon x)
{
    const float32x4_t a = vaddq_f32(vaddq_f32(x.v[0], x.v[2]), vaddq_f32(x.v[1], x.v[3]));
    const float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}

/* 16 e4m3 codes times a power of two. As fp16 bits a code is its value times 2^-8, subnormals
 * included; NaN codes and scales near fp32's end go one by one. */
static inline di_lanes_neon di_decode_e4m3_neon(const uint8_t *codes, uint8_t scale)
{
    enum { LARGEST_FAST_SCALE = 246 }; /* 2^8 times it is finite */
    const uint8x16_t c = vld1q_u8(codes), zero = vdupq_n_u8(0);
    const uint8x16_t is_nan = vceqq_u8(vandq_u8(c, vdupq_n_u8(0x7f)), vdupq_n_u8(0x7f));
    if (scale > LARGEST_FAST_SCALE || vmaxvq_u8(is_nan)) {
        float out[16];
        for (int i = 0; i < 16; i++)
            out[i] = di_e4m3_to_f32[codes[i]] * di_e8m0_to_f32(scale);
        return di_load_f32_neon(out);
    }
    const float factor = di_f32_from_bits((uint32_t)(scale + 8) << 23);
    const int16x8_t mask = vdupq_n_s16((int16_t)0xbfff);
    const int16x8_t low = vandq_s16(vshrq_n_s16(vreinterpretq_s16_u8(vzip1q_u8(zero, c)), 1), mask);
    const int16x8_t high =
        vandq_s16(vshrq_n_s16(vreinterpretq_s16_u8(vzip2q_u8(zero, c)), 1), mask);
    const float16x8_t l = vreinterpretq_f16_s16(low), h = vreinterpretq_f16_s16(high);
    return di_scale_neon((di_lanes_neon){{vcvt_f32_f16(vget_low_f16(l)), vcvt_high_f32_f16(l),
                                          vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h)}},
                         factor);
}

/* 16 e2m1 codes in 8 bytes (element 2i in the low half of byte i), as fp32. */
static inline di_lanes_neon di_decode_e2m1_neon(const uint8_t *codes)
{
    /* the upper bytes of the values as fp16, whose lower bytes are 0 */
    static const uint8_t upper[16] = {0x00, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46,
                                      0x00, 0xb8, 0xbc, 0xbe, 0xc0, 0xc2, 0xc4, 0xc6};
    const uint8x16_t table = vld1q_u8(upper);
    const uint8x8_t c = vld1_u8(codes);
    const uint8x8_t even = vqtbl1_u8(table, vand_u8(c, vdup_n_u8(15)));
    const uint8x8_t odd = vqtbl1_u8(table, vshr_n_u8(c, 4));
    const uint8x16_t both = vcombine_u8(vzip1_u8(even, odd), vzip2_u8(even, odd));
    const uint8x16_t zero = vdupq_n_u8(0);
    const float16x8_t l = vreinterpretq_f16_u8(vzip1q_u8(zero, both));
    const float16x8_t h = vreinterpretq_f16_u8(vzip2q_u8(zero, both));
    return (di_lanes_neon){{vcvt_f32_f16(vget_low_f16(l)), vcvt_high_f32_f16(l),
                            vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h)}};
}

#endif
