/* sample/penalties.h against the formulas of docs/sampling.md in double precision. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <float.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include "base/philox.h"
#include "sample/penalties.h"

enum { VOCAB = 40, N_PROMPT = 25, N_OUTPUT = 60 };

static uint32_t random_bits(uint32_t a, uint32_t b)
{
    uint32_t bits[4];
    di_philox4x32((di_philox_counter){{a, b, 0, 0}}, 7, bits);
    return bits[0];
}

static double reference(double x, const di_sampling_params *p, bool in_prompt, int n_output)
{
    if (in_prompt || n_output > 0)
        x = x > 0 ? x / p->repetition_penalty : x * p->repetition_penalty;
    x -= p->frequency_penalty * n_output;
    x -= p->presence_penalty * (n_output > 0);
    return x;
}

/* Prompt and output over half of the vocabulary; penalties alone and together. */
static void follow_the_formulas(void **state)
{
    (void)state;
    static const double values[][3] = {{1.3, 0, 0}, {0.7, 0, 0}, {1, 0.6, 0},     {1, 0, -0.4},
                                       {1, -2, 0},  {1, 0, 2},   {1.2, 1.5, 0.9}, {1, 0, 0}};
    for (uint32_t c = 0; c < sizeof values / sizeof values[0]; c++) {
        di_sampling_params p = DI_SAMPLING_PARAMS_INIT;
        p.repetition_penalty = values[c][0];
        p.presence_penalty = values[c][1];
        p.frequency_penalty = values[c][2];
        assert_true(di_penalties_are_on(&p) == (c != 7));
        bool in_prompt[VOCAB] = {false};
        int n_output[VOCAB] = {0};
        int32_t prompt[N_PROMPT];
        float logits[VOCAB], before[VOCAB];
        di_token_counts counts;
        assert_int_equal(di_token_counts_init(&counts, VOCAB), DI_OK);
        for (uint32_t i = 0; i < N_PROMPT; i++) {
            prompt[i] = (int32_t)(random_bits(i, 1) % (VOCAB / 2));
            in_prompt[prompt[i]] = true;
        }
        di_token_counts_add_prompt(&counts, prompt, N_PROMPT);
        for (uint32_t i = 0; i < N_OUTPUT; i++) {
            const int32_t id = VOCAB / 4 + (int32_t)(random_bits(i, 2) % (VOCAB / 2));
            n_output[id]++;
            di_token_counts_add_output(&counts, id);
        }
        for (uint32_t i = 0; i < VOCAB; i++)
            before[i] = (float)(int32_t)random_bits(i, 3) * 0x1p-28f;
        before[VOCAB / 3] = 0.0f;
        memcpy(logits, before, sizeof logits);
        di_penalties_apply(&p, &counts, logits);
        for (int i = 0; i < VOCAB; i++) {
            const double want = reference((double)before[i], &p, in_prompt[i], n_output[i]);
            assert_true(fabs((double)logits[i] - want) <= 1e-5 * (1 + fabs(want)));
            if (!in_prompt[i] && n_output[i] == 0)
                assert_true(logits[i] == before[i]);
        }
        di_token_counts_free(&counts);
    }
}

/* Nothing that is allowed makes a NaN or an infinity; a banned token stays banned. */
static void extremes_stay_finite(void **state)
{
    (void)state;
    static const float logits[] = {0.0f, -0.0f, 1.0f, -1.0f, FLT_MAX, -FLT_MAX, 1e-45f, -INFINITY};
    static const double repetition[] = {1e-300, 1e-40, 1e-3, 1e3, 1e38, 1e300};
    enum { N = sizeof logits / sizeof logits[0] };
    for (size_t r = 0; r < sizeof repetition / sizeof repetition[0]; r++) {
        for (int sign = -1; sign <= 1; sign++) {
            di_sampling_params p = DI_SAMPLING_PARAMS_INIT;
            p.repetition_penalty = repetition[r];
            p.presence_penalty = 2.0 * sign;
            p.frequency_penalty = 2.0 * sign;
            di_token_counts counts;
            float x[N];
            assert_int_equal(di_token_counts_init(&counts, N), DI_OK);
            for (int32_t i = 0; i < N; i++)
                di_token_counts_add_output(&counts, i);
            memcpy(x, logits, sizeof x);
            di_penalties_apply(&p, &counts, x);
            for (int i = 0; i < N; i++)
                assert_true(logits[i] == -INFINITY ? x[i] == -INFINITY : isfinite(x[i]));
            di_token_counts_free(&counts);
        }
    }
}

static void bias_is_added(void **state)
{
    (void)state;
    const di_logit_bias bias[] = {{0, 2.5f},     {1, -100.0f}, {2, -INFINITY}, {3, FLT_MAX},
                                  {4, -FLT_MAX}, {5, 50.0f},   {6, 1.0f},      {6, 2.0f}};
    di_sampling_params p = DI_SAMPLING_PARAMS_INIT;
    p.logit_bias = bias;
    p.n_logit_bias = sizeof bias / sizeof bias[0];
    float x[] = {1.0f, 3.0f, 9.0f, FLT_MAX, -FLT_MAX, -INFINITY, 0.5f, 7.0f};
    di_logit_bias_apply(&p, x);
    assert_true(x[0] == 3.5f && x[1] == -97.0f && x[2] == -INFINITY);
    assert_true(x[3] == FLT_MAX && x[4] == -FLT_MAX); /* no infinity */
    assert_true(x[5] == -INFINITY);                   /* a bias does not lift a ban */
    assert_true(x[6] == 3.5f && x[7] == 7.0f);        /* twice the same id: both; untouched */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follow_the_formulas),
        cmocka_unit_test(extremes_stay_finite),
        cmocka_unit_test(bias_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
