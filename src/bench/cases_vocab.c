/* Cases of the sampler's passes over the vocabulary: one row. */
#include "bench/cases.h"
#include "kernels/vocab/vocab.h"

#define EMIT_ROW(b, operation, arguments, items, ...)                                              \
    di_bench_emit((b),                                                                             \
                  &(di_bench_case){.op = DI_OP_##operation,                                        \
                                   .args = (const char *)(arguments),                              \
                                   .args_bytes = sizeof *(arguments),                              \
                                   .n_turns = 1,                                                   \
                                   .n_items = (items),                                             \
                                   .n_rows = 1},                                                   \
                  __VA_ARGS__)

di_status di_bench_cases_row_peaks(di_bench_cases *b)
{
    di_row_peaks_args args = {.n = b->config->vocab_size};
    const int64_t n_blocks = di_vocab_blocks((int32_t)args.n);
    float *row;
    DI_TRY(di_bench_f32(b, args.n, &row));
    DI_TRY(DI_BENCH_NEW(b, n_blocks, &args.peaks));
    args.row = row;
    return EMIT_ROW(b, row_peaks, &args, n_blocks, "%lld", (long long)args.n);
}

di_status di_bench_cases_exp_weights(di_bench_cases *b)
{
    di_exp_weights_args args = {.n = b->config->vocab_size, .max = 16.0f};
    const int64_t n_blocks = di_vocab_blocks((int32_t)args.n);
    float *row;
    DI_TRY(di_bench_f32(b, args.n, &row));
    DI_TRY(DI_BENCH_NEW(b, n_blocks, &args.sums));
    args.row = row;
    return EMIT_ROW(b, exp_weights, &args, n_blocks, "%lld", (long long)args.n);
}

/* Noise for every token: four of a counter. */
di_status di_bench_cases_philox_bits(di_bench_cases *b)
{
    di_philox_bits_args args = {.key = 1, .n = (b->config->vocab_size + 3) / 4};
    uint32_t *word_1;
    DI_TRY(DI_BENCH_NEW(b, args.n, &word_1));
    DI_TRY(DI_BENCH_NEW(b, 4 * args.n, &args.bits));
    for (int64_t i = 0; i < args.n; i++)
        word_1[i] = (uint32_t)i;
    args.word_1 = word_1;
    return EMIT_ROW(b, philox_bits, &args, args.n, "%lld", (long long)(4 * args.n));
}
