#include "kernels/sparse_attention/sparse_attention.h"

#include "kernels/check.h"

/* Codes, then scales, of every block; no NaN among them. */
static di_status random_store(di_op_case *c, int64_t n_blocks, di_paged *store)
{
    const int64_t codes = (int64_t)store->code_bytes * store->block_len;
    const bool is_q4 = store->scale_bytes * 8 == store->code_bytes;
    store->scales_offset = codes;
    store->block_bytes = codes + (int64_t)store->scale_bytes * store->block_len;
    uint8_t *data;
    DI_TRY(di_op_shared_bytes(c, n_blocks * store->block_bytes, 0, 255, &data));
    for (int64_t i = 0; i < n_blocks * store->block_bytes; i++) {
        if (i % store->block_bytes >= codes) /* e4m3 or e8m0 about 1 */
            data[i] = (uint8_t)(is_q4 ? 0x28 + data[i] % 24 : 125 + data[i] % 3);
        else if (!is_q4)
            data[i] &= 0xbf; /* magnitudes below 2 */
    }
    store->data = data;
    return DI_OK;
}

di_status di_sparse_attention_case(di_op_case *c)
{
    enum { WINDOW_BLOCK = 16, BLOCK = 8, N_BLOCKS = 16, LAST = 110, GAP = 5 };
    di_sparse_attention_args args = {.n_heads = di_op_size(c, 1, 4),
                                     .head_dim = 32 * di_op_size(c, 1, 3),
                                     .scale = 0.125f,
                                     .window_len = di_op_size(c, 1, 40),
                                     .index_stride = di_op_size(c, 1, 24),
                                     .has_q8_selected = di_op_size(c, 0, 3) == 0};
    const int32_t dim = (int32_t)args.head_dim;
    int32_t *window_tables, *tables, *positions, *indices, *counts;
    di_bf16 *q;
    float *sink;
    args.window = (di_paged){.block_len = WINDOW_BLOCK, .code_bytes = dim, .scale_bytes = dim / 32};
    args.compressed =
        args.has_q8_selected
            ? (di_paged){.block_len = BLOCK, .code_bytes = dim, .scale_bytes = dim / 32}
            : (di_paged){.block_len = BLOCK, .code_bytes = dim / 2, .scale_bytes = dim / 16};
    DI_TRY(di_op_rows_bf16(c, args.n_heads * args.head_dim, &q));
    DI_TRY(di_op_shared_f32(c, args.n_heads, &sink));
    DI_TRY(random_store(c, N_BLOCKS, &args.window));
    DI_TRY(random_store(c, N_BLOCKS, &args.compressed));
    DI_TRY(di_op_rows_int(c, N_BLOCKS, 0, N_BLOCKS - 1, &window_tables));
    DI_TRY(di_op_rows_int(c, N_BLOCKS, 0, N_BLOCKS - 1, &tables));
    DI_TRY(di_op_row_pointers(c, window_tables, N_BLOCKS, &args.window_tables));
    DI_TRY(di_op_row_pointers(c, tables, N_BLOCKS, &args.compressed_tables));
    DI_TRY(di_op_rows_int(c, 1, 0, LAST, &positions));
    DI_TRY(di_op_rows_int(c, args.index_stride, 1, GAP, &indices));
    DI_TRY(di_op_rows_int(c, 1, 0, (int32_t)args.index_stride, &counts));
    for (int64_t i = 0; i < c->n_rows * args.index_stride; i++) /* gaps to ascending indices */
        indices[i] += i % args.index_stride ? indices[i - 1] : -1;
    args.scratch_stride =
        di_sparse_attention_scratch(args.window_len, args.index_stride, args.head_dim);
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)(DI_OP_WORKERS * args.scratch_stride), &args.scratch));
    DI_TRY(di_op_output_new(c, DI_BF16, args.n_heads * args.head_dim, (void **)&args.out));
    args.q = q;
    args.sink = sink;
    args.positions = positions;
    args.indices = indices;
    args.counts = counts;
    return di_op_args(c, &args, sizeof args, c->n_rows * args.n_heads);
}
