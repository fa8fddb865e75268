#include "kernels/index_logits/index_logits.h"

#include "kernels/check.h"
#include "kernels/all.h"
#include "kernels/quantize/quantize.h"

di_status di_index_logits_case(di_op_case *c)
{
    enum { BLOCK_LEN = 8, N_BLOCKS = 24 };
    di_index_logits_args args = {.n_heads = di_op_size(c, 1, 8),
                                 .dim = 32 * di_op_size(c, 1, 4),
                                 .max_visible = di_op_size(c, 1, BLOCK_LEN * N_BLOCKS),
                                 .w_scale = 0.125f};
    const int32_t code_bytes = (int32_t)args.dim / 2, scale_bytes = (int32_t)args.dim / 32;
    const int64_t block_bytes = (int64_t)(code_bytes + scale_bytes) * BLOCK_LEN;
    di_bf16 *q, *w;
    uint8_t *data;
    int32_t *tables, *n_visible;
    DI_TRY(di_op_rows_bf16(c, args.n_heads * args.dim, &q));
    const di_quantize_args rounding = {
        .x = q, .y = q, .dim = args.dim, .x_stride = args.dim, .y_stride = args.dim};
    di_quantize_q4i_ref(&rounding, 0, c->n_rows * args.n_heads, 0);
    DI_TRY(di_op_rows_bf16(c, args.n_heads, &w));
    DI_TRY(di_op_shared_bytes(c, N_BLOCKS * block_bytes, 0, 255, &data));
    for (int64_t b = 0; b < N_BLOCKS; b++) /* scales 2^-4 .. 2^3 */
        for (int64_t i = (int64_t)code_bytes * BLOCK_LEN; i < block_bytes; i++)
            data[b * block_bytes + i] = (uint8_t)(123 + data[b * block_bytes + i] % 8);
    DI_TRY(di_op_rows_int(c, N_BLOCKS, 0, N_BLOCKS - 1, &tables));
    DI_TRY(di_op_row_pointers(c, tables, N_BLOCKS, &args.block_tables));
    DI_TRY(di_op_rows_int(c, 1, 0, (int32_t)args.max_visible, &n_visible));
    DI_TRY(di_op_output_new(c, DI_BF16, args.max_visible, (void **)&args.scores));
    args.q = q;
    args.w = w;
    args.n_visible = n_visible;
    args.keys = (di_paged){data,      block_bytes, (int64_t)code_bytes * BLOCK_LEN,
                           BLOCK_LEN, code_bytes,  scale_bytes};
    const int64_t tiles = (args.max_visible + DI_INDEX_TILE - 1) / DI_INDEX_TILE;
    return di_op_args(c, &args, sizeof args, c->n_rows * tiles);
}
