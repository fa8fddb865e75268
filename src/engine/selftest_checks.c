#include <stdarg.h>
#include <string.h>

#include "base/checked.h"
#include "engine/engine.h"
#include "engine/selftest.h"
#include "kernels/check.h"

/* Everything on, as the engine runs by default. */
static const di_st_setting usual = {.is_async = true, .has_prefix_cache = true};
/* Nothing that could matter: one request at a time, one thread, no cache. */
static const di_st_setting plain = {.n_threads = 1, .one_by_one = true};

static void describe(di_selftest *self, const char *fmt, ...) DI_PRINTF(2, 3);
static void describe(di_selftest *self, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(self->what, sizeof self->what, fmt, args);
    va_end(args);
}

static bool is_full(const di_selftest *self)
{
    return self->wanted->is_full;
}

static int64_t max_tokens(const di_selftest *self)
{
    return di_min_i64(is_full(self) ? 32 : 8, self->context_len / 4);
}

/* A prompt length, or what the context has room for. */
static int64_t fit(const di_selftest *self, int64_t n)
{
    return di_max_i64(1, di_min_i64(n, self->context_len - max_tokens(self)));
}

di_status di_st_prepare(di_selftest *self)
{
    const size_t n = is_full(self) ? 32 : 8;
    DI_TRY(di_st_requests_new(self, n, &self->requests));
    for (size_t i = 0; i < n; i++) {
        /* one in eight is long: beyond the window and a block */
        const bool is_long = i % 8 == 1;
        const di_sampling_params sampling =
            di_st_sampling(i % 4 == 3 ? 0 : 0.6, self->seed + i, max_tokens(self));
        DI_TRY(di_st_add_prompt(self, fit(self, is_long ? 130 : 2),
                                fit(self, is_long         ? 180
                                          : is_full(self) ? 80
                                                          : 40),
                                &sampling, &self->requests));
    }
    return DI_OK;
}

/* Runs the requests so and compares them with each alone. */
static di_status compare(di_selftest *self, const di_st_setting *setting, const char *how)
{
    if (self->finding[0])
        return DI_OK;
    di_st_results results;
    if (!self->alone.n)
        DI_TRY(di_st_run(self, &self->requests, &plain, &self->alone));
    DI_TRY(di_st_run(self, &self->requests, setting, &results));
    (void)di_st_all_same(self, how, &results, &self->alone);
    di_st_results_free(&results);
    return DI_OK;
}

/* ------------------------------------------------------------------- company */

/* One batch: the needle as request `at` among random ones. */
static di_status needle_in(di_selftest *self, const di_request *needle, size_t n, size_t at,
                           const di_result *wanted)
{
    di_st_requests batch;
    di_st_results results;
    char how[64];
    DI_TRY(di_st_requests_new(self, n, &batch));
    for (size_t i = 0; i < n; i++) {
        if (i == at) {
            batch.items[batch.n++] = *needle;
            continue;
        }
        const di_sampling_params sampling =
            di_st_sampling(i % 2 ? 0.8 : 0, self->seed * 31 + i, 1 + (int64_t)i % max_tokens(self));
        DI_TRY(di_st_add_prompt(self, 1, fit(self, is_full(self) ? 60 : 20), &sampling, &batch));
    }
    DI_TRY(di_st_run(self, &batch, &usual, &results));
    snprintf(how, sizeof how, "as number %zu of %zu requests", at, n);
    (void)di_st_same(self, how, at, results.items[at], wanted);
    di_st_results_free(&results);
    return DI_OK;
}

static di_status check_needle(di_selftest *self)
{
    static const size_t sizes[] = {8, 16, 32, 64};
    const int n_sizes = is_full(self) ? 4 : 2;
    di_st_requests needle;
    DI_TRY(di_st_requests_new(self, 2, &needle));
    for (int i = 0; i < 2; i++) {
        const di_sampling_params sampling =
            di_st_sampling(i ? 0.8 : 0, self->seed, max_tokens(self));
        DI_TRY(di_st_add_prompt(self, fit(self, 24), fit(self, 24), &sampling, &needle));
        needle.items[i].token_ids = needle.items[0].token_ids;
    }
    describe(self,
             "a prompt of %zu tokens alone and at random places among 8 to %zu requests, "
             "greedy and sampled: tokens and log probabilities",
             needle.items[0].n_token_ids, sizes[n_sizes - 1]);
    di_st_results alone;
    DI_TRY(di_st_run(self, &needle, &plain, &alone));
    di_status status = DI_OK;
    for (int i = 0; i < 2 * n_sizes && status == DI_OK && !self->finding[0]; i++) {
        const size_t n = sizes[i / 2], at = (size_t)di_pcg64_below(&self->rng, n);
        status = needle_in(self, &needle.items[i % 2], n, at, alone.items[i % 2]);
    }
    di_st_results_free(&alone);
    return status;
}

static di_status check_batch(di_selftest *self)
{
    describe(self,
             "%zu requests at temperature 0.6 and 0, each alone and all at once: log "
             "probabilities of prompt and output",
             self->requests.n);
    return compare(self, &usual, "all at once");
}

/* ------------------------------------------------------------------- how steps are cut */

static di_status check_chunks(di_selftest *self)
{
    static const int chunks[] = {1, 3, 16};
    describe(self, "%zu requests whole and in passes of 1, 3 and 16 tokens", self->requests.n);
    for (int i = 0; i < 3; i++) {
        di_st_setting setting = usual;
        char how[64];
        setting.max_step_tokens = chunks[i];
        snprintf(how, sizeof how, "in passes of %d tokens", chunks[i]);
        DI_TRY(compare(self, &setting, how));
    }
    return DI_OK;
}

static di_status check_threads(di_selftest *self)
{
    static const int counts[] = {1, 2, 4};
    describe(self, "%zu requests with 1, 2 and 4 threads", self->requests.n);
    for (int i = 0; i < 3; i++) {
        di_st_setting setting = usual;
        char how[64];
        setting.n_threads = counts[i];
        snprintf(how, sizeof how, "with %d threads", counts[i]);
        DI_TRY(compare(self, &setting, how));
    }
    return DI_OK;
}

/* With it on is how the other checks run. */
static di_status check_async(di_selftest *self)
{
    di_st_setting setting = usual;
    setting.is_async = false;
    describe(self, "%zu requests with asynchronous scheduling on and off", self->requests.n);
    return compare(self, &setting, "without asynchronous scheduling");
}

/* ------------------------------------------------------------------- memory */

/* Prompts that begin alike: half a long one's tokens, then others. */
static di_status shared_beginnings(di_selftest *self, di_st_requests *out)
{
    enum { N = 4 };
    const di_sampling_params sampling = di_st_sampling(0.6, self->seed, max_tokens(self));
    const int64_t n = fit(self, 140);
    DI_TRY(di_st_requests_new(self, N, out));
    for (int i = 0; i < N; i++) {
        DI_TRY(di_st_add_prompt(self, n, n, &sampling, out));
        int32_t *ids = (int32_t *)out->items[i].token_ids;
        memcpy(ids, out->items[0].token_ids, (size_t)(n * (i + 1) / (N + 1)) * sizeof *ids);
        out->items[i].sampling.prompt_logprobs = false; /* they would compute the whole prompt */
    }
    return DI_OK;
}

static di_status check_prefix(di_selftest *self)
{
    di_st_requests requests;
    di_st_results cold, warm;
    di_st_setting setting = usual;
    DI_TRY(shared_beginnings(self, &requests));
    DI_TRY(di_st_run(self, &requests, &plain, &cold));
    setting.n_rounds = 2; /* the second one finds its prompts */
    di_status status = di_st_run(self, &requests, &setting, &warm);
    if (status == DI_OK) {
        (void)di_st_all_same(self, "with the prefix cache", &warm, &cold);
        describe(self,
                 "%zu prompts that begin alike, prefix cache off and exact (%llu of %llu "
                 "prompt tokens cached)",
                 requests.n, (unsigned long long)warm.stats.cached_prompt_tokens,
                 (unsigned long long)warm.stats.prompt_tokens);
        di_st_results_free(&warm);
    }
    di_st_results_free(&cold);
    return status;
}

static di_status check_preemption(di_selftest *self)
{
    enum { N = 6, BEFORE_BLOCK_END = 3 };
    di_st_requests requests;
    di_st_results roomy, tight;
    const di_st_setting narrow = {.is_async = true, .max_step_tokens = 64, .window_blocks = N + 1};
    /* prompts that end just before a block does: all fit at first, and then grow */
    const int64_t n = fit(self, DI_KV_BLOCK_TOKENS - BEFORE_BLOCK_END);
    DI_TRY(di_st_requests_new(self, N, &requests));
    for (uint64_t i = 0; i < N; i++) {
        const di_sampling_params sampling = di_st_sampling(0.6, self->seed + i, max_tokens(self));
        DI_TRY(di_st_add_prompt(self, n, n, &sampling, &requests));
    }
    DI_TRY(di_st_run(self, &requests, &plain, &roomy));
    di_status status = di_st_run(self, &requests, &narrow, &tight);
    if (status == DI_OK) {
        (void)di_st_all_same(self, "with little KV cache", &tight, &roomy);
        describe(self, "%d requests with enough and with little KV cache (%llu preemptions)", N,
                 (unsigned long long)tight.stats.n_preemptions);
        di_st_results_free(&tight);
    }
    di_st_results_free(&roomy);
    return status;
}

/* ------------------------------------------------------------------- seeds */

/* Twice without a seed: two seeds, and each gives its result again. */
static di_status check_fresh_seeds(di_selftest *self, di_st_requests *requests)
{
    di_st_results fresh, again;
    requests->items[0].sampling.has_seed = requests->items[1].sampling.has_seed = false;
    DI_TRY(di_st_run(self, requests, &usual, &fresh));
    for (int i = 0; i < 2; i++) {
        requests->items[i].sampling.has_seed = true;
        requests->items[i].sampling.seed = fresh.items[i]->seed;
    }
    if (fresh.items[0]->seed == fresh.items[1]->seed)
        di_st_find(self, "two requests without a seed: both were given %llu",
                   (unsigned long long)fresh.items[0]->seed);
    const di_status status = di_st_run(self, requests, &plain, &again);
    if (status == DI_OK && !self->finding[0])
        (void)di_st_all_same(self, "again with the reported seeds", &again, &fresh);
    di_st_results_free(&fresh);
    if (status == DI_OK)
        di_st_results_free(&again);
    return status;
}

static di_status check_seeds(di_selftest *self)
{
    di_st_requests requests;
    di_st_results once, twice;
    di_sampling_params sampling = di_st_sampling(1, self->seed, max_tokens(self));
    describe(self, "a request twice with one seed, twice without, and again with the seeds that "
                   "were drawn");
    sampling.top_p = 1;
    DI_TRY(di_st_requests_new(self, 2, &requests));
    DI_TRY(di_st_add_prompt(self, fit(self, 12), fit(self, 12), &sampling, &requests));
    requests.items[requests.n++] = requests.items[0];
    DI_TRY(di_st_run(self, &requests, &usual, &once));
    di_status status = di_st_run(self, &requests, &plain, &twice);
    if (status == DI_OK) {
        if (di_st_all_same(self, "with one seed in another run", &twice, &once))
            (void)di_st_same(self, "with one seed beside itself", 1, once.items[1], once.items[0]);
        di_st_results_free(&twice);
    }
    di_st_results_free(&once);
    if (status == DI_OK && !self->finding[0])
        status = check_fresh_seeds(self, &requests);
    return status;
}

/* ------------------------------------------------------------------- operations */

static di_status choose_kernels(const di_selftest *self, di_plan *plan)
{
    di_effective_options effective;
    di_kernel_mask mask;
    DI_TRY(di_options_resolve(&self->options, &effective));
    DI_TRY(di_kernel_mask_parse(effective.isa, effective.kernels, &mask));
    di_plan_init(&mask, effective.is_batch_invariant, plan);
    for (int op = 0; op < DI_N_OPS && self->kernels; op++)
        if (self->kernels[op])
            plan->kernels[op] = plan->wide[op] = self->kernels[op];
    return DI_OK;
}

static di_status check_operations(di_selftest *self)
{
    const int n_shapes = is_full(self) ? 16 : 4;
    const int32_t n_rows = is_full(self) ? 70 : 17;
    di_plan plan;
    int64_t n_calls = 0;
    DI_TRY(choose_kernels(self, &plan));
    for (int op = 0; op < DI_N_OPS; op++) {
        for (int shape = 0; shape < n_shapes && !self->finding[0]; shape++) {
            di_op_finding finding;
            DI_TRY(di_op_check_rows(plan.kernels[op], di_pcg64_next(&self->rng), n_rows, &finding));
            n_calls += finding.n_calls;
            if (finding.has_failed)
                di_st_find(self, "%s", finding.text);
        }
    }
    describe(self,
             "%d operations, %d shapes of up to %d rows: each row in %lld calls of other rows "
             "and pieces",
             DI_N_OPS, n_shapes, (int)n_rows, (long long)n_calls);
    return DI_OK;
}

const di_st_check di_st_checks[] = {
    {"operations", check_operations}, {"needle", check_needle},         {"batch", check_batch},
    {"chunks", check_chunks},         {"threads", check_threads},       {"async", check_async},
    {"prefix-cache", check_prefix},   {"preemption", check_preemption}, {"seeds", check_seeds},
};
const int di_n_st_checks = sizeof di_st_checks / sizeof di_st_checks[0];
