/* sample/reject.h and di_sample_verify: the target's distribution, whatever the draft's. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "chi_square.h"
#include "grammar/compile.h"
#include "sampler_bench.h"

static di_draft draft_of(bench *b, const float *logits, int64_t position)
{
    di_draft draft;
    assert_int_equal(di_sample_draft(&b->workspace, &b->state, logits, position, 0, &draft), DI_OK);
    return draft;
}

static int32_t verify(bench *b, const float *logits, int64_t position, const di_draft *draft)
{
    di_sample_out out;
    assert_int_equal(di_sample_verify(&b->workspace, &b->state, logits, position, draft, &out),
                     DI_OK);
    return out.token_id;
}

/* What di_sample draws from, by its processed logprobs. */
static void target_of(bench *b, const float *logits, double *probability)
{
    const int32_t n = b->workspace.vocab_size;
    b->params.n_logprobs = n;
    b->params.processed_logprobs = true;
    const di_sample_out out = draw(b, logits, 0);
    for (int32_t i = 0; i < n; i++)
        probability[i] = 0.0;
    for (size_t i = 1; i < out.logprobs.n_entries; i++)
        probability[out.logprobs.entries[i].token_id] =
            exp((double)out.logprobs.entries[i].logprob);
    b->params.n_logprobs = -1;
    b->params.processed_logprobs = false;
}

/* Of a draft drawn from draft's distribution. */
static double chance_of_acceptance(const di_draft *draft, const double *target)
{
    double sum = 0.0;
    for (int32_t i = 0; i < draft->n; i++)
        sum += fmin((double)draft->weight[i] / (double)draft->sum, target[draft->id[i]]);
    return sum;
}

/* n_runs positions with a draft each; tokens are counted in n_cells cells by their id modulo it. */
static void check_lossless(bench *b, const float *logits, const float *drafter, int n_runs,
                           int n_cells)
{
    const int32_t n = b->workspace.vocab_size;
    double *const target = calloc((size_t)n, sizeof *target);
    double probability[64] = {0}, chance = 0.0;
    uint64_t counts[64] = {0}, n_accepted = 0;
    assert_non_null(target);
    target_of(b, logits, target);
    for (int32_t i = 0; i < n; i++)
        probability[i % n_cells] += target[i];
    for (int i = 0; i < n_runs; i++) {
        const di_draft draft = draft_of(b, drafter, i);
        const int32_t token_id = verify(b, logits, i, &draft);
        if (i == 0)
            chance = chance_of_acceptance(&draft, target);
        n_accepted += token_id == draft.token_id;
        counts[token_id % n_cells]++;
        assert_true(target[token_id] > 0.0);
    }
    const double sigmas = chi_square_sigmas(counts, probability, n_cells);
    if (!(fabs(sigmas) < 4.5))
        fail_msg("vocabulary %d, T %g: %g standard deviations off", n, b->params.temperature,
                 sigmas);
    const double error = (double)n_accepted - chance * n_runs;
    const double sigma = sqrt(n_runs * chance * (1.0 - chance)) + 1e-6 * n_runs;
    if (!(fabs(error) < 4.5 * sigma))
        fail_msg("vocabulary %d, T %g: found %llu of %d accepted, wanted %g", n,
                 b->params.temperature, (unsigned long long)n_accepted, n_runs, chance * n_runs);
    free(target);
}

/* The drafter is the target with an error, as drafters are. */
static void similar_logits(uint32_t round, int32_t n, float error, const float *logits, float *out)
{
    random_logits(round, n, error, 0.0f, out);
    for (int32_t i = 0; i < n; i++)
        out[i] += logits[i];
}

static void every_temperature_and_filter(void **state)
{
    (void)state;
    static const struct {
        double temperature, top_p, min_p;
        int32_t top_k;
        float error;
        int n_runs;
    } cases[] = {
        {0.3, 1.0, 0.0, 0, 1.0f, 100000}, {0.7, 1.0, 0.0, 0, 1.0f, 100000},
        {1.0, 1.0, 0.0, 0, 4.0f, 50000},  {1.0, 0.8, 0.0, 0, 1.0f, 50000},
        {1.5, 1.0, 0.0, 3, 1.0f, 50000},  {1.0, 1.0, 0.1, 0, 2.0f, 50000},
        {0.7, 0.9, 0.02, 5, 8.0f, 50000}, {1.0, 1.0, 0.0, 0, 0.0f, 20000},
    };
    enum { N = 12 };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        float logits[N], drafter[N];
        di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        params.temperature = cases[c].temperature;
        params.top_p = cases[c].top_p;
        params.min_p = cases[c].min_p;
        params.top_k = cases[c].top_k;
        random_logits((uint32_t)c, N, 2.0f, c % 2 ? 0.5f : 0.0f, logits);
        similar_logits((uint32_t)c + 100, N, cases[c].error, logits, drafter);
        bench *b = open_bench(N, &params, 1000 + c);
        check_lossless(b, logits, drafter, cases[c].n_runs, N);
        close_bench(b);
    }
}

/* Bias, penalties and bans change the target, not the drafter. */
static void adjusted_targets(void **state)
{
    (void)state;
    enum { N = 10 };
    static const di_logit_bias bias[] = {{2, -INFINITY}, {5, 1.5f}};
    static const int32_t finish[] = {0};
    float logits[N], drafter[N];
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    params.logit_bias = bias;
    params.n_logit_bias = 2;
    params.frequency_penalty = 0.7;
    params.presence_penalty = -0.3;
    params.repetition_penalty = 1.3;
    params.min_tokens = 8;
    random_logits(7, N, 2.0f, 0.0f, logits);
    similar_logits(8, N, 1.0f, logits, drafter);
    bench *b = open_bench(N, &params, 5);
    di_sampling_params draft_params = DI_SAMPLING_PARAMS_INIT;
    bench *drafts = open_bench(N, &draft_params, 5);
    di_sampler_state_free(&b->state);
    const di_sampler_setup setup = {
        .params = &b->params, .vocab_size = N, .finish_ids = finish, .n_finish_ids = 1, .seed = 5};
    assert_int_equal(di_sampler_state_init(&b->state, &setup), DI_OK);
    for (int32_t id = 3; id < 9; id++)
        assert_int_equal(di_sampler_state_append(&b->state, id % 6), DI_OK);
    double target[N];
    uint64_t counts[N] = {0};
    target_of(b, logits, target);
    assert_true(target[0] == 0.0 && target[2] == 0.0);
    for (int i = 0; i < 100000; i++) {
        const di_draft draft = draft_of(drafts, drafter, i);
        counts[verify(b, logits, i, &draft)]++;
    }
    assert_true(fabs(chi_square_sigmas(counts, target, N)) < 4.5);
    close_bench(b);
    close_bench(drafts);
}

/* Beyond DI_DRAFT_IDS a draft is drawn from the likeliest only, and the target keeps its tail. */
static void large_vocabularies(void **state)
{
    (void)state;
    enum { N = 700 };
    float logits[N], drafter[N];
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    random_logits(3, N, 1.0f, 0.0f, logits);
    similar_logits(4, N, 0.5f, logits, drafter);
    bench *b = open_bench(N, &params, 77);
    assert_int_equal(draft_of(b, drafter, 0).n, DI_DRAFT_IDS);
    check_lossless(b, logits, drafter, 40000, 35);
    close_bench(b);
}

/* The rule itself where the draft has a token the target never gives, and the other way round. */
static void disjoint_distributions(void **state)
{
    (void)state;
    static const int32_t ids[] = {1, 4};
    static const uint64_t weights[] = {3, 1};
    const di_distribution target = {.n = 2, .id = ids, .weight = weights, .sum = 4};
    di_draft draft = {.n = 2, .id = {0, 4}, .weight = {1, 1}, .sum = 2};
    uint64_t counts[5] = {0};
    static const double wanted[] = {0.0, 0.75, 0.0, 0.0, 0.25};
    for (uint32_t i = 0; i < 50000; i++) {
        const di_noise_key key = {.seed = 9, .position = i};
        draft.token_id = di_noise_bits(&(di_noise_key){3, i, DI_NOISE_DRAFT, 0}, 0) & 1 ? 4 : 0;
        counts[di_verify_reject(&key, &target, &draft)]++;
    }
    assert_true(fabs(chi_square_sigmas(counts, wanted, 5)) < 4.5);
}

/* A target that is listed and one that is not give the same token, for any draft. */
static void both_forms_agree(void **state)
{
    (void)state;
    enum { N = 1000 };
    static float logits[N], drafter[N], scores[N];
    static int32_t ids[N];
    static uint64_t weights[N];
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    int n_rejected = 0;
    for (int32_t round = 0; round < 400; round++) {
        const int32_t n = round % 4 ? N - round : 1 + round / 4;
        random_logits((uint32_t)round, n, 4.0f, 0.0f, logits);
        similar_logits((uint32_t)round + 1000, n, 5.0f, logits, drafter);
        bench *b = open_bench(n, &params, (uint64_t)round);
        di_distribution target = {.n = n, .id = ids, .weight = weights};
        float max = -INFINITY;
        for (int32_t i = 0; i < n; i++)
            max = fmaxf(max, logits[i]);
        for (int32_t i = 0; i < n; i++) {
            scores[i] = logits[i] - max;
            ids[i] = i;
            target.sum += weights[i] = di_exp_weight(scores[i]);
        }
        for (int32_t i = 0; i < 20; i++) {
            const di_draft draft = draft_of(b, drafter, i);
            const di_noise_key key = {.seed = (uint64_t)round, .position = (uint32_t)i};
            const int32_t token_id = verify(b, logits, i, &draft);
            assert_int_equal(token_id, di_verify_reject(&key, &target, &draft));
            n_rejected += token_id != draft.token_id;
        }
        close_bench(b);
    }
    assert_in_range(n_rejected, 1000, 7000);
}

/* Noise of its own: equal seeds and positions say nothing about each other's choices, and a
 * position drafted again in another slot draws anew. */
static void noise_is_independent(void **state)
{
    (void)state;
    enum { N = 8, RUNS = 40000 };
    float logits[N] = {0};
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    bench *b = open_bench(N, &params, 4);
    uint64_t same_as_target = 0, same_as_slot = 0;
    for (int i = 0; i < RUNS; i++) {
        const di_draft draft = draft_of(b, logits, i);
        di_draft again;
        assert_int_equal(di_sample_draft(&b->workspace, &b->state, logits, i, 1, &again), DI_OK);
        same_as_target += draft.token_id == draw(b, logits, i).token_id;
        same_as_slot += draft.token_id == again.token_id;
    }
    const double sigma = sqrt(RUNS * (1.0 / N) * (1.0 - 1.0 / N));
    assert_true(fabs((double)same_as_target - RUNS / (double)N) < 4.5 * sigma);
    assert_true(fabs((double)same_as_slot - RUNS / (double)N) < 4.5 * sigma);
    close_bench(b);
}

static void logprobs_are_those_of_sampling(void **state)
{
    (void)state;
    enum { N = 30 };
    float logits[N];
    random_logits(1, N, 4.0f, 0.0f, logits);
    for (int mode = 0; mode < 4; mode++) {
        di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        params.n_logprobs = 4;
        params.processed_logprobs = mode & 1;
        params.top_k = mode & 2 ? 6 : 0;
        bench *b = open_bench(N, &params, 12), *plain = open_bench(N, &params, 12);
        for (int i = 0; i < 50; i++) {
            const di_draft draft = draft_of(b, logits, i);
            di_sample_out out;
            assert_int_equal(di_sample_verify(&b->workspace, &b->state, logits, i, &draft, &out),
                             DI_OK);
            const di_sample_out sampled = draw(plain, logits, i);
            assert_int_equal(out.logprobs.n_entries, sampled.logprobs.n_entries);
            for (size_t e = 1; e < out.logprobs.n_entries; e++)
                assert_memory_equal(&out.logprobs.entries[e], &sampled.logprobs.entries[e],
                                    sizeof(di_logprob));
            if (out.token_id == sampled.token_id)
                assert_memory_equal(&out.logprobs.entries[0], &sampled.logprobs.entries[0],
                                    sizeof(di_logprob));
        }
        close_bench(b);
        close_bench(plain);
    }
}

/* ------------------------------------------------------------------------- blocks of drafts */

enum { WORDS = 24, MOST_TOKENS = 60 };

/* A target with a memory: its logits depend on all tokens so far. */
static void logits_after(const int32_t *tokens, int32_t n, float *logits)
{
    uint32_t hash = 17;
    for (int32_t i = n > 3 ? n - 3 : 0; i < n; i++)
        hash = random_bits(hash, (uint32_t)tokens[i]);
    random_logits(hash, WORDS, 3.0f, 0.25f, logits);
}

/* Up to the end or MOST_TOKENS, by blocks of drafts that are right half the time. */
static int32_t run_blocks(bench *b, bool is_verified, int32_t block, int32_t *tokens)
{
    int32_t n = 0;
    while (n < MOST_TOKENS) {
        for (int32_t slot = 0; slot <= block && n < MOST_TOKENS; slot++) {
            float logits[WORDS];
            logits_after(tokens, n, logits);
            const int32_t guess =
                random_bits((uint32_t)n, 5) % 2 ? draw(b, logits, n).token_id : slot;
            const di_draft draft = {
                .token_id = guess, .n = 1, .id = {guess}, .weight = {1}, .sum = 1};
            const int32_t token_id = is_verified && slot < block ? verify(b, logits, n, &draft)
                                                                 : draw(b, logits, n).token_id;
            tokens[n++] = token_id;
            assert_int_equal(di_sampler_state_append(&b->state, token_id), DI_OK);
            if (token_id == 0)
                return n;
            if (token_id != guess)
                break;
        }
    }
    return n;
}

/* Penalties count every accepted token and min_tokens tokens, not steps: greedy output is that
 * without drafts for any length of block, and so it is for the rule by matching when sampled. */
static void penalties_count_tokens(void **state)
{
    (void)state;
    static const double frequencies[] = {-2.0, 0.0, 2.0}, repetitions[] = {1.0, 1.3};
    static const int32_t finish[] = {0};
    for (int c = 0; c < 24; c++) {
        int32_t tokens[4][MOST_TOKENS], n[4];
        di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        params.temperature = c < 12 ? 0.0 : 0.8;
        params.frequency_penalty = frequencies[c % 3];
        params.repetition_penalty = repetitions[c / 3 % 2];
        params.min_tokens = c / 6 % 2 ? 8 : 0;
        for (int32_t block = 0; block < 4; block++) {
            bench *b = open_bench(WORDS, &params, 31);
            b->state.setup.finish_ids = finish;
            b->state.setup.n_finish_ids = 1;
            n[block] = run_blocks(b, c < 12, 2 * block, tokens[block]);
            assert_true(n[block] == MOST_TOKENS || n[block] > params.min_tokens);
            assert_int_equal(n[block], n[0]);
            assert_memory_equal(tokens[block], tokens[0], (size_t)n[0] * sizeof(int32_t));
            close_bench(b);
        }
    }
}

/* Drafts after what a grammar ends with are no error: {"const": 1} is `1` and an end, whatever is
 * drafted. */
static void drafts_past_the_end_of_a_grammar(void **state)
{
    (void)state;
    enum { ONE, NEWLINE, X, EOS, N };
    di_vocab_token words[N] = {{"1", 1}, {"\n", 1}, {"x", 1}};
    const int32_t eos[] = {EOS};
    di_so_args args = DI_SO_ARGS_INIT;
    args.schema_type = DI_SCHEMA_JSON;
    args.schema = "{\"const\": 1}";
    di_grammar *grammar;
    di_vocab *vocab;
    di_constraint_setup constraint = {.begins_after = -1, .eos_ids = eos, .n_eos_ids = 1};
    assert_int_equal(di_vocab_create(words, N, &vocab), DI_OK);
    assert_int_equal(di_grammar_compile(&args, NULL, &grammar), DI_OK);
    assert_int_equal(di_acceptor_create(grammar, vocab, &constraint.acceptor), DI_OK);
    const float logits[N] = {1.0f, 0.5f, 2.0f, 1.5f};
    for (uint64_t seed = 0; seed < 200; seed++) {
        di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        bench *b = open_bench(N, &params, seed), *free_text = open_bench(N, &params, seed);
        di_sampler_state_free(&b->state);
        const di_sampler_setup setup = {
            .params = &b->params, .vocab_size = N, .seed = seed, .constraint = constraint};
        assert_int_equal(di_sampler_state_init(&b->state, &setup), DI_OK);
        int32_t tokens[3], n = 0;
        do {
            const di_draft draft = draft_of(free_text, logits, n);
            tokens[n] = verify(b, logits, n, &draft);
            assert_int_equal(di_sampler_state_append(&b->state, tokens[n]), DI_OK);
        } while (tokens[n++] != EOS && n < 3);
        assert_true(n == 2 && tokens[0] == ONE && tokens[1] == EOS);
        close_bench(b);
        close_bench(free_text);
    }
    di_acceptor_unref(constraint.acceptor);
    di_grammar_unref(grammar);
    di_vocab_unref(vocab);
}

static void bad_logits(void **state)
{
    (void)state;
    float logits[4] = {0.0f, 1.0f, 2.0f, 3.0f}, bad[4] = {0.0f, __builtin_nanf(""), 1.0f, 2.0f};
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    bench *b = open_bench(4, &params, 1);
    di_draft draft = draft_of(b, logits, 3), kept = draft;
    di_sample_out out;
    assert_int_equal(di_sample_draft(&b->workspace, &b->state, bad, 3, 0, &draft), DI_ERR_RUNTIME);
    assert_memory_equal(&draft, &kept, sizeof draft);
    assert_int_equal(di_sample_verify(&b->workspace, &b->state, bad, 3, &draft, &out),
                     DI_ERR_RUNTIME);
    assert_int_equal(di_sample_verify(&b->workspace, &b->state, logits, -1, &draft, &out),
                     DI_ERR_ARGUMENT);
    close_bench(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_temperature_and_filter),
        cmocka_unit_test(adjusted_targets),
        cmocka_unit_test(large_vocabularies),
        cmocka_unit_test(disjoint_distributions),
        cmocka_unit_test(both_forms_agree),
        cmocka_unit_test(noise_is_independent),
        cmocka_unit_test(logprobs_are_those_of_sampling),
        cmocka_unit_test(penalties_count_tokens),
        cmocka_unit_test(drafts_past_the_end_of_a_grammar),
        cmocka_unit_test(bad_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
