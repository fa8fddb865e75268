/* Where the time of a forward pass goes: kernels of a plan wrapped so that each call of an
 * operation leaves a time stamp. Nothing of it is in the forward pass itself.
 *
 * An operation's time goes from its first item to the next operation's: with the wait for the last
 * worker and what the host does in between. Kernels take no context, so one profile runs at a time
 * in a process. */
#ifndef DI_BENCH_PROFILE_H
#define DI_BENCH_PROFILE_H

#include "bench/cost.h"
#include "model/forward.h"

typedef struct di_profile_event {
    int op; /* -1: a layer has ended */
    int64_t at_ns;
    di_bench_cost cost;
    int64_t n_experts; /* grouped linears: experts with rows */
} di_profile_event;

typedef struct di_profile {
    di_plan plan;                            /* the wrapped one, to run with */
    di_plan original;                        /* what it calls */
    di_kernel any[DI_N_OPS], wide[DI_N_OPS]; /* the wrapped kernels */
    di_observer observer;                    /* to run with: marks the layers' ends */
    int64_t n_rows;                          /* of the pass */
    int64_t n_index_left;                    /* rows whose index scores are still to come */
    di_profile_event *events;
    int64_t n_events, max_events; /* further events are dropped */
} di_profile;

/* Operations that a pass of n_layers layers may call at most. */
enum { DI_PROFILE_EVENTS_PER_LAYER = 512 };

/* Takes the place of every other profile until it is freed. */
DI_WARN_UNUSED di_status di_profile_init(const di_plan *plan, int n_layers, di_profile *out);
void di_profile_free(di_profile *profile);
/* Forgets the events; the next pass has n_rows rows. */
void di_profile_begin(di_profile *profile, int64_t n_rows);

#endif
