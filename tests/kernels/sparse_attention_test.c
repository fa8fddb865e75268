/* sparse_attention against softmax with a sink in double precision. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compare.h"
#include "kernel_case.h"
#include "base/checked.h"
#include "kernels/sparse_attention/sparse_attention.h"
#include "paged_store.h"

enum { N_ROWS = 4, N_BLOCKS = 40, MAX_KEYS = 256 };

typedef struct shape {
    int64_t n_heads, head_dim, window_len, topk;
    int32_t block_len; /* of the window; half of it for compressed entries */
    int32_t positions[N_ROWS];
    int32_t counts[N_ROWS];     /* selected compressed entries */
    bool has_compressed, is_q8; /* selected entries; in the window's format */
} shape;

static const shape shapes[] = {
    {1, 32, 1, 1, 4, {0, 1, 5, 3}, {0, 0, 0, 0}, false, false},
    {3, 64, 5, 3, 8, {0, 4, 5, 50}, {0, 1, 3, 3}, true, false},
    {4, 96, 16, 7, 64, {15, 16, 17, 200}, {7, 0, 2, 7}, true, false},
    {2, 160, 33, 50, 16, {31, 100, 32, 0}, {3, 50, 16, 0}, true, false},
    {1, 512, 128, 17, 64, {300, 127, 128, 10}, {17, 5, 0, 1}, true, false},
    {21, 32, 130, 50, 16, {140, 3, 129, 16}, {50, 13, 0, 16}, true, false},
    {16, 224, 7, 2, 4, {2, 6, 1, 30}, {2, 1, 0, 2}, true, false},
    /* rows of draft blocks: few entries like the window's, or those alone */
    {15, 64, 8, 5, 4, {-1, 0, 7, 31}, {5, 5, 5, 5}, true, true},
    {10, 512, 128, 5, 64, {-1, 200, 127, 64}, {5, 5, 5, 5}, true, true},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

/* Keys of a row, in list order. */
static int64_t keys_of(const di_sparse_attention_args *a, int64_t row, double *keys)
{
    const di_entry_format format = a->has_q8_selected ? DI_ENTRY_Q8 : DI_ENTRY_Q4KV;
    int64_t n = 0;
    for (int64_t t = di_max_i64(0, a->positions[row] - a->window_len + 1); t <= a->positions[row];
         t++, n++)
        for (int64_t i = 0; i < a->head_dim; i++)
            keys[n * a->head_dim + i] =
                di_paged_value(&a->window, DI_ENTRY_Q8, a->window_tables[row], t, i);
    for (int32_t e = 0; a->indices && e < a->counts[row]; e++, n++)
        for (int64_t i = 0; i < a->head_dim; i++)
            keys[n * a->head_dim + i] =
                di_paged_value(&a->compressed, format, a->compressed_tables[row],
                               a->indices[row * a->index_stride + e], i);
    return n;
}

static void expect(const di_kernel_case *c, const di_sparse_attention_args *a, int64_t row,
                   int64_t head, const double *keys, int64_t n)
{
    const int64_t item = row * a->n_heads + head, dim = a->head_dim;
    double p[MAX_KEYS], largest = -1e30, off = 0, sum = 0;
    for (int64_t j = 0; j < n; j++) {
        double dot = 0, mass = 0;
        for (int64_t i = 0; i < dim; i++) {
            const double term = (double)di_bf16_to_f32(a->q[item * dim + i]) * keys[j * dim + i];
            dot += term;
            mass += fabs(term);
        }
        p[j] = dot * (double)a->scale;
        largest = fmax(largest, p[j]);
        off = fmax(off, di_sum_slack(dim, mass) * (double)a->scale + 2 * 0x1p-24 * fabs(p[j]));
    }
    for (int64_t j = 0; j < n; j++)
        sum += p[j] = exp(p[j] - largest);
    sum += exp((double)a->sink[head] - largest);
    /* an error of every score turns into a relative one of every probability and of their sum; the
     * sums over keys are plain ones. Probabilities below e^-87 are 0. */
    const double relative = 2 * off + 8 * 0x1p-24 + (2.0 * (double)n + 4) * 0x1p-24 + 1e-37;
    for (int64_t i = 0; i < dim; i++) {
        double value = 0, mass = 0;
        for (int64_t j = 0; j < n; j++) {
            value += p[j] * keys[j * dim + i];
            mass += p[j] * fabs(keys[j * dim + i]);
        }
        di_expect_bf16(c->what, item * dim + i, a->out[item * dim + i], value / sum,
                       relative * mass / sum + 1e-36);
    }
}

static void fill_lists(di_kernel_case *c, di_rng *rng, const shape *s, int32_t *indices,
                       int64_t n_entries)
{
    (void)c;
    for (int64_t row = 0; row < N_ROWS; row++) { /* ascending, without repeats */
        int32_t next = 0;
        for (int32_t i = 0; i < s->counts[row]; i++) {
            const int64_t left = s->counts[row] - i - 1;
            next = (int32_t)di_rng_between(rng, next, di_min_i64(next + 3, n_entries - 1 - left));
            indices[row * s->topk + i] = next++;
        }
    }
}

static void check(const shape *s, di_pattern pattern, float sink_scale)
{
    di_kernel_case c = di_case_new(DI_OP_sparse_attention,
                                   "sparse_attention, %d heads of %d, window %d, %s, sink x%g",
                                   (int)s->n_heads, (int)s->head_dim, (int)s->window_len,
                                   di_pattern_name(pattern), (double)sink_scale);
    di_rng rng = di_rng_named(c.what);
    const int64_t n_q = N_ROWS * s->n_heads * s->head_dim;
    const int32_t compressed_len = (s->block_len + 1) / 2;
    const int64_t n_entries = (int64_t)compressed_len * 30;
    di_bf16 *q = di_case_input(&c, n_q, sizeof *q), *out = di_case_output(&c, n_q, DI_BF16);
    float *sink = di_case_input(&c, s->n_heads, sizeof *sink);
    int32_t *positions = di_case_input(&c, N_ROWS, sizeof *positions);
    int32_t *indices = di_case_input(&c, N_ROWS * s->topk, sizeof *indices);
    int32_t *counts = di_case_input(&c, N_ROWS, sizeof *counts);
    di_fill_bf16(&rng, pattern, q, n_q);
    for (int64_t i = 0; i < s->n_heads; i++)
        sink[i] = di_rng_normal(&rng) * sink_scale;
    memcpy(positions, s->positions, sizeof s->positions);
    memcpy(counts, s->counts, sizeof s->counts);
    if (s->has_compressed)
        fill_lists(&c, &rng, s, indices, n_entries);
    const int32_t *window_tables[N_ROWS], *compressed_tables[N_ROWS];
    const di_paged window =
        di_paged_random(&c, &rng, DI_ENTRY_Q8, s->head_dim, s->block_len, N_BLOCKS);
    const di_paged compressed = di_paged_random(&c, &rng, s->is_q8 ? DI_ENTRY_Q8 : DI_ENTRY_Q4KV,
                                                s->head_dim, compressed_len, N_BLOCKS);
    for (int row = 0; row < N_ROWS; row++) {
        window_tables[row] = di_block_table_random(
            &c, &rng, di_max_i64(0, s->positions[row]) / s->block_len + 1, N_BLOCKS);
        compressed_tables[row] = di_block_table_random(&c, &rng, 30, N_BLOCKS);
    }
    const int64_t n_scratch = di_sparse_attention_scratch(s->window_len, s->topk, s->head_dim);
    const di_sparse_attention_args args = {
        .q = q,
        .sink = sink,
        .out = out,
        .n_heads = s->n_heads,
        .head_dim = s->head_dim,
        .scale = (float)(1 / sqrt((double)s->head_dim)),
        .window = window,
        .window_tables = window_tables,
        .positions = positions,
        .window_len = s->window_len,
        .compressed = compressed,
        .has_q8_selected = s->is_q8,
        .compressed_tables = compressed_tables,
        .indices = s->has_compressed ? indices : NULL,
        .counts = counts,
        .index_stride = s->topk,
        .scratch = di_case_scratch(&c, DI_CASE_WORKERS * n_scratch, sizeof(float)),
        .scratch_stride = n_scratch};
    di_case_run(&c, &args, N_ROWS * s->n_heads);
    double *keys = malloc((size_t)((s->window_len + s->topk) * s->head_dim) * sizeof *keys);
    assert_non_null(keys);
    for (int64_t row = 0; row < N_ROWS; row++) {
        const int64_t n = keys_of(&args, row, keys);
        for (int64_t head = 0; head < s->n_heads; head++)
            expect(&c, &args, row, head, keys, n);
    }
    free(keys);
    di_case_free(&c);
}

static void attention(void **state)
{
    (void)state;
    const di_pattern patterns[] = {DI_PATTERN_NORMAL, DI_PATTERN_ZERO, DI_PATTERN_SUBNORMAL,
                                   DI_PATTERN_TIES};
    for (int i = 0; i < N_SHAPES; i++)
        for (int p = 0; p < 4; p++)
            check(&shapes[i], patterns[p], 1.0f);
}

/* Sinks far below every score do nothing, far above they take nearly everything. */
static void extreme_sinks(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        check(&shapes[i], DI_PATTERN_NORMAL, 30.0f);
        check(&shapes[i], DI_PATTERN_NORMAL, 1000.0f);
    }
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention),
                                       cmocka_unit_test(extreme_sinks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
