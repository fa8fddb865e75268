/* sample/params.h: every value out of its range is refused by name, with what was found. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/json.h"
#include "sample/params.h"

enum { VOCAB = 129280 };

static void assert_refused(const di_sampling_params *params, const char *field, const char *found)
{
    assert_int_equal(di_sampling_params_check(params, VOCAB), DI_ERR_ARGUMENT);
    const char *text = di_last_error();
    if (strncmp(text, field, strlen(field)) != 0 || !strstr(text, found) || !strstr(text, "wanted"))
        fail_msg("%s: found %s in \"%s\"", field, found, text);
    assert_null(strchr(text, '\n'));
}

#define REFUSED(name, value, found)                                                                \
    do {                                                                                           \
        di_sampling_params params_ = DI_SAMPLING_PARAMS_INIT;                                      \
        params_.name = (value);                                                                    \
        assert_refused(&params_, #name, (found));                                                  \
    } while (0)

#define ACCEPTED(name, value)                                                                      \
    do {                                                                                           \
        di_sampling_params params_ = DI_SAMPLING_PARAMS_INIT;                                      \
        params_.name = (value);                                                                    \
        assert_int_equal(di_sampling_params_check(&params_, VOCAB), DI_OK);                        \
    } while (0)

static void numbers_out_of_range(void **state)
{
    (void)state;
    REFUSED(temperature, -1.0, "-1");
    REFUSED(temperature, (double)NAN, "nan");
    REFUSED(temperature, (double)INFINITY, "inf");
    REFUSED(top_k, -2, "-2");
    REFUSED(top_p, -0.1, "-0.1");
    REFUSED(top_p, 1.5, "1.5");
    REFUSED(top_p, (double)NAN, "nan");
    REFUSED(min_p, 2.0, "2");
    REFUSED(min_p, (double)NAN, "nan");
    REFUSED(repetition_penalty, 0.0, "0");
    REFUSED(repetition_penalty, -1.0, "-1");
    REFUSED(repetition_penalty, (double)INFINITY, "inf");
    REFUSED(repetition_penalty, (double)NAN, "nan");
    REFUSED(presence_penalty, 2.5, "2.5");
    REFUSED(presence_penalty, (double)NAN, "nan");
    REFUSED(frequency_penalty, -2.5, "-2.5");
    REFUSED(frequency_penalty, (double)NAN, "nan");
    REFUSED(n_logprobs, -2, "-2");
    REFUSED(n_logprobs, VOCAB + 1, "129281");
    REFUSED(max_tokens, -2, "-2");
    REFUSED(min_tokens, -1, "-1");
    REFUSED(prompt_logprobs, true, "n_logprobs -1");
    REFUSED(verification, (di_verification)2, "2");
}

static void ends_of_the_ranges(void **state)
{
    (void)state;
    ACCEPTED(temperature, 0.0);
    ACCEPTED(temperature, 1e-40);
    ACCEPTED(temperature, 1e300);
    ACCEPTED(top_k, 0);
    ACCEPTED(top_k, -1);
    ACCEPTED(top_k, 1000000);
    ACCEPTED(top_p, 0.0);
    ACCEPTED(top_p, 1.0);
    ACCEPTED(min_p, 0.0);
    ACCEPTED(min_p, 1.0);
    ACCEPTED(repetition_penalty, 1e-300);
    ACCEPTED(presence_penalty, -2.0);
    ACCEPTED(frequency_penalty, 2.0);
    ACCEPTED(n_logprobs, 0);
    ACCEPTED(n_logprobs, VOCAB);
    ACCEPTED(max_tokens, 0);
    ACCEPTED(min_tokens, 5);
    ACCEPTED(verification, DI_VERIFICATION_REJECT);
}

static void min_tokens_above_max_tokens(void **state)
{
    (void)state;
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    params.max_tokens = 4;
    params.min_tokens = 5;
    assert_refused(&params, "min_tokens", "found 5");
    assert_non_null(strstr(di_last_error(), "(4)"));
    params.min_tokens = 4;
    assert_int_equal(di_sampling_params_check(&params, VOCAB), DI_OK);
}

static void token_ids_outside_the_vocabulary(void **state)
{
    (void)state;
    static const int32_t bad[] = {-1, VOCAB, 191222, INT32_MAX, INT32_MIN};
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    di_logit_bias bias[2] = {{.token_id = VOCAB - 1, .bias = 1.0f}};
    int32_t ids[2] = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char found[32];
        snprintf(found, sizeof found, "found token id %d,", (int)bad[i]);
        bias[1].token_id = bad[i];
        params.logit_bias = bias;
        params.n_logit_bias = 2;
        assert_refused(&params, "logit_bias[1]", found);
        params.n_logit_bias = 1;
        assert_int_equal(di_sampling_params_check(&params, VOCAB), DI_OK);
        params.n_logit_bias = 0;

        snprintf(found, sizeof found, "found %d,", (int)bad[i]);
        ids[1] = bad[i];
        params.stop_ids = ids;
        params.n_stop_ids = 2;
        assert_refused(&params, "stop_ids[1]", found);
        params.n_stop_ids = 0;
    }
}

static void bias_values(void **state)
{
    (void)state;
    di_logit_bias bias = {.token_id = 33310};
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
    params.logit_bias = &bias;
    params.n_logit_bias = 1;
    bias.bias = NAN;
    assert_refused(&params, "logit_bias[0]", "nan for token id 33310");
    bias.bias = INFINITY;
    assert_refused(&params, "logit_bias[0]", "inf for token id 33310");
    bias.bias = -INFINITY;
    assert_int_equal(di_sampling_params_check(&params, VOCAB), DI_OK);
    bias.bias = 1e38f;
    assert_int_equal(di_sampling_params_check(&params, VOCAB), DI_OK);
}

static void missing_arrays(void **state)
{
    (void)state;
    const di_sampling_params bias = {.temperature = 1.0,
                                     .top_p = 1.0,
                                     .repetition_penalty = 1.0,
                                     .n_logprobs = -1,
                                     .n_logit_bias = 3};
    assert_refused(&bias, "logit_bias:", "NULL");
    const di_sampling_params ids = {.temperature = 1.0,
                                    .top_p = 1.0,
                                    .repetition_penalty = 1.0,
                                    .n_logprobs = -1,
                                    .n_stop_ids = 3};
    assert_refused(&ids, "stop_ids:", "NULL");
    const di_sampling_params texts = {
        .temperature = 1.0, .top_p = 1.0, .repetition_penalty = 1.0, .n_logprobs = -1, .n_stop = 3};
    assert_refused(&texts, "stop:", "NULL");
}
#undef REFUSED
#undef ACCEPTED

static void stop_strings(void **state)
{
    (void)state;
    static const struct {
        const char *text, *found; /* found NULL: fine */
    } cases[] = {
        {"end", NULL},
        {"é中😀", NULL},
        {NULL, "NULL"},
        {"", "an empty text"},
        {"a\xff", "0xff at 1"},
        {"\xc0\x80", "0xc0 at 0"},
        {"\xe4\xb8", "0xe4 at 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const stop[2] = {"x", cases[i].text};
        di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        params.stop = stop;
        params.n_stop = 2;
        if (cases[i].found)
            assert_refused(&params, "stop[1]", cases[i].found);
        else
            assert_int_equal(di_sampling_params_check(&params, VOCAB), DI_OK);
    }
}

/* Bug rows M04 and M08: what must be refused at admission. A key of logit_bias that is no number
 * ("abc") does not reach the library. */
static double number_of(const json_t *value)
{
    return json_is_string(value) ? (double)NAN : json_number_value(value);
}

static void bug_m04_refusals(void **state)
{
    (void)state;
    json_t *root;
    assert_int_equal(di_json_load(DI_TEST_DATA "/cases/bugs/M04/logits.json", 1 << 20, &root),
                     DI_OK);
    const json_t *rows = json_object_get(root, "refuse_at_admission");
    assert_int_equal(json_array_size(rows), 6);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *value;
        di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
        const char *name = json_object_iter_key(json_object_iter((json_t *)row));
        if ((value = json_object_get(row, "temperature")))
            params.temperature = number_of(value);
        if ((value = json_object_get(row, "top_p")))
            params.top_p = number_of(value);
        if ((value = json_object_get(row, "min_p")))
            params.min_p = number_of(value);
        if ((value = json_object_get(row, "top_k")))
            params.top_k = (int32_t)json_integer_value(value);
        assert_refused(&params, name, "found");
    }
    json_decref(root);
}

static void bug_m08_refusals(void **state)
{
    (void)state;
    json_t *root;
    assert_int_equal(di_json_load(DI_TEST_DATA "/cases/bugs/M08/requests.json", 1 << 20, &root),
                     DI_OK);
    int n_refused = 0;
    size_t index;
    json_t *row, *value;
    json_array_foreach(root, index, row)
    {
        const char *key;
        json_object_foreach(json_object_get(row, "logit_bias"), key, value)
        {
            if (strcmp(key, "abc") == 0)
                continue;
            const di_logit_bias bias = {.token_id = (int32_t)strtol(key, NULL, 10),
                                        .bias = (float)json_number_value(value)};
            di_sampling_params params = DI_SAMPLING_PARAMS_INIT;
            params.logit_bias = &bias;
            params.n_logit_bias = 1;
            const bool is_bad = bias.token_id < 0 || bias.token_id >= VOCAB;
            n_refused += is_bad;
            if (is_bad)
                assert_refused(&params, "logit_bias[0]", key);
            else
                assert_int_equal(di_sampling_params_check(&params, VOCAB), DI_OK);
        }
    }
    assert_int_equal(n_refused, 2);
    json_decref(root);
}

static void a_copy_owns_what_it_points_to(void **state)
{
    (void)state;
    di_logit_bias bias[] = {{1, 2.0f}, {3, -4.0f}};
    int32_t ids[] = {5, 6};
    char text[] = "stop";
    const char *stop[] = {text, "end"};
    di_sampling_params params = DI_SAMPLING_PARAMS_INIT, copy;
    params.logit_bias = bias;
    params.n_logit_bias = 2;
    params.stop_ids = ids;
    params.n_stop_ids = 2;
    params.stop = stop;
    params.n_stop = 2;
    params.seed = 0xffffffffffffffffu;
    di_arena arena = {0};
    assert_int_equal(di_sampling_params_copy(&params, &arena, &copy), DI_OK);
    memset(bias, 0xee, sizeof bias);
    memset(ids, 0xee, sizeof ids);
    memset(text, 'x', 4);
    memset(stop, 0, sizeof stop);
    assert_int_equal(copy.n_logit_bias, 2);
    assert_true(copy.logit_bias[1].token_id == 3 && copy.logit_bias[1].bias == -4.0f);
    assert_true(copy.n_stop_ids == 2 && copy.stop_ids[0] == 5 && copy.stop_ids[1] == 6);
    assert_int_equal(copy.n_stop, 2);
    assert_string_equal(copy.stop[0], "stop");
    assert_string_equal(copy.stop[1], "end");
    assert_true(copy.seed == UINT64_MAX);

    const di_sampling_params plain = DI_SAMPLING_PARAMS_INIT;
    assert_int_equal(di_sampling_params_copy(&plain, &arena, &copy), DI_OK);
    assert_int_equal(copy.n_stop, 0);
    di_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_out_of_range),
        cmocka_unit_test(ends_of_the_ranges),
        cmocka_unit_test(min_tokens_above_max_tokens),
        cmocka_unit_test(token_ids_outside_the_vocabulary),
        cmocka_unit_test(bias_values),
        cmocka_unit_test(missing_arrays),
        cmocka_unit_test(stop_strings),
        cmocka_unit_test(bug_m04_refusals),
        cmocka_unit_test(bug_m08_refusals),
        cmocka_unit_test(a_copy_owns_what_it_points_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
