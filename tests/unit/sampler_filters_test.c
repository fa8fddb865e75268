/* sample/sampler.h: filters against brute force, and the order of the steps. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "sampler_bench.h"

/* ----------------------------------------------------------------------------------- filters */

/* The filters of docs/sampling.md in double precision on a sorted row. False if a cut is too close
 * to call in double precision. */
static bool reference_filter(const float *logits, int32_t n, const di_sampling_params *p,
                             bool *is_kept)
{
    double probability[MOST_VOCAB], sum = 0.0, before = 0.0;
    int32_t order[MOST_VOCAB], n_kept = n;
    softmax(logits, n, p->temperature, probability);
    for (int32_t i = 0; i < n; i++) {
        int32_t rank = 0;
        for (int32_t j = 0; j < n; j++)
            rank += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
        order[rank] = i;
        is_kept[i] = false;
    }
    while (p->min_p > 0.0 && n_kept > 1) {
        const double ratio = probability[order[n_kept - 1]] / probability[order[0]];
        if (fabs(ratio - p->min_p) < 1e-5 && logits[order[n_kept - 1]] != logits[order[0]])
            return false;
        if (ratio >= p->min_p)
            break;
        n_kept--;
    }
    if (p->top_k > 0 && p->top_k < n_kept)
        n_kept = p->top_k;
    for (int32_t i = 0; i < n_kept; i++)
        sum += probability[order[i]];
    for (int32_t i = 0; i < n_kept; i++) {
        if (p->top_p < 1.0 && p->top_p > 0.0 && i > 0 && fabs(before / sum - p->top_p) < 1e-6)
            return false;
        if (i > 0 && p->top_p < 1.0 && before / sum >= p->top_p)
            break;
        is_kept[order[i]] = true;
        before += probability[order[i]];
    }
    return true;
}

/* What survives (through the processed logprobs of everything), its probabilities, and the choice.
 */
static void check_filters(const float *logits, int32_t n, const di_sampling_params *params,
                          uint32_t position)
{
    bool is_kept[MOST_VOCAB];
    if (!reference_filter(logits, n, params, is_kept))
        return;
    double sum = 0.0;
    int32_t n_kept = 0;
    float max = -INFINITY;
    for (int32_t i = 0; i < n; i++)
        max = fmaxf(max, logits[i]);
    for (int32_t i = 0; i < n; i++) {
        sum += is_kept[i] ? exp((double)(logits[i] - max) / params->temperature) : 0.0;
        n_kept += is_kept[i];
    }
    bench *b = open_bench(n, params, 4);
    b->params.processed_logprobs = true;
    b->params.n_logprobs = n;
    const di_sample_out out = draw(b, logits, position);
    assert_int_equal(out.logprobs.n_entries, n_kept + 1);
    for (size_t i = 0; i < out.logprobs.n_entries; i++) {
        const di_logprob *e = &out.logprobs.entries[i];
        const double want = (double)(logits[e->token_id] - max) / params->temperature - log(sum);
        assert_true(is_kept[e->token_id]);
        assert_true(fabs((double)e->logprob - want) < 1e-5);
    }
    assert_int_equal(out.token_id,
                     reference_choice(logits, n, (float)params->temperature, 4, position, is_kept));
    b->params.n_logprobs = -1; /* the other way of choosing, without the mask */
    assert_int_equal(draw(b, logits, position).token_id, out.token_id);
    close_bench(b);
}

static void filters_against_brute_force(void **state)
{
    (void)state;
    static const double top_ps[] = {1.0, 0.0, 1e-9, 0.3, 0.5, 0.9, 0.999};
    static const double min_ps[] = {0.0, 0.02, 0.3, 1.0};
    static const int32_t top_ks[] = {0, -1, 1, 2, 7, 40, 1000};
    float logits[MOST_VOCAB];
    for (uint32_t round = 0; round < 12; round++) {
        const int32_t n = round < 6 ? 1 + (int32_t)round * 3 : MOST_VOCAB - (int32_t)round;
        random_logits(round, n, 5.0f, round % 2 ? 0.5f : 0.0f, logits);
        for (size_t a = 0; a < 7; a++)
            for (size_t m = 0; m < 4; m++)
                for (size_t k = 0; k < 7; k++) {
                    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
                    params.temperature = round % 3 ? 1.0 : 0.5;
                    params.top_p = top_ps[a];
                    params.min_p = min_ps[m];
                    params.top_k = top_ks[k];
                    check_filters(logits, n, &params, (uint32_t)(round * 196 + a * 28 + m * 7 + k));
                }
    }
}

/* At a tie the lowest ids stay; min_p 1 keeps all that tie for the first place. */
static void ties_at_the_cut(void **state)
{
    (void)state;
    static const float logits[] = {1.0f, 2.0f, 2.0f, 0.0f, 2.0f, 2.0f};
    static const struct {
        int32_t top_k;
        double top_p, min_p;
        const char *kept; /* ids, in order */
    } cases[] = {{2, 1.0, 0.0, "12"},  {3, 1.0, 0.0, "124"}, {5, 1.0, 0.0, "12450"},
                 {0, 0.3, 0.0, "12"},  {0, 0.0, 0.0, "1"},   {0, 1.0, 1.0, "1245"},
                 {3, 0.34, 1.0, "12"}, {3, 0.33, 1.0, "1"}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        params.top_k = cases[c].top_k;
        params.top_p = cases[c].top_p;
        params.min_p = cases[c].min_p;
        params.n_logprobs = 6;
        params.processed_logprobs = true;
        bench *b = open_bench(6, &params, 0);
        const di_sample_out out = draw(b, logits, 0);
        assert_int_equal(out.logprobs.n_entries, 1 + strlen(cases[c].kept));
        for (size_t i = 0; cases[c].kept[i]; i++)
            assert_int_equal(out.logprobs.entries[1 + i].token_id, cases[c].kept[i] - '0');
        close_bench(b);
    }
}

/* ---------------------------------------------------------------------- order of the steps */

/* Bias before the repetition penalty, which divides what is positive then. */
static void bias_comes_before_penalties(void **state)
{
    (void)state;
    static const float logits[] = {-1.0f, 0.0f};
    static const di_logit_bias bias = {.token_id = 0, .bias = 3.0f};
    static const int32_t prompt[] = {0};
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    params.logit_bias = &bias;
    params.n_logit_bias = 1;
    params.repetition_penalty = 2.0;
    params.presence_penalty = 0.5;
    params.temperature = 0.0;
    params.n_logprobs = 0;
    params.processed_logprobs = true;
    bench *b = open_bench(2, &params, 0);
    di_sampler_setup setup = b->state.setup;
    setup.prompt = prompt;
    setup.n_prompt = 1;
    di_sampler_state_free(&b->state);
    assert_int_equal(di_sampler_state_init(&b->state, &setup), DI_OK);
    /* (-1 + 3) / 2 = 1 against 0; then, once in the output, 0.5. */
    assert_true(fabs((double)draw(b, logits, 1).logprobs.entries[0].logprob + log1p(exp(-1.0))) <
                1e-6);
    assert_int_equal(di_sampler_state_append(&b->state, 0), DI_OK);
    assert_true(fabs((double)draw(b, logits, 2).logprobs.entries[0].logprob + log1p(exp(-0.5))) <
                1e-6);
    close_bench(b);
}

static void ends_are_banned_until_min_tokens(void **state)
{
    (void)state;
    static const float logits[] = {5.0f, 1.0f, 4.0f, 0.0f};
    static const int32_t finish_ids[] = {0, 2};
    for (int greedy = 0; greedy < 2; greedy++) {
        di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        params.temperature = greedy ? 0.0 : 0.01;
        params.min_tokens = 2;
        bench *b = open_bench(4, &params, 0);
        b->state.setup.finish_ids = finish_ids;
        b->state.setup.n_finish_ids = 2;
        for (int i = 0; i < 4; i++) {
            const int32_t token_id = draw(b, logits, i).token_id;
            assert_int_equal(token_id, i < 2 ? 1 : 0);
            assert_int_equal(di_sampler_state_append(&b->state, token_id), DI_OK);
        }
        close_bench(b);
    }
}

/* Raw logprobs are the model's, whatever bias, penalties and filters do. */
static void raw_logprobs_ignore_the_steps(void **state)
{
    (void)state;
    static const float logits[] = {1.0f, 0.0f};
    static const di_logit_bias bias = {.token_id = 0, .bias = -INFINITY};
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    params.logit_bias = &bias;
    params.n_logit_bias = 1;
    params.temperature = 0.25;
    params.top_k = 1;
    params.n_logprobs = 2;
    bench *b = open_bench(2, &params, 0);
    const di_sample_out raw = draw(b, logits, 0);
    assert_int_equal(raw.token_id, 1);
    assert_int_equal(raw.logprobs.n_entries, 3);
    assert_int_equal(raw.logprobs.entries[0].rank, 2);
    assert_true(fabs((double)raw.logprobs.entries[0].logprob + log1p(exp(1.0))) < 1e-6);
    assert_int_equal(raw.logprobs.entries[1].token_id, 0);
    b->params.processed_logprobs = true;
    const di_sample_out processed = draw(b, logits, 0);
    assert_int_equal(processed.logprobs.n_entries, 2);
    assert_int_equal(processed.logprobs.entries[0].token_id, 1);
    assert_true(processed.logprobs.entries[0].logprob == 0.0f);
    assert_int_equal(processed.logprobs.entries[0].rank, 1);

    di_position_logprobs given;
    assert_int_equal(di_sample_given(&b->workspace, logits, 3, 1, 1, &given), DI_OK);
    assert_int_equal(given.n_entries, 2);
    assert_int_equal(given.entries[0].token_id, 1);
    assert_int_equal(given.entries[0].rank, 2);
    assert_int_equal(given.entries[1].token_id, 0);
    close_bench(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_against_brute_force),
        cmocka_unit_test(ties_at_the_cut),
        cmocka_unit_test(bias_comes_before_penalties),
        cmocka_unit_test(ends_are_banned_until_min_tokens),
        cmocka_unit_test(raw_logprobs_ignore_the_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
