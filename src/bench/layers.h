/* Between the files of `deepinfer bench layers`. */
#ifndef DI_BENCH_LAYERS_H
#define DI_BENCH_LAYERS_H

#include <jansson.h>

#include "bench/profile.h"
#include "bench/synthetic.h"
#include "deepinfer/tools.h"
#include "engine/runner.h"

enum { DI_LAYERS_MAX_STEPS = 64 };

/* Means over the timed steps of a run; of an operation the seconds are the median. */
typedef struct di_layers_sum {
    double seconds;
    double calls;
    di_bench_cost cost;
    double memory_seconds, flop_seconds; /* what the ceilings allow its bytes and its flops */
} di_layers_sum;

/* Steps of one kind: decode of a batch, or prefill of one sequence. */
typedef struct di_layers_run {
    bool is_prefill;
    int64_t n_seqs, n_rows, context;
    int n_steps;
    double median, minimum;                      /* seconds of a step */
    double layer_seconds[DI_MAX_LAYERS + 1];     /* medians; the last: outside the layers */
    di_layers_sum layer_sums[DI_MAX_LAYERS + 1]; /* without calls */
    di_layers_sum op_sums[DI_N_OPS];
    double n_experts; /* with rows, of a layer */
} di_layers_run;

typedef struct di_layers_shape {
    di_config full, config; /* of the whole model, of the picked layers */
    int layers[DI_MAX_LAYERS];
    di_ceilings ceilings;
} di_layers_shape;

/* layers_measure.c: runs passes until `seconds` have gone and takes their profile. `step` runs one
 * pass with the profile's plan and observer. */
typedef di_status (*di_layers_step_fn)(void *user, const di_layers_run *run);
DI_WARN_UNUSED di_status di_layers_measure(const di_layers_shape *shape, di_profile *profile,
                                           double seconds, di_layers_step_fn step, void *user,
                                           di_layers_run *run);

/* A step of the whole model: what is outside the layers, and for each layer the measured one of its
 * kind, or of the nearest. */
typedef struct di_layers_whole {
    double seconds;
    int counts[DI_MAX_LAYERS]; /* layers that each measured one stands for */
    int n_others;              /* whose kind was not measured */
    int n_engram;              /* with Engram, which the measured one lacks: its floor is added */
    double engram_seconds;
} di_layers_whole;

/* layers_whole.c; the total is that of a step's parts, without seconds and calls. */
di_layers_whole di_layers_whole_of(const di_layers_shape *shape, const di_layers_run *run);
di_layers_sum di_layers_total(const di_layers_shape *shape, const di_layers_run *run);

/* layers_json.c: a run as an object; NULL without memory. */
json_t *di_layers_json(const di_layers_shape *shape, const di_layers_run *run);

/* layers_print.c */
void di_layers_print_run(const di_layers_shape *shape, const di_layers_run *run, FILE *out);
/* The step of the whole model. */
void di_layers_print_whole(const di_layers_shape *shape, const di_layers_run *run, FILE *out);
/* Time by context and tokens/s by batch. */
void di_layers_print_contexts(const di_layers_run *runs, size_t n_runs, FILE *out);

#endif
