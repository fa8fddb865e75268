/* The engine around the di_traffic_model, many requests at once: scheduling, KV blocks, slots,
 * sampling. On the null device (di_traffic.h). `null_engine_test measure` measures the host. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>
#include <time.h>

#include "traffic.h"

static const di_null_setting settings[] = {
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
    {DI_NULL_AT_LAUNCH, "off", "exact", 64, 512, 0, 5, "off"},
    {DI_NULL_AT_LAUNCH, "off", "exact", 16, 64, 12, 1, "off"},
    {DI_NULL_AT_NEXT_LAUNCH, "on", "exact", 64, 64, 0, 16, "off"},
    {DI_NULL_AT_COLLECT, "on", "exact", 64, 512, 0, 5, "off"},
    {DI_NULL_AT_COLLECT, "on", "off", 16, 64, 12, 3, "off"},
    {DI_NULL_AT_NEXT_LAUNCH, "on", "exact", 16, 64, 1, 1, "off"},
    {DI_NULL_THREADED, "on", "exact", 16, 200, 12, 5, "off"},
    {DI_NULL_AT_COLLECT, "on", "exact", 48, 100, 0, 5, "on"},
    {DI_NULL_AT_LAUNCH, "off", "exact", 16, 64, 12, 3, "on"},
};

static void run_setting(const di_null_setting *s, di_rng *rng)
{
    enum { N = 60 };
    di_traffic all[N];
    di_null_device device = {.bend = di_end_sometimes};
    di_engine *engine = di_null_setting_engine(s, &device);
    for (int i = 0; i < N; i++) {
        di_traffic_make(rng, 400, 60, &all[i]);
        di_require(di_engine_submit(engine, &all[i].request, &all[i].id));
    }
    di_traffic_run(engine, &device, all, N, 1);
    di_engine_stats stats;
    di_engine_get_stats(engine, &stats);
    const bool is_fixed = s->wrong_drafts && s->varlen[1] == 'f';
    if (is_fixed && s->wrong_drafts < 16)
        assert_true(stats.accepted_drafts > stats.verified_drafts / 5);
    else if (is_fixed) /* right by chance */
        assert_true(stats.accepted_drafts < stats.verified_drafts / 20);
    else if (!s->wrong_drafts)
        assert_int_equal(stats.drafted_tokens, 0);
    if (s->wrong_drafts)
        print_message("%d of 16 wrong: %llu steps, %llu tokens, %llu verified, %llu accepted\n",
                      s->wrong_drafts, (unsigned long long)stats.n_steps,
                      (unsigned long long)stats.generated_tokens,
                      (unsigned long long)stats.verified_drafts,
                      (unsigned long long)stats.accepted_drafts);
    const bool is_timed = s->pace == DI_NULL_THREADED; /* what meets in the cache depends on time */
    if (s->kv_blocks && !is_timed && !s->wrong_drafts)
        assert_true(stats.n_preemptions > 0);
    if (s->prefix[0] != 'e')
        assert_int_equal(stats.cached_prompt_tokens, 0);
    else if (!s->kv_blocks && !is_timed)
        assert_true(stats.cached_prompt_tokens > 0);
    /* What preempted requests find of themselves when they come back is not among them. */
    assert_int_equal(stats.cached_prompt_tokens, di_traffic_check(engine, &device, all, N));
    di_engine_destroy(engine);
    for (int i = 0; i < N; i++)
        di_traffic_free(&all[i]);
}

static void every_setting_gives_the_same(void **state)
{
    (void)state;
    di_rng rng = di_rng_named("settings");
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        run_setting(&settings[i], &rng);
}

/* ------------------------------------------------------------------------------- many */

static void cancel_some(di_engine *engine, di_rng *rng, di_traffic *all, size_t n_submitted)
{
    const int64_t n = di_rng_below(rng, 3);
    for (int64_t i = 0; i < n && n_submitted > 0; i++) {
        /* mostly recent ones, which wait or run; also ended ones */
        const size_t back = (size_t)di_rng_below(rng, 120);
        di_traffic *t = &all[n_submitted > back ? n_submitted - 1 - back : 0];
        t->is_cancelled = true;
        di_engine_cancel(engine, t->id);
    }
}

static void run_many(di_null_pace pace, size_t n, int64_t kv_blocks)
{
    di_rng rng = di_rng_named("many");
    di_null_device device = {.bend = di_end_sometimes};
    const di_null_setting s = {pace,     pace == DI_NULL_AT_LAUNCH ? "off" : "on", "exact", 48, 256,
                               kv_blocks};
    di_engine *engine = di_null_setting_engine(&s, &device);
    di_traffic *all = calloc(n, sizeof *all);
    assert_non_null(all);
    size_t n_submitted = 0, n_cancelled = 0;
    bool has_work = true;
    for (int step = 1; has_work || n_submitted < n; step++) {
        for (int64_t k = di_rng_below(&rng, 14); k > 0 && n_submitted < n; k--) {
            di_traffic *t = &all[n_submitted++];
            di_traffic_make(&rng, di_rng_below(&rng, 20) ? 40 : 300, 16, t);
            di_require(di_engine_submit(engine, &t->request, &t->id));
        }
        cancel_some(engine, &rng, all, n_submitted);
        di_require(di_engine_step(engine, &has_work));
        di_traffic_poll(engine, all, n_submitted);
        if (step % 64 == 0)
            di_check_engine(engine, &device);
    }
    for (size_t i = 0; i < n; i++)
        n_cancelled += all[i].reason[0] == DI_FINISH_CANCELLED;
    print_message("%zu requests, %zu cancelled in flight\n", n, n_cancelled);
    assert_true(n_cancelled > n / 25);
    di_traffic_check(engine, &device, all, n);
    di_engine_destroy(engine);
    for (size_t i = 0; i < n; i++)
        di_traffic_free(&all[i]);
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
    const di_null_setting s = {device->pace, "on", "exact", n_seqs, 1024, 0};
    di_engine *engine = di_null_setting_engine(&s, device);
    di_request_id id;
    for (int i = 0; i < n_seqs; i++) {
        di_request r = di_plain_request(di_counting + i % 16, 10, n_new);
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

/* `measure N` is the host alone, at N sequences. */
static int measure_all(int n_seqs)
{
    if (di_traffic_open_model(NULL) != 0)
        return 1;
    if (n_seqs > 0) {
        di_null_device bare = {.pace = DI_NULL_BARE};
        measure(&bare, n_seqs, 480, "bare device");
        return di_traffic_close_model(NULL);
    }
    for (int n = 1; n <= 256; n *= 4) {
        di_null_device bare = {.pace = DI_NULL_BARE};
        measure(&bare, n, 480, "bare device");
    }
    for (int n = 4; n <= 64; n *= 4) {
        di_null_device slow = {.pace = DI_NULL_THREADED, .pass_ns = 1000000};
        measure(&slow, n, 300, "1 ms a pass");
    }
    return di_traffic_close_model(NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "measure") == 0)
        return measure_all(argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0);
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_gives_the_same),
        cmocka_unit_test(ten_thousand_requests),
        cmocka_unit_test(many_on_a_thread_with_little_room),
    };
    return cmocka_run_group_tests(tests, di_traffic_open_model, di_traffic_close_model);
}
