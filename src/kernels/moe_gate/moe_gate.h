/* Routing (model spec 4.5). Items: rows. */
#ifndef DI_KERNELS_MOE_GATE_H
#define DI_KERNELS_MOE_GATE_H

#include <stdbool.h>

#include "base/fp.h"

/* a = sqrt(softplus(logit)); the k largest of a + bias (ties: lowest id) with weight a, normalised
 * over the k (in order of selection; not if k is 1) and scaled. Written in ascending expert id.
 * 1 <= k <= n_experts. */
typedef struct di_moe_gate_args {
    const float *logits; /* [n, n_experts] */
    const float *bias;   /* [n_experts] */
    int32_t *experts;    /* [n, k] */
    float *weights;      /* [n, k] */
    float *scores;       /* [n, n_experts] scratch */
    int64_t n_experts, k;
    bool is_normalized; /* norm_topk_prob */
    float routed_scale;
} di_moe_gate_args;

/* y = bf16(sum over a row's experts, ascending, of their outputs + the shared expert's), fp32. */
typedef struct di_moe_combine_args {
    const di_bf16 *routed;      /* [n_assignments, dim] */
    const int32_t *assignments; /* [n, k]: the row of `routed` of each of a token's experts */
    const di_bf16 *shared;      /* [n, dim] */
    di_bf16 *y;                 /* [n, dim] */
    int64_t dim, k;
} di_moe_combine_args;

#endif
