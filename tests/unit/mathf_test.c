/* base/mathf.h against the C library's double precision functions, over dense sweeps. The bounds
 * are the ones base/mathf.h states. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/mathf.h"

typedef float (*function_f32)(float);
typedef double (*function_f64)(double);

/* Distance of `got` from the exact value in units of the fp32 spacing at that value. */
static double ulps(float got, double exact)
{
    int exponent;
    frexp(exact, &exponent);
    const double spacing = ldexp(1.0, (exponent > -125 ? exponent : -125) - 24);
    return fabs((double)got - exact) / spacing;
}

/* Largest error over every `step`-th fp32 from `low` to `high`, both of one sign. */
static double worst_ulps(function_f32 f, function_f64 exact, float low, float high, uint32_t step)
{
    const uint32_t a = di_f32_bits(low), b = di_f32_bits(high);
    const uint32_t first = a < b ? a : b, last = a < b ? b : a;
    double worst = 0.0;
    float at = low;
    for (uint64_t u = first; u <= last; u += step) {
        const float x = di_f32_from_bits((uint32_t)u);
        const double error = ulps(f(x), exact((double)x));
        if (!(error <= worst)) {
            worst = error;
            at = x;
        }
    }
    print_message("    worst %.4f ulp at %.9g\n", worst, (double)at);
    return worst;
}

static double exact_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double exact_silu(double x)
{
    return x / (1.0 + exp(-x));
}

static double exact_rsqrt(double x)
{
    return 1.0 / sqrt(x);
}

static void exp_is_within_its_bound(void **state)
{
    (void)state;
    assert_true(worst_ulps(di_expf, exp, 1e-30f, 88.72f, 257) < 1.0);
    assert_true(worst_ulps(di_expf, exp, -1e-30f, -87.33f, 257) < 1.0);
}

static void log_is_within_its_bound(void **state)
{
    (void)state;
    assert_true(worst_ulps(di_logf, log, 0x1p-126f, 3.4028234e38f, 509) < 0.9);
    assert_true(worst_ulps(di_logf, log, 0.5f, 2.0f, 3) < 0.9);
}

static void log1p_is_within_its_bound(void **state)
{
    (void)state;
    assert_true(worst_ulps(di_log1pf, log1p, 0x1p-126f, 3.4028234e38f, 509) < 2.5);
    assert_true(worst_ulps(di_log1pf, log1p, 0x1p-25f, 4.0f, 37) < 2.5);
}

static void sigmoid_and_silu_are_within_their_bounds(void **state)
{
    (void)state;
    assert_true(worst_ulps(di_sigmoidf, exact_sigmoid, 1e-30f, 100.0f, 257) < 2.5);
    assert_true(worst_ulps(di_sigmoidf, exact_sigmoid, -1e-30f, -87.33f, 257) < 2.5);
    assert_true(worst_ulps(di_siluf, exact_silu, 1e-30f, 1e6f, 257) < 2.5);
    assert_true(worst_ulps(di_siluf, exact_silu, -1e-30f, -87.33f, 257) < 2.5);
}

static void rsqrt_is_within_its_bound(void **state)
{
    (void)state;
    assert_true(worst_ulps(di_rsqrtf, exact_rsqrt, 0x1p-126f, 3.4028234e38f, 509) < 1.5);
}

/* The ends of the ranges, and what is outside of them. */
static void special_values(void **state)
{
    (void)state;
    assert_true(di_expf(0.0f) == 1.0f && di_expf(-0.0f) == 1.0f);
    assert_true(di_expf(-87.34f) == 0.0f && di_expf(-INFINITY) == 0.0f);
    assert_true(di_expf(88.73f) == INFINITY && di_expf(INFINITY) == INFINITY);
    assert_true(isfinite(di_expf(88.72f)) && isnan(di_expf(NAN)));
    assert_true(di_logf(1.0f) == 0.0f && !signbit(di_logf(1.0f)));
    assert_true(di_logf(0.0f) == -INFINITY && di_logf(-0.0f) == -INFINITY);
    assert_true(di_logf(INFINITY) == INFINITY && isnan(di_logf(-1.0f)) && isnan(di_logf(NAN)));
    assert_true(di_log1pf(0.0f) == 0.0f && di_log1pf(1e-30f) == 1e-30f);
    assert_true(di_log1pf(INFINITY) == INFINITY && isnan(di_log1pf(NAN)));
    assert_true(di_sigmoidf(INFINITY) == 1.0f && di_sigmoidf(-INFINITY) == 0.0f);
    assert_true(di_siluf(-100.0f) == 0.0f && di_siluf(100.0f) == 100.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_its_bound),
        cmocka_unit_test(log_is_within_its_bound),
        cmocka_unit_test(log1p_is_within_its_bound),
        cmocka_unit_test(sigmoid_and_silu_are_within_their_bounds),
        cmocka_unit_test(rsqrt_is_within_its_bound),
        cmocka_unit_test(special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
