#include "kernels/rope/rope.h"

#include "kernels/check.h"

di_status di_rope_case(di_op_case *c)
{
    di_rope_args args = {.n_heads = di_op_size(c, 1, 4), .rope_dim = 2 * di_op_size(c, 1, 32)};
    float *cosines, *sines;
    args.head_dim = args.rope_dim + di_op_size(c, 0, 70);
    args.x_stride = args.n_heads * args.head_dim;
    args.is_inverse = di_op_size(c, 0, 1) == 1;
    DI_TRY(di_op_rows_bf16(c, args.x_stride, &args.x));
    DI_TRY(di_op_rows_f32(c, args.rope_dim / 2, &cosines));
    DI_TRY(di_op_rows_f32(c, args.rope_dim / 2, &sines));
    di_op_output_add(c, DI_BF16, args.x_stride, args.x);
    args.cos = cosines;
    args.sin = sines;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}
