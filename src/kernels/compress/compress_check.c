#include "kernels/compress/compress.h"

#include "kernels/check.h"

/* A row is a group of two tokens. */
di_status di_compress_pool_case(di_op_case *c)
{
    di_compress_pool_args args = {.dim = di_op_size(c, 1, 300)};
    float *k, *gate;
    DI_TRY(di_op_rows_f32(c, 2 * args.dim, &k));
    DI_TRY(di_op_rows_f32(c, 2 * args.dim, &gate));
    DI_TRY(di_op_output_new(c, DI_BF16, args.dim, (void **)&args.latent));
    args.k = k;
    args.gate = gate;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}
