/* sample/sampler.h at the limits: bug rows M04, M05, M08, extreme values, ties, bans. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <float.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/json.h"
#include "sampler_bench.h"

/* --------------------------------------------------------------------------------- bug rows */

static json_t *load(const char *name)
{
    char path[512];
    json_t *root;
    snprintf(path, sizeof path, "%s/cases/bugs/%s", DI_TEST_DATA, name);
    assert_int_equal(di_json_load(path, 1 << 20, &root), DI_OK);
    return root;
}

static float number_of(const json_t *value)
{
    if (!json_is_string(value))
        return (float)json_number_value(value);
    const char *text = json_string_value(value);
    return strcmp(text, "nan") == 0 ? NAN : text[0] == '-' ? -INFINITY : INFINITY;
}

static int32_t row_of(const json_t *array, float *row)
{
    const size_t n = json_array_size(array);
    assert_in_range(n, 1, MOST_VOCAB);
    for (size_t i = 0; i < n; i++)
        row[i] = number_of(json_array_get(array, i));
    return (int32_t)n;
}

static di_sampling_params params_of(const json_t *object)
{
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    const json_t *value;
    if ((value = json_object_get(object, "temperature")))
        params.temperature = json_number_value(value);
    if ((value = json_object_get(object, "top_p")))
        params.top_p = json_number_value(value);
    if ((value = json_object_get(object, "min_p")))
        params.min_p = json_number_value(value);
    if ((value = json_object_get(object, "top_k")))
        params.top_k = (int32_t)json_integer_value(value);
    return params;
}

static void bug_m04(void **state)
{
    (void)state;
    json_t *root = load("M04/logits.json");
    float logits[MOST_VOCAB];
    size_t index;
    const json_t *row;
    const int32_t n = row_of(json_object_get(root, "logits"), logits);
    assert_int_equal(json_array_size(json_object_get(root, "always_token_2")), 8);
    json_array_foreach(json_object_get(root, "always_token_2"), index, row)
    {
        const di_sampling_params params = params_of(row);
        for (int64_t position = 0; position < 500; position++)
            assert_int_equal(draw_once(logits, n, &params, 6, position), 2);
    }
    json_array_foreach(json_object_get(root, "same_as_off"), index, row)
    {
        const di_sampling_params params = params_of(row), off = DI_SAMPLING_PARAMS_INIT;
        int n_other = 0;
        for (int64_t position = 0; position < 5000; position++) {
            const int32_t token_id = draw_once(logits, n, &params, 6, position);
            assert_int_equal(token_id, draw_once(logits, n, &off, 6, position));
            n_other += token_id != 2;
        }
        assert_true(n_other > 0);
    }
    json_decref(root);
}

/* Temperatures at the ends of what is allowed. */
static void extreme_temperatures(void **state)
{
    (void)state;
    static const float logits[] = {-FLT_MAX, 3e38f, -INFINITY, FLT_MAX, 0.0f};
    static const double cold[] = {0.0, 5e-324, 1e-300, 1e-40, 1e-5, 1.0};
    for (int64_t position = 0; position < 100; position++) {
        di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        for (size_t i = 0; i < sizeof cold / sizeof cold[0]; i++) {
            params.temperature = cold[i];
            assert_int_equal(draw_once(logits, 5, &params, 1, position), 3);
        }
        params.temperature = 1e300; /* everything alike, but the banned one */
        assert_int_not_equal(draw_once(logits, 5, &params, 1, position), 2);
    }
}

/* NaN, +inf and nothing but -inf end the request by name; the workspace goes on. +inf is an error
 * too, not a forced token. */
static void bug_m05(void **state)
{
    (void)state;
    static const char *const texts[] = {"found -inf for all 3 tokens", "found NaN at token id 1",
                                        "found +inf at token id 1"};
    static const double temperatures[] = {0.0, 1.0};
    json_t *root = load("M05/logits.json");
    float logits[MOST_VOCAB];
    assert_int_equal(json_array_size(root), 4);
    for (size_t t = 0; t < 2; t++) {
        di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        params.temperature = temperatures[t];
        params.n_logprobs = 1;
        bench *b = open_bench(3, &params, 0);
        di_sample_out out = {.token_id = -7};
        di_position_logprobs given;
        for (size_t i = 0; i < 3; i++) {
            row_of(json_object_get(json_array_get(root, i), "logits"), logits);
            assert_int_equal(di_sample(&b->workspace, &b->state, logits, 12, &out), DI_ERR_RUNTIME);
            assert_non_null(strstr(di_last_error(), texts[i]));
            assert_non_null(strstr(di_last_error(), "position 12"));
            assert_int_equal(out.token_id, -7);
            assert_int_equal(di_sample_given(&b->workspace, logits, 12, 0, 1, &given),
                             DI_ERR_RUNTIME);
        }
        row_of(json_object_get(json_array_get(root, 3), "logits"), logits);
        const int32_t token_id = draw(b, logits, 12).token_id;
        if (temperatures[t] == 0.0)
            assert_int_equal(token_id, 0);
        close_bench(b);
    }
    json_decref(root);
}

/* Greedy with ties anywhere: the lowest id, also of zeros of both signs. */
static void ties_give_the_lowest_id(void **state)
{
    (void)state;
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    params.temperature = 0.0;
    float logits[MOST_VOCAB];
    for (int32_t first = 0; first < MOST_VOCAB; first += 5) {
        for (int32_t i = 0; i < MOST_VOCAB; i++)
            logits[i] = i < first ? -1.0f : i % 2 ? 0.0f : -0.0f;
        assert_int_equal(draw_once(logits, MOST_VOCAB, &params, 0, 0), first);
    }
}

static uint32_t *sorted_gumbel; /* for compare_gumbel */

static int compare_gumbel(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (sorted_gumbel[x] != sorted_gumbel[y])
        return sorted_gumbel[x] < sorted_gumbel[y] ? -1 : 1;
    return x < y ? -1 : 1;
}

/* Two tokens with equal logits and, to the bit, equal noise: the lower id, in both ways of
 * choosing. */
static void equal_noise_gives_the_lowest_id(void **state)
{
    (void)state;
    enum { N = 40000 };
    uint32_t *gumbel = malloc(N * sizeof *gumbel), *order = malloc(N * sizeof *order);
    float *logits = malloc(N * sizeof *logits);
    assert_true(gumbel && order && logits);
    const di_noise_key key = {.seed = 3, .position = 21, .purpose = DI_NOISE_TARGET};
    for (uint32_t i = 0; i < N; i++) {
        gumbel[i] = di_f32_bits(di_gumbelf(di_noise_bits(&key, (int32_t)i)));
        order[i] = i;
        logits[i] = -INFINITY;
    }
    sorted_gumbel = gumbel;
    qsort(order, N, sizeof *order, compare_gumbel);
    int n_pairs = 0;
    for (uint32_t i = 1; i < N; i++) {
        const uint32_t low = order[i - 1], high = order[i];
        if (gumbel[low] != gumbel[high])
            continue;
        logits[low] = logits[high] = 1.0f;
        di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        assert_int_equal(draw_once(logits, N, &params, 3, 21), low);
        params.top_k = 2;
        assert_int_equal(draw_once(logits, N, &params, 3, 21), low);
        logits[low] = logits[high] = -INFINITY;
        n_pairs++;
    }
    assert_true(n_pairs > 3); /* 12 expected of 2^26 values */
    free(gumbel);
    free(order);
    free(logits);
}

/* -inf for some is fine at any parameters: such a token is never chosen. */
static void banned_tokens_are_never_chosen(void **state)
{
    (void)state;
    float logits[MOST_VOCAB];
    random_logits(9, MOST_VOCAB, 1.0f, 0.0f, logits);
    for (int32_t i = 0; i < MOST_VOCAB; i++)
        if (i % 3)
            logits[i] = -INFINITY;
    for (int64_t position = 0; position < 400; position++) {
        di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        params.temperature = position % 2 ? 100.0 : 1.0;
        params.top_p = position % 4 < 2 ? 1.0 : 0.95;
        params.top_k = position % 8 < 4 ? 0 : 200;
        assert_int_equal(draw_once(logits, MOST_VOCAB, &params, 2, position) % 3, 0);
    }
}

static void bug_m08(void **state)
{
    (void)state;
    enum { N = 40000, ARGMAX = 33310 };
    float *logits = malloc(N * sizeof *logits);
    assert_non_null(logits);
    random_logits(10, N, 5.0f, 0.0f, logits);
    logits[ARGMAX] = 20.0f;
    logits[77] = 10.0f;
    di_logit_bias bias = {.token_id = ARGMAX, .bias = -100.0f};
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    params.temperature = 0.0;
    assert_int_equal(draw_once(logits, N, &params, 0, 0), ARGMAX);
    params.logit_bias = &bias;
    params.n_logit_bias = 1;
    assert_int_equal(draw_once(logits, N, &params, 0, 0), 77);
    bias.bias = 1e38f;
    logits[ARGMAX] = 3e38f; /* the sum would be infinite */
    for (int hot = 0; hot < 2; hot++) {
        params.temperature = hot;
        params.n_logprobs = 3;
        params.processed_logprobs = true;
        bench *b = open_bench(N, &params, 0);
        const di_sample_out out = draw(b, logits, 0);
        assert_int_equal(out.token_id, ARGMAX);
        assert_true(out.logprobs.entries[0].logprob == 0.0f);
        for (size_t i = 0; i < out.logprobs.n_entries; i++)
            assert_false(isnan(out.logprobs.entries[i].logprob));
        close_bench(b);
    }
    free(logits);
}

static void everything_banned(void **state)
{
    (void)state;
    static const float logits[] = {1.0f, 2.0f};
    static const di_logit_bias bias[] = {{0, -INFINITY}, {1, -INFINITY}};
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    params.logit_bias = bias;
    params.n_logit_bias = 2;
    bench *b = open_bench(2, &params, 0);
    di_sample_out out;
    assert_int_equal(di_sample(&b->workspace, &b->state, logits, 4, &out), DI_ERR_RUNTIME);
    assert_non_null(strstr(di_last_error(), "every token banned"));
    close_bench(b);
}

/* Once warm, no buffer moves or grows. */
static void a_warm_step_keeps_its_memory(void **state)
{
    (void)state;
    enum { N = 128 };
    float logits[N];
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    params.n_logprobs = N;
    params.top_p = 0.9;
    params.presence_penalty = 0.5;
    random_logits(12, N, 5.0f, 0.0f, logits);
    bench *b = open_bench(N, &params, 0);
    draw(b, logits, 0);
    const di_sampler_workspace workspace = b->workspace;
    const di_token_counts counts = b->state.counts;
    for (int i = 1; i < 300; i++)
        assert_int_equal(di_sampler_state_append(&b->state, draw(b, logits, i).token_id), DI_OK);
    assert_ptr_equal(b->workspace.logprobs.entries, workspace.logprobs.entries);
    assert_int_equal(b->workspace.logprobs.cap, workspace.logprobs.cap);
    assert_ptr_equal(b->workspace.scores, workspace.scores);
    assert_ptr_equal(b->state.counts.seen, counts.seen);
    assert_ptr_equal(b->state.counts.distinct, counts.distinct);
    close_bench(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bug_m04),
        cmocka_unit_test(extreme_temperatures),
        cmocka_unit_test(bug_m05),
        cmocka_unit_test(ties_give_the_lowest_id),
        cmocka_unit_test(equal_noise_gives_the_lowest_id),
        cmocka_unit_test(banned_tokens_are_never_chosen),
        cmocka_unit_test(bug_m08),
        cmocka_unit_test(everything_banned),
        cmocka_unit_test(a_warm_step_keeps_its_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
