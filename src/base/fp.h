/* The only number-format conversions in the tree (model spec 2.1, 3). RNE everywhere.
 *
 * bf16  upper half of fp32
 * e4m3  "fn": bias 7, largest 448, no infinities, 0x7f / 0xff = NaN
 * e8m0  2^(code - 127), 0xff = NaN
 * e2m1  sign, then 0 .5 1 1.5 2 3 4 6; -0 (code 8) is 0 */
#ifndef DI_BASE_FP_H
#define DI_BASE_FP_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/inline.h"

typedef uint16_t di_bf16;

DI_DEVICE_INLINE uint32_t di_f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

DI_DEVICE_INLINE float di_f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

DI_DEVICE_INLINE float di_bf16_to_f32(di_bf16 x)
{
    return di_f32_from_bits((uint32_t)x << 16);
}

/* NaN stays NaN (quiet), whatever its payload. */
DI_DEVICE_INLINE di_bf16 di_f32_to_bf16(float x)
{
    const uint32_t u = di_f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (di_bf16)((u >> 16) | 0x40u);
    return (di_bf16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/* fp32 rounded to a bf16 value, kept as fp32. */
DI_DEVICE_INLINE float di_round_bf16(float x)
{
    return di_bf16_to_f32(di_f32_to_bf16(x));
}

/* IEEE fp16; every value is exact in fp32. */
DI_DEVICE_INLINE float di_f16_to_f32(uint16_t x)
{
    const uint32_t sign = (uint32_t)(x & 0x8000u) << 16, magnitude = x & 0x7fffu;
    if (magnitude >= 0x7c00u) /* infinity, NaN */
        return di_f32_from_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    const float value = (float)magnitude * 0x1p-24f; /* subnormal: a count of 2^-24 */
    if (magnitude < 0x400u)
        return di_f32_from_bits(sign | di_f32_bits(value));
    return di_f32_from_bits(sign | ((magnitude << 13) + (112u << 23)));
}

extern const float di_e4m3_to_f32[256];
extern const float di_e2m1_to_f32[16];

/* 2^(code - 127); code 0 is the subnormal 2^-127, code 255 NaN. */
DI_DEVICE_INLINE float di_e8m0_to_f32(uint8_t code)
{
    if (code == 0)
        return di_f32_from_bits(0x00400000u);
    if (code == 0xff)
        return di_f32_from_bits(0x7fc00000u);
    return di_f32_from_bits((uint32_t)code << 23);
}

/* Least power of two >= y, as an e8m0 code. y > 0, finite, normal. (spec 3, pow2ceil) */
DI_DEVICE_INLINE uint8_t di_pow2ceil_e8m0(float y)
{
    const uint32_t u = di_f32_bits(y);
    return (uint8_t)((u >> 23) + ((u & 0x7fffffu) != 0));
}

/* |x| <= 448 or NaN: nearest e4m3 code, ties to even. */
uint8_t di_f32_to_e4m3(float x);
/* |x| <= 6: nearest e2m1 code (low 4 bits), ties to the even code; a result of zero is code 0. */
uint8_t di_f32_to_e2m1(float x);

#endif
