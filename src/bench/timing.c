#include "bench/timing.h"

#include <stdlib.h>

#include "base/clock.h"

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double di_timing_median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

static double call(void (*fn)(void *user, int64_t i), void *user, int64_t first, int64_t n)
{
    const int64_t began = di_clock_ns();
    for (int64_t i = 0; i < n; i++)
        fn(user, first + i);
    return (double)(di_clock_ns() - began) * 1e-9;
}

void di_timing_run(void (*fn)(void *user, int64_t i), void *user, double seconds, di_timing *out)
{
    enum { SAMPLE_US = 20, LEAST_SAMPLES = 3, SLOW = 10 };
    double samples[DI_TIMING_SAMPLES], total = 0.0;
    size_t n = 0;
    int64_t done = 1, reps = 1;
    const double first = call(fn, user, 0, 1);
    if (first >= SLOW * seconds) {
        *out = (di_timing){first, first, 1};
        return;
    }
    for (;;) { /* the first call may have been slow: grow until a sample is long enough */
        const double s = call(fn, user, done, reps);
        done += reps;
        total += s;
        if (s >= SAMPLE_US * 1e-6 || total >= seconds)
            break;
        reps *= 2;
    }
    do {
        const double s = call(fn, user, done, reps);
        done += reps;
        total += s;
        samples[n++] = s / (double)reps;
    } while ((total < seconds || n < LEAST_SAMPLES) && n < DI_TIMING_SAMPLES);
    out->median = di_timing_median(samples, n);
    out->minimum = samples[0];
    out->n_calls = done - 1;
}
