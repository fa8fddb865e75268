/* Which kernel runs each operation: chosen once, when an engine is made. */
#ifndef DI_MODEL_PLAN_H
#define DI_MODEL_PLAN_H

#include "kernels/kernel.h"

typedef struct di_plan {
    const di_kernel *kernels[DI_N_OPS];
} di_plan;

void di_plan_init(const di_kernel_mask *mask, di_plan *out);

#endif
