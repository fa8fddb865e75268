/* Routing on sixteen lanes (vec.h). */
#ifndef DI_KERNELS_MOE_GATE_VEC_H
#define DI_KERNELS_MOE_GATE_VEC_H

#include "kernels/moe_gate/moe_gate.h"
#include "kernels/vec_math.h"

/* scores = sqrt(softplus(logit)). False if a score or its sum with the bias is NaN or infinite. */
static inline bool gate_scores(const di_moe_gate_args *a, const float *logits, float *scores)
{
    const int64_t n = a->n_experts;
    di_vec spread = di_vec_set(0.0f);
    for (int64_t i = 0; i < n; i += DI_VEC) {
        const di_vec x = di_vec_load(logits + i, n - i);
        const di_vec soft =
            di_vec_select(di_vec_less(di_vec_set(20.0f), x), x, di_vec_log1p(di_vec_exp(x)));
        const di_vec score = di_vec_sqrt(soft);
        const di_vec sum = di_vec_add(score, di_vec_load(a->bias + i, n - i));
        di_vec_store(scores + i, n - i, score);
        spread = di_vec_add(spread, di_vec_sub(sum, sum)); /* 0, or NaN for good */
    }
    return di_vec_total(spread) == 0.0f;
}

/* Largest of score + bias, of equal ones the lowest expert. Taken experts have a score of NaN. */
static inline int64_t gate_pick(const di_moe_gate_args *a, const float *scores)
{
    const int64_t n = a->n_experts;
    const di_ivec count = di_ivec_count();
    di_vec best = di_vec_set(-INFINITY);
    di_ivec best_at = di_ivec_set(0);
    for (int64_t i = 0; i < n; i += DI_VEC) {
        const di_ivec at = di_ivec_add(count, di_ivec_set((uint32_t)i));
        di_vec sum = di_vec_add(di_vec_load(scores + i, n - i), di_vec_load(a->bias + i, n - i));
        if (n - i < DI_VEC) /* lanes that are no experts */
            sum = di_vec_select(di_ivec_less(at, di_ivec_set((uint32_t)n)), sum,
                                di_vec_set(-INFINITY));
        const di_vmask is_better = di_vec_less(best, sum);
        best = di_vec_select(is_better, sum, best);
        best_at = di_ivec_select(is_better, at, best_at);
    }
    float value[DI_VEC];
    int32_t place[DI_VEC];
    di_vec_store(value, DI_VEC, best);
    di_ivec_store(place, best_at);
    int lane = 0;
    for (int i = 1; i < DI_VEC; i++)
        if (value[i] > value[lane] || (value[i] == value[lane] && place[i] < place[lane]))
            lane = i;
    return place[lane];
}

static inline void gate_sort(int32_t *experts, float *weights, int64_t k)
{
    for (int64_t i = 1; i < k; i++) {
        const int32_t e = experts[i];
        const float w = weights[i];
        int64_t j = i;
        for (; j > 0 && experts[j - 1] > e; j--) {
            experts[j] = experts[j - 1];
            weights[j] = weights[j - 1];
        }
        experts[j] = e;
        weights[j] = w;
    }
}

DI_VEC_KERNEL(moe_gate)
{
    const di_moe_gate_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        float *scores = a->scores + row * a->n_experts;
        int32_t *experts = a->experts + row * a->k;
        float *weights = a->weights + row * a->k;
        if (!gate_scores(a, a->logits + row * a->n_experts, scores)) {
            di_moe_gate_ref(a, row, row + 1, worker);
            continue;
        }
        float sum = 0.0f;
        for (int64_t i = 0; i < a->k; i++) {
            const int64_t e = gate_pick(a, scores);
            experts[i] = (int32_t)e;
            weights[i] = scores[e];
            sum += weights[i];
            scores[e] = __builtin_nanf("");
        }
        for (int64_t i = 0; i < a->k; i++) {
            if (a->is_normalized && a->k > 1)
                weights[i] /= sum + 1e-20f;
            weights[i] *= a->routed_scale;
        }
        gate_sort(experts, weights, a->k);
    }
}

DI_VEC_KERNEL(moe_combine)
{
    (void)worker;
    const di_moe_combine_args *a = args;
    const int64_t dim = a->dim;
    for (int64_t row = begin; row < end; row++) {
        const int32_t *from = a->assignments + row * a->k;
        for (int64_t i = 0; i < dim; i += DI_VEC) {
            di_vec sum = di_vec_set(0.0f);
            for (int64_t j = 0; j < a->k; j++)
                sum = di_vec_add(sum, di_vec_load_bf16(a->routed + from[j] * dim + i, dim - i));
            sum = di_vec_add(sum, di_vec_load_bf16(a->shared + row * dim + i, dim - i));
            di_vec_store_bf16(a->y + row * dim + i, dim - i, sum);
        }
    }
}

#endif
