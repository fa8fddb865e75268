#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/layers.h"
#include "bench/timing.h"

/* The first step warms up, unless it takes that many times the seconds there are. */
enum { WARM_UP = 5 };

typedef struct samples {
    double steps[DI_LAYERS_MAX_STEPS];
    double layers[DI_MAX_LAYERS + 1][DI_LAYERS_MAX_STEPS];
    double ops[DI_N_OPS][DI_LAYERS_MAX_STEPS];
} samples;

static void add(di_layers_sum *sum, double seconds, const di_bench_cost *cost,
                double memory_seconds, double flop_seconds)
{
    sum->seconds += seconds;
    sum->calls += 1.0;
    sum->cost.memory_bytes += cost->memory_bytes;
    sum->cost.flops += cost->flops;
    sum->memory_seconds += memory_seconds;
    sum->flop_seconds += flop_seconds;
}

/* Adds one pass's events; times: when it began and ended. The last of layer_seconds is what is
 * outside the layers. */
static void take_events(const di_layers_shape *shape, const di_profile *p, const int64_t *times,
                        di_layers_run *run, double *layer_seconds, double *op_seconds)
{
    const int n_layers = shape->config.n_layers;
    const di_plan *plan = &p->original;
    const bool is_wide = run->n_rows >= DI_WIDE_ROWS;
    int layer = 0;
    memset(layer_seconds, 0, (size_t)(n_layers + 1) * sizeof *layer_seconds);
    memset(op_seconds, 0, DI_N_OPS * sizeof *op_seconds);
    layer_seconds[n_layers] += p->n_events ? (double)(p->events[0].at_ns - times[0]) * 1e-9 : 0.0;
    for (int64_t i = 0; i < p->n_events; i++) {
        const di_profile_event *e = &p->events[i];
        const int64_t next = i + 1 < p->n_events ? p->events[i + 1].at_ns : times[1];
        const double seconds = (double)(next - e->at_ns) * 1e-9;
        layer += e->op < 0;
        const int place = e->op == (int)DI_OP_embed || layer >= n_layers ? n_layers : layer;
        layer_seconds[place] += seconds;
        if (e->op < 0)
            continue;
        const di_op op = (di_op)e->op;
        const di_kernel *kernel = (is_wide ? plan->wide : plan->kernels)[op];
        const double memory = e->cost.memory_bytes / di_bench_memory_rate(&shape->ceilings);
        const di_ceiling unit = di_bench_unit(op, kernel->isa, &shape->ceilings);
        const double flops = e->cost.flops / shape->ceilings.rate[unit];
        op_seconds[op] += seconds;
        add(&run->op_sums[op], seconds, &e->cost, memory, flops);
        add(&run->layer_sums[place], seconds, &e->cost, memory, flops);
        run->n_experts += (double)e->n_experts;
    }
}

static void scale(di_layers_sum *sum, double factor)
{
    sum->seconds *= factor;
    sum->calls *= factor;
    sum->cost.memory_bytes *= factor;
    sum->cost.flops *= factor;
    sum->memory_seconds *= factor;
    sum->flop_seconds *= factor;
}

static void finish(const di_layers_shape *shape, samples *s, di_layers_run *run)
{
    const int n_layers = shape->config.n_layers;
    const size_t n = (size_t)run->n_steps;
    run->median = di_timing_median(s->steps, n); /* sorts */
    run->minimum = s->steps[0];
    for (int i = 0; i <= n_layers; i++) {
        run->layer_seconds[i] = di_timing_median(s->layers[i], n);
        scale(&run->layer_sums[i], 1.0 / (double)n);
    }
    for (int op = 0; op < DI_N_OPS; op++) {
        scale(&run->op_sums[op], 1.0 / (double)n);
        run->op_sums[op].seconds = di_timing_median(s->ops[op], n);
    }
    run->n_experts /= (double)n * 3.0 * n_layers; /* three grouped linears a layer */
}

di_status di_layers_measure(const di_layers_shape *shape, di_profile *profile, double seconds,
                            di_layers_step_fn step, void *user, di_layers_run *run)
{
    double layer_seconds[DI_MAX_LAYERS + 1], op_seconds[DI_N_OPS], total = 0.0;
    const int max_steps = run->n_steps; /* as asked for; becomes the number of timed ones */
    samples *s = calloc(1, sizeof *s);
    if (!s)
        return di_fail_memory(sizeof *s, "the times of a benchmark");
    di_status status = DI_OK;
    run->n_steps = 0;
    for (int i = 0; status == DI_OK && run->n_steps < max_steps && total < seconds; i++) {
        di_profile_begin(profile, run->n_rows);
        int64_t times[2] = {di_clock_ns()};
        status = step(user, run);
        times[1] = di_clock_ns();
        const double t = (double)(times[1] - times[0]) * 1e-9;
        if (status != DI_OK || (i == 0 && !run->is_prefill && t < WARM_UP * seconds))
            continue;
        total += t;
        take_events(shape, profile, times, run, layer_seconds, op_seconds);
        for (int l = 0; l <= shape->config.n_layers; l++)
            s->layers[l][run->n_steps] = layer_seconds[l];
        for (int op = 0; op < DI_N_OPS; op++)
            s->ops[op][run->n_steps] = op_seconds[op];
        s->steps[run->n_steps++] = t;
    }
    if (status == DI_OK)
        finish(shape, s, run);
    free(s);
    return status;
}
