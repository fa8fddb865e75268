#include "compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "base/fp.h"

/* Another order of fp32 sums moves a result by about 1e-7; a bf16 result then flips one rounding
 * now and then, each by 2^-8 of its value: 0.2% over all is far more than chance gives. LOWP
 * kernels state bf16 inside (2^-9 a term, averaging out). */
static double bound_of(di_numerics numerics, di_dtype dtype)
{
    if (numerics == DI_NUMERICS_LOWP)
        return 2e-2;
    return dtype == DI_BF16 ? 2e-3 : 1e-5;
}

static double value_at(di_dtype dtype, const void *data, size_t i)
{
    if (dtype == DI_BF16)
        return (double)di_bf16_to_f32(((const di_bf16 *)data)[i]);
    return (double)((const float *)data)[i];
}

static void compare_bytes(const char *what, const unsigned char *found, const unsigned char *wanted,
                          size_t bytes, size_t elem_bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (found[i] != wanted[i])
            fail_msg("%s: element %zu of %zu: byte %zu is 0x%02x, wanted 0x%02x", what,
                     i / elem_bytes, bytes / elem_bytes, i % elem_bytes, found[i], wanted[i]);
}

/* Equal bits, except that a NaN is any NaN: which payload comes out of an operation with two is the
 * processor's choice. */
static void compare_exact(const char *what, di_dtype dtype, const void *found, const void *wanted,
                          size_t n)
{
    const size_t elem_bytes = di_dtype_bytes(dtype);
    for (size_t i = 0; i < n; i++) {
        const double a = value_at(dtype, found, i), b = value_at(dtype, wanted, i);
        if (memcmp((const char *)found + i * elem_bytes, (const char *)wanted + i * elem_bytes,
                   elem_bytes) != 0 &&
            !(isnan(a) && isnan(b)))
            fail_msg("%s: element %zu of %zu: found %.9g, wanted %.9g", what, i, n, a, b);
    }
}

void di_compare_outputs(const char *what, di_numerics numerics, di_dtype dtype, const void *found,
                        const void *wanted, size_t bytes)
{
    const bool is_float = dtype == DI_BF16 || dtype == DI_F32;
    const size_t elem_bytes = di_dtype_bytes(dtype);
    if (numerics == DI_NUMERICS_EXACT && is_float) {
        compare_exact(what, dtype, found, wanted, bytes / elem_bytes);
        return;
    }
    if (!is_float) {
        compare_bytes(what, found, wanted, bytes, elem_bytes);
        return;
    }
    double error = 0, norm_a = 0, norm_b = 0, product = 0;
    for (size_t i = 0; i < bytes / elem_bytes; i++) {
        const double a = value_at(dtype, found, i), b = value_at(dtype, wanted, i);
        if (isnan(a) != isnan(b) || ((isinf(a) || isinf(b)) && a != b))
            fail_msg("%s: element %zu: found %g, wanted %g", what, i, a, b);
        if (!isfinite(a))
            continue;
        error += (a - b) * (a - b);
        norm_a += a * a;
        norm_b += b * b;
        product += a * b;
    }
    const double bound = bound_of(numerics, dtype);
    if (sqrt(error) > bound * sqrt(norm_b) || product < (1 - bound) * sqrt(norm_a * norm_b))
        fail_msg("%s: relative error %g, cosine %g, wanted at most %g off", what,
                 sqrt(error / norm_b), product / sqrt(norm_a * norm_b), bound);
}

void di_compare_nearly_exact(const char *what, di_dtype dtype, const void *found,
                             const void *wanted, size_t bytes, double slack)
{
    for (size_t i = 0; i < bytes / di_dtype_bytes(dtype); i++) {
        const double a = value_at(dtype, found, i), b = value_at(dtype, wanted, i);
        const double flip = dtype == DI_BF16 ? fabs(b) * 0x1p-7 : 0;
        if (isnan(a) && isnan(b))
            continue;
        if (!(fabs(a - b) <= slack + flip))
            fail_msg("%s: element %zu: found %.9g, wanted %.9g +- %.3g", what, i, a, b,
                     slack + flip);
    }
}

void di_expect_f32(const char *what, int64_t index, float found, double wanted, double slack)
{
    if (isnan(wanted) ? isnan(found) : fabs((double)found - wanted) <= slack)
        return;
    if (isinf(wanted) && (double)found == wanted)
        return;
    fail_msg("%s: element %lld: found %.9g, wanted %.12g +- %.3g", what, (long long)index,
             (double)found, wanted, slack);
}

static double half_ulp_bf16(double x)
{
    int e;
    frexp(x, &e); /* |x| in [2^(e-1), 2^e) */
    return ldexp(1, (e < -125 ? -125 : e) - 9);
}

void di_expect_bf16(const char *what, int64_t index, di_bf16 found, double wanted, double slack)
{
    const double value = (double)di_bf16_to_f32(found);
    if (isnan(wanted) ? isnan(value) : fabs(value - wanted) <= slack + half_ulp_bf16(wanted))
        return;
    if (isinf(value) && fabs(wanted) + slack >= 0x1.ffp127 && (value > 0) == (wanted > 0))
        return;
    fail_msg("%s: element %lld: found %.9g, wanted %.12g +- %.3g", what, (long long)index, value,
             wanted, slack + half_ulp_bf16(wanted));
}

void di_expect_bf16_exact(const char *what, int64_t index, di_bf16 found, double wanted)
{
    const di_bf16 rounded = di_f32_to_bf16((float)wanted);
    if (found != rounded && !(isnan(wanted) && isnan(di_bf16_to_f32(found))))
        fail_msg("%s: element %lld: found %.9g, wanted %.9g", what, (long long)index,
                 (double)di_bf16_to_f32(found), (double)di_bf16_to_f32(rounded));
}

double di_sum_slack(int64_t n, double mass)
{
    return ((double)n / 16 + 9) * 0x1p-24 * mass;
}
