/* sample/select.h against sorting everything: values with many ties, every cut. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/philox.h"
#include "sample/select.h"

enum { MOST = 300 };

static const float *sorted_row; /* for compare_ids */

static int compare_ids(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (sorted_row[x] != sorted_row[y])
        return sorted_row[x] > sorted_row[y] ? -1 : 1;
    return x < y ? -1 : 1;
}

static int compare_numbers(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Values of one of a few kinds; kind 0 and 1 tie often, 2 hardly, 3 has extremes and both zeros. */
static void random_row(uint32_t round, int kind, int32_t n, float *row)
{
    static const float extremes[] = {3.4028234e38f, -3.4028234e38f, 0.0f,      -0.0f,   1e-45f,
                                     -1e-45f,       1.0f,           -INFINITY, 2.5e-38f};
    for (int32_t i = 0; i < n; i++) {
        uint32_t bits[4];
        di_philox4x32((di_philox_counter){{round, (uint32_t)i, 0, 0}}, 99, bits);
        if (kind == 3)
            row[i] = extremes[bits[0] % 9];
        else if (kind == 2)
            row[i] = (float)(int32_t)bits[0] * 0x1p-28f;
        else
            row[i] = (float)((int32_t)(bits[0] % 21) - 10) * (kind ? 0.25f : 1.0f);
    }
}

/* Ids with a probability, in order; returns how many. */
static int32_t reference_order(const float *row, int32_t n, float floor, int32_t *ids)
{
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++)
        if (row[i] >= floor && row[i] != -INFINITY)
            ids[count++] = i;
    sorted_row = row;
    qsort(ids, (size_t)count, sizeof *ids, compare_ids);
    return count;
}

/* The selection holds the first `count` of `order`, ascending. */
static void assert_kept(const di_selection *selection, const int32_t *order, int32_t count)
{
    int32_t ids[MOST];
    memcpy(ids, order, (size_t)count * sizeof *ids);
    qsort(ids, (size_t)count, sizeof *ids, compare_numbers);
    assert_int_equal(selection->n, count);
    assert_memory_equal(selection->id, ids, (size_t)count * sizeof *ids);
}

static void top_of_every_size(void **state)
{
    (void)state;
    float row[MOST], peaks[MOST];
    int32_t order[MOST];
    for (uint32_t round = 0; round < 40; round++) {
        const int32_t n = 1 + (int32_t)(round * 7) % MOST;
        di_selection selection;
        assert_int_equal(di_selection_init(&selection, n, NULL), DI_OK);
        random_row(round, (int)round % 4, n, row);
        di_peaks_find(&selection.kernels, row, n, peaks);
        const float floor = round % 3 ? -INFINITY : -1.0f;
        const int32_t count = reference_order(row, n, floor, order);
        for (int32_t k = 1; k <= n + 1; k++) {
            di_selection_fill(&selection, row, peaks, floor);
            di_selection_keep_top(&selection, k);
            assert_kept(&selection, order, k < count ? k : count);
            di_selection_sort(&selection);
            assert_memory_equal(selection.id, order, (size_t)selection.n * sizeof *order);
        }
        di_selection_free(&selection);
    }
}

static float max_of(const float *row, int32_t n)
{
    float max = row[0];
    for (int32_t i = 1; i < n; i++)
        max = row[i] > max ? row[i] : max;
    return max;
}

/* Limits at, just below and just above every partial sum. */
static void mass_of_every_size(void **state)
{
    (void)state;
    float row[MOST], peaks[MOST];
    int32_t order[MOST];
    for (uint32_t round = 0; round < 24; round++) {
        const int32_t n = 1 + (int32_t)(round * 11) % 120;
        di_selection selection;
        assert_int_equal(di_selection_init(&selection, n, NULL), DI_OK);
        random_row(round, (int)round % 3, n, row);
        di_peaks_find(&selection.kernels, row, n, peaks);
        const float max = max_of(row, n);
        const int32_t count = reference_order(row, n, -INFINITY, order);
        uint64_t sum = 0;
        for (int32_t i = 0; i < count; i++) {
            sum += di_exp_weight(row[order[i]] - max);
            for (int delta = -1; delta <= 1; delta++) {
                const uint64_t limit = sum + (uint64_t)delta;
                uint64_t before = 0;
                int32_t kept = 0;
                for (; kept < count && before < limit; kept++)
                    before += di_exp_weight(row[order[kept]] - max);
                di_selection_fill(&selection, row, peaks, -INFINITY);
                const uint64_t total = di_selection_weigh(&selection, max);
                assert_true(total >= sum);
                di_selection_keep_mass(&selection, limit);
                assert_kept(&selection, order, kept);
                for (int32_t k = 0; k < kept; k++) /* weights stay with their ids */
                    assert_true(selection.weight[k] == di_exp_weight(row[selection.id[k]] - max));
            }
        }
        di_selection_free(&selection);
    }
}

static void weights(void **state)
{
    (void)state;
    assert_true(di_exp_weight(0.0f) == (uint64_t)1 << 40);
    assert_true(di_exp_weight(-INFINITY) == 0 && di_exp_weight(-28.5f) == 0);
    for (float z = 0.0f; z > -28.0f; z -= 0.0013f)
        assert_true(di_exp_weight(z) == (uint64_t)(di_expf(z) * 0x1p40f));
    for (float z = 0.0f; z > -27.0f; z -= 0.37f) {
        const double exact = ldexp(exp((double)z), 40);
        assert_true(fabs((double)di_exp_weight(z) - exact) <= 1.0 + exact * 0x1p-23);
    }
    assert_true(di_log_of_weights((uint64_t)1 << 40) == 0.0f);
    const double exact = log(1.0 + 12345.0 * 0x1p-40);
    assert_true(fabs((double)di_log_of_weights(((uint64_t)1 << 40) + 12345) - exact) <
                exact * 1e-6);
}

static void sizes_out_of_range(void **state)
{
    (void)state;
    di_selection selection;
    assert_int_equal(di_selection_init(&selection, 0, NULL), DI_ERR_ARGUMENT);
    assert_int_equal(di_selection_init(&selection, DI_MAX_VOCAB + 1, NULL), DI_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(top_of_every_size),
        cmocka_unit_test(mass_of_every_size),
        cmocka_unit_test(weights),
        cmocka_unit_test(sizes_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
