#include "sample/sampler.h"

#include <assert.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

di_status di_sampler_workspace_init(di_sampler_workspace *workspace, int32_t vocab_size,
                                    const di_kernel *const *plan)
{
    di_sampler_workspace fresh = {.vocab_size = vocab_size};
    DI_TRY(di_selection_init(&fresh.selection, vocab_size, plan));
    fresh.scores = malloc((size_t)vocab_size * sizeof(float));
    fresh.peaks = malloc((size_t)di_n_peaks(vocab_size) * sizeof(float));
    if (!fresh.scores || !fresh.peaks) {
        di_sampler_workspace_free(&fresh);
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
    free(workspace->peaks);
    *workspace = (di_sampler_workspace){0};
}

size_t di_sampler_workspace_bytes(int32_t vocab_size)
{
    return di_selection_bytes(vocab_size) +
           (size_t)(vocab_size + di_n_peaks(vocab_size)) * sizeof(float);
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
    const di_status status = di_constraint_init(&fresh.constraint, &setup->constraint);
    if (status != DI_OK) {
        di_token_counts_free(&fresh.counts);
        return status;
    }
    *state = fresh;
    return DI_OK;
}

void di_sampler_state_free(di_sampler_state *state)
{
    di_token_counts_free(&state->counts);
    di_constraint_free(&state->constraint);
    *state = (di_sampler_state){0};
}

di_status di_sampler_state_append(di_sampler_state *state, int32_t token_id)
{
    DI_TRY(di_constraint_append(&state->constraint, token_id));
    state->n_output++;
    if (state->counts.seen)
        di_token_counts_add_output(&state->counts, token_id);
    return DI_OK;
}

di_sampler_mark di_sampler_state_mark(const di_sampler_state *state)
{
    return (di_sampler_mark){di_constraint_mark_of(&state->constraint)};
}

void di_sampler_state_rewind(di_sampler_state *state, const di_sampler_mark *mark,
                             const int32_t *ids, int32_t n)
{
    for (int32_t i = n; i-- > 0 && state->counts.seen;)
        di_token_counts_take_output(&state->counts, ids[i]);
    state->n_output -= n;
    di_constraint_rewind(&state->constraint, &mark->constraint);
}

bool di_sampler_is_end(const di_sampler_state *state, int32_t token_id)
{
    for (size_t i = 0; i < state->setup.n_finish_ids; i++)
        if (state->setup.finish_ids[i] == token_id)
            return true;
    return false;
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

/* Bans the ids that would end the output, of which it is too short. */
static bool bans_are_on(const di_sampler_state *state)
{
    return state->n_output < state->setup.params->min_tokens && state->setup.n_finish_ids > 0;
}

static bool is_adjusted(const di_sampler_state *state)
{
    return state->setup.params->n_logit_bias > 0 || state->counts.seen || bans_are_on(state) ||
           di_constraint_is_on(&state->constraint);
}

/* Bias, penalties and bans, in place; new peaks. */
static di_status adjust(const di_sampler_state *state, int64_t position,
                        di_sampler_workspace *workspace)
{
    float *const scores = workspace->scores, *const peaks = workspace->peaks;
    const di_sampler_setup *setup = &state->setup;
    di_logit_bias_apply(setup->params, scores);
    if (state->counts.seen)
        di_penalties_apply(setup->params, &state->counts, scores);
    bool must_end = false; /* then a least number of tokens cannot be had */
    if (di_constraint_is_on(&state->constraint))
        DI_TRY(di_constraint_apply(&state->constraint, scores, setup->vocab_size, &must_end));
    for (size_t i = 0; bans_are_on(state) && !must_end && i < setup->n_finish_ids; i++)
        scores[setup->finish_ids[i]] = -INFINITY;
    /* Adjusting makes no bad values. */
    (void)di_peaks_find(&workspace->selection.kernels, scores, setup->vocab_size, peaks);
    if (di_row_max(peaks, di_n_peaks(setup->vocab_size)) == -INFINITY)
        return di_fail(DI_ERR_RUNTIME,
                       "sampling for position %lld: found every token banned (logit_bias, "
                       "min_tokens, the constraint, logits of -inf), wanted one that is not",
                       (long long)position);
    return DI_OK;
}

/* scores = (row - max) / temperature: nothing above 0, and 0 for the largest whatever the
 * temperature. It never changes an order, so the peaks stay peaks. */
static void scale(const float *row, int32_t n, double temperature, float *scores, float *peaks)
{
    const int32_t n_peaks = di_n_peaks(n);
    const float max = di_row_max(peaks, n_peaks);
    const float t = fminf(fmaxf((float)temperature, FLT_MIN), FLT_MAX);
    for (int32_t i = 0; i < n; i++)
        scores[i] = (row[i] - max) / t;
    for (int32_t i = 0; i < n_peaks; i++)
        peaks[i] = (peaks[i] - max) / t;
}

static bool filters_are_on(const di_sampling_params *p, int32_t vocab_size)
{
    return p->min_p > 0.0 || (p->top_k > 0 && p->top_k < vocab_size) || p->top_p < 1.0;
}

/* Of at most n values a sum of weights: those below this have at most `rest` together. */
static float floor_of_mass(uint64_t rest, int32_t n)
{
    const uint64_t each = rest / (uint64_t)n;
    return each < 2 ? -INFINITY : di_logf((float)each * 0x1p-40f) - 1e-3f; /* slack: ten bits */
}

/* The weight that top-p keeps, of a sum. */
static uint64_t cut_of(const di_sampling_params *p, uint64_t sum)
{
    const uint64_t limit = (uint64_t)ceil(p->top_p * (double)sum);
    return limit > 0 ? limit : 1;
}

/* min-p, top-k, top-p over scaled scores; what is left is in the selection, ids ascending. */
static void filter(const di_sampling_params *p, const float *scores, const float *peaks,
                   di_selection *selection)
{
    const int32_t n = selection->capacity;
    const bool has_top_k = p->top_k > 0 && p->top_k < n;
    const float min_p = fmaxf((float)p->min_p, FLT_MIN);
    float floor = p->min_p > 0.0 ? di_logf(min_p) : -INFINITY;
    uint64_t limit = 0;
    if (has_top_k) {
        floor = fmaxf(floor, di_selection_floor(selection, peaks, p->top_k));
    } else if (p->min_p <= 0.0) { /* top-p of all: the sum tells how small a token may be */
        const uint64_t sum = di_weights_sum(selection, scores, 0.0f);
        limit = cut_of(p, sum);
        floor = limit < sum ? floor_of_mass(sum - limit, n) : -INFINITY;
    }
    di_selection_fill(selection, scores, peaks, floor);
    if (has_top_k)
        di_selection_keep_top(selection, p->top_k);
    if (p->top_p >= 1.0)
        return;
    const uint64_t sum = di_selection_weigh(selection, 0.0f);
    if (has_top_k || p->min_p > 0.0)
        limit = cut_of(p, sum);
    di_selection_keep_mass(selection, limit);
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

typedef struct id_range {
    int32_t first, n;
} id_range;

/* The best score + noise so far; equal ones: the lowest id. */
typedef struct best_choice {
    float value;
    int32_t id;
} best_choice;

static void try_choice(best_choice *best, float score, uint32_t bits, int32_t id)
{
    const float y = score + di_gumbelf(bits);
    if (y > best->value || (y == best->value && id < best->id))
        *best = (best_choice){y, id};
}

/* Tokens [first, first + n) of a block whose scores are at most `peak`: only those are looked at
 * whose noise may lift them to the best. */
static void choose_of_block(const di_vocab_kernels *kernels, const di_noise_key *key,
                            const float *scores, id_range ids, float peak, best_choice *best)
{
    uint32_t bits[DI_PEAK_IDS];
    di_noise_bits_block(kernels, key, ids.first, bits);
    const uint32_t least = ~di_gumbel_limit(best->value - peak);
    int32_t n_near = 0;
    for (int32_t i = 0; i < DI_PEAK_IDS; i++)
        n_near += bits[i] >= least;
    for (int32_t i = 0; n_near > 0 && i < ids.n; i++) {
        const uint32_t x = bits[di_noise_place(i)];
        if (x >= least)
            try_choice(best, scores[ids.first + i], x, ids.first + i);
    }
}

/* Scores of at most 0, and 0 for the largest: that token's noise is at least -ln(33 ln 2), which
 * keeps the best and what comes near it within a few units of 0. */
static int32_t choose_of_all(const di_sampler_workspace *workspace, const di_noise_key *key)
{
    const float *const scores = workspace->scores, *const peaks = workspace->peaks;
    const int32_t n = workspace->vocab_size;
    const int32_t top = di_peaks_argmax(scores, n, peaks);
    best_choice best = {-INFINITY, 0};
    try_choice(&best, scores[top], di_noise_bits(key, top), top);
    for (int32_t first = 0; first < n; first += DI_PEAK_IDS) {
        const float peak = peaks[first / DI_PEAK_IDS];
        if (peak + DI_GUMBEL_MAX < best.value)
            continue; /* no noise lifts any of these to the best */
        const id_range ids = {first, (int32_t)di_min_i64(DI_PEAK_IDS, n - first)};
        choose_of_block(&workspace->selection.kernels, key, scores, ids, peak, &best);
    }
    return best.id;
}

static int32_t choose_of_selection(const di_noise_key *key, const float *scores,
                                   const di_selection *selection)
{
    best_choice best = {-INFINITY, 0};
    for (int32_t i = 0; i < selection->n; i++) {
        const int32_t id = selection->id[i];
        if (scores[id] + DI_GUMBEL_MAX >= best.value)
            try_choice(&best, scores[id], di_noise_bits(key, id), id);
    }
    return best.id;
}

static di_noise_key noise_key(const di_sampler_state *state, int64_t position)
{
    return (di_noise_key){.seed = state->setup.seed,
                          .position = (uint32_t)position,
                          .purpose = DI_NOISE_TARGET,
                          .sample = state->setup.sample_index};
}

/* From a row (logits, or scores if they were adjusted) and its peaks. */
static int32_t choose(di_sampler_workspace *workspace, const di_sampler_state *state,
                      const float *row, int64_t position)
{
    const di_sampling_params *p = state->setup.params;
    const int32_t n = workspace->vocab_size;
    float *const scores = workspace->scores, *const peaks = workspace->peaks;
    if (p->temperature == 0.0)
        return di_peaks_argmax(row, n, peaks);
    const di_noise_key key = noise_key(state, position);
    scale(row, n, p->temperature, scores, peaks);
    if (!filters_are_on(p, n))
        return choose_of_all(workspace, &key);
    filter(p, scores, peaks, &workspace->selection);
    const bool is_dense =
        workspace->selection.n > n / 64; /* then whole blocks of noise are cheaper */
    if (is_dense || (p->n_logprobs >= 0 && p->processed_logprobs))
        mask_scores(&workspace->selection, scores);
    return is_dense ? choose_of_all(workspace, &key)
                    : choose_of_selection(&key, scores, &workspace->selection);
}

/* The row to choose from: logits, or the workspace's scores if they had to be adjusted. Sets the
 * peaks. */
static di_status take_row(di_sampler_workspace *workspace, const di_sampler_state *state,
                          const float *logits, int64_t position, const float **row)
{
    const int32_t n = workspace->vocab_size;
    assert(n == state->setup.vocab_size);
    if (position < 0 || position > UINT32_MAX)
        return di_fail(DI_ERR_ARGUMENT, "position: found %lld, wanted 0 to %lld",
                       (long long)position, (long long)UINT32_MAX);
    if (!di_peaks_find(&workspace->selection.kernels, logits, n, workspace->peaks) ||
        di_row_max(workspace->peaks, di_n_peaks(n)) == -INFINITY)
        return di_logits_check(logits, n, position); /* says what is wrong */
    *row = logits;
    if (is_adjusted(state)) {
        memcpy(workspace->scores, logits, (size_t)n * sizeof *logits);
        DI_TRY(adjust(state, position, workspace));
        *row = workspace->scores;
    }
    return DI_OK;
}

/* With the logprobs that the parameters ask for; row: what was chosen from, at temperature 0. */
static di_status finish(di_sampler_workspace *workspace, const di_sampler_state *state,
                        const float *logits, const float *row, di_sample_out *result)
{
    const di_sampling_params *p = state->setup.params;
    if (p->temperature != 0.0)
        row = workspace->scores;
    if (p->n_logprobs < 0)
        return DI_OK;
    return di_logprobs_compute(&workspace->logprobs, &workspace->selection,
                               p->processed_logprobs ? row : logits, result->token_id,
                               p->n_logprobs, &result->logprobs);
}

di_status di_sample(di_sampler_workspace *workspace, const di_sampler_state *state,
                    const float *logits, int64_t position, di_sample_out *out)
{
    const float *row;
    DI_TRY(take_row(workspace, state, logits, position, &row));
    di_sample_out result = {.token_id = choose(workspace, state, row, position)};
    DI_TRY(finish(workspace, state, logits, row, &result));
    *out = result;
    return DI_OK;
}

/* All that the sampler's steps leave of a row; without filters, where it is all, it is not listed.
 */
static di_distribution weigh_row(di_sampler_workspace *workspace, const di_sampling_params *p,
                                 const float *row)
{
    const int32_t n = workspace->vocab_size;
    float *const scores = workspace->scores;
    di_selection *const selection = &workspace->selection;
    if (p->temperature == 0.0) {
        selection->n = 1;
        selection->id[0] = di_peaks_argmax(row, n, workspace->peaks);
        selection->weight[0] = (uint64_t)1 << 40;
        return (di_distribution){
            .n = 1, .id = selection->id, .weight = selection->weight, .sum = selection->weight[0]};
    }
    scale(row, n, p->temperature, scores, workspace->peaks);
    if (!filters_are_on(p, n)) {
        const uint64_t sum = di_weights_sum(selection, scores, 0.0f);
        return (di_distribution){.n = n, .score = scores, .sums = selection->sums, .sum = sum};
    }
    filter(p, scores, workspace->peaks, selection);
    const uint64_t sum = di_selection_weigh(selection, 0.0f);
    return (di_distribution){
        .n = selection->n, .id = selection->id, .weight = selection->weight, .sum = sum};
}

di_status di_sample_draft(di_sampler_workspace *workspace, const di_sampler_state *state,
                          const float *logits, int64_t position, int32_t slot, di_draft *out)
{
    const float *row;
    DI_TRY(take_row(workspace, state, logits, position, &row));
    di_sampling_params p = *state->setup.params;
    if (p.top_k <= 0 || p.top_k > DI_DRAFT_IDS)
        p.top_k = DI_DRAFT_IDS;
    di_distribution drawn = weigh_row(workspace, &p, row);
    di_selection *const selection = &workspace->selection;
    if (!drawn.id) { /* a vocabulary of no more than DI_DRAFT_IDS */
        di_selection_fill(selection, workspace->scores, workspace->peaks, -INFINITY);
        drawn.sum = di_selection_weigh(selection, 0.0f);
    }
    out->n = selection->n;
    out->sum = drawn.sum;
    memcpy(out->id, selection->id, (size_t)out->n * sizeof *out->id);
    memcpy(out->weight, selection->weight, (size_t)out->n * sizeof *out->weight);
    di_noise_key key = noise_key(state, position);
    key.purpose = DI_NOISE_DRAFT;
    key.sample |= (uint32_t)slot << 16;
    out->token_id =
        out->n == 1 ? out->id[0] : choose_of_selection(&key, workspace->scores, selection);
    return DI_OK;
}

di_status di_sample_verify(di_sampler_workspace *workspace, const di_sampler_state *state,
                           const float *logits, int64_t position, const di_draft *draft,
                           di_sample_out *out)
{
    const di_sampling_params *p = state->setup.params;
    const float *row;
    DI_TRY(take_row(workspace, state, logits, position, &row));
    const di_distribution target = weigh_row(workspace, p, row);
    const di_noise_key key = noise_key(state, position);
    di_sample_out result = {.token_id = di_verify_reject(&key, &target, draft)};
    if (p->n_logprobs >= 0 && p->processed_logprobs && p->temperature != 0.0 &&
        filters_are_on(p, workspace->vocab_size))
        mask_scores(&workspace->selection, workspace->scores);
    DI_TRY(finish(workspace, state, logits, row, &result));
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
