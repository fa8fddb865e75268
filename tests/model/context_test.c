/* The context limit: runs up to the config's last position and no further, both numbers in the
 * error. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "deepinfer/tools.h"
#include "golden.h"

static void require(di_status status)
{
    if (status != DI_OK)
        fail_msg("%s", di_last_error());
}

typedef struct counter {
    int64_t n_rows, n_bad;
} counter;

static bool count_row(void *user, int64_t position, const float *logits, int32_t vocab)
{
    counter *c = user;
    if (position != c->n_rows)
        c->n_bad++;
    for (int32_t i = 0; i < vocab; i++)
        c->n_bad += !isfinite(logits[i]);
    c->n_rows++;
    return true;
}

static di_model *open_model(void)
{
    di_model *model;
    require(di_model_open(DI_TEST_DATA "/golden/varied/mixed", NULL, &model));
    return model;
}

static int32_t *make_ids(int64_t n, int64_t vocab)
{
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    assert_non_null(ids);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((i * 31 + i * i) % vocab);
    return ids;
}

static void the_whole_context_runs(void **state)
{
    (void)state;
    di_model *model = open_model();
    const int64_t limit = di_model_max_context(model);
    int32_t *ids = make_ids(limit, di_model_vocab_size(model));
    /* prefill at several chunk sizes, the end one by one: no block or scratch runs out */
    const int32_t chunks[] = {0, 1, 50, 64};
    for (int i = 0; i < 4; i++) {
        const di_score_options score = {.prefill = limit - 3, .chunk = chunks[i]};
        const di_options options = {.n_threads = 2, .max_step_tokens = 100};
        counter c = {0, 0};
        require(di_score(model, &options, ids, (size_t)limit, &score, count_row, &c));
        assert_int_equal(c.n_rows, limit);
        assert_int_equal(c.n_bad, 0);
    }
    free(ids);
    di_model_close(model);
}

static void refuses(const di_model *model, const di_options *options, int64_t n, int64_t limit)
{
    int32_t *ids = make_ids(n, di_model_vocab_size(model));
    counter c = {0, 0};
    assert_int_equal(di_score((di_model *)model, options, ids, (size_t)n, NULL, count_row, &c),
                     DI_ERR_ARGUMENT);
    char text[128];
    snprintf(text, sizeof text, "found %d tokens, wanted at most %d", (int)n, (int)limit);
    if (!strstr(di_last_error(), text))
        fail_msg("\"%s\" does not say \"%s\"", di_last_error(), text);
    assert_int_equal(c.n_rows, 0); /* nothing was computed */
    free(ids);
}

static void one_token_more_is_refused(void **state)
{
    (void)state;
    di_model *model = open_model();
    const int64_t limit = di_model_max_context(model);
    refuses(model, NULL, limit + 1, limit);
    refuses(model, NULL, limit * 1000, limit);
    const di_options options = {.max_context_len = 17};
    refuses(model, &options, 18, 17);
    int32_t *ids = make_ids(17, di_model_vocab_size(model));
    counter c = {0, 0};
    require(di_score(model, &options, ids, 17, NULL, count_row, &c));
    assert_int_equal(c.n_rows, 17);
    free(ids);
    di_model_close(model);
}

static void an_option_beyond_the_config_is_refused(void **state)
{
    (void)state;
    di_model *model = open_model();
    const di_options options = {.max_context_len = di_model_max_context(model) + 1};
    int32_t id = 5;
    counter c = {0, 0};
    assert_int_equal(di_score(model, &options, &id, 1, NULL, count_row, &c), DI_ERR_ARGUMENT);
    assert_non_null(strstr(di_last_error(), "max_context_len: found 257, wanted at most 256"));
    di_model_close(model);
}

static void ids_outside_the_vocabulary_are_refused(void **state)
{
    (void)state;
    di_model *model = open_model();
    const int32_t vocab = di_model_vocab_size(model);
    const int32_t bad[] = {-1, vocab, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        const int32_t ids[3] = {0, 1, bad[i]};
        counter c = {0, 0};
        assert_int_equal(di_score(model, NULL, ids, 3, NULL, count_row, &c), DI_ERR_ARGUMENT);
        assert_non_null(strstr(di_last_error(), "token_ids[2]: found "));
        assert_int_equal(c.n_rows, 0);
    }
    assert_int_equal(di_score(model, NULL, bad, 0, NULL, count_row, NULL), DI_ERR_ARGUMENT);
    di_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_whole_context_runs),
        cmocka_unit_test(one_token_more_is_refused),
        cmocka_unit_test(an_option_beyond_the_config_is_refused),
        cmocka_unit_test(ids_outside_the_vocabulary_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
