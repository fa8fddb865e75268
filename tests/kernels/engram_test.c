/* engram_hash, engram_gather and engram_gate against model spec 4.6. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compare.h"
#include "kernel_case.h"
#include "kernels/engram/engram.h"

/* ------------------------------------------------------------------- hash */

static void check_hash(int64_t max_ngram, int64_t n_heads)
{
    enum { N = 12, CONTEXT = 40, PAD = 77, N_IDS = 99092 };
    di_kernel_case c = di_case_new(DI_OP_engram_hash, "engram_hash, up to %d-grams, %d heads",
                                   (int)max_ngram, (int)n_heads);
    di_rng rng = di_rng_named(c.what);
    const int64_t columns = (max_ngram - 1) * n_heads;
    int32_t *ids[2] = {di_case_input(&c, CONTEXT, sizeof(int32_t)),
                       di_case_input(&c, CONTEXT, sizeof(int32_t))};
    int32_t *positions = di_case_input(&c, N, sizeof *positions);
    int64_t *multipliers = di_case_input(&c, max_ngram, sizeof *multipliers);
    int64_t *primes = di_case_input(&c, columns, sizeof *primes);
    int64_t *offsets = di_case_input(&c, columns, sizeof *offsets);
    int64_t *rows = di_case_output(&c, N * columns, DI_I64);
    const int32_t *history[N];
    for (int i = 0; i < CONTEXT; i++) {
        ids[0][i] = (int32_t)di_rng_below(&rng, N_IDS);
        ids[1][i] = (int32_t)di_rng_below(&rng, N_IDS);
    }
    for (int i = 0; i < N; i++) { /* the first positions have no full n-gram */
        positions[i] = i < 9 ? i : (int32_t)di_rng_below(&rng, CONTEXT);
        history[i] = ids[i % 2];
    }
    for (int64_t k = 0; k < max_ngram; k++)
        multipliers[k] = 2 * di_rng_below(&rng, INT64_MAX / N_IDS / 2) + 1;
    for (int64_t i = 0; i < columns; i++) {
        primes[i] = 1 + 2 * di_rng_below(&rng, 8000000);
        offsets[i] = di_rng_below(&rng, 400000000);
    }
    const di_engram_hash_args args = {.history = history,
                                      .positions = positions,
                                      .multipliers = multipliers,
                                      .primes = primes,
                                      .offsets = offsets,
                                      .rows = rows,
                                      .max_ngram = max_ngram,
                                      .n_heads = n_heads,
                                      .pad_id = PAD};
    di_case_run(&c, &args, N);
    for (int64_t row = 0; row < N; row++) {
        for (int64_t i = 0; i < columns; i++) {
            __int128 hash = 0; /* of the order's whole n-gram, from scratch */
            for (int64_t k = 0; k <= i / n_heads + 1; k++) {
                const int64_t p = positions[row] - k;
                hash ^= (__int128)(p < 0 ? PAD : history[row][p]) * multipliers[k];
            }
            assert_true(hash >= 0 && hash <= INT64_MAX);
            assert_int_equal(rows[row * columns + i], (int64_t)(hash % primes[i]) + offsets[i]);
        }
    }
    di_case_free(&c);
}

static void hash(void **state)
{
    (void)state;
    for (int64_t n = 2; n <= 8; n++)
        for (int64_t heads = 1; heads <= 8; heads = heads * 2 + 1)
            check_hash(n, heads);
}

/* ------------------------------------------------------------------- gather */

static void check_gather(int64_t n, int64_t n_columns, int64_t dim)
{
    enum { TABLE = 29 };
    di_kernel_case c = di_case_new(DI_OP_engram_gather, "engram_gather, %d rows, %d columns of %d",
                                   (int)n, (int)n_columns, (int)dim);
    di_rng rng = di_rng_named(c.what);
    uint8_t *codes = di_case_input(&c, TABLE * dim, 1);
    uint8_t *scales = di_case_input(&c, TABLE * dim / 32, 1);
    int64_t *rows = di_case_input(&c, n * n_columns, sizeof *rows);
    di_bf16 *y = di_case_output(&c, n * n_columns * dim, DI_BF16);
    di_fill_e4m3(&rng, codes, TABLE * dim);
    for (int64_t i = 0; i < TABLE * dim / 32; i++) /* the whole range but NaN and overflow */
        scales[i] = (uint8_t)di_rng_between(&rng, 0, 240);
    for (int64_t i = 0; i < n * n_columns; i++)
        rows[i] = i == 0 ? TABLE - 1 : di_rng_below(&rng, TABLE);
    const di_engram_gather_args args = {
        .codes = codes, .scales = scales, .rows = rows, .y = y, .n_columns = n_columns, .dim = dim};
    di_case_run(&c, &args, n);
    for (int64_t i = 0; i < n * n_columns * dim; i++) {
        const int64_t row = rows[i / dim], at = i % dim;
        const int code = codes[row * dim + at], e = code >> 3 & 15, m = code & 7;
        const double magnitude = e == 0 ? ldexp(m, -9) : ldexp(8 + m, e - 10);
        /* exact in double and, but for results below 2^-149, in fp32 */
        di_expect_bf16_exact(c.what, i, y[i],
                             (code & 0x80 ? -magnitude : magnitude) *
                                 ldexp(1, scales[(row * dim + at) / 32] - 127));
    }
    di_case_free(&c);
}

static void gather(void **state)
{
    (void)state;
    check_gather(1, 1, 32);
    check_gather(5, 6, 64);
    check_gather(3, 24, 256);
    check_gather(17, 2, 96);
}

/* ------------------------------------------------------------------- gate */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double gate_of(double d)
{
    return sigmoid(copysign(sqrt(fmax(fabs(d), 1e-6)), d));
}

/* The scaled product of a stream and its key, and a bound on its error. */
static double product(const di_engram_gate_args *a, const di_bf16 *h, const di_bf16 *key, int j,
                      double *slack)
{
    double d = 0, mass = 0, hh = 0, kk = 0;
    for (int64_t i = 0; i < a->dim; i++) {
        const double x = (double)di_bf16_to_f32(h[i]), y = (double)di_bf16_to_f32(key[i]);
        const double w = (double)di_bf16_to_f32(a->q_weight[j * a->dim + i]) *
                         (double)di_bf16_to_f32(a->k_weight[j * a->dim + i]);
        d += x * w * y;
        mass += fabs(x * w * y);
        hh += x * x;
        kk += y * y;
    }
    const double dim = (double)a->dim, eps = (double)a->norm_eps;
    const double factor = 1 / sqrt(hh / dim + eps) / sqrt(kk / dim + eps) / sqrt(dim);
    *slack = (di_sum_slack(a->dim, mass) + dim * 0x1p-149) * factor +
             (di_sum_slack(a->dim, 1) + 10 * 0x1p-24) * fabs(d) * factor;
    return d * factor;
}

static void check_gate(int64_t n, int64_t dim, int hc, di_pattern pattern)
{
    di_kernel_case c = di_case_new(DI_OP_engram_gate, "engram_gate, %d rows, %d streams of %d, %s",
                                   (int)n, hc, (int)dim, di_pattern_name(pattern));
    di_rng rng = di_rng_named(c.what);
    di_bf16 *h = di_case_inout(&c, n * hc * dim, DI_BF16);
    di_bf16 *kv = di_case_input(&c, n * (hc + 1) * dim, sizeof *kv);
    di_bf16 *q_weight = di_case_input(&c, hc * dim, sizeof *q_weight);
    di_bf16 *k_weight = di_case_input(&c, hc * dim, sizeof *k_weight);
    di_fill_bf16(&rng, pattern, h, n * hc * dim);
    di_fill_bf16(&rng, DI_PATTERN_NORMAL, kv, n * (hc + 1) * dim);
    di_fill_bf16(&rng, DI_PATTERN_NORMAL, q_weight, hc * dim);
    di_fill_bf16(&rng, DI_PATTERN_NORMAL, k_weight, hc * dim);
    const di_engram_gate_args args = {.h = h,
                                      .kv = kv,
                                      .q_weight = q_weight,
                                      .k_weight = k_weight,
                                      .dim = dim,
                                      .hc = hc,
                                      .norm_eps = 1e-20f};
    di_case_run(&c, &args, n);
    const di_bf16 *before = di_case_before(&c, h);
    for (int64_t stream = 0; stream < n * hc; stream++) {
        const int64_t row = stream / hc;
        const int j = (int)(stream % hc);
        const di_bf16 *keys = kv + row * (hc + 1) * dim, *value = keys + hc * dim;
        double slack;
        const double d = product(&args, before + stream * dim, keys + j * dim, j, &slack);
        /* steep near 0: take the gates of both ends */
        const double gate = gate_of(d == 0 ? 0.0 : d);
        const double off = fmax(fabs(gate_of(d + slack) - gate),
                                slack == 0 ? 0 : fabs(gate_of(d - slack) - gate)) +
                           8 * 0x1p-24;
        for (int64_t i = 0; i < dim; i++) {
            const double x = (double)di_bf16_to_f32(before[stream * dim + i]);
            const double v = (double)di_bf16_to_f32(value[i]);
            di_expect_bf16(c.what, stream * dim + i, h[stream * dim + i], x + gate * v,
                           off * fabs(v) + 0x1p-24 * (fabs(x) + 2 * fabs(v)));
        }
    }
    di_case_free(&c);
}

static void gate(void **state)
{
    (void)state;
    const int64_t dims[] = {1, 32, 45, 256};
    for (int hc = 1; hc <= 4; hc++)
        for (int d = 0; d < 4; d++)
            for (int p = 0; p < DI_N_PATTERNS; p++)
                check_gate(1 + 2 * d, dims[d], hc, (di_pattern)p);
}

/* A product of exactly 0 counts as positive: sigmoid(+0.001). */
static void zero_counts_as_positive(void **state)
{
    (void)state;
    enum { DIM = 32 };
    di_kernel_case c = di_case_new(DI_OP_engram_gate, "engram_gate, product 0");
    di_bf16 *h = di_case_inout(&c, DIM, DI_BF16), *kv = di_case_input(&c, 2 * DIM, 2);
    di_bf16 *w = di_case_input(&c, DIM, 2);
    for (int i = 0; i < DIM; i++) {
        h[i] = 0x8000;
        kv[i] = 0xbf80; /* -1 */
        kv[DIM + i] = di_f32_to_bf16(512.0f);
        w[i] = 0x3f80;
    }
    const di_engram_gate_args args = {
        .h = h, .kv = kv, .q_weight = w, .k_weight = w, .dim = DIM, .hc = 1, .norm_eps = 1e-20f};
    di_case_run(&c, &args, 1);
    for (int i = 0; i < DIM; i++)
        di_expect_bf16(c.what, i, h[i], 512 / (1 + exp(-1e-3)), 1e-3);
    di_case_free(&c);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(hash), cmocka_unit_test(gather),
                                       cmocka_unit_test(gate),
                                       cmocka_unit_test(zero_counts_as_positive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
