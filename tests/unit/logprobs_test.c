/* sample/logprobs.h against double precision, over small and large rows, with ties and bans. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <float.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/philox.h"
#include "sample/logprobs.h"

typedef struct fixture {
    int32_t n;
    float *row;
    di_selection selection;
    di_logprobs_buffer buffer;
} fixture;

/* step > 0: values are multiples of it, hence tie. Every tenth is -inf if has_bans. */
static fixture make(int32_t n, uint32_t round, float spread, float step, bool has_bans)
{
    fixture f = {.n = n, .row = malloc((size_t)n * sizeof(float))};
    assert_non_null(f.row);
    assert_int_equal(di_selection_init(&f.selection, n, NULL), DI_OK);
    for (int32_t i = 0; i < n; i++) {
        uint32_t bits[4];
        di_philox4x32((di_philox_counter){{round, (uint32_t)i, 0, 0}}, 3, bits);
        f.row[i] = (float)(int32_t)bits[0] * 0x1p-31f * spread;
        if (step > 0.0f)
            f.row[i] = rintf(f.row[i] / step) * step;
        if (has_bans && i % 10 == 3)
            f.row[i] = -INFINITY;
    }
    return f;
}

static void drop(fixture *f)
{
    free(f->row);
    di_selection_free(&f->selection);
    di_logprobs_buffer_free(&f->buffer);
}

static double exact_log_sum(const float *row, int32_t n, double max)
{
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)row[i] - max);
    return log(sum);
}

static int32_t exact_rank(const fixture *f, int32_t id)
{
    int32_t rank = 1;
    for (int32_t i = 0; i < f->n; i++)
        rank += f->row[i] > f->row[id] || (f->row[i] == f->row[id] && i < id);
    return rank;
}

static void check(fixture *f, int32_t chosen, int32_t n_top)
{
    di_position_logprobs out;
    assert_int_equal(di_logprobs_compute(&f->buffer, &f->selection, f->row, chosen, n_top, &out),
                     DI_OK);
    const double max = (double)di_row_max(f->row, f->n);
    const double log_sum = exact_log_sum(f->row, f->n, max);
    int32_t n_possible = 0;
    for (int32_t i = 0; i < f->n; i++)
        n_possible += f->row[i] != -INFINITY;
    assert_int_equal(out.n_entries, 1 + (n_top < n_possible ? n_top : n_possible));
    assert_int_equal(out.entries[0].token_id, chosen);
    for (size_t i = 0; i < out.n_entries; i++) {
        const di_logprob *e = &out.entries[i];
        const double want = (double)f->row[e->token_id] - max - log_sum;
        if (isinf(want))
            assert_true(e->logprob == -INFINITY && i == 0);
        else
            assert_true(fabs((double)e->logprob - want) <= 1e-6 + 2e-7 * fabs(want));
        /* The ranks are those of the order, and the largest come in it. */
        assert_int_equal(e->rank, exact_rank(f, e->token_id));
        if (i > 0)
            assert_int_equal(e->rank, i);
    }
}

static void small_rows(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 60; round++) {
        const int32_t n = 1 + (int32_t)(round * 5) % 97;
        fixture f = make(n, round, 12.0f, round % 2 ? 0.5f : 0.0f, round % 3 == 2 && n > 4);
        for (int32_t n_top = 0; n_top <= n; n_top += n_top < 4 ? 1 : 13)
            check(&f, (int32_t)(round * 31) % n, n_top);
        check(&f, (int32_t)round % n, n);
        drop(&f);
    }
}

static void a_whole_vocabulary(void **state)
{
    (void)state;
    static const float spreads[] = {0.0f, 0.01f, 8.0f, 100.0f};
    for (uint32_t i = 0; i < 4; i++) {
        fixture f = make(129280, i, spreads[i], 0.0f, false);
        check(&f, 129279, 20);
        check(&f, 77, 0);
        drop(&f);
    }
}

/* A token that is all but certain: -1e-9 is not rounded to 0. */
static void next_to_certainty(void **state)
{
    (void)state;
    fixture f = make(2, 0, 1.0f, 0.0f, false);
    di_position_logprobs out;
    f.row[0] = 100.0f;
    f.row[1] = 80.0f;
    assert_int_equal(di_logprobs_compute(&f.buffer, &f.selection, f.row, 0, 1, &out), DI_OK);
    const double want = -log1p(exp(-20.0));
    assert_true(fabs((double)out.entries[0].logprob - want) < 1e-3 * fabs(want));
    assert_int_equal(out.entries[0].rank, 1);
    drop(&f);
}

static void extreme_values(void **state)
{
    (void)state;
    fixture f = make(5, 0, 1.0f, 0.0f, false);
    static const float row[] = {FLT_MAX, -FLT_MAX, 0.0f, -INFINITY, FLT_MAX};
    di_position_logprobs out;
    for (int i = 0; i < 5; i++)
        f.row[i] = row[i];
    assert_int_equal(di_logprobs_compute(&f.buffer, &f.selection, f.row, 4, 5, &out), DI_OK);
    assert_int_equal(out.n_entries, 5);
    assert_true(fabs((double)out.entries[0].logprob + log(2.0)) < 1e-6);
    assert_int_equal(out.entries[0].rank, 2);
    assert_int_equal(out.entries[1].token_id, 0);
    assert_int_equal(out.entries[2].token_id, 4);
    assert_int_equal(out.entries[3].token_id, 2);
    assert_int_equal(out.entries[4].token_id, 1);
    for (size_t i = 0; i < out.n_entries; i++)
        assert_false(isnan(out.entries[i].logprob));
    drop(&f);
}

/* Both zeros are one value. */
static void zeros_tie(void **state)
{
    (void)state;
    fixture f = make(3, 0, 1.0f, 0.0f, false);
    di_position_logprobs out;
    f.row[0] = -0.0f;
    f.row[1] = 0.0f;
    f.row[2] = -0.0f;
    assert_int_equal(di_logprobs_compute(&f.buffer, &f.selection, f.row, 2, 3, &out), DI_OK);
    assert_int_equal(out.entries[0].rank, 3);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(out.entries[1 + i].token_id, i);
    drop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_rows),        cmocka_unit_test(a_whole_vocabulary),
        cmocka_unit_test(next_to_certainty), cmocka_unit_test(extreme_values),
        cmocka_unit_test(zeros_tie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
