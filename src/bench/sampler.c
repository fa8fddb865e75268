#include "bench/sampler.h"

#include <stdio.h>
#include <stdlib.h>

#include "sample/sampler.h"

enum { N_ROWS = 4 }; /* of different logits, in turn */

typedef struct request {
    const char *name;
    di_sampling_params params;
} request;

#define DEFAULTS .repetition_penalty = 1.0, .n = 1, .max_tokens = -1

static const request requests[] = {
    {"greedy", {DEFAULTS, .temperature = 0.0, .top_p = 1.0, .n_logprobs = -1}},
    {"temperature 1", {DEFAULTS, .temperature = 1.0, .top_p = 1.0, .n_logprobs = -1}},
    {"min-p 0.05", {DEFAULTS, .temperature = 1.0, .top_p = 1.0, .min_p = 0.05, .n_logprobs = -1}},
    {"top-k 50", {DEFAULTS, .temperature = 1.0, .top_p = 1.0, .top_k = 50, .n_logprobs = -1}},
    {"top-p 0.95", {DEFAULTS, .temperature = 1.0, .top_p = 0.95, .n_logprobs = -1}},
    {"greedy, 20 logprobs", {DEFAULTS, .temperature = 0.0, .top_p = 1.0, .n_logprobs = 20}},
};

typedef struct sampler {
    di_sampler_workspace workspace;
    di_sampler_state state;
    float *logits; /* [N_ROWS, vocab_size] */
    int32_t vocab_size;
    di_status status;
} sampler;

static void choose(void *user, int64_t i)
{
    sampler *s = user;
    di_sample_out out;
    const float *row = s->logits + i % N_ROWS * s->vocab_size;
    if (s->status == DI_OK)
        s->status = di_sample(&s->workspace, &s->state, row, i, &out);
}

/* Sums of four uniform values, of a deviation of 4: a few hundred tokens have most of the mass. */
static void fill_logits(float *logits, int64_t n)
{
    uint64_t x = 1;
    for (int64_t i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int k = 0; k < 4; k++) {
            x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            sum += (float)(x >> 40) * 0x1p-24f;
        }
        logits[i] = (sum - 2.0f) * 7.0f;
    }
}

static di_status run_request(sampler *s, const request *r, double seconds, di_bench_sampler_fn emit,
                             void *user)
{
    char shape[64];
    di_timing timing = {0};
    const di_sampler_setup setup = {.params = &r->params, .vocab_size = s->vocab_size, .seed = 1};
    snprintf(shape, sizeof shape, "%d, %s", s->vocab_size, r->name);
    if (seconds > 0.0) {
        DI_TRY(di_sampler_state_init(&s->state, &setup));
        di_timing_run(choose, s, seconds, &timing);
        di_sampler_state_free(&s->state);
        DI_TRY(s->status);
    }
    return emit(user, shape, &timing);
}

di_status di_bench_sampler_run(const di_config *config, double seconds, di_bench_sampler_fn emit,
                               void *user)
{
    sampler s = {.vocab_size = (int32_t)config->vocab_size};
    const int64_t n = N_ROWS * config->vocab_size;
    DI_TRY(di_sampler_workspace_init(&s.workspace, s.vocab_size, NULL));
    s.logits = malloc((size_t)n * sizeof *s.logits);
    di_status status = DI_OK;
    if (s.logits)
        fill_logits(s.logits, n);
    else
        status = di_fail_memory((size_t)n * sizeof *s.logits, "logits");
    for (size_t i = 0; status == DI_OK && i < sizeof requests / sizeof requests[0]; i++)
        status = run_request(&s, &requests[i], seconds, emit, user);
    free(s.logits);
    di_sampler_workspace_free(&s.workspace);
    return status;
}
