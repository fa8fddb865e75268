#include "sample/sampler.h"

#include <assert.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { NOISE_IDS = 128 /* ids whose noise is made at once; a multiple of 4 */ };

di_status di_sampler_workspace_init(di_sampler_workspace *workspace, int32_t vocab_size)
{
    di_sampler_workspace fresh = {.vocab_size = vocab_size};
    DI_TRY(di_selection_init(&fresh.selection, vocab_size));
    fresh.scores = malloc((size_t)vocab_size * sizeof(float));
    if (!fresh.scores) {
        di_selection_free(&fresh.selection);
        return di_fail_memory((size_t)vocab_size * sizeof(float), "the sampler's scores");
    }
    *workspace = fresh;
    return DI_OK;
}

void di_sampler_workspace_free(di_sampler_workspace *workspace)
{
    di_selection_free(&workspace->selection);
    di_logprobs_buffer_free(&workspace->logprobs);
    free(workspace->scores);
    *workspace = (di_sampler_workspace){0};
}

size_t di_sampler_workspace_bytes(int32_t vocab_size)
{
    return di_selection_bytes(vocab_size) + (size_t)vocab_size * sizeof(float);
}

di_status di_sampler_state_init(di_sampler_state *state, const di_sampler_setup *setup)
{
    di_sampler_state fresh = {.setup = *setup};
    fresh.setup.prompt = NULL;
    fresh.setup.n_prompt = 0;
    if (di_penalties_are_on(setup->params)) {
        DI_TRY(di_token_counts_init(&fresh.counts, setup->vocab_size));
        di_token_counts_add_prompt(&fresh.counts, setup->prompt, setup->n_prompt);
    }
    *state = fresh;
    return DI_OK;
}

void di_sampler_state_free(di_sampler_state *state)
{
    di_token_counts_free(&state->counts);
    *state = (di_sampler_state){0};
}

void di_sampler_state_append(di_sampler_state *state, int32_t token_id)
{
    state->n_output++;
    if (state->counts.seen)
        di_token_counts_add_output(&state->counts, token_id);
}

di_status di_logits_check(const float *logits, int32_t vocab_size, int64_t position)
{
    int32_t n_bad = 0, n_finite = 0;
    for (int32_t i = 0; i < vocab_size; i++) {
        n_bad += !(logits[i] <= FLT_MAX);
        n_finite += logits[i] >= -FLT_MAX;
    }
    if (n_bad == 0 && n_finite > 0)
        return DI_OK;
    if (n_bad == 0)
        return di_fail(DI_ERR_RUNTIME,
                       "logits for position %lld: found -inf for all %d tokens, "
                       "wanted finite numbers",
                       (long long)position, (int)vocab_size);
    int32_t id = 0;
    while (logits[id] <= FLT_MAX)
        id++;
    return di_fail(DI_ERR_RUNTIME,
                   "logits for position %lld: found %s at token id %d (%d of %d "
                   "tokens so), wanted finite numbers",
                   (long long)position, logits[id] != logits[id] ? "NaN" : "+inf", (int)id,
                   (int)n_bad, (int)vocab_size);
}

/* Bias, penalties and bans, in place. */
static di_status adjust(const di_sampler_state *state, int64_t position, float *scores)
{
    const di_sampler_setup *setup = &state->setup;
    const bool is_short = state->n_output < setup->params->min_tokens;
    di_logit_bias_apply(setup->params, scores);
    if (state->counts.seen)
        di_penalties_apply(setup->params, &state->counts, scores);
    for (size_t i = 0; is_short && i < setup->n_finish_ids; i++)
        scores[setup->finish_ids[i]] = -INFINITY;
    if (di_row_max(scores, setup->vocab_size) == -INFINITY)
        return di_fail(DI_ERR_RUNTIME,
                       "sampling for position %lld: found every token banned (logit_bias, "
                       "min_tokens, logits of -inf), wanted one that is not",
                       (long long)position);
    return DI_OK;
}

static int32_t argmax(const float *scores, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (scores[i] > scores[best])
            best = i;
    return best;
}

/* (x - max) / temperature: nothing above 0, and 0 for the largest whatever the temperature. */
static void scale(float *scores, int32_t n, double temperature)
{
    const float max = di_row_max(scores, n);
    const float t = fminf(fmaxf((float)temperature, FLT_MIN), FLT_MAX);
    for (int32_t i = 0; i < n; i++)
        scores[i] = (scores[i] - max) / t;
}

static bool filters_are_on(const di_sampling_params *p, int32_t vocab_size)
{
    return p->min_p > 0.0 || (p->top_k > 0 && p->top_k < vocab_size) || p->top_p < 1.0;
}

/* min-p, top-k, top-p over scaled scores; what is left is in the selection, ids ascending. */
static void filter(const di_sampling_params *p, const float *scores, di_selection *selection)
{
    const float min_p = fmaxf((float)p->min_p, FLT_MIN);
    di_selection_fill(selection, scores, p->min_p > 0.0 ? di_logf(min_p) : -INFINITY);
    if (p->top_k > 0)
        di_selection_keep_top(selection, p->top_k);
    if (p->top_p >= 1.0)
        return;
    const uint64_t sum = di_selection_weigh(selection, 0.0f);
    const uint64_t limit = (uint64_t)ceil(p->top_p * (double)sum);
    di_selection_keep_mass(selection, limit > 0 ? limit : 1);
}

/* -inf for what the filter took. */
static void mask_scores(const di_selection *selection, float *scores)
{
    int32_t next = 0;
    for (int32_t i = 0; i < selection->n; i++) {
        for (; next < selection->id[i]; next++)
            scores[next] = -INFINITY;
        next++;
    }
    for (; next < selection->capacity; next++)
        scores[next] = -INFINITY;
}

/* Largest score + noise; equal ones: the lowest id. */
static int32_t choose_of_all(const di_noise_key *key, const float *scores, int32_t n)
{
    float gumbel[NOISE_IDS];
    float best = -INFINITY;
    int32_t best_id = 0;
    for (int32_t first = 0; first < n; first += NOISE_IDS) {
        const int32_t count = (int32_t)di_min_i64(NOISE_IDS, n - first);
        if (di_row_max(scores + first, count) + DI_GUMBEL_MAX < best)
            continue; /* no noise lifts any of these over the best */
        di_noise_gumbel(key, first, count, gumbel);
        for (int32_t i = 0; i < count; i++) {
            const float y = scores[first + i] + gumbel[i];
            if (y > best) {
                best = y;
                best_id = first + i;
            }
        }
    }
    return best_id;
}

static int32_t choose_of_selection(const di_noise_key *key, const float *scores,
                                   const di_selection *selection)
{
    float best = -INFINITY;
    int32_t best_id = 0;
    for (int32_t i = 0; i < selection->n; i++) {
        const int32_t id = selection->id[i];
        const float score = scores[id];
        if (score + DI_GUMBEL_MAX < best)
            continue;
        const float y = score + di_gumbelf(di_noise_bits(key, id));
        if (y > best) {
            best = y;
            best_id = id;
        }
    }
    return best_id;
}

static di_noise_key noise_key(const di_sampler_state *state, int64_t position)
{
    return (di_noise_key){.seed = state->setup.seed,
                          .position = (uint32_t)position,
                          .purpose = DI_NOISE_TARGET,
                          .sample = state->setup.sample_index};
}

static int32_t choose(di_sampler_workspace *workspace, const di_sampler_state *state,
                      int64_t position)
{
    const di_sampling_params *p = state->setup.params;
    const int32_t n = workspace->vocab_size;
    float *const scores = workspace->scores;
    if (p->temperature == 0.0)
        return argmax(scores, n);
    const di_noise_key key = noise_key(state, position);
    scale(scores, n, p->temperature);
    if (!filters_are_on(p, n))
        return choose_of_all(&key, scores, n);
    filter(p, scores, &workspace->selection);
    const bool is_dense = workspace->selection.n > n / 8; /* then whole runs of noise are cheaper */
    if (is_dense || (p->n_logprobs >= 0 && p->processed_logprobs))
        mask_scores(&workspace->selection, scores);
    return is_dense ? choose_of_all(&key, scores, n)
                    : choose_of_selection(&key, scores, &workspace->selection);
}

di_status di_sample(di_sampler_workspace *workspace, const di_sampler_state *state,
                    const float *logits, int64_t position, di_sample_out *out)
{
    const di_sampling_params *p = state->setup.params;
    const int32_t n = workspace->vocab_size;
    assert(n == state->setup.vocab_size);
    if (position < 0 || position > UINT32_MAX)
        return di_fail(DI_ERR_ARGUMENT, "position: found %lld, wanted 0 to %lld",
                       (long long)position, (long long)UINT32_MAX);
    DI_TRY(di_logits_check(logits, n, position));
    memcpy(workspace->scores, logits, (size_t)n * sizeof *logits);
    DI_TRY(adjust(state, position, workspace->scores));
    di_sample_out result = {.token_id = choose(workspace, state, position)};
    if (p->n_logprobs >= 0)
        DI_TRY(di_logprobs_compute(&workspace->logprobs, &workspace->selection,
                                   p->processed_logprobs ? workspace->scores : logits,
                                   result.token_id, p->n_logprobs, &result.logprobs));
    *out = result;
    return DI_OK;
}

di_status di_sample_given(di_sampler_workspace *workspace, const float *logits, int64_t position,
                          int32_t token_id, int32_t n_logprobs, di_position_logprobs *out)
{
    DI_TRY(di_logits_check(logits, workspace->vocab_size, position));
    return di_logprobs_compute(&workspace->logprobs, &workspace->selection, logits, token_id,
                               n_logprobs, out);
}
