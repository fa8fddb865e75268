/* topk and candidate_blocks against a plain sort; the row case and the lengths of cases/bugs/V10.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compare.h"
#include "kernel_case.h"
#include "base/checked.h"
#include "base/json.h"
#include "kernels/topk/topk.h"

/* ------------------------------------------------------------------- a plain selection */

/* Order of selection: larger value first, NaN last, then the lower index. */
static bool comes_before(double a, int64_t at_a, double b, int64_t at_b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) == isnan(b) ? at_a < at_b : isnan(b);
    return a != b ? a > b : at_a < at_b;
}

/* Marks the k first of n values among the eligible ones; returns how many. */
static int64_t mark_largest(const double *values, const bool *is_eligible, int64_t n, int64_t k,
                            bool *marks)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t n_before = 0;
        for (int64_t j = 0; j < n; j++)
            n_before += is_eligible[j] && j != i && comes_before(values[j], j, values[i], i);
        marks[i] = is_eligible[i] && n_before < k;
        count += marks[i];
    }
    return count;
}

enum { MAX_VISIBLE = 700 };

static void expect_topk(const di_kernel_case *c, const di_topk_args *a, int64_t row)
{
    double values[MAX_VISIBLE];
    bool is_eligible[MAX_VISIBLE], marks[MAX_VISIBLE];
    const int64_t n = a->n_visible[row];
    for (int64_t i = 0; i < n; i++) {
        values[i] = (double)di_bf16_to_f32(a->scores[row * a->score_stride + i]);
        is_eligible[i] =
            !a->candidates || a->candidates[row * a->candidate_stride + i / a->block_size];
    }
    const int64_t count = mark_largest(values, is_eligible, n, a->k, marks);
    assert_int_equal(a->counts[row], count);
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++)
        if (marks[i] && a->indices[row * a->k + at++] != i)
            fail_msg("%s: row %d: entry %d is %d, wanted %d", c->what, (int)row, (int)at - 1,
                     a->indices[row * a->k + at - 1], (int)i);
    for (; at < a->k; at++) /* beyond the count nothing is written */
        assert_int_equal(a->indices[row * a->k + at], -1);
}

static void expect_blocks(const di_kernel_case *c, const di_candidate_blocks_args *a, int64_t row)
{
    double values[MAX_VISIBLE];
    bool is_eligible[MAX_VISIBLE], marks[MAX_VISIBLE];
    const int64_t n = a->n_visible[row], n_blocks = di_ceil_div(n, a->block_size);
    for (int64_t b = 0; b < n_blocks; b++) {
        values[b] = NAN; /* of a block of NaN alone */
        is_eligible[b] = true;
        for (int64_t i = b * a->block_size; i < di_min_i64(n, (b + 1) * a->block_size); i++) {
            const double v = (double)di_bf16_to_f32(a->scores[row * a->score_stride + i]);
            values[b] = isnan(values[b]) || v > values[b] ? v : values[b];
        }
    }
    if (n_blocks) { /* the newest one is in, whatever its scores; others take the k - 1 left */
        is_eligible[n_blocks - 1] = false;
        mark_largest(values, is_eligible, n_blocks, a->k - 1, marks);
        marks[n_blocks - 1] = true;
    }
    for (int64_t b = 0; b < n_blocks; b++)
        if (a->candidates[row * a->candidate_stride + b] != marks[b])
            fail_msg("%s: row %d: block %d: found %d, wanted %d", c->what, (int)row, (int)b,
                     a->candidates[row * a->candidate_stride + b], marks[b]);
    for (int64_t b = n_blocks; b < a->candidate_stride; b++)
        assert_int_equal(a->candidates[row * a->candidate_stride + b], DI_POISON);
}

/* ------------------------------------------------------------------- cases */

/* One row for each of these numbers of visible entries. */
static const int32_t lengths[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 511, 512, 513, 700};
enum { N_ROWS = sizeof lengths / sizeof lengths[0] };

/* Scores as an indexer gives them (many equal, many zero), and the extremes. */
static void fill_scores(di_rng *rng, int kind, di_bf16 *scores, int64_t n)
{
    di_fill_bf16(rng, kind < DI_N_PATTERNS ? (di_pattern)kind : DI_PATTERN_WIDE, scores, n);
    const di_bf16 specials[] = {0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x0000, 0x8000, 0x7f7f, 0xff7f};
    for (int64_t i = 0; kind == DI_N_PATTERNS && i < n; i += di_rng_between(rng, 1, 4))
        scores[i] = specials[di_rng_below(rng, 8)];
    for (int64_t i = 0; kind == DI_N_PATTERNS + 1 && i < n; i++)
        scores[i] = 0x3f80; /* all equal */
}
enum { N_KINDS = DI_N_PATTERNS + 2 };

static void check_topk(int64_t k, int kind, int64_t block_size)
{
    di_kernel_case c =
        di_case_new(DI_OP_topk, "topk %d, scores %d, blocks of %d", (int)k, kind, (int)block_size);
    di_rng rng = di_rng_named(c.what);
    const int64_t stride = MAX_VISIBLE + 3;
    const int64_t candidate_stride = block_size ? di_ceil_div(MAX_VISIBLE, block_size) + 2 : 0;
    di_bf16 *scores = di_case_input(&c, N_ROWS * stride, sizeof *scores);
    int32_t *n_visible = di_case_input(&c, N_ROWS, sizeof *n_visible);
    uint8_t *candidates = di_case_input(&c, N_ROWS * candidate_stride, 1);
    int32_t *indices = di_case_output(&c, N_ROWS * k, DI_I32);
    int32_t *counts = di_case_output(&c, N_ROWS, DI_I32);
    fill_scores(&rng, kind, scores, N_ROWS * stride);
    memcpy(n_visible, lengths, sizeof lengths);
    for (int64_t i = 0; i < N_ROWS * candidate_stride; i++)
        candidates[i] = di_rng_below(&rng, 3) == 0;
    const di_topk_args args = {.scores = scores,
                               .score_stride = stride,
                               .n_visible = n_visible,
                               .candidates = block_size ? candidates : NULL,
                               .candidate_stride = candidate_stride,
                               .block_size = block_size,
                               .indices = indices,
                               .counts = counts,
                               .k = k};
    di_case_run(&c, &args, N_ROWS);
    for (int64_t row = 0; row < N_ROWS; row++)
        expect_topk(&c, &args, row);
    di_case_free(&c);
}

static void check_blocks(int64_t k, int kind, int64_t block_size)
{
    di_kernel_case c = di_case_new(DI_OP_candidate_blocks, "candidate_blocks %d of %d, scores %d",
                                   (int)k, (int)block_size, kind);
    di_rng rng = di_rng_named(c.what);
    const int64_t stride = MAX_VISIBLE + 3;
    const int64_t candidate_stride = di_ceil_div(MAX_VISIBLE, block_size) + 2;
    di_bf16 *scores = di_case_input(&c, N_ROWS * stride, sizeof *scores);
    int32_t *n_visible = di_case_input(&c, N_ROWS, sizeof *n_visible);
    uint8_t *candidates = di_case_output(&c, N_ROWS * candidate_stride, DI_U8);
    fill_scores(&rng, kind, scores, N_ROWS * stride);
    memcpy(n_visible, lengths, sizeof lengths);
    const di_candidate_blocks_args args = {.scores = scores,
                                           .score_stride = stride,
                                           .n_visible = n_visible,
                                           .candidates = candidates,
                                           .candidate_stride = candidate_stride,
                                           .block_size = block_size,
                                           .k = k};
    di_case_run(&c, &args, N_ROWS);
    for (int64_t row = 0; row < N_ROWS; row++)
        expect_blocks(&c, &args, row);
    di_case_free(&c);
}

static void topk(void **state)
{
    (void)state;
    const int64_t ks[] = {1, 3, 16, 64, 512, 1000}, sizes[] = {0, 1, 4, 8, 13};
    for (int i = 0; i < 6; i++)
        for (int kind = 0; kind < N_KINDS; kind++)
            check_topk(ks[i], kind, sizes[(i + kind) % 5]);
}

static void candidate_blocks(void **state)
{
    (void)state;
    const int64_t ks[] = {1, 2, 6, 64, 500}, sizes[] = {1, 4, 8, 13};
    for (int i = 0; i < 5; i++)
        for (int kind = 0; kind < N_KINDS; kind++)
            check_blocks(ks[i], kind, sizes[(i + kind) % 4]);
}

/* Rows long enough for kernels that narrow the search first, against the reference: ordinary
 * scores, and ties and NaN that leave too much to narrow. */
static void long_rows(void **state)
{
    (void)state;
    enum { LONG = 20011, LONG_ROWS = 3 };
    for (int kind = 0; kind < N_KINDS; kind++) {
        const int64_t block_size = kind % 3 == 0 ? 0 : kind % 3 == 1 ? 8 : 13;
        const int64_t k = kind % 2 ? 512 : 1500;
        di_kernel_case c = di_case_new(DI_OP_topk, "topk of long rows, scores %d", kind);
        di_rng rng = di_rng_named(c.what);
        const int64_t candidate_stride = block_size ? di_ceil_div(LONG, block_size) : 0;
        di_bf16 *scores = di_case_input(&c, LONG_ROWS * LONG, sizeof *scores);
        int32_t *n_visible = di_case_input(&c, LONG_ROWS, sizeof *n_visible);
        uint8_t *candidates = di_case_input(&c, LONG_ROWS * candidate_stride, 1);
        fill_scores(&rng, kind, scores, LONG_ROWS * LONG);
        for (int64_t i = 0; i < LONG_ROWS * candidate_stride; i++)
            candidates[i] = di_rng_below(&rng, 3) == 0;
        n_visible[0] = LONG;
        n_visible[1] = 4097;
        n_visible[2] = LONG - 16;
        const di_topk_args args = {.scores = scores,
                                   .score_stride = LONG,
                                   .n_visible = n_visible,
                                   .candidates = block_size ? candidates : NULL,
                                   .candidate_stride = candidate_stride,
                                   .block_size = block_size,
                                   .indices = di_case_output(&c, LONG_ROWS * k, DI_I32),
                                   .counts = di_case_output(&c, LONG_ROWS, DI_I32),
                                   .k = k};
        di_case_run(&c, &args, LONG_ROWS);
        assert_true(args.counts[0] <= k && args.counts[0] > 0);
        di_case_free(&c);
    }
}

/* ------------------------------------------------------------------- cases/bugs/V10 */

static int64_t integer(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static void read_scores(const json_t *o, const char *key, di_bf16 *out)
{
    const json_t *list = json_object_get(o, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        out[i] = di_f32_to_bf16(json_is_null(v) ? -INFINITY : (float)json_number_value(v));
    }
}

static void released_row_case(void **state)
{
    (void)state;
    json_t *o;
    assert_int_equal(di_json_load(DI_TEST_DATA "/cases/bugs/V10/case.json", 1 << 20, &o), DI_OK);
    enum { N = 20 };
    assert_int_equal(integer(o, "positions"), N);
    di_bf16 source[N], reader[N];
    read_scores(o, "source_scores", source);
    read_scores(o, "reader_scores", reader);
    const int32_t visible = (int32_t)integer(o, "visible");
    const int64_t block_size = integer(o, "block_size"), k = integer(o, "index_topk");
    uint8_t marks[3];
    int32_t indices[8], count;
    const di_candidate_blocks_args blocks = {.scores = source,
                                             .score_stride = N,
                                             .n_visible = &visible,
                                             .candidates = marks,
                                             .candidate_stride = 3,
                                             .block_size = block_size,
                                             .k = integer(o, "topk_blocks")};
    const di_topk_args topk_args = {.scores = reader,
                                    .score_stride = N,
                                    .n_visible = &visible,
                                    .candidates = marks,
                                    .candidate_stride = 3,
                                    .block_size = block_size,
                                    .indices = indices,
                                    .counts = &count,
                                    .k = k};
    for (int i = 0; i < di_n_kernels; i++) {
        if (!di_case_has_kernel(&di_kernels[i]))
            continue;
        if (di_kernels[i].op == DI_OP_candidate_blocks)
            di_kernels[i].fn(&blocks, 0, 1, 0);
        const json_t *kept = json_object_get(o, "blocks_kept");
        for (int b = 0; di_kernels[i].op == DI_OP_candidate_blocks && b < 3; b++) {
            bool is_kept = false;
            for (size_t j = 0; j < json_array_size(kept); j++)
                is_kept |= json_integer_value(json_array_get(kept, j)) == b;
            assert_int_equal(marks[b], is_kept);
        }
        if (di_kernels[i].op != DI_OP_topk)
            continue;
        di_kernels[i].fn(&topk_args, 0, 1, 0);
        const json_t *rows = json_object_get(o, "rows");
        assert_int_equal(count, json_array_size(rows));
        for (int32_t j = 0; j < count; j++)
            assert_int_equal(indices[j] + integer(o, "offset"),
                             json_integer_value(json_array_get(rows, (size_t)j)));
    }
    json_decref(o);
}

/* "visible = 16384, 16385 (index_topk 512, 2048 blocks of 8)": up to 16384 every block is a
 * candidate, with one entry more the worst block is out. */
static void released_candidate_limit(void **state)
{
    (void)state;
    enum { N = 16385, BLOCKS = 2049, KEPT = 2048 };
    di_rng rng = di_rng_named("candidate limit");
    di_bf16 *scores = malloc(N * sizeof *scores);
    uint8_t *marks = malloc(BLOCKS);
    assert_non_null(scores);
    assert_non_null(marks);
    di_fill_bf16(&rng, DI_PATTERN_WIDE, scores, N);
    const int64_t worst = 1234;
    for (int64_t i = 0; i < 8; i++)
        scores[worst * 8 + i] = di_f32_to_bf16(-0x1p30f);
    for (int32_t visible = N - 1; visible <= N; visible++) {
        const di_candidate_blocks_args args = {.scores = scores,
                                               .score_stride = N,
                                               .n_visible = &visible,
                                               .candidates = marks,
                                               .candidate_stride = BLOCKS,
                                               .block_size = 8,
                                               .k = KEPT};
        for (int i = 0; i < di_n_kernels; i++) {
            if (di_kernels[i].op != DI_OP_candidate_blocks || !di_case_has_kernel(&di_kernels[i]))
                continue;
            memset(marks, DI_POISON, BLOCKS);
            di_kernels[i].fn(&args, 0, 1, 0);
            int64_t n_kept = 0;
            for (int64_t b = 0; b < (visible + 7) / 8; b++)
                n_kept += marks[b];
            assert_int_equal(n_kept, KEPT);
            assert_int_equal(marks[worst], visible < N);
        }
    }
    free(scores);
    free(marks);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topk), cmocka_unit_test(candidate_blocks), cmocka_unit_test(long_rows),
        cmocka_unit_test(released_row_case), cmocka_unit_test(released_candidate_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
