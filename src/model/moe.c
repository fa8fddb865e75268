#include "kernels/grouped_gemm/grouped_gemm.h"
#include "kernels/moe_gate/moe_gate.h"
#include "kernels/swiglu/swiglu.h"
#include "model/internal.h"

/* Assignments (token, expert) sorted by expert, tokens ascending within one. */
typedef struct dispatch {
    int64_t n;             /* assignments: n_rows * k */
    int64_t n_active;      /* experts with at least one */
    int32_t *rows;         /* [n]: token of an assignment */
    float *weights;        /* [n]: routing weight */
    int32_t *assignments;  /* [n_rows, k]: inverse */
    int32_t *expert_begin; /* [n_active + 1] */
    int32_t *active;       /* [n_active]: expert id */
} dispatch;

static di_status route(di_pass *pass, const di_layer_weights *w, const di_bf16 *x, int64_t k,
                       int32_t **experts, float **weights)
{
    const di_config *c = pass->network->config;
    const int64_t n = pass->batch->n_rows;
    float *logits, *scores;
    DI_TRY(DI_PASS_NEW(pass, n * w->n_experts, &logits));
    DI_TRY(DI_PASS_NEW(pass, n * w->n_experts, &scores));
    DI_TRY(DI_PASS_NEW(pass, n * k, experts));
    DI_TRY(DI_PASS_NEW(pass, n * k, weights));
    di_linear_bf16_f32(pass, &w->gate, (di_rows){x, n, c->hidden_size}, logits);
    const di_moe_gate_args args = {
        .logits = logits,
        .bias = w->gate_bias,
        .experts = *experts,
        .weights = *weights,
        .scores = scores,
        .n_experts = w->n_experts,
        .k = k,
        .is_normalized = c->norm_topk_prob,
        .routed_scale = (float)c->routed_scaling_factor,
    };
    di_run(pass, DI_OP_moe_gate, &args, n, w->n_experts * k);
    return DI_OK;
}

static di_status sort_by_expert(di_pass *pass, int64_t n_experts, int64_t k, const int32_t *experts,
                                const float *weights, dispatch *d)
{
    const int64_t n_rows = pass->batch->n_rows;
    int32_t *next;
    d->n = n_rows * k;
    DI_TRY(DI_ARENA_ZNEW(pass->arena, (size_t)n_experts + 1, &next));
    DI_TRY(DI_PASS_NEW(pass, d->n, &d->rows));
    DI_TRY(DI_PASS_NEW(pass, d->n, &d->weights));
    DI_TRY(DI_PASS_NEW(pass, d->n, &d->assignments));
    DI_TRY(DI_PASS_NEW(pass, n_experts + 1, &d->expert_begin));
    DI_TRY(DI_PASS_NEW(pass, n_experts, &d->active));
    for (int64_t i = 0; i < d->n; i++)
        next[experts[i] + 1]++;
    d->n_active = 0;
    for (int64_t e = 0; e < n_experts; e++) {
        if (next[e + 1]) {
            d->expert_begin[d->n_active] = next[e];
            d->active[d->n_active++] = (int32_t)e;
        }
        next[e + 1] += next[e];
    }
    d->expert_begin[d->n_active] = (int32_t)d->n;
    for (int64_t i = 0; i < d->n; i++) {
        const int32_t place = next[experts[i]]++;
        d->rows[place] = (int32_t)(i / k);
        d->weights[place] = weights[i];
        d->assignments[i] = place;
    }
    return DI_OK;
}

/* One of w1, w2, w3 (by its offset in di_expert_weights) of every active expert. */
static di_status expert_linear(di_pass *pass, const di_layer_weights *w, const dispatch *d,
                               size_t which, di_rows x, di_bf16 **y)
{
    const di_qweight **list;
    DI_TRY(DI_PASS_NEW(pass, d->n_active, &list));
    for (int64_t i = 0; i < d->n_active; i++)
        list[i] = (const di_qweight *)((const char *)&w->experts[d->active[i]] + which);
    const int64_t n_out = list[0]->n_out;
    DI_TRY(DI_PASS_NEW(pass, d->n * n_out, y));
    const di_grouped_gemm_args args = {
        .x = x.data,
        .x_stride = x.stride,
        .rows = which == offsetof(di_expert_weights, w2) ? NULL : d->rows,
        .weights = list,
        .expert_begin = d->expert_begin,
        .y = *y,
        .n_active = d->n_active,
        .n = n_out,
        .k = list[0]->n_in,
        .scratch = pass->worker_scratch,
        .scratch_stride = pass->worker_scratch_bytes,
    };
    di_run(pass, DI_OP_grouped_gemm_f4, &args, d->n_active * n_out,
           (d->n + d->n_active - 1) / d->n_active * args.k);
    return DI_OK;
}

static void swiglu(di_pass *pass, di_bf16 *gate, const di_bf16 *up, const float *weights, int64_t n)
{
    const di_config *c = pass->network->config;
    const di_swiglu_args args = {.gate = gate,
                                 .up = up,
                                 .weights = weights,
                                 .y = gate,
                                 .dim = c->moe_intermediate_size,
                                 .limit = (float)c->swiglu_limit};
    di_run(pass, DI_OP_swiglu, &args, n, 8 * args.dim);
}

static di_status shared_expert(di_pass *pass, const di_expert_weights *w, di_rows x, di_bf16 **y)
{
    di_bf16 *gate, *up;
    di_rows v;
    DI_TRY(DI_PASS_NEW(pass, x.n * w->w1.n_out, &gate));
    DI_TRY(DI_PASS_NEW(pass, x.n * w->w1.n_out, &up));
    DI_TRY(DI_PASS_NEW(pass, x.n * w->w2.n_out, y));
    di_linear_f8(pass, &w->w1, x, gate);
    di_linear_f8(pass, &w->w3, x, up);
    swiglu(pass, gate, up, NULL, x.n);
    DI_TRY(di_quantize_rows(pass, gate, x.n, w->w1.n_out, &v));
    di_linear_f8(pass, &w->w2, v, *y);
    return DI_OK;
}

di_status di_moe(di_pass *pass, const di_layer_weights *w, const di_bf16 *x, int64_t k, di_bf16 *y)
{
    const int64_t n = pass->batch->n_rows, dim = pass->network->config->hidden_size;
    int32_t *experts;
    float *weights;
    dispatch d;
    di_rows xq, v;
    di_bf16 *gate, *up, *routed, *shared;
    DI_TRY(route(pass, w, x, k, &experts, &weights));
    DI_TRY(sort_by_expert(pass, w->n_experts, k, experts, weights, &d));
    DI_TRY(di_quantize_rows(pass, x, n, dim, &xq));
    DI_TRY(expert_linear(pass, w, &d, offsetof(di_expert_weights, w1), xq, &gate));
    DI_TRY(expert_linear(pass, w, &d, offsetof(di_expert_weights, w3), xq, &up));
    swiglu(pass, gate, up, d.weights, d.n);
    DI_TRY(di_quantize_rows(pass, gate, d.n, w->experts[0].w1.n_out, &v));
    DI_TRY(expert_linear(pass, w, &d, offsetof(di_expert_weights, w2), v, &routed));
    DI_TRY(shared_expert(pass, &w->shared, xq, &shared));
    const di_moe_combine_args combine = {.routed = routed,
                                         .assignments = d.assignments,
                                         .shared = shared,
                                         .y = y,
                                         .dim = dim,
                                         .k = k};
    di_run(pass, DI_OP_moe_combine, &combine, n, k * dim);
    return DI_OK;
}
