#include "kernels/swiglu/swiglu.h"

#include "kernels/check.h"

di_status di_swiglu_case(di_op_case *c)
{
    di_swiglu_args args = {.dim = di_op_size(c, 1, 300), .limit = 10.0f};
    di_bf16 *gate, *up;
    float *weights;
    const bool is_weighted = di_op_size(c, 0, 1) == 1;
    DI_TRY(di_op_rows_bf16(c, args.dim, &gate));
    DI_TRY(di_op_rows_bf16(c, args.dim, &up));
    DI_TRY(di_op_rows_f32(c, 1, &weights));
    DI_TRY(di_op_output_new(c, DI_BF16, args.dim, (void **)&args.y));
    args.gate = gate;
    args.up = up;
    args.weights = is_weighted ? weights : NULL;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}
