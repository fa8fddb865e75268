#include "kernels/gemm/gemm.h"

#include "kernels/check.h"

static di_status gemm_case(di_op_case *c, bool is_f8)
{
    di_gemm_args args = {.m = c->n_rows, .n = di_op_size(c, 1, 40), .k = di_op_size(c, 1, 700)};
    di_bf16 *x, *w_bf16;
    uint8_t *w_f8, *scales;
    args.x_stride = args.k;
    args.y_stride = args.n;
    args.first_column = di_op_size(c, 0, 40);
    args.is_f32_out = di_op_size(c, 0, 3) > 0; /* rounding to bf16 hides most differences */
    const int64_t n_w = (args.first_column + args.n) * args.k;
    const int64_t n_scales = ((args.first_column + args.n + 31) / 32) * ((args.k + 31) / 32);
    DI_TRY(di_op_rows_bf16(c, args.k, &x));
    DI_TRY(di_op_shared_bf16(c, is_f8 ? 0 : n_w, &w_bf16));
    DI_TRY(di_op_shared_e4m3(c, is_f8 ? n_w : 0, &w_f8));
    DI_TRY(di_op_shared_bytes(c, is_f8 ? n_scales : 0, 117, 130, &scales));
    DI_TRY(di_op_output_new(c, args.is_f32_out ? DI_F32 : DI_BF16, args.n, &args.y));
    args.x = x;
    args.w = is_f8 ? (const void *)w_f8 : w_bf16;
    args.scales = is_f8 ? scales : NULL;
    args.scratch_stride = DI_GEMM_SCRATCH_BYTES;
    DI_TRY(di_arena_alloc(c->arena, DI_OP_WORKERS, DI_GEMM_SCRATCH_BYTES, &args.scratch));
    return di_op_args(c, &args, sizeof args, args.n);
}

di_status di_gemm_f8_case(di_op_case *c)
{
    return gemm_case(c, true);
}

di_status di_gemm_bf16_case(di_op_case *c)
{
    return gemm_case(c, false);
}
