/* Repeated timing: median and minimum over samples. */
#ifndef DI_BENCH_TIMING_H
#define DI_BENCH_TIMING_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct di_timing {
    double median, minimum; /* seconds of one call */
    int64_t n_calls;
} di_timing;

enum { DI_TIMING_SAMPLES = 4096 };

/* Calls fn(user, i) for i = 0, 1, ... for about `seconds` and at least three samples, as many calls
 * a sample as take 20 us. The first call is not counted, unless it alone takes ten times `seconds`:
 * then it is the only one. */
void di_timing_run(void (*fn)(void *user, int64_t i), void *user, double seconds, di_timing *out);

/* The median of values, which are sorted. n >= 1. */
double di_timing_median(double *values, size_t n);

#endif
