#include "kernels/topk/topk.h"

#include "kernels/check.h"

/* Scores of few values: many are equal. */
static di_status tied_scores(di_op_case *c, int64_t n, di_bf16 **out)
{
    DI_TRY(di_op_rows_bf16(c, n, out));
    for (int64_t i = 0; i < c->n_rows * n; i++)
        (*out)[i] &= 0xffe0;
    return DI_OK;
}

di_status di_topk_case(di_op_case *c)
{
    di_topk_args args = {.score_stride = di_op_size(c, 1, 300),
                         .block_size = di_op_size(c, 1, 9),
                         .k = di_op_size(c, 1, 100)};
    di_bf16 *scores;
    int32_t *n_visible, *chosen;
    uint8_t *candidates;
    args.candidate_stride = (args.score_stride + args.block_size - 1) / args.block_size;
    const bool has_candidates = di_op_size(c, 0, 1) == 1;
    DI_TRY(tied_scores(c, args.score_stride, &scores));
    DI_TRY(di_op_rows_int(c, 1, 0, (int32_t)args.score_stride, &n_visible));
    DI_TRY(di_op_rows_int(c, args.candidate_stride, 0, 1, &chosen));
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)(c->n_rows * args.candidate_stride), &candidates));
    for (int64_t i = 0; i < c->n_rows * args.candidate_stride; i++)
        candidates[i] = (uint8_t)chosen[i];
    DI_TRY(di_op_output_new(c, DI_I32, args.k, (void **)&args.indices));
    DI_TRY(di_op_output_new(c, DI_I32, 1, (void **)&args.counts));
    args.scores = scores;
    args.n_visible = n_visible;
    args.candidates = has_candidates ? candidates : NULL;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}

di_status di_candidate_blocks_case(di_op_case *c)
{
    di_candidate_blocks_args args = {.score_stride = di_op_size(c, 1, 300),
                                     .block_size = di_op_size(c, 1, 9),
                                     .k = di_op_size(c, 1, 20)};
    di_bf16 *scores;
    int32_t *n_visible;
    args.candidate_stride = (args.score_stride + args.block_size - 1) / args.block_size;
    DI_TRY(tied_scores(c, args.score_stride, &scores));
    DI_TRY(di_op_rows_int(c, 1, 0, (int32_t)args.score_stride, &n_visible));
    DI_TRY(di_op_output_new(c, DI_U8, args.candidate_stride, (void **)&args.candidates));
    args.scores = scores;
    args.n_visible = n_visible;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}
