#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "traffic.h"

#define MODEL_DIR DI_TEST_DATA "/golden/tiny"

enum { N_STREAMS = 4 };

di_model *di_traffic_model;

int di_traffic_open_model(void **state)
{
    (void)state;
    return di_model_open(MODEL_DIR, NULL, &di_traffic_model) == DI_OK ? 0 : -1;
}

int di_traffic_close_model(void **state)
{
    (void)state;
    di_model_close(di_traffic_model);
    return 0;
}

/* Every 24th history or so ends. */
void di_end_sometimes(void *user, uint64_t history, int64_t position, float *logits)
{
    (void)user;
    (void)position;
    if (history % 24 == 0)
        logits[DI_TRAFFIC_EOS] = 30.0f;
}

/* Prompts begin like one of a few streams, so that they share prefixes. */
static void make_prompt(di_rng *rng, int64_t most, di_traffic *t)
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

void di_traffic_make(di_rng *rng, int64_t most_prompt, int64_t most_new, di_traffic *t)
{
    *t = (di_traffic){.request = DI_REQUEST_INIT};
    make_prompt(rng, most_prompt, t);
    di_sampling_params *p = &t->request.sampling;
    p->temperature = di_rng_below(rng, 3) ? 0.5 * (double)di_rng_between(rng, 1, 3) : 0;
    p->top_k = di_rng_below(rng, 3) ? 0 : (int32_t)di_rng_between(rng, 1, 50);
    p->top_p = di_rng_below(rng, 3) ? 1.0 : 0.9;
    p->repetition_penalty = di_rng_below(rng, 4) ? 1.0 : 1.2;
    p->frequency_penalty = di_rng_below(rng, 4) ? 0 : 0.5;
    p->n = (int32_t)di_rng_between(rng, 1, DI_TRAFFIC_SAMPLES);
    p->has_seed = true;
    p->seed = di_rng_next(rng);
    p->max_tokens = di_rng_between(rng, 1, most_new);
    p->min_tokens = di_rng_below(rng, 4) ? 0 : di_rng_between(rng, 0, p->max_tokens);
    p->ignore_eos = di_rng_below(rng, 4) == 0;
    p->n_logprobs = di_rng_below(rng, 4) ? -1 : (int32_t)di_rng_below(rng, 3);
    t->request.priority = (int)di_rng_below(rng, 3);
}

void di_traffic_free(di_traffic *t)
{
    free(t->prompt);
    for (int i = 0; i < DI_TRAFFIC_SAMPLES; i++)
        di_ids_free(&t->tokens[i]);
}

void di_traffic_note(di_traffic *t, const di_output *o)
{
    assert_in_range(o->sample_index, 0, t->request.sampling.n - 1);
    const int32_t i = o->sample_index;
    assert_int_equal(t->n_final[i], 0); /* nothing comes after the last output */
    for (size_t k = 0; k < o->n_token_ids; k++)
        di_require(di_ids_push(&t->tokens[i], o->token_ids[k]));
    for (size_t k = 0; k < o->n_token_ids && t->request.sampling.n_logprobs >= 0; k++)
        assert_int_equal(o->logprobs[k].entries[0].token_id, o->token_ids[k]);
    t->n_final[i] += o->finish_reason != DI_FINISH_NONE;
    t->reason[i] = o->finish_reason;
}

void di_traffic_poll(di_engine *engine, di_traffic *all, size_t n)
{
    di_output output;
    while (di_engine_poll(engine, &output)) {
        assert_in_range(output.id, 1, n);
        assert_int_equal(all[output.id - 1].id, output.id);
        di_traffic_note(&all[output.id - 1], &output);
    }
}

/* Steps until all is done; every so many steps everything is checked. */
void di_traffic_run(di_engine *engine, di_null_device *device, di_traffic *all, size_t n, int every)
{
    bool has_work = true;
    for (int step = 1; has_work; step++) {
        di_require(di_engine_step(engine, &has_work));
        di_traffic_poll(engine, all, n);
        if (step % every == 0)
            di_check_engine(engine, device);
        assert_true(step < 20000);
    }
}

void di_traffic_check_sample(const di_null_device *device, const di_traffic *t, int32_t sample)
{
    di_expected e;
    di_expect(device, di_traffic_model, &t->request, sample, &e);
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
size_t di_traffic_check_result(di_engine *engine, const di_traffic *t)
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
    const size_t n_cached = result->n_cached_tokens;
    di_result_free(result);
    return n_cached;
}

size_t di_traffic_check(di_engine *engine, const di_null_device *device, const di_traffic *all,
                        size_t n)
{
    size_t n_cached = 0;
    for (size_t i = 0; i < n; i++) {
        for (int32_t s = 0; s < all[i].request.sampling.n; s++)
            di_traffic_check_sample(device, &all[i], s);
        n_cached += di_traffic_check_result(engine, &all[i]);
    }
    assert_null(engine->finished.first);
    di_check_idle(engine, device);
    return n_cached;
}

/* Bytes of a KV budget that holds about `n_blocks` blocks of every group. */
static int64_t kv_bytes(int64_t n_blocks)
{
    di_kv_layout layout;
    di_kv_layout_init(&di_traffic_model->config, true, &layout);
    int64_t bytes = 2 * layout.groups[0].block_bytes;
    for (int g = 1; g < layout.n_groups; g++)
        bytes += layout.groups[g].block_bytes;
    return n_blocks * bytes;
}

di_engine *di_null_setting_engine(const di_null_setting *s, di_null_device *device)
{
    const di_options options = {
        .n_threads = 1,
        .max_step_tokens = s->max_step_tokens,
        .max_seqs = s->max_seqs,
        .prefix_cache = s->prefix,
        .async_scheduling = s->async,
        .draft_varlen = s->varlen,
        .draft_len = s->draft_len,
        .kv_cache_bytes = s->kv_blocks ? kv_bytes(s->kv_blocks) : 0,
    };
    di_engine *engine;
    device->pace = s->pace;
    device->wrong_drafts = s->wrong_drafts;
    di_require(di_null_engine_create(device, di_traffic_model, &options, &engine));
    return engine;
}

di_request di_plain_request(const int32_t *prompt, size_t n_prompt, int64_t max_tokens)
{
    di_request r = DI_REQUEST_INIT;
    r.token_ids = prompt;
    r.n_token_ids = n_prompt;
    r.sampling.temperature = 0;
    r.sampling.max_tokens = max_tokens;
    r.sampling.has_seed = true;
    return r;
}

void di_traffic_submit(di_engine *engine, di_traffic *t)
{
    di_require(di_engine_submit(engine, &t->request, &t->id));
}

const int32_t di_counting[DI_N_COUNTING] = {3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                            17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30};
