/* The engine over the tiny golden checkpoint: requests, stops, limits, errors, threads,
 * repeatability. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>

#include "deepinfer/deepinfer.h"

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

static di_engine *make_engine(int n_threads, int max_step_tokens)
{
    const di_options options = {.n_threads = n_threads, .max_step_tokens = max_step_tokens};
    di_engine *engine;
    require(di_engine_create(model, &options, &engine));
    return engine;
}

static const int32_t prompt_ids[] = {0, 417, 303, 554, 297, 1230, 274, 555, 360, 335, 598, 566, 12};

static di_request greedy_request(int64_t max_tokens)
{
    di_request r = DI_REQUEST_INIT;
    r.token_ids = prompt_ids;
    r.n_token_ids = sizeof prompt_ids / sizeof prompt_ids[0];
    r.sampling.temperature = 0;
    r.sampling.max_tokens = max_tokens;
    r.sampling.ignore_eos = true;
    return r;
}

static di_result *generate(di_engine *engine, const di_request *request)
{
    di_result *result;
    require(di_generate(engine, request, NULL, NULL, &result));
    return result;
}

static void assert_same_tokens(const di_result *a, const di_result *b)
{
    assert_int_equal(a->n_token_ids, b->n_token_ids);
    assert_memory_equal(a->token_ids, b->token_ids, a->n_token_ids * sizeof *a->token_ids);
}

/* M10: ignore_eos gives exactly max_tokens. */
static void max_tokens_is_exact(void **state)
{
    (void)state;
    di_engine *engine = make_engine(2, 512);
    const di_request request = greedy_request(200);
    di_result *r = generate(engine, &request);
    assert_int_equal(r->n_token_ids, 200);
    assert_int_equal(r->finish_reason, DI_FINISH_LENGTH);
    assert_int_equal(r->n_prompt_token_ids, request.n_token_ids);
    assert_memory_equal(r->prompt_token_ids, prompt_ids, sizeof prompt_ids);
    di_result_free(r);
    di_engine_destroy(engine);
}

static void seeded_output_does_not_depend_on_threads_or_chunks(void **state)
{
    (void)state;
    di_request request = greedy_request(40);
    request.sampling.temperature = 0.8;
    request.sampling.has_seed = true;
    request.sampling.seed = 0xfedcba9876543210u;
    di_result *first = NULL;
    for (int threads = 1; threads <= 4; threads *= 2) {
        for (int chunk = 1; chunk <= 16; chunk += 5) {
            di_engine *engine = make_engine(threads, chunk);
            di_result *r = generate(engine, &request);
            if (first) {
                assert_same_tokens(first, r);
                assert_string_equal(first->text, r->text);
                di_result_free(r);
            } else {
                first = r;
            }
            di_engine_destroy(engine);
        }
    }
    assert_int_equal(first->seed, request.sampling.seed);
    di_result_free(first);
}

/* M02: without a seed a fresh one is drawn and reported, and repeats the output. */
static void fresh_seed_is_reported(void **state)
{
    (void)state;
    di_engine *engine = make_engine(1, 512);
    di_request request = greedy_request(24);
    request.sampling.temperature = 1.5;
    di_result *a = generate(engine, &request), *b = generate(engine, &request);
    assert_true(a->seed != b->seed);
    assert_true(memcmp(a->token_ids, b->token_ids, 24 * sizeof *a->token_ids) != 0);
    request.sampling.has_seed = true;
    request.sampling.seed = b->seed;
    di_result *again = generate(engine, &request);
    assert_same_tokens(b, again);
    di_result_free(a);
    di_result_free(b);
    di_result_free(again);
    di_engine_destroy(engine);
}

typedef struct stream {
    char text[4096];
    size_t bytes;
    int32_t ids[256];
    size_t n_ids, n_calls, stop_after;
    di_finish_reason last;
} stream;

static bool collect(void *user, const di_output *output)
{
    stream *s = user;
    memcpy(s->text + s->bytes, output->text, output->text_bytes);
    s->bytes += output->text_bytes;
    memcpy(s->ids + s->n_ids, output->token_ids, output->n_token_ids * sizeof *s->ids);
    s->n_ids += output->n_token_ids;
    s->last = output->finish_reason;
    return ++s->n_calls != s->stop_after;
}

static void streamed_pieces_make_the_whole(void **state)
{
    (void)state;
    di_engine *engine = make_engine(2, 512);
    const di_request request = greedy_request(100);
    stream s = {.bytes = 0};
    di_result *r;
    require(di_generate(engine, &request, collect, &s, &r));
    assert_int_equal(s.n_ids, r->n_token_ids);
    assert_memory_equal(s.ids, r->token_ids, s.n_ids * sizeof *s.ids);
    assert_int_equal(s.bytes, r->text_bytes);
    assert_memory_equal(s.text, r->text, s.bytes);
    assert_int_equal(s.last, DI_FINISH_LENGTH);
    di_result_free(r);
    di_engine_destroy(engine);
}

static void callback_can_cancel(void **state)
{
    (void)state;
    di_engine *engine = make_engine(1, 512);
    const di_request request = greedy_request(100);
    stream s = {.stop_after = 5};
    di_result *r;
    require(di_generate(engine, &request, collect, &s, &r));
    assert_int_equal(r->finish_reason, DI_FINISH_CANCELLED);
    assert_int_equal(r->n_token_ids, 5);
    di_result_free(r);
    di_engine_destroy(engine);
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static void stop_strings_and_ids_end_the_output(void **state)
{
    (void)state;
    di_engine *engine = make_engine(1, 512);
    di_request request = greedy_request(60);
    di_result *whole = generate(engine, &request);

    const int32_t stop_id = whole->token_ids[10];
    size_t first = 0;
    while (whole->token_ids[first] != stop_id)
        first++;
    request.sampling.stop_ids = &stop_id;
    request.sampling.n_stop_ids = 1;
    di_result *r = generate(engine, &request);
    assert_int_equal(r->finish_reason, DI_FINISH_STOP);
    assert_int_equal(r->n_token_ids, first + 1); /* the id itself is kept */
    assert_memory_equal(r->text, whole->text, r->text_bytes);
    di_result_free(r);
    request.sampling.n_stop_ids = 0;

    /* A stop string that begins in the middle of the whole text, of whole characters. */
    char stop[16] = {0};
    const char *at = whole->text + whole->text_bytes / 2, *end = at + 5;
    while (is_continuation(*at))
        at++;
    while (is_continuation(*end))
        end++;
    memcpy(stop, at, (size_t)(end - at));
    const size_t begin = (size_t)(strstr(whole->text, stop) - whole->text);
    const char *stops[] = {"never there", stop};
    request.sampling.stop = stops;
    request.sampling.n_stop = 2;
    r = generate(engine, &request);
    assert_int_equal(r->finish_reason, DI_FINISH_STOP);
    assert_int_equal(r->text_bytes, begin);
    assert_memory_equal(r->text, whole->text, begin);
    di_result_free(r);

    request.sampling.min_tokens = 60; /* stops act only after that */
    r = generate(engine, &request);
    assert_int_equal(r->finish_reason, DI_FINISH_LENGTH);
    assert_string_equal(r->text, whole->text);
    di_result_free(r);
    di_result_free(whole);
    di_engine_destroy(engine);
}

/* M07: max_tokens 0 gives the prompt's logprobs and no token. */
static void prompt_can_be_scored_alone(void **state)
{
    (void)state;
    di_engine *engine = make_engine(1, 4);
    di_request request = greedy_request(0);
    request.sampling.prompt_logprobs = true;
    request.sampling.n_logprobs = 2;
    di_result *r = generate(engine, &request);
    assert_int_equal(r->n_token_ids, 0);
    assert_int_equal(r->finish_reason, DI_FINISH_LENGTH);
    assert_non_null(r->prompt_logprobs);
    assert_int_equal(r->prompt_logprobs[0].n_entries, 0);
    for (size_t i = 1; i < r->n_prompt_token_ids; i++) {
        const di_position_logprobs *p = &r->prompt_logprobs[i];
        assert_int_equal(p->n_entries, 3);
        assert_int_equal(p->entries[0].token_id, prompt_ids[i]);
        assert_true(p->entries[0].logprob <= p->entries[1].logprob);
        assert_int_equal(p->entries[1].rank, 1);
        assert_int_equal(p->entries[2].rank, 2);
    }
    di_result_free(r);
    request.sampling.prompt_logprobs = false;
    r = generate(engine, &request);
    assert_int_equal(r->n_token_ids, 0);
    di_result_free(r);
    di_engine_destroy(engine);
}

static void logprobs_name_the_choice(void **state)
{
    (void)state;
    di_engine *engine = make_engine(1, 512);
    di_request request = greedy_request(8);
    request.sampling.n_logprobs = 3;
    di_result *r = generate(engine, &request);
    for (size_t i = 0; i < r->n_token_ids; i++) {
        assert_int_equal(r->logprobs[i].n_entries, 4);
        assert_int_equal(r->logprobs[i].entries[0].token_id, r->token_ids[i]);
        assert_int_equal(r->logprobs[i].entries[0].rank, 1); /* greedy */
        assert_true(r->logprobs[i].entries[0].logprob < 0);
    }
    di_result_free(r);
    di_engine_destroy(engine);
}

static void assert_refused(di_engine *engine, const di_request *request, const char *words)
{
    di_request_id id;
    assert_int_equal(di_engine_submit(engine, request, &id), DI_ERR_ARGUMENT);
    if (!strstr(di_last_error(), words))
        fail_msg("found \"%s\", wanted \"%s\" in it", di_last_error(), words);
}

/* K01 and the like: refused at submission, and the engine goes on. */
static void bad_requests_are_refused(void **state)
{
    (void)state;
    di_engine *engine = make_engine(1, 512);
    di_request request = DI_REQUEST_INIT;
    assert_refused(engine, &request, "exactly one");
    request.text = "";
    assert_refused(engine, &request, "empty");
    request.text = "x";
    request.token_ids = prompt_ids;
    assert_refused(engine, &request, "exactly one");
    request.text = NULL;
    assert_refused(engine, &request, "no tokens");
    int32_t bad[] = {0, 1280, 5};
    request.token_ids = bad;
    request.n_token_ids = 3;
    assert_refused(engine, &request, "token_ids[1]: found 1280, wanted 0 to 1279");
    bad[1] = -1;
    assert_refused(engine, &request, "token_ids[1]: found -1");
    int32_t long_prompt[600] = {0};
    request.token_ids = long_prompt;
    request.n_token_ids = 600;
    assert_refused(engine, &request, "found 600 tokens, wanted at most 511");
    request = greedy_request(5);
    request.sampling.temperature = -1;
    assert_refused(engine, &request, "temperature");

    request = greedy_request(3);
    di_result *r = generate(engine, &request);
    assert_int_equal(r->n_token_ids, 3);
    di_result_free(r);
    di_engine_destroy(engine);
}

static void context_limit_ends_the_output(void **state)
{
    (void)state;
    const di_options options = {.n_threads = 1, .max_context_len = 40};
    di_engine *engine;
    require(di_engine_create(model, &options, &engine));
    di_request request = greedy_request(-1);
    di_result *r = generate(engine, &request);
    assert_int_equal(r->finish_reason, DI_FINISH_LENGTH);
    assert_int_equal(r->n_prompt_token_ids + r->n_token_ids, 40);
    di_result_free(r);
    di_engine_destroy(engine);
    const di_options beyond = {.max_context_len = 1000};
    assert_int_equal(di_engine_create(model, &beyond, &engine), DI_ERR_ARGUMENT);
    assert_non_null(strstr(di_last_error(), "found 1000, wanted at most 512"));
}

/* Submitted requests run in order; each gives its outputs and one result. */
static void submit_step_poll(void **state)
{
    (void)state;
    di_engine *engine = make_engine(2, 512);
    const di_request request = greedy_request(12);
    di_result *alone = generate(engine, &request);
    di_request_id ids[3];
    for (int i = 0; i < 3; i++)
        require(di_engine_submit(engine, &request, &ids[i]));
    di_engine_cancel(engine, ids[1]); /* while it waits */
    di_engine_cancel(engine, 12345);  /* unknown: ignored */
    size_t n_tokens[3] = {0};
    di_finish_reason reasons[3] = {0};
    bool has_work = true;
    while (has_work) {
        require(di_engine_step(engine, &has_work));
        di_output output;
        while (di_engine_poll(engine, &output)) {
            const size_t i = (size_t)(output.id - ids[0]);
            n_tokens[i] += output.n_token_ids;
            reasons[i] = output.finish_reason;
        }
    }
    assert_int_equal(n_tokens[0], 12);
    assert_int_equal(n_tokens[1], 0);
    assert_int_equal(n_tokens[2], 12);
    assert_int_equal(reasons[0], DI_FINISH_LENGTH);
    assert_int_equal(reasons[1], DI_FINISH_CANCELLED);
    for (int i = 0; i < 3; i += 2) {
        di_result *r;
        require(di_engine_take_result(engine, ids[i], &r));
        assert_same_tokens(alone, r);
        di_result_free(r);
        assert_int_equal(di_engine_take_result(engine, ids[i], &r), DI_ERR_ARGUMENT);
    }
    di_result_free(alone);
    di_engine_destroy(engine); /* the cancelled one's result was never taken */
}

typedef struct caller {
    pthread_t thread;
    di_engine *engine;
    di_result *result;
    di_status status;
} caller;

static void *call_generate(void *arg)
{
    caller *c = arg;
    const di_request request = greedy_request(20);
    c->status = di_generate(c->engine, &request, NULL, NULL, &c->result);
    return NULL;
}

/* One engine, several threads in di_generate; two engines of one model. */
static void engine_may_be_called_from_threads(void **state)
{
    (void)state;
    enum { N = 4 };
    di_engine *engines[2] = {make_engine(2, 512), make_engine(1, 512)};
    caller callers[N];
    for (int i = 0; i < N; i++) {
        callers[i] = (caller){.engine = engines[i % 2]};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_generate, &callers[i]), 0);
    }
    for (int i = 0; i < N; i++)
        pthread_join(callers[i].thread, NULL);
    for (int i = 0; i < N; i++) {
        require(callers[i].status);
        assert_same_tokens(callers[0].result, callers[i].result);
    }
    for (int i = 0; i < N; i++)
        di_result_free(callers[i].result);
    di_engine_destroy(engines[0]);
    di_engine_destroy(engines[1]);
}

static void text_and_chat_prompts(void **state)
{
    (void)state;
    di_engine *engine = make_engine(1, 512);
    di_request request = DI_REQUEST_INIT;
    request.text = "hi<｜User｜>x";
    request.sampling.max_tokens = 0;
    di_result *r = generate(engine, &request);
    assert_int_equal(r->prompt_token_ids[0], 0); /* BOS */
    for (size_t i = 1; i < r->n_prompt_token_ids; i++)
        assert_int_not_equal(r->prompt_token_ids[i], 1264); /* text never becomes a role token */
    di_result_free(r);
    request.parse_special = true;
    r = generate(engine, &request);
    bool found = false;
    for (size_t i = 1; i < r->n_prompt_token_ids; i++)
        found |= r->prompt_token_ids[i] == 1264;
    assert_true(found);
    di_result_free(r);

    request = (di_request)DI_REQUEST_INIT;
    request.messages_json = "[{\"role\": \"user\", \"content\": \"a <｜User｜> b\"}]";
    request.sampling.max_tokens = 0;
    r = generate(engine, &request);
    int n_user = 0;
    for (size_t i = 0; i < r->n_prompt_token_ids; i++)
        n_user += r->prompt_token_ids[i] == 1264;
    assert_int_equal(n_user, 1); /* the template's own */
    di_result_free(r);
    request.messages_json = "[{\"role\": \"nobody\", \"content\": \"x\"}]";
    di_request_id id;
    assert_int_not_equal(di_engine_submit(engine, &request, &id), DI_OK);
    assert_non_null(strstr(di_last_error(), "nobody"));
    di_engine_destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(max_tokens_is_exact),
        cmocka_unit_test(seeded_output_does_not_depend_on_threads_or_chunks),
        cmocka_unit_test(fresh_seed_is_reported),
        cmocka_unit_test(streamed_pieces_make_the_whole),
        cmocka_unit_test(callback_can_cancel),
        cmocka_unit_test(stop_strings_and_ids_end_the_output),
        cmocka_unit_test(prompt_can_be_scored_alone),
        cmocka_unit_test(logprobs_name_the_choice),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(context_limit_ends_the_output),
        cmocka_unit_test(submit_step_poll),
        cmocka_unit_test(engine_may_be_called_from_threads),
        cmocka_unit_test(text_and_chat_prompts),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
