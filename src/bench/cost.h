/* What a call of an operation must move and compute at least: the floor of its time. */
#ifndef DI_BENCH_COST_H
#define DI_BENCH_COST_H

#include "bench/ceiling.h"
#include "kernels/kernel.h"

typedef struct di_bench_cost {
    double memory_bytes; /* weights and KV entries: read once a call, from memory */
    double cache_bytes;  /* activations: read and written in the caches */
    double flops; /* additions and multiplications of the long sums; 0 where there are none */
} di_bench_cost;

/* args: the operation's; n_rows: of the call, or assignments or groups, where args do not say. */
di_bench_cost di_bench_cost_of(di_op op, const void *args, int64_t n_rows);

/* The fastest exact way to multiply that kernels of a level have for an operation. */
di_ceiling di_bench_unit(di_op op, di_isa level, const di_ceilings *ceilings);
/* The larger of the two memory ceilings. */
double di_bench_memory_rate(const di_ceilings *ceilings);

/* The ceiling that bounds such a call of a kernel, and the seconds it allows. `level` is the
 * kernel's. */
di_ceiling di_bench_bound(di_op op, const di_bench_cost *cost, di_isa level,
                          const di_ceilings *ceilings, double *seconds);

#endif
