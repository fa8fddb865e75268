#include "kernels/quantize/quantize.h"

#include "kernels/check.h"

static di_status quantize_case(di_op_case *c)
{
    di_quantize_args args = {.dim = 32 * di_op_size(c, 1, 8)};
    di_bf16 *x;
    args.x_stride = args.y_stride = args.dim;
    DI_TRY(di_op_rows_bf16(c, args.dim, &x));
    DI_TRY(di_op_output_new(c, DI_BF16, args.dim, (void **)&args.y));
    args.x = x;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}

di_status di_quantize_q8_case(di_op_case *c)
{
    return quantize_case(c);
}

di_status di_quantize_q4i_case(di_op_case *c)
{
    return quantize_case(c);
}

/* Blocks of one entry, row i in block i: an entry's codes and scales are a row's result. */
static di_status pack_case(di_op_case *c, int64_t values_a_byte, int64_t group)
{
    di_pack_args args = {.dim = 32 * di_op_size(c, 1, 8)};
    di_bf16 *x;
    int64_t *slots;
    const int32_t code_bytes = (int32_t)(args.dim / values_a_byte);
    const int32_t scale_bytes = (int32_t)(args.dim / group);
    args.x_stride = args.dim;
    args.out = (di_paged_out){.block_bytes = code_bytes + scale_bytes,
                              .scales_offset = code_bytes,
                              .block_len = 1,
                              .code_bytes = code_bytes,
                              .scale_bytes = scale_bytes};
    DI_TRY(di_op_rows_bf16(c, args.dim, &x));
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)c->n_rows, &slots));
    for (int64_t i = 0; i < c->n_rows; i++)
        slots[i] = i;
    DI_TRY(di_op_output_new(c, DI_U8, args.out.block_bytes, (void **)&args.out.data));
    args.x = x;
    args.slots = slots;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}

di_status di_pack_q8_case(di_op_case *c)
{
    return pack_case(c, 1, 32);
}

di_status di_pack_q4kv_case(di_op_case *c)
{
    return pack_case(c, 2, 16);
}

di_status di_pack_q4i_case(di_op_case *c)
{
    return pack_case(c, 2, 32);
}
