/* The bodies of di_f32_to_e4m3 and di_f32_to_e2m1 (base/fp.h), for GPU kernels too. */
#ifndef DI_BASE_FP_CODES_H
#define DI_BASE_FP_CODES_H

#include "base/fp.h"

DI_DEVICE_INLINE uint8_t di_e4m3_of_f32(float x)
{
    const uint32_t u = di_f32_bits(x);
    const uint8_t sign = (uint8_t)((u >> 24) & 0x80u);
    const uint32_t a = u & 0x7fffffffu;
    if (a > 0x7f800000u)
        return (uint8_t)(sign | 0x7f);
    if (a >= 0x3c800000u) { /* >= 2^-6: normal in e4m3; round the 23-bit mantissa to 3 bits */
        const uint32_t r = a + 0x7ffffu + ((a >> 20) & 1u);
        const uint32_t code = (r >> 20) - ((127u - 7u) << 3);
        return (uint8_t)(sign | (code > 0x7e ? 0x7e : code));
    }
    /* Subnormal: a multiple of 2^-9. Adding 2^23 * 2^-9 leaves the multiple, rounded to even. */
    const float magic = 0x1p14f;
    const float rounded = di_f32_from_bits(a) + magic;
    return (uint8_t)(sign | (di_f32_bits(rounded) - di_f32_bits(magic)));
}

DI_DEVICE_INLINE uint8_t di_e2m1_of_f32(float x)
{
    const float a = fabsf(x);
    /* Thresholds are the midpoints; a tie goes to the even code. */
    uint8_t code;
    if (a <= 0.25f)
        code = 0;
    else if (a < 0.75f)
        code = 1;
    else if (a <= 1.25f)
        code = 2;
    else if (a < 1.75f)
        code = 3;
    else if (a <= 2.5f)
        code = 4;
    else if (a < 3.5f)
        code = 5;
    else if (a <= 5.0f)
        code = 6;
    else
        code = 7;
    return (uint8_t)(code != 0 && di_f32_bits(x) >> 31 ? code | 8 : code);
}

#endif
