/* Which kernel runs each operation: chosen once, when an engine is made. */
#ifndef DI_MODEL_PLAN_H
#define DI_MODEL_PLAN_H

#include "kernels/kernel.h"

typedef struct di_plan {
    const di_kernel *kernels[DI_N_OPS];
    const di_kernel *wide[DI_N_OPS]; /* for passes of DI_WIDE_ROWS rows and more */
} di_plan;

/* is_invariant: a row's results must not depend on the batch; wide is then the same as kernels. */
void di_plan_init(const di_kernel_mask *mask, bool is_invariant, di_plan *out);

#endif
