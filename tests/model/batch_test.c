/* Real passes: what a request gives does not depend on the others, the batch, chunks, preemptions,
 * prefix hits, scheduling, threads or speculation. Token ids and logprobs are compared bit for bit
 * with each request run alone and without speculation. `batch_test SEED small N [TEST]` runs N
 * requests on golden/small, `batch_test SEED DIR N [TEST]` on any checkpoint. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/checked.h"
#include "engine_check.h"
#include "random.h"

enum { N_REQUESTS = 24, N_STREAMS = 3, MOST_SAMPLES = 3, TRUNCATED_KEEP = 28 };

static struct plan {
    const char *dir;
    int n_requests;
    int64_t most_prompt, most_new;
} plan = {DI_TEST_DATA "/golden/tiny", DI_TEST_SHARE > 1 ? N_REQUESTS / 2 : N_REQUESTS, 400, 24};

static di_model *model;
static di_request *requests;
static di_result **alone; /* [n_requests] */

/* Each engine of a variant drafts in another of these ways. */
static const struct drafting {
    int len;
    const char *varlen;
} draftings[] = {{5, "off"}, {3, "on"}, {1, "off"}, {5, "on"}, {3, "off"}, {1, "on"}};
static struct drafts {
    unsigned n_engines;
    uint64_t n_drafted, n_verified, n_accepted; /* by engines without draft_varlen */
} drafts;

static const char *const stops[] = {"e", "the", " a"};
static const char *const *const no_stops = NULL;

/* A third of the prompts are beginnings of a few streams, another third go on from one; lengths are
 * mostly short. */
static const int32_t *make_prompt(di_rng *rng, int index, size_t *n)
{
    const int kind = index % 3;
    const uint64_t stream = (uint64_t)(index / 3) % N_STREAMS;
    size_t n_shared = kind ? 70 + 64 * (size_t)(index / 9 % 3) : 0;
    *n = n_shared;
    if (kind == 2)
        *n += (size_t)di_rng_between(rng, 1, 40);
    if (kind == 0)
        *n = (size_t)(di_rng_below(rng, 4) ? di_rng_between(rng, 1, 80)
                                           : di_rng_between(rng, 80, plan.most_prompt));
    int32_t *ids = malloc(*n * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < *n; i++)
        ids[i] = i < n_shared ? (int32_t)(3 + (stream * 7919 + i * 104729) % 1200)
                              : (int32_t)di_rng_between(rng, 3, 1200);
    return ids;
}

/* Structured outputs for a part of the requests, longer than these run: room must stay scarce. */
static const di_so_args constraints[] = {
    {.schema_type = DI_SCHEMA_REGEX, .schema = "([b-df-z]{2,5} ?){60,90}\\."},
    {.schema_type = DI_SCHEMA_JSON,
     .schema =
         "{\"type\": \"array\", \"minItems\": 50, \"items\": {\"type\": [\"integer\", \"null\"]}}",
     .max_whitespace = 2},
    {.schema_type = DI_SCHEMA_EBNF, .schema = "root ::= \"(\" root \")\" [b-d]{200} | [b-d]{200}"},
};

static di_request make_request(di_rng *rng, int index)
{
    di_request r = DI_REQUEST_INIT;
    di_sampling_params *p = &r.sampling;
    r.token_ids = make_prompt(rng, index, &r.n_token_ids);
    r.priority = (int)di_rng_below(rng, 2);
    p->temperature = di_rng_below(rng, 3) ? 0.5 * (double)di_rng_between(rng, 1, 3) : 0;
    p->top_k = di_rng_below(rng, 2) ? 0 : (int32_t)di_rng_between(rng, 1, 50);
    p->top_p = di_rng_below(rng, 2) ? 1.0 : 0.9;
    p->min_p = di_rng_below(rng, 3) ? 0 : 0.05;
    p->repetition_penalty = di_rng_below(rng, 3) ? 1.0 : 1.2;
    p->presence_penalty = di_rng_below(rng, 3) ? 0 : 0.5;
    p->n = (int32_t)di_rng_between(rng, 1, MOST_SAMPLES);
    p->has_seed = true;
    p->seed = di_rng_next(rng);
    p->max_tokens = di_rng_between(rng, 1, plan.most_new);
    p->ignore_eos = di_rng_below(rng, 2) == 0;
    if (index % 8 == 5) {
        r.so_args = &constraints[index / 8 % 3];
        p->ignore_eos = false;
    }
    p->stop = di_rng_below(rng, 3) ? no_stops : stops;
    p->n_stop = p->stop ? sizeof stops / sizeof stops[0] : 0;
    p->n_logprobs = (int32_t)di_rng_between(rng, 0, 3);
    p->prompt_logprobs = index % 8 == 0;
    return r;
}

/* ------------------------------------------------------------------------------- comparing */

static void assert_same_logprobs(const di_position_logprobs *a, const di_position_logprobs *b,
                                 size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(a[i].n_entries, b[i].n_entries);
        if (a[i].n_entries)
            assert_memory_equal(a[i].entries, b[i].entries, a[i].n_entries * sizeof *a[i].entries);
    }
}

static void assert_same(const di_result *a, const di_result *b)
{
    for (; a && b; a = a->next, b = b->next) {
        if (a->status != DI_OK || b->status != DI_OK)
            fail_msg("found an error: %s%s", a->error, b->error);
        assert_int_equal(a->finish_reason, b->finish_reason);
        assert_int_equal(a->n_token_ids, b->n_token_ids);
        assert_memory_equal(a->token_ids, b->token_ids, a->n_token_ids * sizeof *a->token_ids);
        assert_string_equal(a->text, b->text);
        assert_same_logprobs(a->logprobs, b->logprobs, a->n_token_ids);
        assert_int_equal(a->prompt_logprobs != NULL, b->prompt_logprobs != NULL);
        if (a->prompt_logprobs)
            assert_same_logprobs(a->prompt_logprobs, b->prompt_logprobs, a->n_prompt_token_ids);
    }
    assert_true(!a && !b);
}

/* ------------------------------------------------------------------------------- running */

/* results [n_requests] */
static void run_alone(const char *truncation, di_result **results)
{
    const di_options options = {.n_threads = 1,
                                .prefix_cache = "off",
                                .prefill_truncation = truncation,
                                .prefill_keep = TRUNCATED_KEEP,
                                .speculation = "off",
                                .async_scheduling = "off"};
    di_engine *engine;
    di_require(di_engine_create(model, &options, &engine));
    for (int i = 0; i < plan.n_requests; i++)
        di_require(di_generate(engine, &requests[i], NULL, NULL, &results[i]));
    di_engine_stats stats;
    di_engine_get_stats(engine, &stats);
    assert_int_equal(stats.drafted_tokens, 0);
    di_engine_destroy(engine);
}

static int make_all(void **state)
{
    (void)state;
    if (di_model_open(plan.dir, NULL, &model) != DI_OK)
        return -1;
    requests = calloc((size_t)plan.n_requests, sizeof *requests);
    alone = calloc((size_t)plan.n_requests, sizeof(di_result *));
    if (!requests || !alone)
        return -1;
    di_rng rng = di_rng_named("requests");
    for (int i = 0; i < plan.n_requests; i++)
        requests[i] = make_request(&rng, i);
    run_alone("off", alone);
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    for (int i = 0; i < plan.n_requests; i++) {
        di_result_free(alone[i]);
        free((void *)requests[i].token_ids);
    }
    free(alone);
    free(requests);
    di_model_close(model);
    return 0;
}

static di_engine *next_engine(di_options options)
{
    const struct drafting *d =
        &draftings[drafts.n_engines++ % (sizeof draftings / sizeof draftings[0])];
    options.speculation = "auto";
    options.draft_len = d->len;
    options.draft_varlen = d->varlen;
    di_engine *engine;
    di_require(di_engine_create(model, &options, &engine));
    return engine;
}

/* Of fixed lengths: planned ones may verify nothing at all. */
static void count_drafts(const di_engine *engine, const di_engine_stats *stats)
{
    if (engine->runner.options.has_varlen)
        return;
    assert_true(stats->verified_drafts <= stats->drafted_tokens);
    drafts.n_drafted += stats->drafted_tokens;
    drafts.n_verified += stats->verified_drafts;
    drafts.n_accepted += stats->accepted_drafts;
}

/* All requests, submitted a few at a time; statistics of the run. */
static di_engine_stats run_together(const di_options *options, int at_a_time)
{
    di_engine *engine = next_engine(*options);
    di_request_id *ids = calloc((size_t)plan.n_requests, sizeof *ids);
    assert_non_null(ids);
    bool has_work = true;
    for (int n = 0; has_work || n < plan.n_requests;) {
        for (int k = 0; k < at_a_time && n < plan.n_requests; k++, n++)
            di_require(di_engine_submit(engine, &requests[n], &ids[n]));
        di_require(di_engine_step(engine, &has_work));
        di_check_engine(engine, NULL);
    }
    size_t n_cached = 0;
    for (int i = 0; i < plan.n_requests; i++) {
        di_result *r;
        di_require(di_engine_take_result(engine, ids[i], &r));
        n_cached += r->n_cached_tokens;
        assert_same(alone[i], r);
        di_result_free(r);
    }
    di_check_idle(engine, NULL);
    di_engine_stats stats;
    di_engine_get_stats(engine, &stats);
    assert_true(n_cached <= stats.cached_prompt_tokens);
    count_drafts(engine, &stats);
    di_engine_destroy(engine);
    free(ids);
    return stats;
}

static void in_batches(void **state)
{
    (void)state;
    const int sizes[] = {1, 2, 8, 64};
    for (size_t i = DI_TEST_SHARE > 1 ? 2 : 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const di_options options = {
            .n_threads = 2,
            .max_seqs = sizes[i] < MOST_SAMPLES ? MOST_SAMPLES : sizes[i],
            .prefix_cache = i % 2 ? "off" : "exact",
            .async_scheduling = i < 2 ? "off" : "on",
        };
        run_together(&options, sizes[i]);
    }
}

static void in_chunks(void **state)
{
    (void)state;
    const int chunks[] = {7, 64, 512};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        const di_options options = {.n_threads = 1, .max_step_tokens = chunks[i]};
        const di_engine_stats stats = run_together(&options, plan.n_requests);
        assert_true(stats.computed_tokens + stats.cached_prompt_tokens >= stats.prompt_tokens);
    }
}

static void on_threads(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n *= 2) {
        const di_options options = {.n_threads = n, .max_step_tokens = 200, .prefix_cache = "off"};
        assert_int_equal(run_together(&options, 5).cached_prompt_tokens, 0);
    }
}

/* The second time everything has been seen. */
static void with_prefix_hits(void **state)
{
    (void)state;
    const di_options options = {.n_threads = 2, .max_step_tokens = 100};
    const di_engine_stats stats = run_together(&options, 2);
    assert_true(stats.cached_prompt_tokens > 0);
}

/* Room for three of the longest sequences. */
static void with_little_room(void **state)
{
    (void)state;
    di_kv_layout layout;
    di_kv_layout_init(&model->config, false, &layout);
    const int64_t context =
        di_min_i64(model->config.max_position_embeddings, plan.most_prompt + plan.most_new);
    int64_t bytes = 0;
    for (int g = 0; g < layout.n_groups; g++)
        bytes += 3 * di_ceil_div(context, DI_KV_BLOCK_TOKENS) * layout.groups[g].block_bytes;
    for (int i = 0; i < 4; i++) {
        const di_options options = {
            .n_threads = 1,
            .max_step_tokens = i % 2 ? 64 : 300,
            .max_context_len = context,
            .kv_cache_bytes = bytes,
            .prefix_cache = i < 2 ? "exact" : "off",
            .async_scheduling = i == 1 || i == 2 ? "on" : "off",
        };
        assert_true(run_together(&options, plan.n_requests).n_preemptions > 0);
    }
}

/* The options of the tests above leave the mode to the environment. */
static void truncate_all(const char *mode)
{
    char keep[16];
    snprintf(keep, sizeof keep, "%d", TRUNCATED_KEEP);
    setenv("DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE", mode, 1);
    setenv("DEEPINFER_YOCO_PREFILL_KEEP_TOKENS", keep, 1);
}

static void truncate_none(void)
{
    unsetenv("DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE");
    unsetenv("DEEPINFER_YOCO_PREFILL_KEEP_TOKENS");
}

/* The approximation, too, is a function of the request alone. */
static void truncated(void **state)
{
    if (model->config.sliding_window + 12 > TRUNCATED_KEEP)
        skip();
    di_result **whole = alone;
    alone = calloc((size_t)plan.n_requests, sizeof(di_result *));
    assert_non_null(alone);
    run_alone("compact", alone);
    truncate_all("compact");
    in_chunks(state);
    with_prefix_hits(state);
    with_little_room(state);
    truncate_none();
    for (int i = 0; i < plan.n_requests; i++)
        di_result_free(alone[i]);
    free(alone);
    alone = whole;
}

/* And with all it depends on it is none. */
static void truncated_exactly(void **state)
{
    if (model->config.sliding_window + 12 > TRUNCATED_KEEP)
        skip();
    truncate_all("exact");
    in_chunks(state);
    with_prefix_hits(state);
    with_little_room(state);
    truncate_none();
}

/* After all the others. */
static void drafts_were_verified(void **state)
{
    (void)state;
    print_message("of %llu drafts %llu were verified and %llu accepted\n",
                  (unsigned long long)drafts.n_drafted, (unsigned long long)drafts.n_verified,
                  (unsigned long long)drafts.n_accepted);
    assert_true(drafts.n_verified > drafts.n_drafted / 2);
    assert_true(drafts.n_accepted > 0);
}

int main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[2], "small") == 0)
        plan = (struct plan){DI_TEST_DATA "/golden/small", (int)strtol(argv[3], NULL, 10), 600, 24};
    else if (argc > 3)
        plan = (struct plan){argv[2], (int)strtol(argv[3], NULL, 10), 240, 48};
    if (argc > 4)
        cmocka_set_test_filter(argv[4]);
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_batches),        cmocka_unit_test(in_chunks),
        cmocka_unit_test(on_threads),        cmocka_unit_test(with_prefix_hits),
        cmocka_unit_test(with_little_room),  cmocka_unit_test(truncated),
        cmocka_unit_test(truncated_exactly), cmocka_unit_test(drafts_were_verified),
    };
    return cmocka_run_group_tests(tests, make_all, free_all);
}
