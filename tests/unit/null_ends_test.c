/* How requests end, on the null device: late stops, cancellations, deadlines. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>

#include "fake_clock.h"
#include "traffic.h"

/* The token at position *user ends the text; no other does. */
static void end_at(void *user, uint64_t history, int64_t position, float *logits)
{
    (void)history;
    logits[DI_TRAFFIC_EOS] = position == *(const int64_t *)user ? 30.0f : -30.0f;
}

/* DI_TRAFFIC_EOS just before, at and after max_tokens, async or not: the same outputs; a row is
 * wasted only when the end was not foreseen, and only one. */
static void late_stops_waste_one_row(void **state)
{
    (void)state;
    enum { N_PROMPT = 10, MAX_NEW = 6 };
    for (int64_t eos_at = 1; eos_at <= MAX_NEW + 1; eos_at++) {
        for (int pace = DI_NULL_AT_LAUNCH; pace <= DI_NULL_THREADED; pace++) {
            for (int is_async = 0; is_async <= 1; is_async++) {
                int64_t position = N_PROMPT + eos_at - 1;
                di_null_device device = {.bend = end_at, .user = &position};
                const di_null_setting s = {
                    (di_null_pace)pace, is_async ? "on" : "off", "exact", 8, 64, 0};
                di_engine *engine = di_null_setting_engine(&s, &device);
                di_traffic t = {.request = di_plain_request(di_counting, N_PROMPT, MAX_NEW)};
                di_traffic_submit(engine, &t);
                di_traffic_run(engine, &device, &t, 1, 1);
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
                di_traffic_check(engine, &device, &t, 1);
                di_engine_destroy(engine);
                di_traffic_free(&t);
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
    const di_null_setting s = {DI_NULL_AT_COLLECT, "on", "off", 1, 64, 0};
    di_engine *engine = di_null_setting_engine(&s, &device);
    di_traffic all[N];
    for (int i = 0; i < N; i++) {
        all[i] = (di_traffic){.request = di_plain_request(di_counting + i, N_PROMPT, 20)};
        di_traffic_submit(engine, &all[i]);
    }
    di_traffic_run(engine, &device, all, N, 1);
    di_engine_stats stats;
    di_engine_get_stats(engine, &stats);
    assert_int_equal(stats.wasted_rows, N); /* every one ended late */
    assert_int_equal(engine->slots.n_slots, 2);
    di_traffic_check(engine, &device, all, N);
    di_engine_destroy(engine);
    for (int i = 0; i < N; i++)
        di_traffic_free(&all[i]);
}

/* K10: a request that would go on for long is gone within a step after its cancellation, waiting
 * or running; 200 times, and the pools are as before. */
static void cancel_frees_within_a_step(void **state)
{
    (void)state;
    for (int pace = DI_NULL_AT_LAUNCH; pace <= DI_NULL_THREADED; pace++) {
        di_null_device device = {.pace = DI_NULL_AT_LAUNCH};
        const di_null_setting s = {(di_null_pace)pace, "on", "exact", 8, 64, 0};
        di_engine *engine = di_null_setting_engine(&s, &device);
        for (int turn = 0; turn < 200; turn++) {
            di_traffic t = {.request = di_plain_request(di_counting + turn % 10, 10, 100000)};
            t.request.sampling.ignore_eos = true;
            t.request.sampling.n = 1 + turn % 3;
            t.is_cancelled = true;
            di_traffic_submit(engine, &t);
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
                di_traffic_note(&t, &output);
            for (int i = 0; i < t.request.sampling.n; i++) {
                assert_int_equal(t.n_final[i], 1);
                assert_int_equal(t.reason[i], DI_FINISH_CANCELLED);
            }
            di_engine_cancel(engine, t.id); /* an end that was already there */
            di_traffic_check_result(engine, &t);
            di_check_idle(engine, &device);
            di_traffic_free(&t);
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
        di_request r = di_plain_request(di_counting, 10, 100000);
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
    const di_null_setting s = {DI_NULL_THREADED, "on", "off", 8, 64, 0};
    di_engine *engine = di_null_setting_engine(&s, &device);
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
    const di_null_setting s = {DI_NULL_AT_COLLECT, "on", "exact", 2, 64, 0};
    di_engine *engine = di_null_setting_engine(&s, &device);
    di_fake_clock clock = {.now_ns = 0};
    di_fake_clock_use(&clock, engine);
    const int64_t timeouts[] = {0, 7, 9, INT64_MAX};
    di_traffic all[4];
    for (int i = 0; i < 4; i++) {
        all[i] = (di_traffic){.request = di_plain_request(di_counting + i, 10, 12)};
        all[i].request.timeout_ms = timeouts[i];
        all[i].request.sampling.ignore_eos = true;
        all[i].request.sampling.n = i == 1 ? 2 : 1; /* waits for both places */
        di_traffic_submit(engine, &all[i]);
    }
    bool has_work = true;
    for (int step = 0; has_work; step++) {
        clock.now_ns = step * INT64_C(1000000);
        di_require(di_engine_step(engine, &has_work));
        di_traffic_poll(engine, all, 4);
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
        di_traffic_free(&all[i]);
    }
    di_check_idle(engine, &device);
    di_engine_destroy(engine);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_stops_waste_one_row),
        cmocka_unit_test(a_slot_is_not_reused_in_flight),
        cmocka_unit_test(cancel_frees_within_a_step),
        cmocka_unit_test(cancel_right_after_submit),
        cmocka_unit_test(deadlines_end_requests),
    };
    return cmocka_run_group_tests(tests, di_traffic_open_model, di_traffic_close_model);
}
