#include "kernels/vocab/vocab.h"

#include "kernels/check.h"

/* A row of the check is a block of the vocabulary. */
di_status di_row_peaks_case(di_op_case *c)
{
    di_row_peaks_args args = {.n = c->n_rows * DI_VOCAB_BLOCK};
    float *row;
    DI_TRY(di_op_rows_f32(c, DI_VOCAB_BLOCK, &row));
    DI_TRY(di_op_output_new(c, DI_F32, 1, (void **)&args.peaks));
    args.row = row;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}

di_status di_exp_weights_case(di_op_case *c)
{
    di_exp_weights_args args = {.n = c->n_rows * DI_VOCAB_BLOCK, .max = 16.0f};
    float *row;
    DI_TRY(di_op_rows_f32(c, DI_VOCAB_BLOCK, &row));
    DI_TRY(di_op_output_new(c, DI_U64, 1, (void **)&args.sums));
    args.row = row;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}

di_status di_philox_bits_case(di_op_case *c)
{
    di_philox_bits_args args = {.counter = {{7, 0, 1, 2}}, .n = c->n_rows};
    int32_t *word_1;
    args.key = (uint64_t)di_op_size(c, 0, INT32_MAX) << 16;
    DI_TRY(di_op_rows_int(c, 1, 0, INT32_MAX, &word_1));
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)(4 * c->n_rows), &args.bits));
    for (int w = 0; w < 4; w++)
        di_op_output_add(c, DI_U32, 1, args.bits + w * c->n_rows);
    args.word_1 = (const uint32_t *)word_1;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}
