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

#include "base/cpu.h"
#include "base/status.h"
#include "base/threads.h"

typedef enum di_op {
#define DI_OP(op) DI_OP_##op,
#include "kernels/ops.def"
#undef DI_OP
    DI_N_OPS
} di_op;

/* How a kernel's results relate to the reference's. */
typedef enum di_numerics {
    DI_NUMERICS_EXACT,   /* the reference's bits */
    DI_NUMERICS_REORDER, /* another order of summation, bounded error */
    DI_NUMERICS_LOWP     /* lower precision inside */
} di_numerics;

/* Accumulation orders: kernels of one id give equal bits. */
typedef enum di_order {
    DI_ORDER_NONE,     /* no sum of more than a handful of terms */
    DI_ORDER_LANES16,  /* base/sum.h */
    DI_ORDER_BLOCKS32, /* gemm/gemm_amx.h */
    DI_ORDER_TENSOR32  /* gemm/gemm_mma.cuh, of one architecture */
} di_order;

/* How a kernel wants its weights. */
typedef enum di_weight_layout {
    DI_LAYOUT_CHECKPOINT /* as stored in the checkpoint */
} di_weight_layout;

/* How many rows a pass must have for a kernel to be worth it. */
typedef enum di_kernel_width {
    DI_WIDTH_ANY,
    DI_WIDTH_WIDE /* DI_WIDE_ROWS and more */
} di_kernel_width;

enum { DI_WIDE_ROWS = 16 };

typedef struct di_kernel {
    di_op op;
    const char *name; /* "ref" */
    di_isa isa;
    di_kernel_width width;
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
/* This machine can run it. */
bool di_kernel_is_usable(const di_kernel *kernel);

/* Which kernels may be chosen: an ISA ceiling and forced kernels. */
typedef struct di_kernel_mask {
    di_isa max_isa;
    const char *forced[DI_N_OPS]; /* kernel name or NULL; not owned */
} di_kernel_mask;

/* isa: NULL or "best" = all of this machine; kernels: NULL or "op=name,op=name". The names are
 * matched against the registry; one that is unknown, or that this machine cannot run, is
 * DI_ERR_ARGUMENT listing the known ones. */
DI_WARN_UNUSED di_status di_kernel_mask_parse(const char *isa, const char *kernels,
                                              di_kernel_mask *out);
/* The best usable kernel of an operation for passes of a width; never NULL, since every operation
 * has a reference. A forced kernel is taken for all widths. With is_invariant, only kernels whose
 * results do not depend on the batch, and one for all widths: rows of a decode and of a prefill
 * then get the same bits. */
const di_kernel *di_kernel_select(di_op op, di_kernel_width width, bool is_invariant,
                                  const di_kernel_mask *mask);
/* Prints every candidate of this build, the chosen ones starred. */
void di_kernels_print(const di_kernel_mask *mask, bool is_invariant, FILE *out);

#endif
