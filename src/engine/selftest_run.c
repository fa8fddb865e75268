#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "engine/engine.h"
#include "engine/selftest.h"

/* ------------------------------------------------------------------- requests */

di_status di_st_requests_new(di_selftest *self, size_t room, di_st_requests *out)
{
    *out = (di_st_requests){.n = 0};
    return DI_ARENA_NEW(&self->arena, room, &out->items);
}

di_status di_st_add_prompt(di_selftest *self, int64_t low, int64_t high,
                           const di_sampling_params *sampling, di_st_requests *requests)
{
    const uint64_t vocab = (uint64_t)self->model->config.vocab_size;
    const int64_t n = low + (int64_t)di_pcg64_below(&self->rng, (uint64_t)(high - low + 1));
    int32_t *ids;
    DI_TRY(DI_ARENA_NEW(&self->arena, (size_t)n, &ids));
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)di_pcg64_below(&self->rng, vocab);
    requests->items[requests->n++] =
        (di_request){.token_ids = ids, .n_token_ids = (size_t)n, .sampling = *sampling};
    return DI_OK;
}

di_sampling_params di_st_sampling(double temperature, uint64_t seed, int64_t max_tokens)
{
    di_sampling_params p = DI_SAMPLING_PARAMS_INIT;
    p.temperature = temperature;
    p.top_p = 0.95;
    p.has_seed = true;
    p.seed = seed;
    p.max_tokens = max_tokens;
    p.ignore_eos = true;
    p.n_logprobs = 2;
    p.prompt_logprobs = true;
    return p;
}

/* ------------------------------------------------------------------- runs */

static di_options options_of(const di_selftest *self, const di_st_setting *setting)
{
    di_options o = self->options;
    if (setting->n_threads > 0)
        o.n_threads = setting->n_threads;
    if (setting->max_step_tokens > 0)
        o.max_step_tokens = setting->max_step_tokens;
    if (setting->max_seqs > 0)
        o.max_seqs = setting->max_seqs;
    if (setting->window_blocks > 0) { /* the memory plan gives windows half of the budget */
        di_kv_layout layout;
        di_kv_layout_init(&self->model->config, true, &layout);
        o.kv_cache_bytes = 2 * setting->window_blocks * layout.groups[0].block_bytes;
    }
    o.max_context_len = self->context_len;
    o.async_scheduling = setting->is_async ? "on" : "off";
    o.prefix_cache = setting->has_prefix_cache ? "exact" : "off";
    return o;
}

/* Steps until the engine has nothing left. */
static di_status run_engine(const di_selftest *self, di_engine *engine)
{
    const di_selftest_options *wanted = self->wanted;
    for (bool has_work = true; has_work;) {
        if (wanted->go_on && !wanted->go_on(wanted->user))
            return di_fail(DI_ERR_CANCELLED, "the self-test was stopped");
        DI_TRY(di_engine_step(engine, &has_work));
        di_output output;
        while (di_engine_poll(engine, &output))
            if (output.finish_reason == DI_FINISH_ERROR)
                return di_fail(output.status, "a request of the self-test failed: %s",
                               output.error);
    }
    return DI_OK;
}

static di_status run_round(const di_selftest *self, const di_st_requests *requests, bool one_by_one,
                           di_engine *engine, di_st_results *out)
{
    di_request_id *ids = calloc(requests->n, sizeof *ids);
    if (!ids)
        return di_fail_memory(requests->n * sizeof *ids, "request ids");
    di_status status = DI_OK;
    for (size_t i = 0; i < requests->n && status == DI_OK; i++) {
        status = di_engine_submit(engine, &requests->items[i], &ids[i]);
        if (status == DI_OK && one_by_one)
            status = run_engine(self, engine);
    }
    if (status == DI_OK)
        status = run_engine(self, engine);
    for (size_t i = 0; i < requests->n && status == DI_OK; i++) {
        di_result_free(out->items[i]);
        out->items[i] = NULL;
        status = di_engine_take_result(engine, ids[i], &out->items[i]);
    }
    free(ids);
    return status;
}

di_status di_st_run(di_selftest *self, const di_st_requests *requests, const di_st_setting *setting,
                    di_st_results *out)
{
    const di_options options = options_of(self, setting);
    di_engine *engine;
    *out = (di_st_results){.n = 0};
    DI_TRY(di_engine_create(self->model, &options, &engine));
    for (int op = 0; op < DI_N_OPS && self->kernels; op++)
        if (self->kernels[op])
            engine->runner.plan.kernels[op] = self->kernels[op];
    di_status status = DI_OK;
    out->items = calloc(requests->n, sizeof *out->items);
    out->n = requests->n;
    if (!out->items)
        status = di_fail_memory(requests->n * sizeof *out->items, "results");
    for (int i = 0; i < (setting->n_rounds ? setting->n_rounds : 1) && status == DI_OK; i++)
        status = run_round(self, requests, setting->one_by_one, engine, out);
    di_engine_get_stats(engine, &out->stats);
    di_engine_destroy(engine);
    if (status != DI_OK)
        di_st_results_free(out);
    return status;
}

void di_st_results_free(di_st_results *results)
{
    for (size_t i = 0; i < results->n && results->items; i++)
        di_result_free(results->items[i]);
    free(results->items);
    *results = (di_st_results){.n = 0};
}

/* ------------------------------------------------------------------- comparison */

void di_st_find(di_selftest *self, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(self->finding, sizeof self->finding, fmt, args);
    va_end(args);
}

typedef struct place {
    di_selftest *self;
    const char *how;
    size_t request;
    const char *part; /* "output", "prompt" */
} place;

static bool same_entry(const place *at, size_t position, const di_logprob *a, const di_logprob *b)
{
    if (a->token_id != b->token_id || a->rank != b->rank) {
        di_st_find(at->self,
                   "%s, request %zu, %s position %zu: found token %" PRId32 " at rank %" PRId32
                   ", wanted %" PRId32 " at rank %" PRId32,
                   at->how, at->request, at->part, position, a->token_id, a->rank, b->token_id,
                   b->rank);
        return false;
    }
    if (di_f32_bits(a->logprob) != di_f32_bits(b->logprob)) {
        di_st_find(at->self,
                   "%s, request %zu, %s position %zu, token %" PRId32
                   ": found log probability %.9g (0x%08" PRIx32 "), wanted %.9g (0x%08" PRIx32 ")",
                   at->how, at->request, at->part, position, a->token_id, (double)a->logprob,
                   di_f32_bits(a->logprob), (double)b->logprob, di_f32_bits(b->logprob));
        return false;
    }
    return true;
}

/* Positions begin .. end - 1. */
static bool same_positions(const place *at, const di_position_logprobs *a,
                           const di_position_logprobs *b, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        if (a[i].n_entries != b[i].n_entries) {
            di_st_find(at->self, "%s, request %zu, %s position %zu: found %zu entries, wanted %zu",
                       at->how, at->request, at->part, i, a[i].n_entries, b[i].n_entries);
            return false;
        }
        for (size_t k = 0; k < a[i].n_entries; k++)
            if (!same_entry(at, i, &a[i].entries[k], &b[i].entries[k]))
                return false;
    }
    return true;
}

bool di_st_same(di_selftest *self, const char *how, size_t request, const di_result *found,
                const di_result *wanted)
{
    place at = {self, how, request, "prompt"};
    /* the prompt comes first: a difference there is the cause of those in the output */
    if (found->prompt_logprobs && wanted->prompt_logprobs &&
        !same_positions(&at, found->prompt_logprobs, wanted->prompt_logprobs, 0,
                        wanted->n_prompt_token_ids))
        return false;
    at.part = "output";
    for (size_t i = 0; i < found->n_token_ids && i < wanted->n_token_ids; i++) {
        if (found->logprobs && wanted->logprobs &&
            !same_positions(&at, found->logprobs, wanted->logprobs, i, i + 1))
            return false;
        if (found->token_ids[i] != wanted->token_ids[i]) {
            di_st_find(self,
                       "%s, request %zu, output position %zu: found token %" PRId32
                       ", wanted %" PRId32,
                       how, request, i, found->token_ids[i], wanted->token_ids[i]);
            return false;
        }
    }
    if (found->n_token_ids != wanted->n_token_ids) {
        di_st_find(self, "%s, request %zu: found %zu tokens, wanted %zu", how, request,
                   found->n_token_ids, wanted->n_token_ids);
        return false;
    }
    return true;
}

bool di_st_all_same(di_selftest *self, const char *how, const di_st_results *found,
                    const di_st_results *wanted)
{
    for (size_t i = 0; i < wanted->n; i++)
        if (!di_st_same(self, how, i, found->items[i], wanted->items[i]))
            return false;
    return true;
}
