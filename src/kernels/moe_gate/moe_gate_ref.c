#include "kernels/moe_gate/moe_gate.h"

#include "base/mathf.h"
#include "kernels/all.h"

static float softplus(float x)
{
    return x > 20.0f ? x : di_log1pf(di_expf(x));
}

/* Largest of score + bias among the experts not taken yet. */
static int64_t pick(const float *scores, const float *bias, const int32_t *taken, int64_t n_taken,
                    int64_t n)
{
    int64_t best = -1;
    for (int64_t e = 0; e < n; e++) {
        bool is_taken = false;
        for (int64_t i = 0; i < n_taken; i++)
            is_taken |= taken[i] == e;
        if (!is_taken && (best < 0 || scores[e] + bias[e] > scores[best] + bias[best]))
            best = e;
    }
    return best;
}

static void sort_by_expert(int32_t *experts, float *weights, int64_t k)
{
    for (int64_t i = 1; i < k; i++) {
        for (int64_t j = i; j > 0 && experts[j] < experts[j - 1]; j--) {
            const int32_t e = experts[j];
            const float w = weights[j];
            experts[j] = experts[j - 1];
            weights[j] = weights[j - 1];
            experts[j - 1] = e;
            weights[j - 1] = w;
        }
    }
}

void di_moe_gate_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_moe_gate_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        const float *logits = a->logits + row * a->n_experts;
        float *scores = a->scores + row * a->n_experts;
        int32_t *experts = a->experts + row * a->k;
        float *weights = a->weights + row * a->k;
        for (int64_t e = 0; e < a->n_experts; e++)
            scores[e] = sqrtf(softplus(logits[e]));
        float sum = 0.0f;
        for (int64_t i = 0; i < a->k; i++) {
            experts[i] = (int32_t)pick(scores, a->bias, experts, i, a->n_experts);
            weights[i] = scores[experts[i]];
            sum += weights[i];
        }
        for (int64_t i = 0; i < a->k; i++) {
            if (a->is_normalized && a->k > 1)
                weights[i] /= sum + 1e-20f;
            weights[i] *= a->routed_scale;
        }
        sort_by_expert(experts, weights, a->k);
    }
}

void di_moe_combine_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_moe_combine_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t i = 0; i < a->dim; i++) {
            float sum = 0.0f;
            for (int64_t j = 0; j < a->k; j++)
                sum += di_bf16_to_f32(a->routed[a->assignments[row * a->k + j] * a->dim + i]);
            sum += di_bf16_to_f32(a->shared[row * a->dim + i]);
            a->y[row * a->dim + i] = di_f32_to_bf16(sum);
        }
    }
}
