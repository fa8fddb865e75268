#include "model/plan.h"

void di_plan_init(const di_kernel_mask *mask, bool is_invariant, di_plan *out)
{
    for (int op = 0; op < DI_N_OPS; op++) {
        out->kernels[op] = di_kernel_select((di_op)op, DI_WIDTH_ANY, is_invariant, mask);
        out->wide[op] = di_kernel_select((di_op)op, DI_WIDTH_WIDE, is_invariant, mask);
    }
}
