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

/* Some of the active experts, those that are in memory together, and their assignments. */
typedef struct expert_round {
    const di_expert_weights **experts; /* [n_experts] */
    int32_t *begin;                    /* [n_experts + 1]: from the round's first assignment on */
    int64_t n_experts, first, n;       /* assignments first .. first + n - 1 of the pass */
} expert_round;

/* One of w1, w2, w3 (by its offset in di_expert_weights) of a round's experts. y is that of the
 * round's first assignment, as x is if rows is NULL. */
static di_status expert_linear(di_pass *pass, const expert_round *r, size_t which, di_rows x,
                               const int32_t *rows, di_bf16 *y)
{
    const di_qweight **list;
    DI_TRY(DI_PASS_NEW(pass, r->n_experts, &list));
    for (int64_t i = 0; i < r->n_experts; i++)
        list[i] = (const di_qweight *)((const char *)r->experts[i] + which);
    const di_grouped_gemm_args args = {
        .x = x.data,
        .x_stride = x.stride,
        .rows = rows,
        .weights = list,
        .expert_begin = r->begin,
        .y = y,
        .n_active = r->n_experts,
        .n = list[0]->n_out,
        .k = list[0]->n_in,
        .scratch = pass->worker_scratch,
        .scratch_stride = pass->worker_scratch_bytes,
    };
    di_run(pass, DI_OP_grouped_gemm_f4, &args, args.n_active * args.n,
           (r->n + r->n_experts - 1) / r->n_experts * args.k);
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

/* What the routed experts compute in: [assignments, ...] */
typedef struct routed_rows {
    di_bf16 *gate, *up; /* [d->n, moe_intermediate] */
    di_bf16 *y;         /* [d->n, hidden] */
} routed_rows;

static di_status run_round(di_pass *pass, const dispatch *d, const expert_round *r, di_rows xq,
                           const routed_rows *out)
{
    const int64_t inter = pass->network->config->moe_intermediate_size;
    di_bf16 *gate = out->gate + r->first * inter, *up = out->up + r->first * inter;
    const int32_t *rows = d->rows + r->first;
    di_rows v;
    DI_TRY(expert_linear(pass, r, offsetof(di_expert_weights, w1), xq, rows, gate));
    DI_TRY(expert_linear(pass, r, offsetof(di_expert_weights, w3), xq, rows, up));
    swiglu(pass, gate, up, d->weights + r->first, r->n);
    DI_TRY(di_quantize_rows(pass, gate, r->n, inter, &v));
    return expert_linear(pass, r, offsetof(di_expert_weights, w2), v, NULL,
                         out->y + r->first * pass->network->config->hidden_size);
}

/* The active experts from `at` on that are in memory: at least one. */
static di_status begin_round(di_pass *pass, const di_layer_weights *w, const dispatch *d,
                             int64_t at, expert_round *r)
{
    DI_TRY(di_weight_source_acquire(pass->source, w, d->active + at, d->n_active - at, r->experts,
                                    &r->n_experts));
    r->first = d->expert_begin[at];
    r->n = d->expert_begin[at + r->n_experts] - r->first;
    for (int64_t i = 0; i <= r->n_experts; i++)
        r->begin[i] = d->expert_begin[at + i] - (int32_t)r->first;
    return DI_OK;
}

/* The routed experts' outputs, in as many rounds as memory wants: a row's bits do not depend on
 * them. */
static di_status routed_experts(di_pass *pass, const di_layer_weights *w, const dispatch *d,
                                di_rows xq, const routed_rows *out)
{
    expert_round r;
    DI_TRY(DI_PASS_NEW(pass, d->n_active, &r.experts));
    DI_TRY(DI_PASS_NEW(pass, d->n_active + 1, &r.begin));
    for (int64_t at = 0; at < d->n_active; at += r.n_experts) {
        const di_arena_mark mark = di_arena_save(pass->arena);
        DI_TRY(begin_round(pass, w, d, at, &r));
        DI_TRY(run_round(pass, d, &r, xq, out));
        di_weight_source_release(pass->source, w, d->active + at, r.n_experts);
        di_arena_rewind(pass->arena, mark);
    }
    return DI_OK;
}

di_status di_moe(di_pass *pass, const di_layer_weights *w, const di_bf16 *x, int64_t k, di_bf16 *y)
{
    const di_config *c = pass->network->config;
    const int64_t dim = c->hidden_size;
    int32_t *experts;
    float *weights;
    dispatch d;
    di_rows xq;
    di_bf16 *shared;
    routed_rows routed;
    DI_TRY(route(pass, w, x, k, &experts, &weights));
    DI_TRY(sort_by_expert(pass, w->n_experts, k, experts, weights, &d));
    di_weight_source_ask(pass->source, w, d.active, d.n_active);
    DI_TRY(di_quantize_rows(pass, x, pass->batch->n_rows, dim, &xq));
    DI_TRY(shared_expert(pass, &w->shared, xq, &shared)); /* while the routed ones are read */
    DI_TRY(DI_PASS_NEW(pass, d.n * c->moe_intermediate_size, &routed.gate));
    DI_TRY(DI_PASS_NEW(pass, d.n * c->moe_intermediate_size, &routed.up));
    DI_TRY(DI_PASS_NEW(pass, d.n * dim, &routed.y));
    DI_TRY(routed_experts(pass, w, &d, xq, &routed));
    const di_moe_combine_args combine = {.routed = routed.y,
                                         .assignments = d.assignments,
                                         .shared = shared,
                                         .y = y,
                                         .dim = dim,
                                         .k = k};
    di_run(pass, DI_OP_moe_combine, &combine, pass->batch->n_rows, k * dim);
    return DI_OK;
}
