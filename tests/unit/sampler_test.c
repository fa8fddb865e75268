/* sample/sampler.h: frequencies, and what a choice depends on. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "sampler_bench.h"

/* ----------------------------------------------------------------------------- frequencies */

/* Upper bound of chi-square that is exceeded once in 10^4 (Wilson, Hilferty). The seeds are fixed,
 * so a test either always passes or always fails. */
static double chi_square_bound(int df)
{
    const double k = 2.0 / (9.0 * df);
    return df * pow(1.0 - k + 3.719 * sqrt(k), 3.0);
}

static void assert_frequencies(const int *count, const double *p, int32_t n, int n_draws)
{
    double chi_square = 0.0;
    int df = -1;
    for (int32_t i = 0; i < n; i++) {
        const double expected = p[i] * n_draws;
        if (p[i] == 0.0) {
            assert_int_equal(count[i], 0);
            continue;
        }
        assert_true(expected > 4.0); /* or the statistic is no chi-square */
        chi_square += (count[i] - expected) * (count[i] - expected) / expected;
        df++;
    }
    if (!(chi_square < chi_square_bound(df)))
        fail_msg("chi-square %.1f with %d degrees of freedom", chi_square, df);
}

enum { N_DRAWS = 200000, N_FEW = 50 };

static void frequencies_over_positions(void **state)
{
    (void)state;
    static const double temperatures[] = {1.0, 0.6, 3.0};
    float logits[N_FEW];
    double p[N_FEW];
    random_logits(1, N_FEW, 2.0f, 0.0f, logits);
    for (size_t t = 0; t < 3; t++) {
        di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        params.temperature = temperatures[t];
        bench *b = open_bench(N_FEW, &params, 42 + t);
        int count[N_FEW] = {0};
        for (int64_t position = 0; position < N_DRAWS; position++)
            count[draw(b, logits, position).token_id]++;
        softmax(logits, N_FEW, temperatures[t], p);
        assert_frequencies(count, p, N_FEW, N_DRAWS);
        close_bench(b);
    }
}

/* One position; seeds that count up, seeds that differ in the high half, samples of one request. */
static void frequencies_over_seeds_and_samples(void **state)
{
    (void)state;
    float logits[N_FEW];
    double p[N_FEW];
    random_logits(2, N_FEW, 2.0f, 0.0f, logits);
    softmax(logits, N_FEW, 1.0, p);
    for (int kind = 0; kind < 3; kind++) {
        const di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        bench *b = open_bench(N_FEW, &params, 0);
        int count[N_FEW] = {0};
        for (uint32_t i = 0; i < N_DRAWS; i++) {
            b->state.setup.seed = kind == 0 ? i : kind == 1 ? (uint64_t)i << 32 : 5;
            b->state.setup.sample_index = kind == 2 ? i : 0;
            count[draw(b, logits, 9).token_id]++;
        }
        assert_frequencies(count, p, N_FEW, N_DRAWS);
        close_bench(b);
    }
}

/* With filters: frequencies of the renormalised rest. */
static void frequencies_with_filters(void **state)
{
    (void)state;
    float logits[N_FEW];
    double p[N_FEW];
    random_logits(3, N_FEW, 3.0f, 0.0f, logits);
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    params.top_k = 4; /* few enough of 50 for the sparse way of choosing */
    bench *b = open_bench(N_FEW, &params, 77);
    int count[N_FEW] = {0};
    for (int64_t position = 0; position < N_DRAWS; position++)
        count[draw(b, logits, position).token_id]++;
    softmax(logits, N_FEW, 1.0, p);
    double sum = 0.0;
    for (int32_t i = 0; i < N_FEW; i++) {
        int rank = 0;
        for (int32_t j = 0; j < N_FEW; j++)
            rank += p[j] > p[i];
        p[i] = rank < 4 ? p[i] : 0.0;
        sum += p[i];
    }
    for (int32_t i = 0; i < N_FEW; i++)
        p[i] /= sum;
    assert_frequencies(count, p, N_FEW, N_DRAWS);
    close_bench(b);
}

/* Pairs (token of one stream, token of another) against the product of the two. */
static void streams_are_independent(void **state)
{
    (void)state;
    enum { N = 6 };
    static const float logits[N] = {0.0f, 0.4f, -0.3f, 0.9f, 0.1f, -0.6f};
    double single[N], p[N * N];
    softmax(logits, N, 1.0, single);
    for (int i = 0; i < N * N; i++)
        p[i] = single[i / N] * single[i % N];
    for (int kind = 0; kind < 3; kind++) {
        const di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        bench *a = open_bench(N, &params, 1000),
              *b = open_bench(N, &params, kind == 0 ? 1001 : 1000);
        b->state.setup.sample_index = kind == 1;
        int count[N * N] = {0};
        for (int64_t i = 0; i < N_DRAWS; i++) {
            const int64_t at = kind == 2 ? 2 * i : i; /* kind 2: neighbouring positions */
            const int32_t x = draw(a, logits, at).token_id;
            const int32_t y = draw(b, logits, kind == 2 ? at + 1 : at).token_id;
            count[x * N + y]++;
        }
        assert_frequencies(count, p, N * N, N_DRAWS);
        close_bench(a);
        close_bench(b);
    }
}

/* ------------------------------------------------------------------ what a choice depends on */

static void the_choice_is_the_definition(void **state)
{
    (void)state;
    static const int32_t sizes[] = {1, 2, 3, 5, 127, 128, 129, 1000, 4099};
    bool all[4099];
    float logits[4099];
    memset(all, true, sizeof all);
    for (uint32_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (uint32_t round = 0; round < 30; round++) {
            di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
            params.temperature = round % 3 == 0 ? 0.1 : round % 3 == 1 ? 1.0 : 50.0;
            const uint64_t seed = 0xdeadbeef00000000u + round;
            random_logits(round, sizes[s], 30.0f, round % 2 ? 1.0f : 0.0f, logits);
            assert_int_equal(
                draw_once(logits, sizes[s], &params, seed, round),
                reference_choice(logits, sizes[s], (float)params.temperature, seed, round, all));
        }
    }
}

/* Whatever a workspace was used for before, and however long the output is: same seed, position and
 * logits, same token. */
static void nothing_else_matters(void **state)
{
    (void)state;
    enum { N = 200, N_POSITIONS = 50 };
    float logits[N], other[N];
    int32_t want[N_POSITIONS];
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT, noisy = DI_SAMPLING_PARAMS_INIT;
    params.top_p = 0.9;
    noisy.top_k = 17;
    noisy.presence_penalty = 1.0;
    noisy.n_logprobs = 5;
    random_logits(5, N, 4.0f, 0.0f, logits);
    random_logits(6, N, 4.0f, 0.0f, other);
    bench *b = open_bench(N, &params, 31), *neighbour = open_bench(N, &noisy, 32);
    for (int i = 0; i < N_POSITIONS; i++)
        want[i] = draw(b, logits, i).token_id;
    int n_distinct = 0;
    for (int i = 1; i < N_POSITIONS; i++)
        n_distinct += want[i] != want[i - 1];
    assert_true(n_distinct > N_POSITIONS / 2); /* or the test below says nothing */
    for (int i = N_POSITIONS - 1; i >= 0; i--) {
        di_sample_out out;
        assert_int_equal(di_sample(&b->workspace, &neighbour->state, other, i, &out), DI_OK);
        assert_int_equal(di_sampler_state_append(&neighbour->state, out.token_id), DI_OK);
        assert_int_equal(di_sampler_state_append(&b->state, out.token_id), DI_OK);
        assert_int_equal(draw(b, logits, i).token_id, want[i]);
    }
    close_bench(b);
    close_bench(neighbour);
}

/* Noise belongs to a token, not to its rank: a filter that keeps the chosen token does not change
 * the choice, nor does shuffling the logits of the others below it. */
static void noise_belongs_to_the_token(void **state)
{
    (void)state;
    enum { N = 100 };
    float logits[N];
    int n_same = 0;
    random_logits(7, N, 3.0f, 0.0f, logits);
    for (int64_t position = 0; position < 300; position++) {
        const di_sampling_params open = DI_SAMPLING_PARAMS_INIT;
        di_sampling_params cut = DI_SAMPLING_PARAMS_INIT;
        const int32_t chosen = draw_once(logits, N, &open, 8, position);
        int32_t rank = 1;
        for (int32_t i = 0; i < N; i++)
            rank += logits[i] > logits[chosen];
        for (cut.top_k = 1; cut.top_k <= 60; cut.top_k += 7) {
            const int32_t token_id = draw_once(logits, N, &cut, 8, position);
            if (rank <= cut.top_k)
                assert_int_equal(token_id, chosen);
            n_same += rank <= cut.top_k;
        }
        float lower[N];
        memcpy(lower, logits, sizeof lower);
        for (int32_t i = 0; i < N; i++)
            if (i != chosen && logits[i] < logits[chosen])
                lower[i] -= (float)(random_bits(8, (uint32_t)i) % 8);
        assert_int_equal(draw_once(lower, N, &open, 8, position), chosen);
    }
    assert_true(n_same > 1000);
}

/* Past the first 2^32 nothing is a position; seeds use all 64 bits. */
static void range_of_positions_and_seeds(void **state)
{
    (void)state;
    enum { N = 64 };
    float logits[N] = {0};
    const di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    bench *b = open_bench(N, &params, 1);
    di_sample_out out;
    assert_int_equal(di_sample(&b->workspace, &b->state, logits, -1, &out), DI_ERR_ARGUMENT);
    assert_int_equal(di_sample(&b->workspace, &b->state, logits, (int64_t)1 << 32, &out),
                     DI_ERR_ARGUMENT);
    for (int bit = 0; bit < 64; bit++) {
        int n_equal = 0;
        for (int64_t position = 0; position < 64; position++) {
            b->state.setup.seed = 1;
            const int32_t token_id = draw(b, logits, position).token_id;
            b->state.setup.seed = 1 ^ (uint64_t)1 << bit;
            n_equal += draw(b, logits, position).token_id == token_id;
        }
        assert_true(n_equal < 10); /* 1 expected */
    }
    close_bench(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_over_positions),
        cmocka_unit_test(frequencies_over_seeds_and_samples),
        cmocka_unit_test(frequencies_with_filters),
        cmocka_unit_test(streams_are_independent),
        cmocka_unit_test(the_choice_is_the_definition),
        cmocka_unit_test(nothing_else_matters),
        cmocka_unit_test(noise_belongs_to_the_token),
        cmocka_unit_test(range_of_positions_and_seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
