/* Truncated prefills on real passes: golden/tiny (window 16, the decoder is layers 6 to 9) and
 * golden/small (window 128, layers 3 to 6). What the batch test does with requests of all kinds is
 * not repeated here. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/checked.h"
#include "engine_check.h"
#include "engine/runner.h"
#include "random.h"

enum { N_NEW = 8, TINY_KEEP = 28, SMALL_KEEP = 140, MOST_PROMPT = 800 };

static di_model *tiny, *small;
static const char *speculation = "on"; /* off: rows are those of the tokens alone */
static int32_t text[MOST_PROMPT];

static int open_models(void **state)
{
    (void)state;
    di_rng rng = di_rng_named("text");
    for (size_t i = 0; i < MOST_PROMPT; i++)
        text[i] = (int32_t)di_rng_between(&rng, 3, 1200);
    return di_model_open(DI_TEST_DATA "/golden/tiny", NULL, &tiny) == DI_OK &&
                   di_model_open(DI_TEST_DATA "/golden/small", NULL, &small) == DI_OK
               ? 0
               : -1;
}

static int close_models(void **state)
{
    (void)state;
    di_model_close(tiny);
    di_model_close(small);
    return 0;
}

/* ------------------------------------------------------------------------------- engines */

static di_engine *make_engine(di_model *model, const char *mode, int keep, int max_step_tokens)
{
    const di_options options = {.n_threads = 2,
                                .prefill_truncation = mode,
                                .prefill_keep = keep,
                                .max_step_tokens = max_step_tokens,
                                .speculation = speculation};
    di_engine *engine;
    di_require(di_engine_create(model, &options, &engine));
    return engine;
}

static di_result *generate(di_engine *engine, const int32_t *ids, size_t n, bool prompt_logprobs)
{
    di_request r = DI_REQUEST_INIT;
    r.token_ids = ids;
    r.n_token_ids = n;
    r.sampling.temperature = 0;
    r.sampling.max_tokens = N_NEW;
    r.sampling.ignore_eos = true;
    r.sampling.n_logprobs = 4;
    r.sampling.prompt_logprobs = prompt_logprobs;
    di_result *result;
    di_require(di_generate(engine, &r, NULL, NULL, &result));
    return result;
}

static bool is_same(const di_result *a, const di_result *b)
{
    bool same = a->n_token_ids == b->n_token_ids &&
                !memcmp(a->token_ids, b->token_ids, a->n_token_ids * sizeof *a->token_ids);
    for (size_t i = 0; same && i < a->n_token_ids; i++)
        same = !memcmp(a->logprobs[i].entries, b->logprobs[i].entries,
                       5 * sizeof *a->logprobs[i].entries);
    return same;
}

/* A fresh engine's result and the work it took. */
static di_result *generate_once(di_model *model, const char *mode, int keep, size_t n,
                                di_engine_stats *stats)
{
    di_engine *engine = make_engine(model, mode, keep, 2048);
    di_result *r = generate(engine, text, n, false);
    di_engine_get_stats(engine, stats);
    di_engine_destroy(engine);
    return r;
}

static void compare_modes(di_model *model, const char *mode, int keep, size_t n, bool is_equal)
{
    di_engine_stats stats;
    di_result *all = generate_once(model, "off", 0, n, &stats);
    assert_int_equal(stats.computed_layer_rows,
                     stats.computed_tokens * (uint64_t)model->config.n_layers);
    di_result *some = generate_once(model, mode, keep, n, &stats);
    if (is_same(all, some) != is_equal)
        fail_msg("%s, %d of %zu tokens: found %s results, wanted the contrary", mode, keep, n,
                 is_equal ? "different" : "equal");
    di_result_free(all);
    di_result_free(some);
}

static void a_suffix_that_is_the_prompt(void **state)
{
    (void)state;
    const size_t lengths[] = {1, TINY_KEEP - 1, TINY_KEEP, 300};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const int keep = (int)di_max_i64(TINY_KEEP, (int64_t)lengths[i]);
        compare_modes(tiny, "compact", keep, lengths[i], true);
        compare_modes(tiny, "exact", keep, lengths[i], true);
    }
}

static void exact_has_the_bits_of_off(void **state)
{
    (void)state;
    const size_t lengths[] = {TINY_KEEP + 1, 60, 74, 150, 400};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        compare_modes(tiny, "exact", TINY_KEEP, lengths[i], true);
    compare_modes(small, "exact", SMALL_KEEP, DI_TEST_SHARE > 1 ? 560 : MOST_PROMPT, true);
}

static void compact_is_an_approximation(void **state)
{
    (void)state;
    compare_modes(tiny, "compact", TINY_KEEP, 150, false);
    compare_modes(small, "compact", SMALL_KEEP, 400, false);
}

/* The same, whatever the passes; and just the work that the layers' parts of the prompt make. */
static void chunks(void **state)
{
    (void)state;
    enum { N = 200 };
    const int steps[] = {1, 13, 28, 64, 150, 172};
    const di_config *c = &tiny->config;
    const int first = 6;
    speculation = "off";
    di_engine_stats whole;
    di_result *expected = generate_once(tiny, "compact", TINY_KEEP, N, &whole);
    assert_int_equal(whole.computed_layer_rows,
                     N * first + TINY_KEEP * (c->n_layers - first) + (N_NEW - 1) * c->n_layers);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        di_engine *engine = make_engine(tiny, "compact", TINY_KEEP, steps[i]);
        di_result *r = generate(engine, text, N, false);
        di_engine_stats stats;
        di_engine_get_stats(engine, &stats);
        if (!is_same(expected, r))
            fail_msg("passes of %d tokens: found other results than in one pass", steps[i]);
        assert_int_equal(stats.computed_layer_rows, whole.computed_layer_rows);
        di_result_free(r);
        di_engine_destroy(engine);
    }
    di_result_free(expected);
    speculation = "on";
}

static void prompt_logprobs_keep_all_rows(void **state)
{
    (void)state;
    enum { N = 150 };
    di_engine *off = make_engine(tiny, "off", 0, 64);
    di_engine *compact = make_engine(tiny, "compact", TINY_KEEP, 64);
    di_result *a = generate(off, text, N, true), *b = generate(compact, text, N, true);
    assert_true(is_same(a, b));
    for (size_t i = 1; i < N; i++)
        assert_memory_equal(a->prompt_logprobs[i].entries, b->prompt_logprobs[i].entries,
                            5 * sizeof *a->prompt_logprobs[i].entries);
    di_engine_stats stats;
    di_engine_get_stats(compact, &stats);
    assert_int_equal(stats.computed_layer_rows,
                     stats.computed_tokens * (uint64_t)tiny->config.n_layers);
    di_result_free(a);
    di_result_free(b);
    di_engine_destroy(off);
    di_engine_destroy(compact);
}

/* ------------------------------------------------------------------------------- the halo */

/* Logits of the last prompt row and of tokens decoded after it [n_rows, vocab]; with windows that
 * the truncation takes for `less` tokens shorter. Free with free(). */
static float *logits_after(const char *mode, int64_t n_prompt, int64_t n_rows, int64_t less)
{
    const di_options options = {.n_threads = 1,
                                .prefill_truncation = mode,
                                .prefill_keep = TINY_KEEP,
                                .max_step_tokens = 2048};
    di_runner runner;
    di_runner_seq seq = {.compressor_state = NULL};
    di_require(di_runner_init(tiny, &options, &runner));
    runner.truncation.window -= less;
    di_require(di_runner_seq_append(&runner, &seq, text, (size_t)(n_prompt + n_rows - 1)));
    seq.kv.decoder_start = di_truncation_start(&runner.truncation, n_prompt);
    const size_t vocab = (size_t)tiny->config.vocab_size;
    float *out = malloc((size_t)n_rows * vocab * sizeof *out), *row;
    assert_non_null(out);
    for (int64_t i = 0; i < n_rows; i++) {
        const di_work work = {.seq = &seq, .n_tokens = i ? 1 : n_prompt, .wants_last_logits = true};
        di_require(di_runner_forward(&runner, &work, 1, NULL, &row));
        memcpy(out + (size_t)i * vocab, row, vocab * sizeof *row);
    }
    di_runner_seq_free(&runner, &seq);
    di_runner_free(&runner);
    return out;
}

/* Every logit of a window's worth of rows after the prompt; and the halo is no longer than that
 * takes. */
static void the_halo_is_what_it_takes(void **state)
{
    (void)state;
    enum { N = 200, N_ROWS = 18 };
    const size_t bytes = (size_t)(N_ROWS * tiny->config.vocab_size) * sizeof(float);
    float *off = logits_after("off", N, N_ROWS, 0), *exact = logits_after("exact", N, N_ROWS, 0);
    float *cut = logits_after("exact", N, N_ROWS, 5);
    assert_memory_equal(off, exact, bytes);
    assert_memory_not_equal(off, cut, bytes);
    free(off);
    free(exact);
    free(cut);
}

/* ------------------------------------------------------------------------------- prefix hits */

/* A prompt of text[n_shared] and n_own other tokens: with the cache as without, and as many cached
 * tokens as expected. */
static void check_hit(di_engine *engine, const char *mode, size_t n_shared, size_t n_own,
                      size_t n_cached)
{
    int32_t ids[MOST_PROMPT];
    memcpy(ids, text, n_shared * sizeof *ids);
    for (size_t i = 0; i < n_own; i++)
        ids[n_shared + i] = text[MOST_PROMPT - 1 - i];
    di_engine *cold = make_engine(tiny, mode, TINY_KEEP, 2048);
    di_result *a = generate(cold, ids, n_shared + n_own, false);
    di_result *b = generate(engine, ids, n_shared + n_own, false);
    if (b->n_cached_tokens != n_cached || !is_same(a, b))
        fail_msg("%s, %zu + %zu tokens: found %zu cached tokens and %s results, wanted %zu and "
                 "equal ones",
                 mode, n_shared, n_own, b->n_cached_tokens, is_same(a, b) ? "equal" : "other",
                 n_cached);
    di_result_free(a);
    di_result_free(b);
    di_engine_destroy(cold);
}

/* The seam at 192 is after 200 tokens of text; decoder rows of that prompt begin at 172. */
static void compact_hits(void **state)
{
    (void)state;
    di_engine *engine = make_engine(tiny, "compact", TINY_KEEP, 50);
    check_hit(engine, "compact", 200, 0, 0);
    check_hit(engine, "compact", 200, 0, 192);  /* the same prompt */
    check_hit(engine, "compact", 200, 50, 192); /* its own decoder rows begin after the seam */
    check_hit(engine, "compact", 200, 20, 192); /* at the seam */
    check_hit(engine, "compact", 200, 19, 0);   /* before it: that window was never computed */
    check_hit(engine, "compact", 200, 0, 192);
    di_engine_destroy(engine);
}

static void exact_hits(void **state)
{
    (void)state;
    di_engine *engine = make_engine(tiny, "exact", TINY_KEEP, 50);
    check_hit(engine, "exact", 200, 0, 0);
    check_hit(engine, "exact", 200, 0, 192);
    check_hit(engine, "exact", 200, 1, 192);  /* a longer prompt needs less of the windows */
    check_hit(engine, "exact", 195, 0, 0);    /* a shorter one more */
    check_hit(engine, "exact", 195, 78, 192); /* or none: its first layer's rows begin after it */
    di_engine_destroy(engine);
}

/* Approximate twice; no error, and the work of both. */
static void replay_hits(void **state)
{
    (void)state;
    const char *const modes[] = {"compact", "exact"};
    for (size_t i = 0; i < 2; i++) {
        const di_options options = {.n_threads = 2,
                                    .prefix_cache = "replay",
                                    .prefill_truncation = modes[i],
                                    .prefill_keep = TINY_KEEP};
        di_engine *engine;
        di_require(di_engine_create(tiny, &options, &engine));
        di_result_free(generate(engine, text, 400, false));
        di_result *r = generate(engine, text, 330, false);
        assert_int_equal(r->n_token_ids, N_NEW);
        assert_true(r->n_cached_tokens > 0);
        di_result_free(r);
        di_engine_destroy(engine);
    }
}

/* ------------------------------------------------------------------------------- refusals */

static void too_little_is_refused(void **state)
{
    (void)state;
    di_options options = {.prefill_truncation = "compact", .prefill_keep = TINY_KEEP - 1};
    di_engine *engine;
    assert_int_equal(di_engine_create(tiny, &options, &engine), DI_ERR_ARGUMENT);
    assert_non_null(strstr(di_last_error(), "prefill_keep: found 27, wanted at least 28"));
    options.prefill_truncation = "some";
    assert_int_equal(di_engine_create(tiny, &options, &engine), DI_ERR_ARGUMENT);
    assert_non_null(strstr(di_last_error(), "prefill_truncation: found \"some\""));
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_suffix_that_is_the_prompt),
        cmocka_unit_test(exact_has_the_bits_of_off),
        cmocka_unit_test(compact_is_an_approximation),
        cmocka_unit_test(chunks),
        cmocka_unit_test(prompt_logprobs_keep_all_rows),
        cmocka_unit_test(the_halo_is_what_it_takes),
        cmocka_unit_test(compact_hits),
        cmocka_unit_test(exact_hits),
        cmocka_unit_test(replay_hits),
        cmocka_unit_test(too_little_is_refused),
    };
    return cmocka_run_group_tests(tests, open_models, close_models);
}
