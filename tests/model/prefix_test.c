/* Long prompts, prefix hits and turns on golden/small (window 128, context 2048): with a hit, after
 * the window's blocks were taken by others, in chunks: the bits of a cold run in one pass. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine_check.h"
#include "random.h"

enum { N_NEW = 8, LONG = DI_TEST_SHARE > 1 ? 400 : 2048 - N_NEW };

static di_model *model;
static int32_t text[2048];

static int open_model(void **state)
{
    (void)state;
    di_rng rng = di_rng_named("text");
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++)
        text[i] = (int32_t)di_rng_between(&rng, 3, 1200);
    return di_model_open(DI_TEST_DATA "/golden/small", NULL, &model) == DI_OK ? 0 : -1;
}

static int close_model(void **state)
{
    (void)state;
    di_model_close(model);
    return 0;
}

static di_engine *make_engine(const char *prefix_cache, int max_step_tokens, int64_t kv_bytes)
{
    const di_options options = {.n_threads = 2,
                                .prefix_cache = prefix_cache,
                                .max_step_tokens = max_step_tokens,
                                .kv_cache_bytes = kv_bytes};
    di_engine *engine;
    di_require(di_engine_create(model, &options, &engine));
    return engine;
}

static di_result *generate(di_engine *engine, const int32_t *ids, size_t n, int64_t n_new)
{
    di_request r = DI_REQUEST_INIT;
    r.token_ids = ids;
    r.n_token_ids = n;
    r.sampling.temperature = 0;
    r.sampling.max_tokens = n_new;
    r.sampling.ignore_eos = true;
    r.sampling.n_logprobs = 4;
    di_result *result;
    di_require(di_generate(engine, &r, NULL, NULL, &result));
    return result;
}

static void assert_same(const di_result *a, const di_result *b)
{
    assert_int_equal(a->n_token_ids, b->n_token_ids);
    assert_memory_equal(a->token_ids, b->token_ids, a->n_token_ids * sizeof *a->token_ids);
    for (size_t i = 0; i < a->n_token_ids; i++)
        assert_memory_equal(a->logprobs[i].entries, b->logprobs[i].entries,
                            5 * sizeof *a->logprobs[i].entries);
}

/* K06, K12, V11: a prompt as long as the context whole, in chunks, again (nearly all of it is a
 * hit), and again after other long prompts. */
static void a_long_prompt_again(void **state)
{
    (void)state;
    di_engine *cold = make_engine("off", 2048, 0);
    di_result *whole = generate(cold, text, LONG, N_NEW);
    di_engine_destroy(cold);
    const int chunks[] = {200};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        di_engine *engine = make_engine("exact", chunks[i], 0);
        for (int turn = 0; turn < 3; turn++) {
            di_result *r = generate(engine, text, LONG, N_NEW);
            assert_int_equal(r->n_cached_tokens, turn ? (LONG - 1) / 64 * 64 : 0);
            assert_same(whole, r);
            di_result_free(r);
            if (turn == 1)
                di_result_free(generate(engine, text + 300, LONG / 4, 2));
        }
        di_engine_destroy(engine);
    }
    di_result_free(whole);
}

/* Blocks are scarce: another long prompt takes windows or compressed blocks of the first one. A hit
 * may then be shorter, never stale. */
static void evicted_in_between(void **state)
{
    (void)state;
    enum { N = 300, N_TURNS = 3 };
    di_engine *cold = make_engine("off", 2048, 0);
    di_result *whole = generate(cold, text, N, N_NEW);
    di_engine_destroy(cold);
    di_engine *engine = make_engine("exact", 256, 1); /* the least: one context */
    size_t n_cached = 0;
    for (int turn = 0; turn < N_TURNS; turn++) {
        di_result *r = generate(engine, text, N, N_NEW);
        assert_same(whole, r);
        n_cached += r->n_cached_tokens;
        di_result_free(r);
        di_result_free(generate(engine, text + 900, (turn ? 1000 : 150), 2));
        di_check_engine(engine, NULL);
    }
    print_message("%zu of %d tokens were hits\n", n_cached, N_TURNS * N);
    di_result_free(whole);
    di_engine_destroy(engine);
}

/* K07: turn 2 is turn 1, its answer with EOS (or without) and new text. What was cached is what it
 * is keyed by: with the cache as without. */
static void turns(void **state)
{
    (void)state;
    enum { EOS = 1, N = 180, N_ANSWER = 10 };
    for (int has_eos = 0; has_eos <= 1; has_eos++) {
        di_engine *engine = make_engine("exact", 256, 0), *cold = make_engine("off", 256, 0);
        int32_t ids[600];
        memcpy(ids, text, N * sizeof *ids);
        size_t n = N;
        for (int turn = 0; turn < 3; turn++) {
            di_result *a = generate(engine, ids, n, N_ANSWER),
                      *b = generate(cold, ids, n, N_ANSWER);
            assert_same(b, a);
            if (turn > 0) /* the turns before, as far as whole blocks go */
                assert_true(a->n_cached_tokens >= (n - 30) / 64 * 64 - 64);
            memcpy(ids + n, a->token_ids, a->n_token_ids * sizeof *ids);
            n += a->n_token_ids;
            if (has_eos)
                ids[n++] = EOS;
            for (int i = 0; i < 25; i++)
                ids[n++] = text[1000 + turn * 25 + i];
            di_result_free(a);
            di_result_free(b);
        }
        di_engine_destroy(engine);
        di_engine_destroy(cold);
    }
}

/* K09: the logprobs of 64 decode steps are those of one prefill of the same tokens. */
static void decode_is_prefill(void **state)
{
    (void)state;
    enum { N = 150, N_STEPS = 64 };
    di_engine *engine = make_engine("exact", 512, 0);
    di_result *r = generate(engine, text, N, N_STEPS);
    int32_t ids[N + N_STEPS];
    memcpy(ids, text, N * sizeof *ids);
    memcpy(ids + N, r->token_ids, N_STEPS * sizeof *ids);
    di_request score = DI_REQUEST_INIT;
    score.token_ids = ids;
    score.n_token_ids = N + N_STEPS;
    score.sampling.max_tokens = 0;
    score.sampling.prompt_logprobs = true;
    score.sampling.n_logprobs = 4;
    di_result *s;
    di_require(di_generate(engine, &score, NULL, NULL, &s));
    for (int i = 0; i < N_STEPS; i++)
        assert_memory_equal(r->logprobs[i].entries, s->prompt_logprobs[N + i].entries,
                            5 * sizeof *r->logprobs[i].entries);
    di_result_free(r);
    di_result_free(s);
    di_engine_destroy(engine);
}

/* Prompts with one beginning, shorter than the interval of kept windows, and different ends: the
 * second keeps the window where it leaves the first, the third hits. */
static void a_shared_beginning(void **state)
{
    (void)state;
    enum { N_SHARED = 280, N_OWN = 90, N = N_SHARED + N_OWN };
    di_engine *engine = make_engine("exact", 100, 0), *cold = make_engine("off", 512, 0);
    int32_t ids[N];
    memcpy(ids, text, N_SHARED * sizeof *ids);
    for (int turn = 0; turn < 4; turn++) {
        memcpy(ids + N_SHARED, text + N_SHARED + (1 + turn) * N_OWN, N_OWN * sizeof *ids);
        di_result *a = generate(engine, ids, N, N_NEW), *b = generate(cold, ids, N, N_NEW);
        assert_int_equal(a->n_cached_tokens, turn < 2 ? 0 : N_SHARED / 64 * 64);
        assert_same(b, a);
        di_result_free(a);
        di_result_free(b);
    }
    di_engine_destroy(engine);
    di_engine_destroy(cold);
}

/* Hits at every interval, with a short one. */
static void an_interval(void **state)
{
    (void)state;
    enum { N = 400, N_SHARED = 300 };
    const di_options options = {.n_threads = 2, .max_step_tokens = 128, .prefix_interval = 128};
    di_engine *engine, *cold = make_engine("off", 512, 0);
    di_require(di_engine_create(model, &options, &engine));
    di_result_free(generate(engine, text, N, 1));
    int32_t ids[N];
    memcpy(ids, text, sizeof ids);
    memcpy(ids + N_SHARED, text + 1000, (N - N_SHARED) * sizeof *ids);
    di_result *a = generate(engine, ids, N, N_NEW), *b = generate(cold, ids, N, N_NEW);
    assert_int_equal(a->n_cached_tokens, 256);
    assert_same(b, a);
    di_result_free(a);
    di_result_free(b);
    di_engine_destroy(engine);
    di_engine_destroy(cold);
}

/* Approximate by design, but counted apart, and never an error. */
static void replay_counts(void **state)
{
    (void)state;
    di_engine *engine = make_engine("replay", 512, 0);
    di_result_free(generate(engine, text, 400, 2));
    di_result *r = generate(engine, text, 330, 4); /* no window was kept at 320 */
    di_engine_stats stats;
    di_engine_get_stats(engine, &stats);
    assert_int_equal(r->n_token_ids, 4);
    assert_int_equal(r->n_cached_tokens, 320 - 128);
    assert_int_equal(stats.cached_prompt_tokens, 320 - 128);
    assert_int_equal(stats.replayed_tokens, 128);
    assert_int_equal(stats.prompt_tokens, 730);
    di_result_free(r);
    di_engine_destroy(engine);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_prompt_again),
        cmocka_unit_test(evicted_in_between),
        cmocka_unit_test(turns),
        cmocka_unit_test(a_shared_beginning),
        cmocka_unit_test(an_interval),
        cmocka_unit_test(decode_is_prefill),
        cmocka_unit_test(replay_counts),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
