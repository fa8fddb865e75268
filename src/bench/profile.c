#include "bench/profile.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/clock.h"
#include "kernels/grouped_gemm/grouped_gemm.h"
#include "kernels/index_logits/index_logits.h"
#include "model/internal.h"

/* The profile that runs. Written by one thread while no pass runs; the pool orders the rest. */
static di_profile *running;

static di_profile_event *add_event(di_profile *p, int op)
{
    if (p->n_events == p->max_events)
        return NULL;
    di_profile_event *e = &p->events[p->n_events++];
    *e = (di_profile_event){.op = op, .at_ns = di_clock_ns()};
    return e;
}

/* Index scores come in tiles of rows (model/indexer.c); the other operations take all of them. */
static int64_t rows_of(di_profile *p, di_op op, const void *args)
{
    if (op != DI_OP_index_logits)
        return p->n_rows;
    const int64_t visible = di_max_i64(1, ((const di_index_logits_args *)args)->max_visible);
    const int64_t tile = di_max_i64(1, DI_INDEX_SCORES_PER_TILE / visible);
    if (p->n_index_left == 0)
        p->n_index_left = p->n_rows;
    const int64_t n = di_min_i64(tile, p->n_index_left);
    p->n_index_left -= n;
    return n;
}

/* Operations whose floor is worth the look: the others read only what is in the caches. */
static bool has_floor(di_op op)
{
    switch (op) {
    case DI_OP_embed:
    case DI_OP_gemm_f8:
    case DI_OP_gemm_bf16:
    case DI_OP_grouped_gemm_f4:
    case DI_OP_hc_project:
    case DI_OP_index_logits:
    case DI_OP_sparse_attention:
    case DI_OP_engram_gather:
        return true;
    default:
        return false;
    }
}

/* Of the workers that run an operation exactly one begins with item 0: it leaves the stamp. */
static void note(di_op op, const void *args, int64_t begin)
{
    if (begin != 0)
        return;
    di_profile *p = running;
    di_profile_event *e = add_event(p, (int)op);
    if (!e || !has_floor(op))
        return;
    e->cost = di_bench_cost_of(op, args, rows_of(p, op, args));
    if (op == DI_OP_grouped_gemm_f4)
        e->n_experts = ((const di_grouped_gemm_args *)args)->n_active;
}

#define DI_OP(op)                                                                                  \
    static void run_##op(const void *args, int64_t begin, int64_t end, int worker)                 \
    {                                                                                              \
        note(DI_OP_##op, args, begin);                                                             \
        running->original.kernels[DI_OP_##op]->fn(args, begin, end, worker);                       \
    }                                                                                              \
    static void run_wide_##op(const void *args, int64_t begin, int64_t end, int worker)            \
    {                                                                                              \
        note(DI_OP_##op, args, begin);                                                             \
        running->original.wide[DI_OP_##op]->fn(args, begin, end, worker);                          \
    }
#include "kernels/ops.def"
#undef DI_OP

static const di_range_fn runs[DI_N_OPS] = {
#define DI_OP(op) run_##op,
#include "kernels/ops.def"
#undef DI_OP
};
static const di_range_fn wide_runs[DI_N_OPS] = {
#define DI_OP(op) run_wide_##op,
#include "kernels/ops.def"
#undef DI_OP
};

static void end_layer(void *user, int layer, di_pass *pass)
{
    (void)layer;
    (void)pass;
    (void)add_event(user, -1);
}

di_status di_profile_init(const di_plan *plan, int n_layers, di_profile *out)
{
    *out = (di_profile){.original = *plan, .observer = {.user = out, .layer = end_layer}};
    out->max_events = (int64_t)(n_layers + 1) * DI_PROFILE_EVENTS_PER_LAYER;
    out->events = malloc((size_t)out->max_events * sizeof *out->events);
    if (!out->events)
        return di_fail_memory((size_t)out->max_events * sizeof *out->events, "a profile");
    for (int op = 0; op < DI_N_OPS; op++) {
        out->any[op] = *plan->kernels[op];
        out->any[op].fn = runs[op];
        out->wide[op] = *plan->wide[op];
        out->wide[op].fn = wide_runs[op];
        out->plan.kernels[op] = &out->any[op];
        out->plan.wide[op] = &out->wide[op];
    }
    running = out;
    return DI_OK;
}

void di_profile_free(di_profile *profile)
{
    free(profile->events);
    profile->events = NULL;
    running = NULL;
}

void di_profile_begin(di_profile *profile, int64_t n_rows)
{
    profile->n_events = 0;
    profile->n_rows = n_rows;
    profile->n_index_left = 0;
}
