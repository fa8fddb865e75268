/* The public API in the hands of a careless or hostile caller: errors, never a crash or a hang. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "deepinfer/deepinfer.h"
#include "deepinfer/tools.h"

#define MODEL_DIR DI_TEST_DATA "/golden/tiny"

static di_model *model;

static int open_model(void **state)
{
    (void)state;
    return di_model_open(MODEL_DIR, NULL, &model) == DI_OK ? 0 : -1;
}

static int close_model(void **state)
{
    (void)state;
    di_model_close(model);
    return 0;
}

static void require(di_status status)
{
    if (status != DI_OK)
        fail_msg("%s", di_last_error());
}

enum { CONTEXT = 64 };

static di_engine *make_engine(void)
{
    const di_options options = {.n_threads = 1, .max_step_tokens = 64, .max_context_len = CONTEXT};
    di_engine *engine;
    require(di_engine_create(model, &options, &engine));
    return engine;
}

static const int32_t prompt_ids[] = {0, 417, 303, 554, 297, 1230, 274, 555};

static di_request make_request(int64_t max_tokens)
{
    di_request r = DI_REQUEST_INIT;
    r.token_ids = prompt_ids;
    r.n_token_ids = sizeof prompt_ids / sizeof prompt_ids[0];
    r.sampling.temperature = 0;
    r.sampling.max_tokens = max_tokens;
    r.sampling.ignore_eos = true;
    return r;
}

#define REFUSED(call) assert_int_equal(call, DI_ERR_ARGUMENT)

static void null_is_refused(void **state)
{
    (void)state;
    di_engine *engine = make_engine();
    di_request request = make_request(2);
    di_request_id id;
    di_result *result;
    di_output output;
    di_engine_stats stats;
    int32_t *ids;
    char *text;
    size_t n;
    REFUSED(di_model_open(NULL, NULL, &model));
    REFUSED(di_model_open(MODEL_DIR, NULL, NULL));
    REFUSED(di_engine_create(NULL, NULL, &engine));
    REFUSED(di_engine_create(model, NULL, NULL));
    REFUSED(di_engine_submit(NULL, &request, &id));
    REFUSED(di_engine_submit(engine, NULL, &id));
    REFUSED(di_engine_submit(engine, &request, NULL));
    REFUSED(di_generate(NULL, &request, NULL, NULL, &result));
    REFUSED(di_generate(engine, NULL, NULL, NULL, &result));
    REFUSED(di_generate(engine, &request, NULL, NULL, NULL));
    REFUSED(di_engine_step(NULL, NULL));
    REFUSED(di_engine_take_result(NULL, 1, &result));
    REFUSED(di_engine_take_result(engine, 1, NULL));
    REFUSED(di_tokenize(NULL, "a", 1, false, &ids, &n));
    REFUSED(di_tokenize(model, NULL, 1, false, &ids, &n));
    REFUSED(di_tokenize(model, "a", 1, false, NULL, &n));
    REFUSED(di_tokenize(model, "a", 1, false, &ids, NULL));
    REFUSED(di_detokenize(NULL, prompt_ids, 1, false, &text, &n));
    REFUSED(di_detokenize(model, NULL, 1, false, &text, &n));
    REFUSED(di_detokenize(model, prompt_ids, 1, false, NULL, &n));
    REFUSED(di_detokenize(model, prompt_ids, 1, false, &text, NULL));
    di_tokenizer *tokenizer;
    REFUSED(di_tokenizer_open(NULL, &tokenizer));
    REFUSED(di_tokenizer_open(MODEL_DIR, NULL));
    assert_false(di_engine_poll(NULL, &output));
    assert_false(di_engine_poll(engine, NULL));
    di_engine_cancel(NULL, 1);
    di_engine_get_stats(engine, NULL);
    di_engine_get_stats(NULL, &stats);
    assert_int_equal(stats.n_steps, 0);
    di_engine_destroy(NULL);
    di_model_close(NULL);
    di_result_free(NULL);
    di_free(NULL);
    di_engine_destroy(engine);
}

static void counts_are_checked(void **state)
{
    (void)state;
    di_engine *engine = make_engine();
    di_request_id id;
    const char *const stops[] = {NULL, "", "\xff"};
    for (size_t i = 0; i < 3; i++) {
        di_request r = make_request(2);
        r.sampling.stop = &stops[i];
        r.sampling.n_stop = 1;
        REFUSED(di_engine_submit(engine, &r, &id));
    }
    static const int32_t ns[] = {0, -1, INT32_MIN, 129, INT32_MAX};
    for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++) {
        di_request r = make_request(2);
        r.sampling.n = ns[i];
        REFUSED(di_engine_submit(engine, &r, &id));
    }
    di_request r = make_request(2);
    r.timeout_ms = -1;
    REFUSED(di_engine_submit(engine, &r, &id));
    r = make_request(2);
    r.n_token_ids = 0;
    REFUSED(di_engine_submit(engine, &r, &id));
    r = make_request(2);
    r.sampling.n_stop_ids = 3;
    REFUSED(di_engine_submit(engine, &r, &id));
    r = make_request(2);
    r.sampling.n_logit_bias = 3;
    REFUSED(di_engine_submit(engine, &r, &id));
    r = make_request(2);
    r.text = "both";
    REFUSED(di_engine_submit(engine, &r, &id));
    r = make_request(INT64_MIN);
    REFUSED(di_engine_submit(engine, &r, &id));
    r = make_request(2);
    r.sampling.n_logprobs = INT32_MAX;
    REFUSED(di_engine_submit(engine, &r, &id));
    di_engine_destroy(engine);
}

/* The largest numbers mean "as many as there can be", and do not wrap around. */
static void the_largest_numbers_are_fine(void **state)
{
    (void)state;
    di_engine *engine = make_engine();
    di_request request = make_request(INT64_MAX);
    request.timeout_ms = INT64_MAX;
    request.priority = INT_MIN;
    request.sampling.top_k = INT32_MAX;
    di_result *r;
    require(di_generate(engine, &request, NULL, NULL, &r));
    assert_int_equal(r->finish_reason, DI_FINISH_LENGTH);
    assert_int_equal(r->n_token_ids + r->n_prompt_token_ids, CONTEXT);
    di_result_free(r);
    request.priority = INT_MAX;
    request.sampling.min_tokens = request.sampling.max_tokens = INT64_MAX - 7;
    require(di_generate(engine, &request, NULL, NULL, &r));
    assert_int_equal(r->n_token_ids + r->n_prompt_token_ids, CONTEXT);
    di_result_free(r);
    di_engine_destroy(engine);
}

static void any_bytes_are_a_text(void **state)
{
    static const char bytes[] = "a\0b\xff\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80 \xe2\x80";
    (void)state;
    di_engine *engine = make_engine();
    di_request request = make_request(3);
    request.token_ids = NULL;
    request.text = bytes;
    request.text_bytes = sizeof bytes - 1;
    di_result *r;
    require(di_generate(engine, &request, NULL, NULL, &r));
    char *text;
    size_t n;
    require(
        di_detokenize(model, r->prompt_token_ids + 1, r->n_prompt_token_ids - 1, false, &text, &n));
    assert_int_equal(n, sizeof bytes - 1);
    assert_memory_equal(text, bytes, n);
    di_free(text);
    di_result_free(r);
    request.text = NULL;
    static const char *const messages[] = {
        "",         "[]",
        "{}",       "null",
        "[1",       "[{\"role\":1}]",
        "\xff\xfe", "[{}]",
        "[[[[",     "[{\"role\":\"user\",\"content\":\"\xff\"}]"};
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        request.messages_json = messages[i];
        assert_int_equal(di_generate(engine, &request, NULL, NULL, &r), DI_ERR_INPUT);
    }
    di_engine_destroy(engine);
}

static void results_are_given_once(void **state)
{
    (void)state;
    di_engine *engine = make_engine();
    const di_request request = make_request(3);
    di_request_id id;
    di_result *r;
    bool has_work = true;
    require(di_engine_submit(engine, &request, &id));
    REFUSED(di_engine_take_result(engine, id, &r));
    REFUSED(di_engine_take_result(engine, 0, &r));
    REFUSED(di_engine_take_result(engine, UINT64_MAX, &r));
    while (has_work)
        require(di_engine_step(engine, &has_work));
    require(di_engine_take_result(engine, id, &r));
    di_result *again;
    REFUSED(di_engine_take_result(engine, id, &again));
    di_result_free(r);
    di_engine_destroy(engine);
}

typedef struct thief {
    di_engine *engine;
    size_t n_tries;
    size_t n_stolen;
} thief;

static bool steal(void *user, const di_output *output)
{
    thief *self = user;
    di_result *r;
    self->n_tries++;
    if (di_engine_take_result(self->engine, output->id, &r) == DI_OK) {
        self->n_stolen++;
        di_result_free(r);
    }
    return true;
}

/* A callback that wants the result for itself: di_generate alone gives it. */
static void a_callback_cannot_take_the_result(void **state)
{
    (void)state;
    thief self = {.engine = make_engine()};
    const di_request request = make_request(4);
    di_result *r;
    require(di_generate(self.engine, &request, steal, &self, &r));
    assert_int_equal(self.n_tries, 4);
    assert_int_equal(self.n_stolen, 0);
    assert_int_equal(r->n_token_ids, 4);
    di_result_free(r);
    di_engine_destroy(self.engine);
}

/* Dropped at any age: waiting, prefilling, in flight, some of several samples ended. */
static void engines_may_go_with_requests_in_flight(void **state)
{
    (void)state;
    for (int n_steps = 0; n_steps < 12; n_steps++) {
        di_engine *engine = make_engine();
        for (int i = 0; i < 6; i++) {
            di_request request = make_request(3 + i);
            request.sampling.n = 1 + i % 3;
            request.priority = i % 2 ? INT_MIN : INT_MAX;
            di_request_id id;
            require(di_engine_submit(engine, &request, &id));
            if (i == 4)
                di_engine_cancel(engine, id);
        }
        for (int i = 0; i < n_steps; i++)
            require(di_engine_step(engine, NULL));
        di_engine_destroy(engine);
    }
}

/* -------------------------------------------------------------------------- many threads */

typedef struct crowd {
    di_engine *engine;
    atomic_bool is_over;
    atomic_int n_live; /* threads that submit */
    atomic_size_t n_results;
} crowd;

enum { N_SUBMITTERS = 3, N_EACH = 20 };

static void *submit_and_cancel(void *user)
{
    crowd *self = user;
    for (int i = 0; i < N_EACH; i++) {
        di_request request = make_request(1 + i % 9);
        request.sampling.n = 1 + i % 2;
        request.priority = i % 3 - 1;
        di_request_id id;
        if (di_engine_submit(self->engine, &request, &id) != DI_OK)
            break;
        if (i % 4 == 0)
            di_engine_cancel(self->engine, id);
        di_result *r;
        while (di_engine_take_result(self->engine, id, &r) != DI_OK) {
            if (i % 4 == 1)
                di_engine_cancel(self->engine, id - 1);
            sched_yield();
        }
        atomic_fetch_add(&self->n_results, 1);
        di_result_free(r);
    }
    atomic_fetch_sub(&self->n_live, 1);
    return NULL;
}

static void *step_on(void *user)
{
    crowd *self = user;
    while (!atomic_load(&self->is_over)) {
        bool has_work;
        (void)!di_engine_step(self->engine, &has_work);
        if (!has_work)
            sched_yield();
    }
    return NULL;
}

static void *poll_on(void *user)
{
    crowd *self = user;
    di_engine_stats stats;
    while (!atomic_load(&self->is_over)) {
        di_output output;
        while (di_engine_poll(self->engine, &output))
            ;
        di_engine_get_stats(self->engine, &stats);
        sched_yield();
    }
    return NULL;
}

static void many_threads_share_an_engine(void **state)
{
    (void)state;
    crowd self = {.engine = make_engine(), .n_live = N_SUBMITTERS};
    pthread_t threads[N_SUBMITTERS + 3];
    int n = 0;
    for (; n < N_SUBMITTERS; n++)
        assert_int_equal(pthread_create(&threads[n], NULL, submit_and_cancel, &self), 0);
    assert_int_equal(pthread_create(&threads[n++], NULL, step_on, &self), 0);
    assert_int_equal(pthread_create(&threads[n++], NULL, step_on, &self), 0);
    assert_int_equal(pthread_create(&threads[n++], NULL, poll_on, &self), 0);
    const di_request request = make_request(5);
    for (int i = 0; i < 5; i++) { /* and di_generate among them */
        di_result *r;
        require(di_generate(self.engine, &request, NULL, NULL, &r));
        /* a submitter may have cancelled it as the one before its own */
        assert_true(r->n_token_ids == 5 || r->finish_reason == DI_FINISH_CANCELLED);
        di_result_free(r);
    }
    for (int i = 0; i < N_SUBMITTERS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&self.is_over, true);
    for (int i = N_SUBMITTERS; i < n; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(self.n_results, N_SUBMITTERS * N_EACH);
    bool has_work = true;
    while (has_work)
        require(di_engine_step(self.engine, &has_work));
    di_engine_stats stats;
    di_engine_get_stats(self.engine, &stats);
    assert_int_equal(stats.kv_blocks_used, 0);
    assert_int_equal(stats.n_running + stats.n_waiting, 0);
    di_engine_destroy(self.engine);
}

typedef struct lone {
    di_engine *engine;
    di_result *result;
} lone;

static void *generate_alone(void *user)
{
    lone *self = user;
    const di_request request = make_request(20);
    if (di_generate(self->engine, &request, NULL, NULL, &self->result) != DI_OK)
        self->result = NULL;
    return NULL;
}

static void two_engines_of_one_model_know_nothing_of_each_other(void **state)
{
    (void)state;
    lone two[2] = {{.engine = make_engine()}, {.engine = make_engine()}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, generate_alone, &two[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_non_null(two[0].result);
    assert_non_null(two[1].result);
    assert_int_equal(two[0].result->n_token_ids, 20);
    assert_memory_equal(two[0].result->token_ids, two[1].result->token_ids, 20 * sizeof(int32_t));
    for (int i = 0; i < 2; i++) {
        di_result_free(two[i].result);
        di_engine_destroy(two[i].engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_is_refused),
        cmocka_unit_test(counts_are_checked),
        cmocka_unit_test(the_largest_numbers_are_fine),
        cmocka_unit_test(any_bytes_are_a_text),
        cmocka_unit_test(results_are_given_once),
        cmocka_unit_test(a_callback_cannot_take_the_result),
        cmocka_unit_test(engines_may_go_with_requests_in_flight),
        cmocka_unit_test(many_threads_share_an_engine),
        cmocka_unit_test(two_engines_of_one_model_know_nothing_of_each_other),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
