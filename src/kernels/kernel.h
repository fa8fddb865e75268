/* The kernel registry (docs/kernels.md). An operation is a folder; a kernel is a row of
 * kernels.def; its file's suffix names its target. Kernels know no model and no batch, only their
 * args struct.
 *
 * Kernel contract
 * - di_<op>_<target>(args, begin, end, worker) computes items [begin, end) of the operation's item
 *   space, which the args header states; items are independent of each other.
 * - It reads and writes only what the args struct points to, and its own worker's scratch; it never
 *   allocates, locks, logs, reads the environment or starts threads.
 * - Every size is the kernel's job: no multiple of anything may be assumed beyond the args header.
 * - Outputs may hold NaN before the call: they are written, never read first, unless stated. */
#ifndef DI_KERNELS_KERNEL_H
#define DI_KERNELS_KERNEL_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"
#include "base/threads.h"

typedef enum di_op {
#define DI_OP(op) DI_OP_##op,
#include "kernels/ops.def"
#undef DI_OP
    DI_N_OPS
} di_op;

/* CPU levels, each including the ones before. */
typedef enum di_isa { DI_ISA_REF, DI_N_ISAS } di_isa;

/* How a kernel's results relate to the reference's. */
typedef enum di_numerics {
    DI_NUMERICS_EXACT,   /* the reference's bits */
    DI_NUMERICS_REORDER, /* another order of summation, bounded error */
    DI_NUMERICS_LOWP     /* lower precision inside */
} di_numerics;

/* Accumulation orders: kernels of one id give equal bits. */
typedef enum di_order {
    DI_ORDER_NONE,   /* no sum of more than a handful of terms */
    DI_ORDER_LANES16 /* base/sum.h */
} di_order;

/* How a kernel wants its weights. */
typedef enum di_weight_layout {
    DI_LAYOUT_CHECKPOINT /* as stored in the checkpoint */
} di_weight_layout;

typedef struct di_kernel {
    di_op op;
    const char *name; /* "ref" */
    di_isa isa;
    di_weight_layout layout;
    di_numerics numerics;
    di_order order;
    bool is_batch_invariant; /* an item's bits do not depend on the other items of the call */
    int rank;                /* among usable kernels the highest wins */
    di_range_fn fn;
} di_kernel;

extern const di_kernel di_kernels[];
extern const int di_n_kernels;

const char *di_op_name(di_op op);
const char *di_isa_name(di_isa isa);

/* Which kernels may be chosen: an ISA ceiling and forced kernels. */
typedef struct di_kernel_mask {
    di_isa max_isa;
    const char *forced[DI_N_OPS]; /* kernel name or NULL; not owned */
} di_kernel_mask;

/* isa: NULL or "best" = all of this machine; kernels: NULL or "op=name,op=name". The names are
 * matched against the registry; an unknown one is DI_ERR_ARGUMENT listing the known ones. */
DI_WARN_UNUSED di_status di_kernel_mask_parse(const char *isa, const char *kernels,
                                              di_kernel_mask *out);
/* The best usable kernel of an operation; never NULL, since every operation has a reference. */
const di_kernel *di_kernel_select(di_op op, const di_kernel_mask *mask);
/* Prints every candidate, the chosen one starred. */
void di_kernels_print(const di_kernel_mask *mask, FILE *out);

#endif
