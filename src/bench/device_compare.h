/* A call's results on a device against the host's. */
#ifndef DI_BENCH_DEVICE_COMPARE_H
#define DI_BENCH_DEVICE_COMPARE_H

#include "bench/cases.h"
#include "kernels/device_mirror.h"

typedef struct di_bench_difference {
    bool is_wrong;
    char text[16]; /* "equal", a relative error, or "WRONG" */
} di_bench_difference;

/* The call's first turn has been made on the host, and on the device on the mirror's copies. EXACT:
 * whatever the call's memory holds must be equal, byte by byte. Else the relative error over the
 * results, which must be within docs/kernels.md's bound. */
DI_WARN_UNUSED di_status di_bench_device_compare(const di_bench_case *c, di_numerics numerics,
                                                 di_mirror *mirror, di_bench_difference *out);

#endif
