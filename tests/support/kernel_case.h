/* The kernel tests' harness: one operation on one set of inputs, run by every kernel of the
 * registry. A case is
 *
 *     di_kernel_case c = di_case_new(DI_OP_rmsnorm, "rmsnorm, 3 rows of 96, wide");
 *     args.x = di_case_input(&c, n, sizeof(di_bf16));      filled by the caller
 *     args.y = di_case_output(&c, n, DI_BF16);             written by the kernel
 *     di_case_run(&c, &args, n_items);
 *     ... the outputs hold the reference's results: compare them with the definition ...
 *     di_case_free(&c);
 *
 * di_case_run runs the reference, then every other kernel of the operation that this machine has,
 * up to the level of DEEPINFER_ISA if that is set, and checks for each:
 * - all items in one call give the reference's results by the kernel's numerics class;
 * - if it is batch-invariant: any split of the items, in any order and by any worker, and every
 *   item by itself give the same bits;
 * - every item by itself writes at most what the whole run writes (no item touches what is not
 *   its own: outputs hold poison before, and the items' outputs together make the whole);
 * - nothing around the buffers was written and inputs are unchanged. */
#ifndef DI_TEST_KERNEL_CASE_H
#define DI_TEST_KERNEL_CASE_H

#include "core/tensor.h"
#include "guard.h"
#include "kernels/kernel.h"
#include "random.h"

enum { DI_CASE_BUFFERS = 24, DI_CASE_WORKERS = 3 };

typedef enum di_case_role {
    DI_CASE_INPUT,
    DI_CASE_OUTPUT,
    DI_CASE_INOUT,
    DI_CASE_SCRATCH
} di_case_role;

typedef struct di_case_buffer {
    di_guarded memory;
    di_case_role role;
    di_dtype dtype;
    unsigned char *before; /* content before a run; owned */
    unsigned char *wanted; /* the reference's results; owned */
} di_case_buffer;

typedef struct di_kernel_case {
    di_op op;
    char what[160];
    di_case_buffer buffers[DI_CASE_BUFFERS];
    int n_buffers;
    double slack; /* what EXACT kernels may differ by from the reference, by their contract */
    di_rng rng;   /* of the splits */
} di_kernel_case;

di_kernel_case di_case_new(di_op op, const char *fmt, ...) DI_PRINTF(2, 3);
void di_case_free(di_kernel_case *c);

/* Guarded, poisoned. n = 0 is fine. */
void *di_case_input(di_kernel_case *c, int64_t n, size_t elem_bytes);
void *di_case_output(di_kernel_case *c, int64_t n, di_dtype dtype);
/* Filled by the caller: kernels that work in place, or that write only a part. */
void *di_case_inout(di_kernel_case *c, int64_t n, di_dtype dtype);
/* Poisoned before every call, never compared. */
void *di_case_scratch(di_kernel_case *c, int64_t n, size_t elem_bytes);

void di_case_run(di_kernel_case *c, const void *args, int64_t n_items);
/* This machine has the kernel's level, and DEEPINFER_ISA does not forbid it. */
bool di_case_has_kernel(const di_kernel *kernel);
/* What an inout buffer held before the run. */
const void *di_case_before(const di_kernel_case *c, const void *inout);

#endif
