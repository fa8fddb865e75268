/* spec/cost_table.h: medians, order, interpolation, and what is beyond. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include "random.h"
#include "spec/cost_table.h"

static void add(di_cost_curve *curve, int32_t count, double time)
{
    assert_int_equal(di_cost_curve_add(curve, count, &time, 1), DI_OK);
}

static void medians_and_lines(void **state)
{
    (void)state;
    di_cost_curve curve;
    di_cost_curve_init(&curve, 0);
    assert_true(di_cost_curve_at(&curve, 7) == 0.0);
    assert_int_equal(di_cost_curve_add(&curve, 8, (double[]){9.0, 3.0, 100.0, 2.0, 5.0}, 5), DI_OK);
    assert_int_equal(di_cost_curve_add(&curve, 2, (double[]){1.5, 2.5, 40.0, 0.1}, 4), DI_OK);
    assert_true(di_cost_curve_at(&curve, 2) == 2.0);
    assert_true(di_cost_curve_at(&curve, 8) == 5.0);
    assert_true(di_cost_curve_at(&curve, 4) == 3.0);
    assert_true(di_cost_curve_at(&curve, 1) == 2.0); /* below the first point */
    assert_true(di_cost_curve_at(&curve, 0) == 0.0);
    assert_true(di_cost_curve_at(&curve, -3) == 0.0);
    assert_true(di_cost_curve_at(&curve, 12) == 7.0);
    add(&curve, 8, 8.0); /* measured again */
    assert_int_equal(curve.n, 2);
    assert_true(di_cost_curve_at(&curve, 5) == 5.0);
}

/* A fall is evened out between its neighbours, and costs nobody else. */
static void falls_are_pooled(void **state)
{
    (void)state;
    di_cost_curve curve;
    di_cost_curve_init(&curve, 0);
    static const double times[] = {1.0, 4.0, 2.0, 3.0, 9.0, 8.0, 10.0};
    static const double wanted[] = {1.0, 3.0, 3.0, 3.0, 8.5, 8.5, 10.0};
    for (int32_t i = 6; i >= 0; i--)
        add(&curve, i + 1, times[i]);
    for (int32_t i = 0; i < 7; i++)
        assert_true(fabs(di_cost_curve_at(&curve, i + 1) - wanted[i]) < 1e-12);
}

/* Two last points that lie flat by chance do not make all further rows free. */
static void the_slope_beyond(void **state)
{
    (void)state;
    di_cost_curve curve;
    di_cost_curve_init(&curve, 0);
    add(&curve, 1, 1.0);
    assert_true(di_cost_curve_at(&curve, 100) == 1.0);
    for (int32_t count = 2; count <= 64; count *= 2)
        add(&curve, count, 1.0 + count);
    add(&curve, 60, 65.0);
    assert_true(fabs(di_cost_curve_at(&curve, 128) - (65.0 + 64.0)) < 1e-9);
}

static void steps_of_captured_graphs(void **state)
{
    (void)state;
    di_cost_curve curve;
    di_cost_curve_init(&curve, 8);
    add(&curve, 4, 1.0);
    add(&curve, 8, 2.0);
    add(&curve, 16, 4.0);
    static const double wanted[] = {1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.25, 2.5};
    for (int32_t count = 1; count <= 10; count++)
        assert_true(di_cost_curve_at(&curve, count) == wanted[count - 1]);
}

static void never_falls(void **state)
{
    (void)state;
    di_rng rng = di_rng_named("cost/monotone");
    for (int round = 0; round < 300; round++) {
        di_cost_curve curve;
        di_cost_curve_init(&curve, (int32_t)di_rng_below(&rng, 100));
        for (int i = 0; i < 20; i++)
            add(&curve, (int32_t)di_rng_between(&rng, 1, 200), 0.1 + di_rng_uniform(&rng));
        for (int i = 0; i < 10; i++) {
            for (int32_t count = 0; count < 400; count++) {
                const double here = di_cost_curve_at(&curve, count);
                const double next = di_cost_curve_at(&curve, count + 1);
                assert_true(next >= here * (1.0 - 1e-12) && next < INFINITY);
            }
            di_cost_curve_observe(&curve, (int32_t)di_rng_between(&rng, 1, 400),
                                  2.0 * di_rng_uniform(&rng));
        }
    }
}

/* Passes that take other times than the profile said pull the curve to them, level and shape. */
static void follows_what_passes_take(void **state)
{
    (void)state;
    di_cost_curve curve;
    di_cost_curve_init(&curve, 0);
    for (int32_t count = 1; count <= 64; count *= 2)
        add(&curve, count, 1.0 + 0.1 * count);
    for (int i = 0; i < 200; i++) /* all twice as slow, seen at one place only */
        di_cost_curve_observe(&curve, 6, 3.2);
    assert_true(fabs(di_cost_curve_at(&curve, 6) - 3.2) < 0.01);
    assert_true(fabs(di_cost_curve_at(&curve, 64) - 2.0 * 7.4) < 3.0);
    for (int i = 0; i < 2000; i++) { /* another slope, seen at four places */
        const int32_t count = (int32_t[]){1, 6, 20, 64}[i % 4];
        di_cost_curve_observe(&curve, count, 2.0 + 0.02 * count);
    }
    for (int i = 0; i < 4; i++) {
        const int32_t count = (int32_t[]){1, 6, 20, 64}[i];
        assert_true(fabs(di_cost_curve_at(&curve, count) / (2.0 + 0.02 * count) - 1.0) < 0.05);
    }
    const di_cost_curve before = curve;
    di_cost_curve_observe(&curve, 4, 0.0);
    di_cost_curve_observe(&curve, 4, -1.0);
    di_cost_curve_observe(&curve, 4, INFINITY);
    di_cost_curve_observe(&curve, 4, __builtin_nan(""));
    di_cost_curve_observe(&curve, 0, 5.0);
    assert_memory_equal(&curve, &before, sizeof curve);
    di_cost_curve_observe(&curve, 4, 1e300); /* one wild pass: a fourfold one at most */
    assert_true(di_cost_curve_at(&curve, 4) < 1.5 * di_cost_curve_at(&before, 4));
}

static void bad_points(void **state)
{
    (void)state;
    di_cost_curve curve;
    double runs[DI_COST_RUNS + 1];
    di_cost_curve_init(&curve, 0);
    for (int i = 0; i <= DI_COST_RUNS; i++)
        runs[i] = 1.0;
    assert_int_equal(di_cost_curve_add(&curve, 0, runs, 1), DI_ERR_ARGUMENT);
    assert_int_equal(di_cost_curve_add(&curve, 1, runs, 0), DI_ERR_ARGUMENT);
    assert_int_equal(di_cost_curve_add(&curve, 1, runs, DI_COST_RUNS + 1), DI_ERR_ARGUMENT);
    static const double bad[] = {0.0, -1.0, INFINITY, __builtin_nan("")};
    for (int i = 0; i < 4; i++)
        assert_int_equal(di_cost_curve_add(&curve, 1, (double[]){1.0, bad[i]}, 2), DI_ERR_ARGUMENT);
    assert_int_equal(curve.n, 0);
    for (int32_t count = 1; count <= DI_COST_POINTS; count++)
        assert_int_equal(di_cost_curve_add(&curve, count, runs, DI_COST_RUNS), DI_OK);
    assert_int_equal(di_cost_curve_add(&curve, 1000, runs, 1), DI_ERR_ARGUMENT);
    assert_string_equal(di_last_error(), "cost of 1000: found 64 points already, wanted no more");
    assert_int_equal(di_cost_curve_add(&curve, 7, runs, 1), DI_OK);
}

/* The default is all that is known until something is, and then nothing of it stays. */
static void the_default(void **state)
{
    (void)state;
    di_cost_table table;
    di_cost_table_init(&table);
    assert_false(di_cost_curve_knows(&table.verify, 1));
    assert_true(di_cost_curve_at(&table.verify, 1) == 1.0);
    assert_true(di_cost_curve_at(&table.verify, 900) == 1.0);
    assert_true(di_cost_curve_at(&table.draft, 9) == 0.0);
    di_cost_curve_observe(&table.verify, 3, 1e6);
    assert_true(di_cost_curve_at(&table.verify, 3) == 1.0);
    add(&table.verify, 20, 1e6);
    assert_true(di_cost_curve_at(&table.verify, 1) == 1e6);
    assert_int_equal(table.verify.n, 1);
    static const int32_t known[] = {16, 20, 25}, unknown[] = {1, 15, 26, 900};
    for (int i = 0; i < 3; i++)
        assert_true(di_cost_curve_knows(&table.verify, known[i]));
    for (int i = 0; i < 4; i++)
        assert_false(di_cost_curve_knows(&table.verify, unknown[i]));
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_and_lines), cmocka_unit_test(falls_are_pooled),
        cmocka_unit_test(the_slope_beyond),  cmocka_unit_test(steps_of_captured_graphs),
        cmocka_unit_test(never_falls),       cmocka_unit_test(follows_what_passes_take),
        cmocka_unit_test(bad_points),        cmocka_unit_test(the_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
