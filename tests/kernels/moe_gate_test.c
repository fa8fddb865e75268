/* moe_gate and moe_combine against model spec 4.5 in double precision. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compare.h"
#include "kernel_case.h"
#include "kernels/moe_gate/moe_gate.h"

static double softplus(double x)
{
    return x > 20 ? x : log1p(exp(x));
}

/* sqrt halves softplus's relative error: exp, log1p and sqrt are each good to 2 ulp; exp gives 0
 * below -87.33, where the score is below 1.1e-19. */
static double score_slack(double score)
{
    return 8 * 0x1p-24 * score + 1.2e-19;
}

static bool is_chosen(const di_moe_gate_args *a, int64_t row, int64_t expert, int64_t *at)
{
    for (*at = 0; *at < a->k; ++*at)
        if (a->experts[row * a->k + *at] == expert)
            return true;
    return false;
}

/* The chosen ones are the k largest of score + bias, as far as the scores' errors let one tell;
 * among exactly equal ones the lowest ids. */
static void expect_selection(const di_kernel_case *c, const di_moe_gate_args *a, int64_t row)
{
    const float *logits = a->logits + row * a->n_experts;
    int64_t at;
    for (int64_t i = 0; i < a->k; i++) {
        const int32_t e = a->experts[row * a->k + i];
        assert_in_range(e, 0, a->n_experts - 1);
        assert_true(i == 0 || a->experts[row * a->k + i - 1] < e);
    }
    for (int64_t in = 0; in < a->n_experts; in++) {
        if (!is_chosen(a, row, in, &at))
            continue;
        const double mine = sqrt(softplus((double)logits[in])) + (double)a->bias[in];
        for (int64_t out = 0; out < a->n_experts; out++) {
            if (is_chosen(a, row, out, &at))
                continue;
            const double other = sqrt(softplus((double)logits[out])) + (double)a->bias[out];
            const double slack = score_slack(fabs(mine) + fabs((double)a->bias[in])) +
                                 score_slack(fabs(other) + fabs((double)a->bias[out]));
            if (mine + slack < other)
                fail_msg("%s: row %d: expert %d (%g) is in, %d (%g) is not", c->what, (int)row,
                         (int)in, mine, (int)out, other);
            if (logits[in] == logits[out] && a->bias[in] == a->bias[out] && out < in)
                fail_msg("%s: row %d: experts %d and %d tie, the higher one is in", c->what,
                         (int)row, (int)out, (int)in);
        }
    }
}

static void expect_weights(const di_kernel_case *c, const di_moe_gate_args *a, int64_t row)
{
    double sum = 0, scores[64];
    for (int64_t i = 0; i < a->k; i++) {
        const int32_t e = a->experts[row * a->k + i];
        sum += scores[i] = sqrt(softplus((double)a->logits[row * a->n_experts + e]));
    }
    for (int64_t i = 0; i < a->k; i++) {
        const bool is_divided = a->is_normalized && a->k > 1;
        const double want = scores[i] / (is_divided ? sum + 1e-20 : 1) * (double)a->routed_scale;
        if (is_divided && sum < 1e-15) /* all scores are lost to exp's underflow or close to it */
            continue;
        di_expect_f32(c->what, row * a->k + i, a->weights[row * a->k + i], want,
                      (24 + (double)a->k) * 0x1p-24 * want + 1.2e-19 * (double)a->routed_scale);
    }
}

static void check(int64_t n, int64_t n_experts, int64_t k, di_pattern pattern, bool is_normalized)
{
    di_kernel_case c =
        di_case_new(DI_OP_moe_gate, "moe_gate, %d rows, %d of %d experts, %s%s", (int)n, (int)k,
                    (int)n_experts, di_pattern_name(pattern), is_normalized ? ", normalized" : "");
    di_rng rng = di_rng_named(c.what);
    float *logits = di_case_input(&c, n * n_experts, sizeof *logits);
    float *bias = di_case_input(&c, n_experts, sizeof *bias);
    int32_t *experts = di_case_output(&c, n * k, DI_I32);
    float *weights = di_case_output(&c, n * k, DI_F32);
    float *scores = di_case_scratch(&c, n * n_experts, sizeof *scores);
    di_fill_f32(&rng, pattern, logits, n * n_experts);
    di_fill_f32(&rng, pattern == DI_PATTERN_TIES ? DI_PATTERN_ZERO : DI_PATTERN_NORMAL, bias,
                n_experts);
    const di_moe_gate_args args = {.logits = logits,
                                   .bias = bias,
                                   .experts = experts,
                                   .weights = weights,
                                   .scores = scores,
                                   .n_experts = n_experts,
                                   .k = k,
                                   .is_normalized = is_normalized,
                                   .routed_scale = 1.5f};
    di_case_run(&c, &args, n);
    for (int64_t row = 0; row < n; row++) {
        expect_selection(&c, &args, row);
        expect_weights(&c, &args, row);
    }
    di_case_free(&c);
}

static void gate(void **state)
{
    (void)state;
    const struct {
        int64_t n, n_experts, k;
    } shapes[] = {{1, 1, 1}, {3, 8, 3}, {5, 33, 1}, {2, 7, 7}, {4, 384, 6}, {1, 61, 17}};
    for (int i = 0; i < 6; i++)
        for (int p = 0; p < DI_N_PATTERNS; p++)
            for (int normalized = 0; normalized < 2; normalized++)
                check(shapes[i].n, shapes[i].n_experts, shapes[i].k, (di_pattern)p, normalized);
}

/* Logits on both sides of softplus's switch at 20. */
static void softplus_switch(void **state)
{
    (void)state;
    enum { N_EXPERTS = 8, K = 8 };
    di_kernel_case c = di_case_new(DI_OP_moe_gate, "moe_gate around 20");
    float *logits = di_case_input(&c, N_EXPERTS, sizeof *logits);
    float *bias = di_case_input(&c, N_EXPERTS, sizeof *bias);
    const float values[N_EXPERTS] = {19.9f, 20.0f, 20.1f, 1e4f, -20.0f, -80.0f, 0.0f, -200.0f};
    memcpy(logits, values, sizeof values);
    memset(bias, 0, N_EXPERTS * sizeof *bias);
    const di_moe_gate_args args = {.logits = logits,
                                   .bias = bias,
                                   .experts = di_case_output(&c, K, DI_I32),
                                   .weights = di_case_output(&c, K, DI_F32),
                                   .scores = di_case_scratch(&c, N_EXPERTS, sizeof(float)),
                                   .n_experts = N_EXPERTS,
                                   .k = K,
                                   .routed_scale = 1.0f};
    di_case_run(&c, &args, 1);
    expect_weights(&c, &args, 0);
    di_case_free(&c);
}

/* ------------------------------------------------------------------- combine */

static void check_combine(int64_t n, int64_t dim, int64_t k, di_pattern pattern)
{
    di_kernel_case c = di_case_new(DI_OP_moe_combine, "moe_combine, %d rows of %d, %d experts, %s",
                                   (int)n, (int)dim, (int)k, di_pattern_name(pattern));
    di_rng rng = di_rng_named(c.what);
    di_bf16 *routed = di_case_input(&c, n * k * dim, sizeof *routed);
    int32_t *assignments = di_case_input(&c, n * k, sizeof *assignments);
    di_bf16 *shared = di_case_input(&c, n * dim, sizeof *shared);
    di_bf16 *y = di_case_output(&c, n * dim, DI_BF16);
    di_fill_bf16(&rng, pattern, routed, n * k * dim);
    di_fill_bf16(&rng, pattern, shared, n * dim);
    for (int64_t i = 0; i < n * k; i++) /* a permutation */
        assignments[i] = (int32_t)i;
    for (int64_t i = n * k; i-- > 1;) {
        const int64_t j = di_rng_below(&rng, i + 1);
        const int32_t t = assignments[i];
        assignments[i] = assignments[j];
        assignments[j] = t;
    }
    const di_moe_combine_args args = {
        .routed = routed, .assignments = assignments, .shared = shared, .y = y, .dim = dim, .k = k};
    di_case_run(&c, &args, n);
    for (int64_t i = 0; i < n * dim; i++) {
        double sum = (double)di_bf16_to_f32(shared[i]), mass = fabs(sum);
        for (int64_t j = 0; j < k; j++) {
            const int64_t row = assignments[i / dim * k + j];
            const double term = (double)di_bf16_to_f32(routed[row * dim + i % dim]);
            sum += term;
            mass += fabs(term);
        }
        di_expect_bf16(c.what, i, y[i], sum, (double)k * 0x1p-24 * mass);
    }
    di_case_free(&c);
}

static void combine(void **state)
{
    (void)state;
    const int64_t dims[] = {1, 32, 45};
    for (int d = 0; d < 3; d++)
        for (int p = 0; p < DI_N_PATTERNS; p++)
            for (int64_t k = 1; k <= 7; k += 3)
                check_combine(1 + 3 * d, dims[d], k, (di_pattern)p);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(gate), cmocka_unit_test(softplus_switch),
                                       cmocka_unit_test(combine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
