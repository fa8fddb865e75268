#include "kernels/moe_gate/moe_gate.h"

#include "kernels/check.h"

di_status di_moe_gate_case(di_op_case *c)
{
    di_moe_gate_args args = {.n_experts = di_op_size(c, 8, 80),
                             .k = di_op_size(c, 1, 8),
                             .is_normalized = di_op_size(c, 0, 1) == 1,
                             .routed_scale = 1.5f};
    float *logits, *bias;
    DI_TRY(di_op_rows_f32(c, args.n_experts, &logits));
    DI_TRY(di_op_shared_f32(c, args.n_experts, &bias));
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)(c->n_rows * args.n_experts), &args.scores));
    DI_TRY(di_op_output_new(c, DI_I32, args.k, (void **)&args.experts));
    DI_TRY(di_op_output_new(c, DI_F32, args.k, (void **)&args.weights));
    args.logits = logits;
    args.bias = bias;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}

/* The last row's assignments come first. */
di_status di_moe_combine_case(di_op_case *c)
{
    di_moe_combine_args args = {.dim = di_op_size(c, 1, 200), .k = di_op_size(c, 1, 8)};
    const int64_t n = c->n_rows * args.k;
    di_bf16 *by_row, *routed, *shared;
    int32_t *assignments;
    DI_TRY(di_op_rows_bf16(c, args.k * args.dim, &by_row));
    DI_TRY(di_op_rows_bf16(c, args.dim, &shared));
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)(n * args.dim), &routed));
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)n, &assignments));
    for (int64_t i = 0; i < n; i++) {
        assignments[i] = (int32_t)(n - 1 - i);
        memcpy(routed + (n - 1 - i) * args.dim, by_row + i * args.dim,
               (size_t)args.dim * sizeof *routed);
    }
    DI_TRY(di_op_output_new(c, DI_BF16, args.dim, (void **)&args.y));
    args.routed = routed;
    args.assignments = assignments;
    args.shared = shared;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}
