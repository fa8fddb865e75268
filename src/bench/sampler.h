/* The sampler at the model's vocabulary: no kernel of the registry, and one thread's work. */
#ifndef DI_BENCH_SAMPLER_H
#define DI_BENCH_SAMPLER_H

#include "bench/timing.h"
#include "core/config.h"

/* The name it has beside the operations. */
#define DI_BENCH_SAMPLER "sampler"

/* Called for each kind of request: `timing` of the choice of one token. */
typedef di_status (*di_bench_sampler_fn)(void *user, const char *shape, const di_timing *timing);
/* seconds 0: timings are zero, nothing is run. */
DI_WARN_UNUSED di_status di_bench_sampler_run(const di_config *config, double seconds,
                                              di_bench_sampler_fn emit, void *user);

#endif
