#include "sample/penalties.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define IN_PROMPT 0x80000000u

di_status di_token_counts_init(di_token_counts *counts, int32_t vocab_size)
{
    const size_t n = (size_t)vocab_size;
    di_token_counts fresh = {.vocab_size = vocab_size,
                             .distinct = malloc(n * sizeof(int32_t)),
                             .seen = calloc(n, sizeof(uint32_t))};
    if (!fresh.distinct || !fresh.seen) {
        di_token_counts_free(&fresh);
        return di_fail_memory(n * (sizeof(int32_t) + sizeof(uint32_t)), "a request's token counts");
    }
    *counts = fresh;
    return DI_OK;
}

void di_token_counts_free(di_token_counts *counts)
{
    free(counts->distinct);
    free(counts->seen);
    *counts = (di_token_counts){0};
}

static void note(di_token_counts *counts, int32_t id)
{
    if (counts->seen[id] == 0)
        counts->distinct[counts->n_distinct++] = id;
}

void di_token_counts_add_prompt(di_token_counts *counts, const int32_t *ids, size_t n_ids)
{
    for (size_t i = 0; i < n_ids; i++) {
        note(counts, ids[i]);
        counts->seen[ids[i]] |= IN_PROMPT;
    }
}

void di_token_counts_add_output(di_token_counts *counts, int32_t id)
{
    note(counts, id);
    counts->seen[id]++;
}

void di_token_counts_take_output(di_token_counts *counts, int32_t id)
{
    counts->seen[id]--;
    if (counts->seen[id] == 0) /* it was noted last */
        counts->n_distinct--;
}

bool di_penalties_are_on(const di_sampling_params *params)
{
    return params->repetition_penalty != 1.0 || params->presence_penalty != 0.0 ||
           params->frequency_penalty != 0.0;
}

static float clamp_finite(float x)
{
    return fminf(fmaxf(x, -FLT_MAX), FLT_MAX);
}

void di_logit_bias_apply(const di_sampling_params *params, float *logits)
{
    for (size_t i = 0; i < params->n_logit_bias; i++) {
        const di_logit_bias *bias = &params->logit_bias[i];
        float *const logit = &logits[bias->token_id];
        if (bias->bias == -INFINITY)
            *logit = -INFINITY;
        else if (*logit != -INFINITY)
            *logit = clamp_finite(*logit + bias->bias);
    }
}

void di_penalties_apply(const di_sampling_params *params, const di_token_counts *counts,
                        float *logits)
{
    const float repetition = fminf(fmaxf((float)params->repetition_penalty, FLT_MIN), FLT_MAX);
    const float frequency = (float)params->frequency_penalty;
    const float presence = (float)params->presence_penalty;
    for (int32_t i = 0; i < counts->n_distinct; i++) {
        const int32_t id = counts->distinct[i];
        const uint32_t n_output = counts->seen[id] & ~IN_PROMPT;
        float x = logits[id];
        if (x == -INFINITY)
            continue;
        x = clamp_finite(x > 0.0f ? x / repetition : x * repetition);
        if (n_output > 0) {
            x -= frequency * (float)n_output;
            x -= presence;
        }
        logits[id] = clamp_finite(x);
    }
}
