/* Failed passes, and what was reported of other engines, on the null device. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "traffic.h"

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
        const di_null_setting s = {
            (di_null_pace)(turn % 4), turn % 3 ? "on" : "off", "exact", 5, 64, 0};
        di_engine *engine = di_null_setting_engine(&s, &device);
        di_traffic all[N];
        for (int i = 0; i < N; i++) {
            di_traffic_make(&rng, 250, 10, &all[i]);
            if (i >= N / 2) { /* a longer version of an earlier one */
                const di_traffic *t = &all[i - N / 2];
                free(all[i].prompt);
                all[i].prompt = NULL;
                all[i].request.token_ids = t->prompt;
                all[i].request.n_token_ids = t->request.n_token_ids;
            }
            di_traffic_submit(engine, &all[i]);
        }
        di_traffic_run(engine, &device, all, N, 1);
        for (int i = 0; i < N; i++) {
            for (int32_t k = 0; k < all[i].request.sampling.n; k++) {
                n_failed += all[i].reason[k] == DI_FINISH_ERROR;
                n_ended += all[i].reason[k] != DI_FINISH_ERROR;
                assert_int_equal(all[i].n_final[k], 1);
                if (all[i].reason[k] != DI_FINISH_ERROR)
                    di_traffic_check_sample(&device, &all[i], k);
            }
            di_traffic_check_result(engine, &all[i]);
        }
        di_check_idle(engine, &device);
        di_engine_destroy(engine);
        for (int i = 0; i < N; i++)
            di_traffic_free(&all[i]);
    }
    assert_true(n_failed > 60 && n_ended > 60);
}

/* Four decodes a pass of eight that run: those that the failed pass had end, the others go on. */
static void a_failed_pass_ends_its_own(void **state)
{
    (void)state;
    enum { N = 8, N_PROMPT = 10, STEP = 4 };
    for (int is_async = 0; is_async <= 1; is_async++) {
        di_null_device device = {.failed_pass = 40};
        const di_null_setting s = {
            DI_NULL_AT_COLLECT, is_async ? "on" : "off", "exact", N, STEP, 0};
        di_engine *engine = di_null_setting_engine(&s, &device);
        di_traffic all[N];
        for (int i = 0; i < N; i++) {
            all[i] = (di_traffic){.request = di_plain_request(di_counting + i, N_PROMPT, 30)};
            all[i].request.sampling.ignore_eos = true;
            di_traffic_submit(engine, &all[i]);
        }
        di_traffic_run(engine, &device, all, N, 1);
        int n_failed = 0;
        for (int i = 0; i < N; i++) {
            n_failed += all[i].reason[0] == DI_FINISH_ERROR;
            if (all[i].reason[0] != DI_FINISH_ERROR)
                di_traffic_check_sample(&device, &all[i], 0);
            di_traffic_check_result(engine, &all[i]);
            di_traffic_free(&all[i]);
        }
        assert_in_range(n_failed, 1, STEP);
        di_check_idle(engine, &device);
        di_engine_destroy(engine);
    }
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
        const di_null_setting s = {
            DI_NULL_AT_COLLECT, is_async ? "on" : "off", "exact", 16, 128, 28};
        di_engine *engine = di_null_setting_engine(&s, &device);
        di_traffic all[N];
        for (int i = 0; i < N; i++) {
            all[i] =
                (di_traffic){.request = di_plain_request(di_counting + i % 8, N_PROMPT, N_NEW)};
            all[i].request.sampling.ignore_eos = true;
            all[i].request.sampling.temperature = i % 2;
            all[i].request.sampling.seed = (uint64_t)i;
            di_traffic_submit(engine, &all[i]);
        }
        di_traffic_run(engine, &device, all, N, 16);
        di_engine_stats stats;
        di_engine_get_stats(engine, &stats);
        assert_true(stats.n_preemptions > 0 && stats.n_preemptions <= 3 * N);
        assert_int_equal(stats.generated_tokens, N * N_NEW); /* each once */
        assert_int_equal(stats.prompt_tokens, N * N_PROMPT);
        di_traffic_check(engine, &device, all, N);
        di_engine_destroy(engine);
        for (int i = 0; i < N; i++)
            di_traffic_free(&all[i]);
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
        const di_null_setting s = {DI_NULL_THREADED, "on", "exact", MOST, 128, 0};
        di_engine *engine = di_null_setting_engine(&s, &device);
        di_traffic all[MOST];
        for (int i = 0; i < sizes[k]; i++) {
            all[i] = (di_traffic){.request = di_plain_request(di_counting, 20, 16)};
            all[i].request.sampling.temperature = 0.8;
            all[i].request.sampling.ignore_eos = true;
            all[i].request.sampling.has_seed = i == 0;
            all[i].request.sampling.seed = 42;
            di_traffic_submit(engine, &all[i]);
        }
        di_traffic_run(engine, &device, all, (size_t)sizes[k], 1);
        di_traffic_check_sample(&device, &all[0], 0);
        uint64_t seeds[MOST] = {0};
        for (int i = 0; i < sizes[k]; i++) {
            di_result *r;
            di_require(di_engine_take_result(engine, all[i].id, &r));
            seeds[i] = all[i].request.sampling.seed = r->seed;
            di_result_free(r);
            di_traffic_check_sample(&device, &all[i], 0); /* the reported seed repeats it */
            for (int j = 0; j < i; j++)
                assert_true(seeds[i] != seeds[j]);
        }
        assert_int_equal(seeds[0], 42);
        di_engine_destroy(engine);
        for (int i = 0; i < sizes[k]; i++)
            di_traffic_free(&all[i]);
    }
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_passes),
        cmocka_unit_test(a_failed_pass_ends_its_own),
        cmocka_unit_test(long_outputs_with_little_room),
        cmocka_unit_test(seeds_among_unseeded_neighbours),
    };
    return cmocka_run_group_tests(tests, di_traffic_open_model, di_traffic_close_model);
}
