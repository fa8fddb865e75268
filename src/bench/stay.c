#define _GNU_SOURCE /* sched_getaffinity */

#include "bench/stay.h"

void di_bench_stay_begin(const di_team *team, di_bench_stay *out)
{
    out->is_moved = team->is_pinned && sched_getaffinity(0, sizeof out->before, &out->before) == 0;
    if (out->is_moved)
        di_pool_pin_caller(team->pool);
}

void di_bench_stay_end(di_bench_stay *stay)
{
    if (stay->is_moved)
        (void)sched_setaffinity(0, sizeof stay->before, &stay->before);
    stay->is_moved = false;
}
