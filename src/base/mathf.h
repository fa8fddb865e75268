/* Transcendental functions in plain fp32 arithmetic with a fixed order of operations, so that every
 * machine, vector width and C library gives the same bits (libm's own depend on its version and on
 * FMA). Files that include this are compiled with -ffp-contract=off. Errors below are the largest
 * seen in tests/unit/mathf_test.c against double precision. */
#ifndef DI_BASE_MATHF_H
#define DI_BASE_MATHF_H

#include "base/fp.h"

/* y with e^x = y 2^n, y in [0.7, 1.42), for x where di_expf is neither 0 nor infinite. */
DI_DEVICE_INLINE float di_exp_reducedf(float x, float *n_out)
{
    const float shift = 0x1.8p23f; /* rounds to nearest integer by addition */
    const float n = (x * 0x1.715476p0f + shift) - shift;
    const float r = (x - n * 0x1.62e400p-1f) - n * 0x1.7f7d1cp-20f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    *n_out = n;
    return (p * (r * r) + r) + 1.0f;
}

/* di_expf for -87 <= x <= 88. Free of branches. */
DI_DEVICE_INLINE float di_exp_normalf(float x)
{
    float n;
    const float y = di_exp_reducedf(x, &n);
    return y * di_f32_from_bits((uint32_t)((int32_t)n + 127) << 23);
}

/* e^x, under 1 ulp; 0 below -87.33 (no subnormal results), +inf above 88.72, NaN stays. */
DI_DEVICE_INLINE float di_expf(float x)
{
    if (!(x > -87.33f))
        return x != x ? x : 0.0f;
    if (x > 88.72f)
        return INFINITY;
    float n;
    const float y = di_exp_reducedf(x, &n);
    const int32_t e = (int32_t)n;
    if (e > 127) /* 2^128 is no fp32: scale in two steps */
        return y * 0x1p127f * 2.0f;
    return y * di_f32_from_bits((uint32_t)(e + 127) << 23);
}

/* e^z for z <= 0 in units of 2^-40, rounded down; 2^40 at z = 0, 0 below about -27.7 (NaN: 0). */
DI_DEVICE_INLINE uint64_t di_exp_weight(float z)
{
    /* Free of branches and in numbers of 32 bits, for loops over it to be vector code. */
    const int is_in = z > -28.0f;
    const float e = di_exp_normalf(is_in ? z : 0.0f) * 0x1p40f;
    const int32_t high = (int32_t)(e * 0x1p-16f);
    const int32_t low = (int32_t)(e - (float)high * 0x1p16f);
    const uint32_t mask = is_in ? UINT32_MAX : 0;
    return ((uint64_t)((uint32_t)high & mask) << 16) + ((uint32_t)low & mask);
}

/* ln(1 + m) + e ln 2 for sqrt(1/2) - 1 <= m <= sqrt(2) - 1 and a whole number e. */
DI_DEVICE_INLINE float di_log_polyf(float m, float e)
{
    const float z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    const float y = (p * m * z + e * -2.12194440e-4f) - 0.5f * z;
    return (m + y) + e * 0.693359375f;
}

/* di_logf without its special cases: x > 0, finite and normal. Free of branches. */
DI_DEVICE_INLINE float di_log_normalf(float x)
{
    const uint32_t u = di_f32_bits(x);
    const float half = di_f32_from_bits((u & 0x7fffffu) | 0x3f000000u); /* [0.5, 1) */
    const int32_t below = half < 0x1.6a09e6p-1f;                        /* sqrt(1/2) */
    const int32_t e = (int32_t)(u >> 23) - 126 - below;
    return di_log_polyf((below ? half + half : half) - 1.0f, (float)e);
}

/* ln x for x > 0 (normal), under 0.9 ulp; -inf at 0, NaN below. */
DI_DEVICE_INLINE float di_logf(float x)
{
    if (!(x > 0.0f))
        return x == 0.0f ? -INFINITY : __builtin_nanf("");
    if (x == INFINITY)
        return x;
    return di_log_normalf(x);
}

/* ln(1 + x) for x >= 0, under 2.5 ulp, by the quotient that cancels the rounding of 1 + x. */
DI_DEVICE_INLINE float di_log1pf(float x)
{
    const float u = 1.0f + x;
    if (u == 1.0f)
        return x;
    if (!(u < INFINITY))
        return u;
    return di_logf(u) * (x / (u - 1.0f));
}

/* Under 2.5 ulp; 0 below -88.72. */
DI_DEVICE_INLINE float di_sigmoidf(float x)
{
    return 1.0f / (1.0f + di_expf(-x));
}

/* Under 2.5 ulp; -0 below -88.72. Not for infinities. */
DI_DEVICE_INLINE float di_siluf(float x)
{
    return x / (1.0f + di_expf(-x));
}

/* Under 1.5 ulp. */
DI_DEVICE_INLINE float di_rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}

#endif
