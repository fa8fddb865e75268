/* The engine around the model: scheduling, KV blocks, slots, sampling, stops, ends. On the null
 * device, whose outputs are a function of each sample's own history: anything that mixes sequences
 * up gives other tokens than di_expect, or a line in the device's `problem`. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <time.h>

#include "engine_check.h"
#include "fake_clock.h"
#include "random.h"

#define MODEL_DIR DI_TEST_DATA "/golden/tiny"

enum { EOS = 1, MOST_SAMPLES = 3, MOST_TOKENS = 512, N_STREAMS = 4 };

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

/* Every 24th history or so ends. */
static void end_sometimes(void *user, uint64_t history, int64_t position, float *logits)
{
    (void)user;
    (void)position;
    if (history % 24 == 0)
        logits[EOS] = 30.0f;
}

/* ------------------------------------------------------------------------------- traffic */

/* A request and what came of it. */
typedef struct traffic {
    di_request request;
    int32_t *prompt;
    di_request_id id;
    bool is_cancelled;
    di_ids tokens[MOST_SAMPLES];
    int n_final[MOST_SAMPLES];
    di_finish_reason reason[MOST_SAMPLES];
} traffic;

/* Prompts begin like one of a few streams, so that they share prefixes. */
static void make_prompt(di_rng *rng, int64_t most, traffic *t)
{
    const int64_t n = di_rng_between(rng, 1, most);
    /* Windows are kept at the ends of prompts: a prompt that ends in its stream serves others. */
    const int64_t kind = di_rng_below(rng, 3);
    const int64_t n_shared = kind == 0 ? 0 : kind == 1 ? n : di_rng_below(rng, n);
    const uint64_t stream = (uint64_t)di_rng_below(rng, N_STREAMS);
    t->prompt = malloc((size_t)n * sizeof *t->prompt);
    assert_non_null(t->prompt);
    for (int64_t i = 0; i < n; i++)
        t->prompt[i] = i < n_shared ? (int32_t)(3 + (stream * 7919 + (uint64_t)i * 104729) % 1200)
                                    : (int32_t)di_rng_between(rng, 3, 1200);
    t->request.token_ids = t->prompt;
    t->request.n_token_ids = (size_t)n;
}

static void make_request(di_rng *rng, int64_t most_prompt, int64_t most_new, traffic *t)
{
    *t = (traffic){.request = DI_REQUEST_INIT};
    make_prompt(rng, most_prompt, t);
    di_sampling_params *p = &t->request.sampling;
    p->temperature = di_rng_below(rng, 3) ? 0.5 * (double)di_rng_between(rng, 1, 3) : 0;
    p->top_k = di_rng_below(rng, 3) ? 0 : (int32_t)di_rng_between(rng, 1, 50);
    p->top_p = di_rng_below(rng, 3) ? 1.0 : 0.9;
    p->repetition_penalty = di_rng_below(rng, 4) ? 1.0 : 1.2;
    p->frequency_penalty = di_rng_below(rng, 4) ? 0 : 0.5;
    p->n = (int32_t)di_rng_between(rng, 1, MOST_SAMPLES);
    p->has_seed = true;
    p->seed = di_rng_next(rng);
    p->max_tokens = di_rng_between(rng, 1, most_new);
    p->min_tokens = di_rng_below(rng, 4) ? 0 : di_rng_between(rng, 0, p->max_tokens);
    p->ignore_eos = di_rng_below(rng, 4) == 0;
    p->n_logprobs = di_rng_below(rng, 4) ? -1 : (int32_t)di_rng_below(rng, 3);
    t->request.priority = (int)di_rng_below(rng, 3);
}

static void free_traffic(traffic *t)
{
    free(t->prompt);
    for (int i = 0; i < MOST_SAMPLES; i++)
        di_ids_free(&t->tokens[i]);
}

static void note_output(traffic *t, const di_output *o)
{
    assert_in_range(o->sample_index, 0, t->request.sampling.n - 1);
    const int32_t i = o->sample_index;
    assert_int_equal(t->n_final[i], 0); /* nothing comes after the last output */
    for (size_t k = 0; k < o->n_token_ids; k++)
        di_require(di_ids_push(&t->tokens[i], o->token_ids[k]));
    if (o->n_token_ids && t->request.sampling.n_logprobs >= 0)
        assert_int_equal(o->logprobs[0].entries[0].token_id, o->token_ids[0]);
    t->n_final[i] += o->finish_reason != DI_FINISH_NONE;
    t->reason[i] = o->finish_reason;
}

static void poll_all(di_engine *engine, traffic *all, size_t n)
{
    di_output output;
    while (di_engine_poll(engine, &output)) {
        assert_in_range(output.id, 1, n);
        assert_int_equal(all[output.id - 1].id, output.id);
        note_output(&all[output.id - 1], &output);
    }
}

/* Steps until all is done; every so many steps everything is checked. */
static void run_all(di_engine *engine, di_null_device *device, traffic *all, size_t n, int every)
{
    bool has_work = true;
    for (int step = 1; has_work; step++) {
        di_require(di_engine_step(engine, &has_work));
        poll_all(engine, all, n);
        if (step % every == 0)
            di_check_engine(engine, device);
        assert_true(step < 20000);
    }
}

static void check_sample(const di_null_device *device, const traffic *t, int32_t sample)
{
    di_expected e;
    di_expect(device, model, &t->request, sample, &e);
    assert_int_equal(t->n_final[sample], 1);
    if (t->reason[sample] == DI_FINISH_CANCELLED) {
        assert_true(t->is_cancelled);
        assert_true(t->tokens[sample].len <= e.tokens.len);
    } else {
        assert_int_equal(t->reason[sample], e.reason);
        assert_int_equal(t->tokens[sample].len, e.tokens.len);
    }
    if (t->tokens[sample].len)
        assert_memory_equal(t->tokens[sample].data, e.tokens.data,
                            t->tokens[sample].len * sizeof *e.tokens.data);
    di_ids_free(&e.tokens);
}

/* The result says what the outputs said. */
static void check_result(di_engine *engine, const traffic *t)
{
    di_result *result;
    di_require(di_engine_take_result(engine, t->id, &result));
    int32_t i = 0;
    for (const di_result *r = result; r; r = r->next, i++) {
        assert_int_equal(r->sample_index, i);
        assert_int_equal(r->finish_reason, t->reason[i]);
        assert_int_equal(r->n_token_ids, t->tokens[i].len);
        assert_int_equal(r->n_prompt_token_ids, t->request.n_token_ids);
        assert_true(r->n_cached_tokens < r->n_prompt_token_ids);
        if (r->n_token_ids)
            assert_memory_equal(r->token_ids, t->tokens[i].data,
                                r->n_token_ids * sizeof *r->token_ids);
    }
    assert_int_equal(i, t->request.sampling.n);
    di_result_free(result);
}

static void check_all(di_engine *engine, const di_null_device *device, const traffic *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (int32_t s = 0; s < all[i].request.sampling.n; s++)
            check_sample(device, &all[i], s);
        check_result(engine, &all[i]);
    }
    assert_null(engine->finished.first);
    di_check_idle(engine, device);
}

/* Bytes of a KV budget that holds about `n_blocks` blocks of every group. */
static int64_t kv_bytes(int64_t n_blocks)
{
    di_kv_layout layout;
    di_kv_layout_init(&model->config, &layout);
    int64_t bytes = 2 * layout.groups[0].block_bytes;
    for (int g = 1; g < layout.n_groups; g++)
        bytes += layout.groups[g].block_bytes;
    return n_blocks * bytes;
}

/* ------------------------------------------------------------------------------- configurations */

typedef struct setting {
    di_null_pace pace;
    const char *async, *prefix;
    int max_seqs, max_step_tokens;
    int64_t kv_blocks; /* 0 = plenty */
} setting;

static const setting settings[] = {
    {DI_NULL_AT_LAUNCH, "off", "off", 64, 512, 0},
    {DI_NULL_AT_LAUNCH, "off", "exact", 8, 64, 0},
    {DI_NULL_AT_LAUNCH, "on", "exact", 64, 7, 0},
    {DI_NULL_AT_NEXT_LAUNCH, "on", "exact", 64, 64, 0},
    {DI_NULL_AT_COLLECT, "on", "exact", 64, 512, 0},
    {DI_NULL_AT_COLLECT, "on", "off", 3, 33, 0},
    {DI_NULL_THREADED, "on", "exact", 64, 100, 0},
    {DI_NULL_AT_LAUNCH, "off", "exact", 16, 64, 12},
    {DI_NULL_AT_COLLECT, "on", "off", 16, 64, 12},
    {DI_NULL_AT_COLLECT, "on", "exact", 16, 200, 12},
    {DI_NULL_AT_NEXT_LAUNCH, "on", "exact", 16, 64, 1}, /* room for one whole sequence */
    {DI_NULL_THREADED, "on", "exact", 16, 512, 12},
};

static di_engine *make_engine(const setting *s, di_null_device *device)
{
    const di_options options = {
        .n_threads = 1,
        .max_step_tokens = s->max_step_tokens,
        .max_seqs = s->max_seqs,
        .prefix_cache = s->prefix,
        .async_scheduling = s->async,
        .kv_cache_bytes = s->kv_blocks ? kv_bytes(s->kv_blocks) : 0,
    };
    di_engine *engine;
    device->pace = s->pace;
    di_require(di_null_engine_create(device, model, &options, &engine));
    return engine;
}

static void run_setting(const setting *s, di_rng *rng)
{
    enum { N = 60 };
    traffic all[N];
    di_null_device device = {.bend = end_sometimes};
    di_engine *engine = make_engine(s, &device);
    for (int i = 0; i < N; i++) {
        make_request(rng, 400, 60, &all[i]);
        di_require(di_engine_submit(engine, &all[i].request, &all[i].id));
    }
    run_all(engine, &device, all, N, 1);
    di_engine_stats stats;
    di_engine_get_stats(engine, &stats);
    const bool is_timed = s->pace == DI_NULL_THREADED; /* what meets in the cache depends on time */
    if (s->kv_blocks && !is_timed)
        assert_true(stats.n_preemptions > 0);
    if (s->prefix[0] != 'e')
        assert_int_equal(stats.cached_prompt_tokens, 0);
    else if (!s->kv_blocks && !is_timed)
        assert_true(stats.cached_prompt_tokens > 0);
    check_all(engine, &device, all, N);
    di_engine_destroy(engine);
    for (int i = 0; i < N; i++)
        free_traffic(&all[i]);
}

static void every_setting_gives_the_same(void **state)
{
    (void)state;
    di_rng rng = di_rng_named("settings");
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        run_setting(&settings[i], &rng);
}

/* ------------------------------------------------------------------------------- many */

static void cancel_some(di_engine *engine, di_rng *rng, traffic *all, size_t n_submitted)
{
    const int64_t n = di_rng_below(rng, 3);
    for (int64_t i = 0; i < n && n_submitted > 0; i++) {
        /* mostly recent ones, which wait or run; also ended ones */
        const size_t back = (size_t)di_rng_below(rng, 120);
        traffic *t = &all[n_submitted > back ? n_submitted - 1 - back : 0];
        t->is_cancelled = true;
        di_engine_cancel(engine, t->id);
    }
}

static void run_many(di_null_pace pace, size_t n, int64_t kv_blocks)
{
    di_rng rng = di_rng_named("many");
    di_null_device device = {.bend = end_sometimes};
    const setting s = {pace, pace == DI_NULL_AT_LAUNCH ? "off" : "on", "exact", 48, 256, kv_blocks};
    di_engine *engine = make_engine(&s, &device);
    traffic *all = calloc(n, sizeof *all);
    assert_non_null(all);
    size_t n_submitted = 0, n_cancelled = 0;
    bool has_work = true;
    for (int step = 1; has_work || n_submitted < n; step++) {
        for (int64_t k = di_rng_below(&rng, 14); k > 0 && n_submitted < n; k--) {
            traffic *t = &all[n_submitted++];
            make_request(&rng, di_rng_below(&rng, 20) ? 40 : 300, 16, t);
            di_require(di_engine_submit(engine, &t->request, &t->id));
        }
        cancel_some(engine, &rng, all, n_submitted);
        di_require(di_engine_step(engine, &has_work));
        poll_all(engine, all, n_submitted);
        if (step % 64 == 0)
            di_check_engine(engine, &device);
    }
    for (size_t i = 0; i < n; i++)
        n_cancelled += all[i].reason[0] == DI_FINISH_CANCELLED;
    print_message("%zu requests, %zu cancelled in flight\n", n, n_cancelled);
    assert_true(n_cancelled > n / 25);
    check_all(engine, &device, all, n);
    di_engine_destroy(engine);
    for (size_t i = 0; i < n; i++)
        free_traffic(&all[i]);
    free(all);
}

static void ten_thousand_requests(void **state)
{
    (void)state;
    run_many(DI_NULL_AT_COLLECT, 10000 / DI_TEST_SHARE, 0);
}

static void many_on_a_thread_with_little_room(void **state)
{
    (void)state;
    run_many(DI_NULL_THREADED, 1600 / DI_TEST_SHARE, 24);
}

/* ------------------------------------------------------------------------------- ends */

static di_request plain_request(const int32_t *prompt, size_t n_prompt, int64_t max_tokens)
{
    di_request r = DI_REQUEST_INIT;
    r.token_ids = prompt;
    r.n_token_ids = n_prompt;
    r.sampling.temperature = 0;
    r.sampling.max_tokens = max_tokens;
    r.sampling.has_seed = true;
    return r;
}

static void submit(di_engine *engine, traffic *t)
{
    di_require(di_engine_submit(engine, &t->request, &t->id));
}

static const int32_t counting[] = {3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                   17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30};

/* The token at position *user ends the text; no other does. */
static void end_at(void *user, uint64_t history, int64_t position, float *logits)
{
    (void)history;
    logits[EOS] = position == *(const int64_t *)user ? 30.0f : -30.0f;
}

/* EOS just before, at and after max_tokens, async or not: the same outputs; a row is wasted only
 * when the end was not foreseen, and only one. */
static void late_stops_waste_one_row(void **state)
{
    (void)state;
    enum { N_PROMPT = 10, MAX_NEW = 6 };
    for (int64_t eos_at = 1; eos_at <= MAX_NEW + 1; eos_at++) {
        for (int pace = DI_NULL_AT_LAUNCH; pace <= DI_NULL_THREADED; pace++) {
            for (int is_async = 0; is_async <= 1; is_async++) {
                int64_t position = N_PROMPT + eos_at - 1;
                di_null_device device = {.bend = end_at, .user = &position};
                const setting s = {(di_null_pace)pace, is_async ? "on" : "off", "exact", 8, 64, 0};
                di_engine *engine = make_engine(&s, &device);
                traffic t = {.request = plain_request(counting, N_PROMPT, MAX_NEW)};
                submit(engine, &t);
                run_all(engine, &device, &t, 1, 1);
                const size_t n_wanted = (size_t)(eos_at < MAX_NEW ? eos_at : MAX_NEW);
                assert_int_equal(t.tokens[0].len, n_wanted);
                assert_int_equal(t.reason[0],
                                 eos_at <= MAX_NEW ? DI_FINISH_STOP : DI_FINISH_LENGTH);
                di_engine_stats stats;
                di_engine_get_stats(engine, &stats);
                assert_int_equal(stats.wasted_rows, is_async && eos_at < MAX_NEW);
                assert_int_equal(stats.computed_tokens,
                                 N_PROMPT + n_wanted - 1 + stats.wasted_rows);
                assert_int_equal(stats.generated_tokens, n_wanted);
                check_all(engine, &device, &t, 1);
                di_engine_destroy(engine);
                free_traffic(&t);
            }
        }
    }
}

/* A sequence ends while its next row is in flight; another one takes the places at once. Its slot
 * is not reused before the row has been collected. */
static void a_slot_is_not_reused_in_flight(void **state)
{
    (void)state;
    enum { N = 12, N_PROMPT = 10 };
    int64_t position = N_PROMPT + 3;
    di_null_device device = {.bend = end_at, .user = &position};
    const setting s = {DI_NULL_AT_COLLECT, "on", "off", 1, 64, 0};
    di_engine *engine = make_engine(&s, &device);
    traffic all[N];
    for (int i = 0; i < N; i++) {
        all[i] = (traffic){.request = plain_request(counting + i, N_PROMPT, 20)};
        submit(engine, &all[i]);
    }
    run_all(engine, &device, all, N, 1);
    di_engine_stats stats;
    di_engine_get_stats(engine, &stats);
    assert_int_equal(stats.wasted_rows, N); /* every one ended late */
    assert_int_equal(engine->slots.n_slots, 2);
    check_all(engine, &device, all, N);
    di_engine_destroy(engine);
    for (int i = 0; i < N; i++)
        free_traffic(&all[i]);
}

/* K10: a request that would go on for long is gone within a step after its cancellation, waiting
 * or running; 200 times, and the pools are as before. */
static void cancel_frees_within_a_step(void **state)
{
    (void)state;
    for (int pace = DI_NULL_AT_LAUNCH; pace <= DI_NULL_THREADED; pace++) {
        di_null_device device = {.pace = DI_NULL_AT_LAUNCH};
        const setting s = {(di_null_pace)pace, "on", "exact", 8, 64, 0};
        di_engine *engine = make_engine(&s, &device);
        for (int turn = 0; turn < 200; turn++) {
            traffic t = {.request = plain_request(counting + turn % 10, 10, 100000)};
            t.request.sampling.ignore_eos = true;
            t.request.sampling.n = 1 + turn % 3;
            t.is_cancelled = true;
            submit(engine, &t);
            bool has_work = true;
            di_output output;
            for (int step = 0; step < turn % 6; step++)
                di_require(di_engine_step(engine, &has_work));
            di_engine_cancel(engine, t.id);
            di_require(di_engine_step(engine, &has_work));
            di_engine_stats stats;
            di_engine_get_stats(engine, &stats);
            assert_int_equal(stats.kv_blocks_used, 0);
            assert_int_equal(stats.n_running + stats.n_waiting, 0);
            while (has_work)
                di_require(di_engine_step(engine, &has_work));
            while (di_engine_poll(engine, &output))
                note_output(&t, &output);
            for (int i = 0; i < t.request.sampling.n; i++) {
                assert_int_equal(t.n_final[i], 1);
                assert_int_equal(t.reason[i], DI_FINISH_CANCELLED);
            }
            di_engine_cancel(engine, t.id); /* an end that was already there */
            check_result(engine, &t);
            di_check_idle(engine, &device);
            free_traffic(&t);
        }
        di_engine_destroy(engine);
    }
}

typedef struct canceller {
    di_engine *engine;
    di_request_id ids[1000];
    di_status status;
} canceller;

enum { N_CANCELLED = sizeof((canceller *)0)->ids / sizeof(di_request_id) };

static void *submit_and_cancel(void *arg)
{
    canceller *c = arg;
    for (int i = 0; i < N_CANCELLED && c->status == DI_OK; i++) {
        di_request r = plain_request(counting, 10, 100000);
        r.sampling.ignore_eos = true;
        c->status = di_engine_submit(c->engine, &r, &c->ids[i]);
        di_engine_cancel(c->engine, c->ids[i]);
    }
    return NULL;
}

/* A cancellation is never lost, whatever the step does meanwhile. */
static void cancel_right_after_submit(void **state)
{
    (void)state;
    /* Slow enough that none of them ends by itself before its cancellation comes. */
    di_null_device device = {.pass_ns = 1000000};
    const setting s = {DI_NULL_THREADED, "on", "off", 8, 64, 0};
    di_engine *engine = make_engine(&s, &device);
    canceller c = {.engine = engine};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, submit_and_cancel, &c), 0);
    bool has_work = true;
    int n_final = 0, n_steps = 0;
    while (n_final < N_CANCELLED) {
        di_output output;
        di_require(di_engine_step(engine, &has_work));
        while (di_engine_poll(engine, &output)) {
            if (output.finish_reason == DI_FINISH_NONE)
                continue;
            assert_int_equal(output.finish_reason, DI_FINISH_CANCELLED);
            n_final++;
        }
        assert_true(++n_steps < 100000000);
    }
    pthread_join(thread, NULL);
    di_require(c.status);
    while (has_work)
        di_require(di_engine_step(engine, &has_work));
    di_check_idle(engine, &device);
    di_engine_destroy(engine);
}

static void deadlines_end_requests(void **state)
{
    (void)state;
    di_null_device device = {.bend = NULL};
    const setting s = {DI_NULL_AT_COLLECT, "on", "exact", 2, 64, 0};
    di_engine *engine = make_engine(&s, &device);
    di_fake_clock clock = {.now_ns = 0};
    di_fake_clock_use(&clock, engine);
    const int64_t timeouts[] = {0, 7, 9, INT64_MAX};
    traffic all[4];
    for (int i = 0; i < 4; i++) {
        all[i] = (traffic){.request = plain_request(counting + i, 10, 12)};
        all[i].request.timeout_ms = timeouts[i];
        all[i].request.sampling.ignore_eos = true;
        all[i].request.sampling.n = i == 1 ? 2 : 1; /* waits for both places */
        submit(engine, &all[i]);
    }
    bool has_work = true;
    for (int step = 0; has_work; step++) {
        clock.now_ns = step * INT64_C(1000000);
        di_require(di_engine_step(engine, &has_work));
        poll_all(engine, all, 4);
        di_check_engine(engine, &device);
        const bool is_over = all[1].n_final[0] > 0;
        assert_int_equal(is_over, step >= 7); /* at the deadline, not before or after */
    }
    di_result *result;
    for (int i = 0; i < 4; i++) {
        const bool is_late = i == 1 || i == 2;
        assert_int_equal(all[i].n_final[0], 1);
        assert_int_equal(all[i].reason[0], is_late ? DI_FINISH_ERROR : DI_FINISH_LENGTH);
        di_require(di_engine_take_result(engine, all[i].id, &result));
        assert_int_equal(result->status, is_late ? DI_ERR_CANCELLED : DI_OK);
        if (i == 1)
            assert_string_equal(result->error, "timeout: the request did not end within 7 ms");
        di_result_free(result);
        free_traffic(&all[i]);
    }
    di_check_idle(engine, &device);
    di_engine_destroy(engine);
}

/* ------------------------------------------------------------------------------- failures */

/* A pass that fails ends what depends on it, all samples of it, and nothing that waits; nobody is
 * given entries it should have computed. */
static void failed_passes(void **state)
{
    (void)state;
    enum { N = 12 };
    int n_failed = 0, n_ended = 0;
    di_rng rng = di_rng_named("failures");
    for (int turn = 0; turn < 60; turn++) {
        di_null_device device = {.failed_pass = (uint64_t)di_rng_between(&rng, 1, 12)};
        const setting s = {(di_null_pace)(turn % 4), turn % 3 ? "on" : "off", "exact", 5, 64, 0};
        di_engine *engine = make_engine(&s, &device);
        traffic all[N];
        for (int i = 0; i < N; i++) {
            make_request(&rng, 250, 10, &all[i]);
            if (i >= N / 2) { /* a longer version of an earlier one */
                const traffic *t = &all[i - N / 2];
                free(all[i].prompt);
                all[i].prompt = NULL;
                all[i].request.token_ids = t->prompt;
                all[i].request.n_token_ids = t->request.n_token_ids;
            }
            submit(engine, &all[i]);
        }
        run_all(engine, &device, all, N, 1);
        for (int i = 0; i < N; i++) {
            for (int32_t k = 0; k < all[i].request.sampling.n; k++) {
                n_failed += all[i].reason[k] == DI_FINISH_ERROR;
                n_ended += all[i].reason[k] != DI_FINISH_ERROR;
                assert_int_equal(all[i].n_final[k], 1);
                if (all[i].reason[k] != DI_FINISH_ERROR)
                    check_sample(&device, &all[i], k);
            }
            check_result(engine, &all[i]);
        }
        di_check_idle(engine, &device);
        di_engine_destroy(engine);
        for (int i = 0; i < N; i++)
            free_traffic(&all[i]);
    }
    assert_true(n_failed > 60 && n_ended > 60);
}

/* ------------------------------------------------------------------------------- reported
 * elsewhere */

/* K03: 16 requests with long outputs and room for about four. */
static void long_outputs_with_little_room(void **state)
{
    (void)state;
    enum { N = 16, N_PROMPT = 20, N_NEW = 400 };
    for (int is_async = 0; is_async <= 1; is_async++) {
        di_null_device device = {.bend = NULL};
        const setting s = {DI_NULL_AT_COLLECT, is_async ? "on" : "off", "exact", 16, 128, 28};
        di_engine *engine = make_engine(&s, &device);
        traffic all[N];
        for (int i = 0; i < N; i++) {
            all[i] = (traffic){.request = plain_request(counting + i % 8, N_PROMPT, N_NEW)};
            all[i].request.sampling.ignore_eos = true;
            all[i].request.sampling.temperature = i % 2;
            all[i].request.sampling.seed = (uint64_t)i;
            submit(engine, &all[i]);
        }
        run_all(engine, &device, all, N, 16);
        di_engine_stats stats;
        di_engine_get_stats(engine, &stats);
        assert_true(stats.n_preemptions > 0 && stats.n_preemptions <= 3 * N);
        assert_int_equal(stats.generated_tokens, N * N_NEW); /* each once */
        assert_int_equal(stats.prompt_tokens, N * N_PROMPT);
        check_all(engine, &device, all, N);
        di_engine_destroy(engine);
        for (int i = 0; i < N; i++)
            free_traffic(&all[i]);
    }
}

/* M01: a seeded request gives the same among neighbours without seeds; M02: those differ. */
static void seeds_among_unseeded_neighbours(void **state)
{
    (void)state;
    enum { MOST = 32 };
    const int sizes[] = {1, 2, MOST};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        di_null_device device = {.bend = NULL};
        const setting s = {DI_NULL_THREADED, "on", "exact", MOST, 128, 0};
        di_engine *engine = make_engine(&s, &device);
        traffic all[MOST];
        for (int i = 0; i < sizes[k]; i++) {
            all[i] = (traffic){.request = plain_request(counting, 20, 16)};
            all[i].request.sampling.temperature = 0.8;
            all[i].request.sampling.ignore_eos = true;
            all[i].request.sampling.has_seed = i == 0;
            all[i].request.sampling.seed = 42;
            submit(engine, &all[i]);
        }
        run_all(engine, &device, all, (size_t)sizes[k], 1);
        check_sample(&device, &all[0], 0);
        uint64_t seeds[MOST] = {0};
        for (int i = 0; i < sizes[k]; i++) {
            di_result *r;
            di_require(di_engine_take_result(engine, all[i].id, &r));
            seeds[i] = all[i].request.sampling.seed = r->seed;
            di_result_free(r);
            check_sample(&device, &all[i], 0); /* the reported seed repeats it */
            for (int j = 0; j < i; j++)
                assert_true(seeds[i] != seeds[j]);
        }
        assert_int_equal(seeds[0], 42);
        di_engine_destroy(engine);
        for (int i = 0; i < sizes[k]; i++)
            free_traffic(&all[i]);
    }
}

static int64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* `null_engine_test measure`: what the host costs per step, and how long the device waits for it.
 */
static void measure(di_null_device *device, int n_seqs, int64_t n_new, const char *what)
{
    const setting s = {device->pace, "on", "exact", n_seqs, 1024, 0};
    di_engine *engine = make_engine(&s, device);
    di_request_id id;
    for (int i = 0; i < n_seqs; i++) {
        di_request r = plain_request(counting + i % 16, 10, n_new);
        r.sampling.ignore_eos = true;
        di_require(di_engine_submit(engine, &r, &id));
    }
    bool has_work = true;
    di_engine_stats from, to;
    di_output output;
    int64_t cpu_ns = 0;
    for (int step = 0; has_work; step++) {
        const int64_t before = thread_cpu_ns();
        di_require(di_engine_step(engine, &has_work));
        cpu_ns += step > 20 && step < n_new - 10 ? thread_cpu_ns() - before : 0;
        while (di_engine_poll(engine, &output))
            continue;
        if (step == 20) /* warm, all running */
            di_engine_get_stats(engine, &from);
        if (step < n_new - 10)
            di_engine_get_stats(engine, &to);
    }
    const double n = (double)(to.n_steps - from.n_steps);
    const double idle = (double)(to.idle_ns - from.idle_ns);
    printf(
        "%s: %d sequences, %.0f steps, host %.2f us a step (%.2f us of CPU), device idle %.3f %%\n",
        what, n_seqs, n, (double)(to.schedule_ns - from.schedule_ns) / n / 1e3,
        (double)cpu_ns / n / 1e3, 100.0 * idle / (idle + (double)(to.busy_ns - from.busy_ns)));
    di_engine_destroy(engine);
}

static int measure_all(void)
{
    if (open_model(NULL) != 0)
        return 1;
    for (int n = 1; n <= 256; n *= 4) {
        di_null_device bare = {.pace = DI_NULL_BARE};
        measure(&bare, n, 480, "bare device");
    }
    for (int n = 4; n <= 64; n *= 4) {
        di_null_device slow = {.pace = DI_NULL_THREADED, .pass_ns = 1000000};
        measure(&slow, n, 300, "1 ms a pass");
    }
    return close_model(NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "measure") == 0)
        return measure_all();
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_gives_the_same),
        cmocka_unit_test(ten_thousand_requests),
        cmocka_unit_test(late_stops_waste_one_row),
        cmocka_unit_test(a_slot_is_not_reused_in_flight),
        cmocka_unit_test(cancel_frees_within_a_step),
        cmocka_unit_test(cancel_right_after_submit),
        cmocka_unit_test(deadlines_end_requests),
        cmocka_unit_test(failed_passes),
        cmocka_unit_test(long_outputs_with_little_room),
        cmocka_unit_test(seeds_among_unseeded_neighbours),
        cmocka_unit_test(many_on_a_thread_with_little_room),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
