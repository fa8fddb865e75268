#include "kernels/hyper_connection/hyper_connection.h"

#include "kernels/check.h"

di_status di_hc_project_case(di_op_case *c)
{
    di_hc_project_args args = {
        .n = c->n_rows, .dim = di_op_size(c, 1, 150), .hc = (int)di_op_size(c, 1, 5)};
    const int64_t hc = args.hc, n = (2 + hc) * hc;
    di_bf16 *h;
    float *fn;
    DI_TRY(di_op_rows_bf16(c, hc * args.dim, &h));
    DI_TRY(di_op_shared_f32(c, n * hc * args.dim, &fn));
    DI_TRY(di_op_output_new(c, DI_F32, n + 1, (void **)&args.y));
    args.h = h;
    args.fn = fn;
    return di_op_args(c, &args, sizeof args, di_hc_project_items(c->n_rows, args.hc));
}

/* Sums of products of about the size of a base: more would leave a sigmoid of 0 or 1. */
di_status di_hc_mix_case(di_op_case *c)
{
    di_hc_mix_args args = {.dim = di_op_size(c, 1, 150),
                           .hc = (int)di_op_size(c, 1, 5),
                           .n_iters = (int)di_op_size(c, 1, 20),
                           .eps = 1e-6f,
                           .norm_eps = 1e-6f};
    const int64_t hc = args.hc, n = (2 + hc) * hc;
    float *products, *base, *scale;
    DI_TRY(di_op_rows_f32(c, n + 1, &products));
    for (int64_t row = 0; row < c->n_rows; row++) {
        float *squares = products + row * (n + 1) + n;
        *squares = (1.0f + fabsf(*squares)) * (float)(hc * args.dim);
    }
    DI_TRY(di_op_shared_f32(c, n, &base));
    DI_TRY(di_op_shared_f32(c, 3, &scale));
    DI_TRY(di_op_output_new(c, DI_F32, hc, (void **)&args.pre));
    DI_TRY(di_op_output_new(c, DI_F32, hc, (void **)&args.post));
    DI_TRY(di_op_output_new(c, DI_F32, hc * hc, (void **)&args.comb));
    args.products = products;
    args.base = base;
    args.scale = scale;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}

di_status di_hc_collapse_case(di_op_case *c)
{
    di_hc_collapse_args args = {.dim = di_op_size(c, 1, 150), .hc = (int)di_op_size(c, 1, 5)};
    di_bf16 *h;
    float *pre;
    DI_TRY(di_op_rows_bf16(c, args.hc * args.dim, &h));
    DI_TRY(di_op_rows_f32(c, args.hc, &pre));
    DI_TRY(di_op_output_new(c, DI_BF16, args.dim, (void **)&args.y));
    args.h = h;
    args.pre = pre;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}

di_status di_hc_expand_case(di_op_case *c)
{
    di_hc_expand_args args = {.dim = di_op_size(c, 1, 150), .hc = (int)di_op_size(c, 1, 5)};
    di_bf16 *y;
    float *post, *comb;
    DI_TRY(di_op_rows_bf16(c, args.hc * args.dim, &args.h));
    DI_TRY(di_op_rows_bf16(c, args.dim, &y));
    DI_TRY(di_op_rows_f32(c, args.hc, &post));
    DI_TRY(di_op_rows_f32(c, (int64_t)args.hc * args.hc, &comb));
    di_op_output_add(c, DI_BF16, args.hc * args.dim, args.h);
    args.y = y;
    args.post = post;
    args.comb = comb;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}
