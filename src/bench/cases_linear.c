/* Linears: the four shapes of quantized ones at widths 1 to 256, experts, and the bf16 ones. */
#include <stddef.h>

#include "base/checked.h"
#include "bench/cases.h"
#include "kernels/gemm/gemm.h"
#include "kernels/grouped_gemm/grouped_gemm.h"

typedef struct matrix {
    const char *name; /* which weight has this shape */
    int64_t n, k;
} matrix;

static const int64_t widths[] = {1, 2, 4, 8, 16, 64, 256};

enum { N_QUANTIZED = 4, N_WIDTHS = sizeof widths / sizeof widths[0] };

/* An expert's w1 and w3 as one matrix, its w2, wq_b and wo_b. */
static void quantized_shapes(const di_config *c, matrix out[N_QUANTIZED])
{
    out[0] = (matrix){"w1+w3", 2 * c->moe_intermediate_size, c->hidden_size};
    out[1] = (matrix){"w2", c->hidden_size, c->moe_intermediate_size};
    out[2] = (matrix){"wq_b", c->n_heads * c->head_dim, c->q_lora_rank};
    out[3] = (matrix){"wo_b", c->hidden_size, c->o_groups * c->o_lora_rank};
}

static di_status linear_case(di_bench_cases *b, di_op op, const matrix *w, int64_t m,
                             bool is_f32_out)
{
    const bool is_f8 = op == DI_OP_gemm_f8;
    di_gemm_args args = {
        .x_stride = w->k,
        .y_stride = w->n,
        .m = m,
        .n = w->n,
        .k = w->k,
        .is_f32_out = is_f32_out,
        .scratch = b->scratch,
        .scratch_stride = b->scratch_bytes,
    };
    di_bench_weights weights;
    di_bf16 *x;
    char *y;
    void *turns;
    const int64_t n_scales = is_f8 ? di_ceil_div(w->n, 32) * di_ceil_div(w->k, 32) : 0;
    DI_TRY(di_bench_weights_take(b, w->n * w->k * (is_f8 ? 1 : 2), n_scales, &weights));
    const di_arena_mark mark = di_arena_save(&b->arena);
    DI_TRY(is_f8 ? di_bench_q8(b, m * w->k, &x) : di_bench_bf16(b, m * w->k, &x));
    DI_TRY(DI_BENCH_NEW(b, m * w->n * 4, &y));
    args.x = x;
    args.y = y;
    DI_TRY(di_bench_turns(b, &args, sizeof args, weights.n_turns, &turns));
    for (int64_t i = 0; i < weights.n_turns; i++) {
        di_gemm_args *turn = (di_gemm_args *)turns + i;
        turn->w = weights.codes + i * weights.stride;
        turn->scales = is_f8 ? weights.scales + i * weights.scales_stride : NULL;
    }
    di_bench_case c = {.op = op,
                       .args = turns,
                       .args_bytes = sizeof args,
                       .n_turns = weights.n_turns,
                       .n_items = w->n,
                       .n_rows = m};
    DI_TRY(di_bench_emit(b, &c, "%s %lldx%lld m=%lld", w->name, (long long)w->n, (long long)w->k,
                         (long long)m));
    di_arena_rewind(&b->arena, mark);
    return DI_OK;
}

di_status di_bench_cases_gemm_f8(di_bench_cases *b)
{
    matrix shapes[N_QUANTIZED];
    quantized_shapes(b->config, shapes);
    for (int s = 0; s < N_QUANTIZED; s++)
        for (int i = 0; i < N_WIDTHS; i++)
            DI_TRY(linear_case(b, DI_OP_gemm_f8, &shapes[s], widths[i], false));
    return DI_OK;
}

di_status di_bench_cases_gemm_bf16(di_bench_cases *b)
{
    const di_config *c = b->config;
    const matrix shapes[] = {
        {"head", c->vocab_size, c->hidden_size},
        {"gate", c->n_routed_experts, c->hidden_size},
        {"compressor", c->head_dim, c->hidden_size},
        {"weights_proj", c->index_n_heads, c->hidden_size},
    };
    static const int64_t bf16_widths[] = {1, 16, 256};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int i = 0; i < (s == 0 ? 2 : 3); i++) /* the head sees the last rows alone */
            DI_TRY(linear_case(b, DI_OP_gemm_bf16, &shapes[s], bf16_widths[i], s < 3));
    return DI_OK;
}

/* ------------------------------------------------------------------------------------ experts */

/* How the tokens of a call are spread: of each token, k of n_experts. */
typedef struct routing {
    int64_t n_tokens, k, n_experts;
} routing;

/* Fills rows and expert_begin [n_experts + 1] with the experts that have tokens; their ids go to
 * active. The number of them is returned. */
static int64_t route(di_bench_cases *b, const routing *r, uint8_t *chosen, int32_t *rows,
                     int32_t *expert_begin, int32_t *active)
{
    for (int64_t t = 0; t < r->n_tokens; t++) {
        for (int64_t e = 0; e < r->n_experts; e++)
            chosen[t * r->n_experts + e] = 0;
        for (int64_t n = 0; n < r->k;) {
            uint8_t *one = &chosen[t * r->n_experts + di_bench_below(b, r->n_experts)];
            n += !*one;
            *one = 1;
        }
    }
    int64_t n_active = 0;
    int32_t n = 0;
    for (int64_t e = 0; e < r->n_experts; e++) {
        expert_begin[n_active] = n;
        for (int64_t t = 0; t < r->n_tokens; t++)
            if (chosen[t * r->n_experts + e])
                rows[n++] = (int32_t)t;
        if (n > expert_begin[n_active])
            active[n_active++] = (int32_t)e;
    }
    expert_begin[n_active] = n;
    return n_active;
}

/* One turn's routing and weights; other turns take other tokens to experts, and other experts. */
static di_status expert_turn(di_bench_cases *b, const routing *r, const di_bench_weights *weights,
                             int64_t turn, di_grouped_gemm_args *args)
{
    const int64_t n = r->n_tokens * r->k;
    uint8_t *chosen;
    int32_t *rows, *expert_begin, *active;
    di_qweight *experts;
    const di_qweight **list;
    DI_TRY(DI_BENCH_NEW(b, r->n_tokens * r->n_experts, &chosen));
    DI_TRY(DI_BENCH_NEW(b, n, &rows));
    DI_TRY(DI_BENCH_NEW(b, r->n_experts + 1, &expert_begin));
    DI_TRY(DI_BENCH_NEW(b, r->n_experts, &active));
    DI_TRY(DI_BENCH_NEW(b, r->n_experts, &experts));
    DI_TRY(DI_BENCH_NEW(b, r->n_experts, &list));
    args->n_active = route(b, r, chosen, rows, expert_begin, active);
    for (int64_t i = 0; i < args->n_active; i++) {
        const int64_t place = (turn * r->n_experts + active[i]) % weights->n_turns;
        experts[i] = (di_qweight){
            .codes = weights->codes + place * weights->stride,
            .scales = weights->scales + place * weights->scales_stride,
            .n_out = args->n,
            .n_in = args->k,
            .format = DI_WEIGHT_F4,
        };
        list[i] = &experts[i];
    }
    args->rows = rows;
    args->expert_begin = expert_begin;
    args->weights = list;
    return DI_OK;
}

static di_status expert_case(di_bench_cases *b, const matrix *w, const routing *r)
{
    di_grouped_gemm_args args = {
        .x_stride = w->k,
        .n = w->n,
        .k = w->k,
        .scratch = b->scratch,
        .scratch_stride = b->scratch_bytes,
    };
    di_bench_weights weights;
    di_bf16 *x;
    int64_t *items;
    void *turns;
    DI_TRY(di_bench_weights_take(b, w->n * w->k / 2, w->n * w->k / 32, &weights));
    const int64_t n_turns = r->n_experts == 1 ? weights.n_turns : 8;
    const di_arena_mark mark = di_arena_save(&b->arena);
    DI_TRY(di_bench_q8(b, r->n_tokens * w->k, &x));
    DI_TRY(DI_BENCH_NEW(b, r->n_tokens * r->k * w->n, &args.y));
    DI_TRY(DI_BENCH_NEW(b, n_turns, &items));
    args.x = x;
    DI_TRY(di_bench_turns(b, &args, sizeof args, n_turns, &turns));
    for (int64_t i = 0; i < n_turns; i++) {
        di_grouped_gemm_args *turn = (di_grouped_gemm_args *)turns + i;
        DI_TRY(expert_turn(b, r, &weights, i, turn));
        items[i] = turn->n_active * w->n;
    }
    di_bench_case c = {.op = DI_OP_grouped_gemm_f4,
                       .args = turns,
                       .args_bytes = sizeof args,
                       .n_turns = n_turns,
                       .turn_items = items,
                       .n_rows = r->n_tokens};
    if (r->n_experts == 1) {
        DI_TRY(di_bench_emit(b, &c, "%s %lldx%lld m=%lld", w->name, (long long)w->n,
                             (long long)w->k, (long long)r->n_tokens));
    } else {
        DI_TRY(di_bench_emit(b, &c, "%s %lldx%lld %lld of %lld T=%lld", w->name, (long long)w->n,
                             (long long)w->k, (long long)r->k, (long long)r->n_experts,
                             (long long)r->n_tokens));
    }
    di_arena_rewind(&b->arena, mark);
    return DI_OK;
}

di_status di_bench_cases_grouped_gemm_f4(di_bench_cases *b)
{
    const di_config *c = b->config;
    matrix shapes[N_QUANTIZED];
    quantized_shapes(c, shapes);
    for (int s = 0; s < N_QUANTIZED; s++)
        for (int i = 0; i < N_WIDTHS; i++)
            DI_TRY(expert_case(b, &shapes[s], &(routing){widths[i], 1, 1}));
    const matrix w1 = {"w1", c->moe_intermediate_size, c->hidden_size};
    static const int64_t tokens[] = {1, 4, 16, 64};
    const int64_t n_experts = di_min_i64(64, c->n_routed_experts);
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        DI_TRY(expert_case(
            b, &w1, &(routing){tokens[i], di_min_i64(c->n_experts_per_tok, n_experts), n_experts}));
    return DI_OK;
}
