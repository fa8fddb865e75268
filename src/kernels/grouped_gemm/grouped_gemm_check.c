#include "kernels/grouped_gemm/grouped_gemm.h"

#include "kernels/check.h"
#include "kernels/all.h"
#include "kernels/quantize/quantize.h"

enum { N_EXPERTS = 6 };

/* A row is one assignment of a token to an expert, both the row's. */
typedef struct groups {
    int32_t *rows;              /* of x, by assignment */
    int32_t *begin;             /* [active + 1] */
    const di_qweight **weights; /* [active] */
    int64_t *places, n_active;
} groups;

static di_status sort_by_expert(di_op_case *c, const di_qweight *experts, groups *g)
{
    int32_t *expert_of;
    int32_t n = 0;
    DI_TRY(di_op_rows_int(c, 1, 0, N_EXPERTS - 1, &expert_of));
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)c->n_rows, &g->rows));
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)c->n_rows, &g->places));
    DI_TRY(DI_ARENA_NEW(c->arena, N_EXPERTS + 1, &g->begin));
    DI_TRY(DI_ARENA_NEW(c->arena, N_EXPERTS, &g->weights));
    g->n_active = 0;
    g->begin[0] = 0;
    for (int e = 0; e < N_EXPERTS; e++) {
        for (int32_t i = 0; i < c->n_rows; i++)
            if (expert_of[i] == e) {
                g->places[i] = n;
                g->rows[n++] = i;
            }
        if (n == g->begin[g->n_active])
            continue;
        g->weights[g->n_active++] = &experts[e];
        g->begin[g->n_active] = n;
    }
    return DI_OK;
}

di_status di_grouped_gemm_f4_case(di_op_case *c)
{
    di_grouped_gemm_args args = {.n = di_op_size(c, 1, 40), .k = 32 * di_op_size(c, 1, 20)};
    di_bf16 *x;
    di_qweight *experts;
    groups g;
    DI_TRY(di_op_rows_bf16(c, args.k, &x));
    const di_quantize_args rounding = {
        .x = x, .y = x, .dim = args.k, .x_stride = args.k, .y_stride = args.k};
    di_quantize_q8_ref(&rounding, 0, c->n_rows, 0);
    DI_TRY(DI_ARENA_NEW(c->arena, N_EXPERTS, &experts));
    for (int e = 0; e < N_EXPERTS; e++) {
        uint8_t *codes, *scales;
        DI_TRY(di_op_shared_bytes(c, args.n * args.k / 2, 0, 255, &codes));
        DI_TRY(di_op_shared_bytes(c, args.n * args.k / 32, 120, 130, &scales));
        experts[e] = (di_qweight){codes, scales, args.n, args.k, DI_WEIGHT_F4};
    }
    DI_TRY(sort_by_expert(c, experts, &g));
    DI_TRY(di_op_output_new(c, DI_BF16, args.n, (void **)&args.y));
    c->outputs[0].places = g.places;
    args.x = x;
    args.x_stride = args.k;
    args.rows = g.rows;
    args.weights = g.weights;
    args.expert_begin = g.begin;
    args.n_active = g.n_active;
    args.scratch_stride = DI_GEMM_SCRATCH_BYTES;
    DI_TRY(di_arena_alloc(c->arena, DI_OP_WORKERS, DI_GEMM_SCRATCH_BYTES, &args.scratch));
    return di_op_args(c, &args, sizeof args, g.n_active * args.n);
}
