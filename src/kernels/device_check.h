/* The check of GPU kernels: the random calls of check.h on a device, against the reference on the
 * host, and a row's result among other rows. */
#ifndef DI_KERNELS_DEVICE_CHECK_H
#define DI_KERNELS_DEVICE_CHECK_H

#include "device/device.h"
#include "kernels/check.h"
#include "kernels/device_kernel.h"

typedef struct di_device_finding {
    bool has_failed;
    int64_t n_calls; /* that were compared */
    double error;    /* |found - wanted| / |wanted| over an output's values, the largest */
    char text[DI_OP_FINDING_BYTES]; /* the first thing wrong */
} di_device_finding;

/* A call of n_rows rows of the seed's case, outputs poisoned: its results must be the reference's
 * by the kernel's numerics class (EXACT: the bits, REORDER and LOWP: as docs/kernels.md bounds
 * them), and nothing else of the call's memory, nor around it, may have changed. Of batch-invariant
 * kernels then other choices of the rows in other orders: each row must have the same bits.
 * is_exact_memory: every array is an allocation of its own, for a memory checker. */
DI_WARN_UNUSED di_status di_device_check(di_device *device, const di_device_kernel *kernel,
                                         uint64_t seed, int32_t n_rows, bool is_exact_memory,
                                         di_device_finding *out);

#endif
