/* The registry's rows for GPUs (docs/cuda.md): the operations, args structs and numerics of
 * kernel.h, with every pointer of the args, and of the arrays of pointers that they name, the
 * device's.
 *
 * Contract
 * - di_<op>_<target>(args, n_items, stream) puts the computation of all items into the stream and
 *   returns. args is read before it returns; a graph keeps what it was.
 * - Nothing is allocated; scratch members of the args are not used.
 * - Outputs may hold NaN before; nothing but the outputs is written. Every size is the kernel's
 * job.
 * - An error is one of the launch: what fails later is reported by whoever waits for the stream. */
#ifndef DI_KERNELS_DEVICE_KERNEL_H
#define DI_KERNELS_DEVICE_KERNEL_H

#include "device/device.h"
#include "kernels/kernel.h"

typedef di_status (*di_launch_fn)(const void *args, int64_t n_items, di_stream stream);

typedef struct di_device_kernel {
    di_op op;
    const char *name;  /* "cuda" */
    int capability;    /* the least */
    bool is_only_this; /* and no other: code that runs on one architecture */
    di_kernel_width width;
    di_weight_layout layout;
    di_numerics numerics;
    di_order order;
    bool is_batch_invariant;
    int rank; /* among usable kernels the highest wins */
    di_launch_fn launch;
} di_device_kernel;

/* Of this build; none without a backend. */
extern const di_device_kernel di_device_kernels[];
extern const int di_n_device_kernels;

/* A device of that compute capability can run it. */
bool di_device_kernel_runs_on(const di_device_kernel *kernel, int capability);
/* As di_kernel_select. NULL if this build has none for the operation. */
const di_device_kernel *di_device_kernel_select(di_op op, di_kernel_width width, bool is_invariant,
                                                int capability, const di_kernel_mask *mask);
/* kernels: NULL or "op=name,..."; only names of device kernels. As di_kernel_mask_parse else. */
DI_WARN_UNUSED di_status di_device_mask_parse(const char *kernels, di_kernel_mask *out);
/* A line a row. */
void di_device_kernels_print(FILE *out);

#endif
