#include "base/fp_codes.h"

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
    return di_e4m3_of_f32(x);
}

uint8_t di_f32_to_e2m1(float x)
{
    return di_e2m1_of_f32(x);
}
