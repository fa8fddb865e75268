#include "kernels/rmsnorm/rmsnorm.h"

#include "kernels/check.h"

di_status di_rmsnorm_case(di_op_case *c)
{
    di_rmsnorm_args args = {.dim = di_op_size(c, 1, 700), .eps = 1e-6f};
    di_bf16 *x, *w_bf16;
    float *w_f32;
    args.x_stride = args.y_stride = args.dim;
    args.w_dtype = di_op_size(c, 0, 1) ? DI_BF16 : DI_F32;
    DI_TRY(di_op_rows_bf16(c, args.dim, &x));
    DI_TRY(di_op_shared_bf16(c, args.dim, &w_bf16));
    DI_TRY(di_op_shared_f32(c, args.dim, &w_f32));
    DI_TRY(di_op_output_new(c, DI_BF16, args.dim, (void **)&args.y));
    args.x = x;
    args.w = args.w_dtype == DI_BF16 ? (const void *)w_bf16 : w_f32;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}
