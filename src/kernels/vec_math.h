/* mathf.h's functions and sums in lanes16 order on sixteen lanes. */
#ifndef DI_KERNELS_VEC_MATH_H
#define DI_KERNELS_VEC_MATH_H

#include "base/mathf.h"
#include "kernels/vec.h"

/* a * x + b */
static inline di_vec di_vec_step(di_vec a, di_vec x, float b)
{
    return di_vec_add(di_vec_mul(a, x), di_vec_set(b));
}

static inline di_vec di_vec_negate(di_vec x)
{
    const di_ivec sign = di_ivec_set(0x80000000u), u = di_vec_bits(x);
    return di_vec_from_bits(di_ivec_add(u, sign));
}

static inline di_vec di_vec_abs(di_vec x)
{
    return di_vec_from_bits(di_ivec_and(di_vec_bits(x), di_ivec_set(0x7fffffffu)));
}

/* di_log_polyf */
static inline di_vec di_vec_log_poly(di_vec m, di_vec e)
{
    const di_vec z = di_vec_mul(m, m);
    di_vec p = di_vec_set(7.0376836292e-2f);
    p = di_vec_step(p, m, -1.1514610310e-1f);
    p = di_vec_step(p, m, 1.1676998740e-1f);
    p = di_vec_step(p, m, -1.2420140846e-1f);
    p = di_vec_step(p, m, 1.4249322787e-1f);
    p = di_vec_step(p, m, -1.6668057665e-1f);
    p = di_vec_step(p, m, 2.0000714765e-1f);
    p = di_vec_step(p, m, -2.4999993993e-1f);
    p = di_vec_step(p, m, 3.3333331174e-1f);
    const di_vec y = di_vec_sub(
        di_vec_add(di_vec_mul(di_vec_mul(p, m), z), di_vec_mul(e, di_vec_set(-2.12194440e-4f))),
        di_vec_mul(di_vec_set(0.5f), z));
    return di_vec_add(di_vec_add(m, y), di_vec_mul(e, di_vec_set(0.693359375f)));
}

/* di_log_normalf */
static inline di_vec di_vec_log_normal(di_vec x)
{
    const di_ivec u = di_vec_bits(x);
    const di_vec half = di_vec_from_bits(
        di_ivec_or(di_ivec_and(u, di_ivec_set(0x7fffffu)), di_ivec_set(0x3f000000u)));
    const di_vmask below = di_vec_less(half, di_vec_set(0x1.6a09e6p-1f));
    const di_ivec bias = di_ivec_select(below, di_ivec_set(127), di_ivec_set(126));
    const di_vec e = di_vec_from_int(di_ivec_sub(di_ivec_shr(u, 23), bias));
    const di_vec m =
        di_vec_sub(di_vec_select(below, di_vec_add(half, half), half), di_vec_set(1.0f));
    return di_vec_log_poly(m, e);
}

/* di_log1pf for x >= 0 */
static inline di_vec di_vec_log1p(di_vec x)
{
    const di_vec one = di_vec_set(1.0f), u = di_vec_add(one, x);
    const di_vec y = di_vec_mul(di_vec_log_normal(u), di_vec_div(x, di_vec_sub(u, one)));
    const di_vec large = di_vec_select(di_vec_less(u, di_vec_set(INFINITY)), y, u);
    return di_vec_select(di_vec_equal(u, one), x, large);
}

/* di_siluf */
static inline di_vec di_vec_silu(di_vec x)
{
    return di_vec_div(x, di_vec_add(di_vec_set(1.0f), di_vec_exp(di_vec_negate(x))));
}

/* di_sum_squares_bf16 */
static inline float di_vec_sum_squares(const di_bf16 *x, int64_t n)
{
    di_vec lanes = di_vec_set(0.0f);
    for (int64_t i = 0; i < n; i += DI_VEC) {
        const di_vec v = di_vec_load_bf16(x + i, n - i);
        lanes = di_vec_add(lanes, di_vec_mul(v, v));
    }
    return di_vec_total(lanes);
}

#endif
