#include "kernels/engram/engram.h"

#include "kernels/check.h"

di_status di_engram_hash_case(di_op_case *c)
{
    enum { HISTORY = 40, PAD = 7 };
    di_engram_hash_args args = {
        .max_ngram = di_op_size(c, 2, 4), .n_heads = di_op_size(c, 1, 4), .pad_id = PAD};
    const int64_t n = (args.max_ngram - 1) * args.n_heads;
    int32_t *history, *positions;
    int64_t *multipliers, *primes, *offsets;
    DI_TRY(di_op_rows_int(c, HISTORY, 0, 999, &history));
    DI_TRY(di_op_row_pointers(c, history, HISTORY, &args.history));
    DI_TRY(di_op_rows_int(c, 1, 0, HISTORY - 1, &positions));
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)args.max_ngram, &multipliers));
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)n, &primes));
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)n, &offsets));
    for (int64_t i = 0; i < args.max_ngram; i++)
        multipliers[i] = 2 * di_op_size(c, 1, 1 << 30) + 1;
    for (int64_t i = 0; i < n; i++) {
        primes[i] = di_op_size(c, 90, 1000);
        offsets[i] = i > 0 ? offsets[i - 1] + primes[i - 1] : 0;
    }
    DI_TRY(di_op_output_new(c, DI_I64, n, (void **)&args.rows));
    args.positions = positions;
    args.multipliers = multipliers;
    args.primes = primes;
    args.offsets = offsets;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}

di_status di_engram_gather_case(di_op_case *c)
{
    enum { TABLE = 60 };
    di_engram_gather_args args = {.n_columns = di_op_size(c, 1, 12),
                                  .dim = 32 * di_op_size(c, 1, 3)};
    uint8_t *codes, *scales;
    int32_t *numbers;
    int64_t *rows;
    DI_TRY(di_op_shared_e4m3(c, TABLE * args.dim, &codes));
    DI_TRY(di_op_shared_bytes(c, TABLE * args.dim / 32, 118, 132, &scales));
    DI_TRY(di_op_rows_int(c, args.n_columns, 0, TABLE - 1, &numbers));
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)(c->n_rows * args.n_columns), &rows));
    for (int64_t i = 0; i < c->n_rows * args.n_columns; i++)
        rows[i] = numbers[i];
    DI_TRY(di_op_output_new(c, DI_BF16, args.n_columns * args.dim, (void **)&args.y));
    args.codes = codes;
    args.scales = scales;
    args.rows = rows;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}

di_status di_engram_gate_case(di_op_case *c)
{
    di_engram_gate_args args = {
        .dim = di_op_size(c, 1, 200), .hc = (int)di_op_size(c, 1, 5), .norm_eps = 1e-6f};
    di_bf16 *kv, *q_weight, *k_weight;
    DI_TRY(di_op_rows_bf16(c, args.hc * args.dim, &args.h));
    DI_TRY(di_op_rows_bf16(c, (args.hc + 1) * args.dim, &kv));
    DI_TRY(di_op_shared_bf16(c, args.hc * args.dim, &q_weight));
    DI_TRY(di_op_shared_bf16(c, args.hc * args.dim, &k_weight));
    di_op_output_add(c, DI_BF16, args.hc * args.dim, args.h);
    args.kv = kv;
    args.q_weight = q_weight;
    args.k_weight = k_weight;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}
