#include "base/fp.h"

/* clang-format off */
const float di_e2m1_to_f32[16] = {
    0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
    0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f,
};

/* One binade of e4m3 (8 codes) from the value of its first and its step. */
#define BINADE(first, step)                                                    \
    (first) + 0 * (step), (first) + 1 * (step), (first) + 2 * (step),          \
    (first) + 3 * (step), (first) + 4 * (step), (first) + 5 * (step),          \
    (first) + 6 * (step)
#define BINADE8(first, step) BINADE(first, step), (first) + 7 * (step)
#define HALF(sign)                                                             \
    BINADE8((sign) * 0.0f, (sign) * 0x1p-9f), \
    BINADE8((sign) * 0x1p-6f, (sign) * 0x1p-9f), \
    BINADE8((sign) * 0x1p-5f, (sign) * 0x1p-8f), \
    BINADE8((sign) * 0x1p-4f, (sign) * 0x1p-7f), \
    BINADE8((sign) * 0x1p-3f, (sign) * 0x1p-6f), \
    BINADE8((sign) * 0x1p-2f, (sign) * 0x1p-5f), \
    BINADE8((sign) * 0x1p-1f, (sign) * 0x1p-4f), \
    BINADE8((sign) * 0x1p0f, (sign) * 0x1p-3f),  \
    BINADE8((sign) * 0x1p1f, (sign) * 0x1p-2f),  \
    BINADE8((sign) * 0x1p2f, (sign) * 0x1p-1f),  \
    BINADE8((sign) * 0x1p3f, (sign) * 0x1p0f),   \
    BINADE8((sign) * 0x1p4f, (sign) * 0x1p1f),   \
    BINADE8((sign) * 0x1p5f, (sign) * 0x1p2f),   \
    BINADE8((sign) * 0x1p6f, (sign) * 0x1p3f),   \
    BINADE8((sign) * 0x1p7f, (sign) * 0x1p4f),   \
    BINADE((sign) * 0x1p8f, (sign) * 0x1p5f), (sign) * __builtin_nanf("")

const float di_e4m3_to_f32[256] = {HALF(1), HALF(-1)};
/* clang-format on */

uint8_t di_f32_to_e4m3(float x)
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

uint8_t di_f32_to_e2m1(float x)
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
    return (uint8_t)(code != 0 && signbit(x) ? code | 8 : code);
}
