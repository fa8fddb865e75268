/* The tree's one order of summation for long fp32 sums ("lanes16", accumulation-order id 1):
 * element i goes to lane i mod 16, lanes are added pairwise 8, 4, 2, 1 apart. It is what a 16-lane
 * vector unit (or two or four narrower ones) does by itself, so vector kernels can give the
 * reference's bits. Products of bf16, e4m3 and e2m1 values are exact in fp32, hence fused and
 * unfused multiply-add agree there. */
#ifndef DI_BASE_SUM_H
#define DI_BASE_SUM_H

#include <stdint.h>

#include "base/fp.h"

enum { DI_LANES = 16 };

DI_DEVICE_INLINE float di_lanes_total(float lane[DI_LANES])
{
    for (int step = DI_LANES / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++)
            lane[i] += lane[i + step];
    return lane[0];
}

/* Sum of a[i] * b[i]. */
static inline float di_dot_f32_bf16(const float *a, const di_bf16 *b, int64_t n)
{
    float lane[DI_LANES] = {0};
    int64_t i = 0;
    for (; i + DI_LANES <= n; i += DI_LANES)
        for (int j = 0; j < DI_LANES; j++)
            lane[j] += a[i + j] * di_bf16_to_f32(b[i + j]);
    for (int j = 0; i + j < n; j++)
        lane[j] += a[i + j] * di_bf16_to_f32(b[i + j]);
    return di_lanes_total(lane);
}

/* Sum of x[i]^2. */
static inline float di_sum_squares_bf16(const di_bf16 *x, int64_t n)
{
    float lane[DI_LANES] = {0};
    for (int64_t i = 0; i < n; i++) {
        const float v = di_bf16_to_f32(x[i]);
        lane[i % DI_LANES] += v * v;
    }
    return di_lanes_total(lane);
}

#endif
