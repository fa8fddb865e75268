/* Benchmarks call a team's pool from their caller's thread, which then is its worker 0: while it
 * measures it stays where the engine's own thread would. */
#ifndef DI_BENCH_STAY_H
#define DI_BENCH_STAY_H

#include <sched.h>

#include "base/team.h"

typedef struct di_bench_stay {
    cpu_set_t before;
    bool is_moved;
} di_bench_stay;

/* Does nothing where the team's workers are not pinned. */
void di_bench_stay_begin(const di_team *team, di_bench_stay *out);
/* Back to the CPUs of before; a zeroed one is fine. */
void di_bench_stay_end(di_bench_stay *stay);

#endif
