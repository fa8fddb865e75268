/* A group of 32 query channels as integers: what quantize_q4i leaves is a small integer times one
 * power of two. */
#ifndef DI_KERNELS_INDEX_GROUP_H
#define DI_KERNELS_INDEX_GROUP_H

#include "base/fp.h"

enum { DI_INDEX_GROUP = 32 };

/* The power of two of which every value of the group is a multiple, at most 15 times: three binary
 * digits below the largest. `largest` is the largest |q| as bf16 bits; 0 for a group of zeros, NaN
 * for one with a NaN. */
DI_DEVICE_INLINE float di_index_unit(uint32_t largest)
{
    if (largest == 0)
        return 0.0f;
    if (largest >= 0x7f80)
        return __builtin_nanf("");
    const int exponent = largest >> 7 ? (int)(largest >> 7) : 1;
    return exponent > 3 ? di_f32_from_bits((uint32_t)(exponent - 3) << 23)
                        : di_f32_from_bits(1u << (19 + exponent));
}

#endif
