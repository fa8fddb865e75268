/* index_logits against model spec 4.4: bf16 after every step, the steps in double precision; and
 * the kernels' bits against the reference's where scales lie near and far apart. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compare.h"
#include "kernel_case.h"
#include "base/checked.h"
#include "kernels/all.h"
#include "kernels/index_logits/index_logits.h"
#include "kernels/quantize/quantize.h"
#include "paged_store.h"

typedef struct shape {
    int64_t n_heads, dim;
    int32_t block_len;
    int32_t n_visible[4]; /* one row each */
} shape;

static const shape shapes[] = {
    {1, 32, 4, {1, 0, 7, 3}},      {4, 64, 64, {63, 64, 65, 200}}, {3, 96, 32, {129, 5, 128, 0}},
    {32, 128, 64, {70, 1, 2, 33}}, {5, 160, 8, {97, 31, 32, 95}},  {8, 256, 16, {48, 16, 17, 130}},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0], N_ROWS = 4 };

static double bf16(double x)
{
    return (double)di_round_bf16((float)x);
}

static void expect(const di_kernel_case *c, const di_index_logits_args *a, int64_t row, int64_t j)
{
    double sum = 0, mass = 0, flips = 0;
    for (int64_t head = 0; head < a->n_heads; head++) {
        const di_bf16 *q = a->q + (row * a->n_heads + head) * a->dim;
        double dot = 0, dot_mass = 0;
        for (int64_t i = 0; i < a->dim; i++) {
            const double term = (double)di_bf16_to_f32(q[i]) *
                                di_paged_value(&a->keys, DI_ENTRY_Q4I, a->block_tables[row], j, i);
            dot += term;
            dot_mass += fabs(term);
        }
        const double w =
            bf16((double)di_bf16_to_f32(a->w[row * a->n_heads + head]) * (double)a->w_scale);
        /* where the sum's error straddles a rounding boundary either side is right */
        const double slack = di_sum_slack(a->dim, dot_mass) + (double)a->dim * 0x1p-149;
        const double low = bf16(fmax(bf16(dot - slack), 0) * w);
        const double high = bf16(fmax(bf16(dot + slack), 0) * w);
        const double term = bf16(fmax(bf16(dot), 0) * w);
        sum += term;
        mass += fabs(term);
        flips += fmax(fabs(low - term), fabs(high - term));
    }
    const int64_t at = row * a->max_visible + j;
    di_expect_bf16(c->what, at, a->scores[at], sum,
                   flips + (double)a->n_heads * (0x1p-24 * mass + 0x1p-149));
}

static void check(const shape *s, di_pattern pattern)
{
    enum { N_BLOCKS = 70 };
    di_kernel_case c = di_case_new(DI_OP_index_logits, "index_logits, %d heads of %d, %s",
                                   (int)s->n_heads, (int)s->dim, di_pattern_name(pattern));
    di_rng rng = di_rng_named(c.what);
    int64_t most = 1;
    for (int i = 0; i < N_ROWS; i++)
        most = di_max_i64(most, s->n_visible[i]);
    di_bf16 *q = di_case_input(&c, N_ROWS * s->n_heads * s->dim, sizeof *q);
    di_bf16 *w = di_case_input(&c, N_ROWS * s->n_heads, sizeof *w);
    int32_t *n_visible = di_case_input(&c, N_ROWS, sizeof *n_visible);
    di_bf16 *scores = di_case_output(&c, N_ROWS * most, DI_BF16);
    di_fill_bf16(&rng, pattern, q, N_ROWS * s->n_heads * s->dim);
    const di_quantize_args rounding = {
        .x = q, .y = q, .dim = s->dim, .x_stride = s->dim, .y_stride = s->dim};
    di_quantize_q4i_ref(&rounding, 0, N_ROWS * s->n_heads, 0);
    di_fill_bf16(&rng, DI_PATTERN_NORMAL, w, N_ROWS * s->n_heads);
    memcpy(n_visible, s->n_visible, sizeof s->n_visible);
    const int32_t *tables[N_ROWS];
    const di_paged keys = di_paged_random(&c, &rng, DI_ENTRY_Q4I, s->dim, s->block_len, N_BLOCKS);
    for (int i = 0; i < N_ROWS; i++)
        tables[i] =
            di_block_table_random(&c, &rng, di_ceil_div(s->n_visible[i], s->block_len), N_BLOCKS);
    const di_index_logits_args args = {
        .q = q,
        .w = w,
        .w_scale = (float)(1 / sqrt((double)s->dim) / sqrt((double)s->n_heads)),
        .keys = keys,
        .block_tables = tables,
        .n_visible = n_visible,
        .scores = scores,
        .n_heads = s->n_heads,
        .dim = s->dim,
        .max_visible = most};
    di_case_run(&c, &args, N_ROWS * di_ceil_div(most, DI_INDEX_TILE));
    for (int64_t row = 0; row < N_ROWS; row++) {
        for (int64_t j = 0; j < most; j++) {
            if (j < n_visible[row])
                expect(&c, &args, row, j);
            else /* what no query sees is not written */
                assert_int_equal(scores[row * most + j], 0xffff);
        }
    }
    di_case_free(&c);
}

static void scores(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHAPES; i++)
        for (int p = 0; p < DI_N_PATTERNS; p++)
            check(&shapes[i], (di_pattern)p);
}

/* ------------------------------------------------------------------- scales */

/* How far scales lie apart decides how a kernel may add the groups' parts: which of keys, heads and
 * weights are near each other, near the ends of fp32, or no numbers. */
typedef struct scales {
    int least, largest; /* the keys' scales, as e8m0 */
    int q_apart; /* binary orders between a head's groups; every third head: as many as `q_far` */
    int q_far, q_order;   /* and the order of all */
    int w_least, w_order; /* orders of the weights */
} scales;

static const scales spreads[] = {
    {125, 128, 3, 3, 0, -3, 3},       /* one integer a product */
    {125, 129, 3, 3, 0, -3, 3},       /* keys a little too far */
    {125, 128, 4, 4, 0, -3, 3},       /* queries */
    {125, 128, 2, 9, 0, -3, 3},       /* some of the heads */
    {120, 140, 20, 20, 0, -20, 20},   /* everything far */
    {88, 91, 3, 3, -38, -40, -37},    /* the least */
    {86, 90, 3, 3, -44, -44, -38},    /* and below */
    {145, 148, 3, 3, 18, 37, 40},     /* the largest */
    {147, 151, 3, 3, 22, 38, 44},     /* and above */
    {125, 128, 3, 3, 115, -20, 0},    /* shifted parts would overflow */
    {125, 128, 3, 3, 0, 100, 125},    /* large weights */
    {2, 5, 3, 3, 0, -14, -8},         /* small keys, */
    {125, 128, 3, 3, -80, -60, -54},  /* and queries and weights */
    {1, 4, 3, 3, 10, 0, 3},           /* subnormal keys, */
    {125, 128, 3, 3, -135, 0, 3},     /* queries */
    {125, 128, 3, 3, 0, -140, -125},  /* and weights */
    {0, 255, 3, 3, 0, -3, 3},         /* and NaN */
    {125, 128, 3, 128, 100, 100, 128} /* infinities */
};
enum { N_SPREADS = sizeof spreads / sizeof spreads[0] };

static const shape spread_shapes[] = {
    {32, 128, 64, {130, 64, 1, 63}}, {7, 128, 16, {66, 16, 15, 0}},  {3, 96, 5, {70, 3, 0, 31}},
    {6, 160, 32, {64, 40, 17, 5}},   {5, 512, 64, {64, 65, 10, 0}},  {33, 512, 8, {20, 1, 0, 3}},
    {2, 544, 16, {18, 1, 0, 3}},     {9, 32, 64, {64, 128, 100, 0}},
};
enum { N_SPREAD_SHAPES = sizeof spread_shapes / sizeof spread_shapes[0] };

static void spread_queries(di_rng *rng, const scales *p, const shape *s, di_bf16 *q, di_bf16 *w)
{
    for (int64_t head = 0; head < N_ROWS * s->n_heads; head++) {
        const int apart = head % 3 == 2 ? p->q_far : p->q_apart;
        for (int64_t g = 0; g < s->dim / 32; g++) {
            const int order = p->q_order + (int)di_rng_between(rng, 0, apart);
            const bool is_zero = di_rng_below(rng, 16) == 0;
            for (int64_t i = 0; i < 32; i++) {
                const float x = di_e2m1_to_f32[di_rng_below(rng, 16)];
                q[head * s->dim + g * 32 + i] = di_f32_to_bf16(is_zero ? 0.0f : ldexpf(x, order));
            }
        }
        const float x = di_rng_below(rng, 16) ? di_rng_normal(rng) : 0.0f;
        w[head] = di_f32_to_bf16(ldexpf(x, (int)di_rng_between(rng, p->w_least, p->w_order)));
    }
}

/* Every kernel has the reference's bits. */
static void check_spread(const shape *s, const scales *p)
{
    enum { N_BLOCKS = 40 };
    di_kernel_case c = di_case_new(
        DI_OP_index_logits, "index_logits, %d heads of %d, key scales %d to %d, queries by 2^%d",
        (int)s->n_heads, (int)s->dim, p->least, p->largest, p->q_order);
    di_rng rng = di_rng_named(c.what);
    int64_t most = 1;
    for (int i = 0; i < N_ROWS; i++)
        most = di_max_i64(most, s->n_visible[i]);
    di_bf16 *q = di_case_input(&c, N_ROWS * s->n_heads * s->dim, sizeof *q);
    di_bf16 *w = di_case_input(&c, N_ROWS * s->n_heads, sizeof *w);
    int32_t *n_visible = di_case_input(&c, N_ROWS, sizeof *n_visible);
    di_bf16 *out = di_case_output(&c, N_ROWS * most, DI_BF16);
    spread_queries(&rng, p, s, q, w);
    memcpy(n_visible, s->n_visible, sizeof s->n_visible);
    const int32_t *tables[N_ROWS];
    const di_paged keys = di_paged_random(&c, &rng, DI_ENTRY_Q4I, s->dim, s->block_len, N_BLOCKS);
    for (int64_t b = 0; b < N_BLOCKS; b++)
        for (int64_t i = 0; i < (int64_t)keys.scale_bytes * keys.block_len; i++)
            ((uint8_t *)(uintptr_t)keys.data)[b * keys.block_bytes + keys.scales_offset + i] =
                (uint8_t)di_rng_between(&rng, p->least, p->largest);
    for (int i = 0; i < N_ROWS; i++)
        tables[i] =
            di_block_table_random(&c, &rng, di_ceil_div(s->n_visible[i], s->block_len), N_BLOCKS);
    const di_index_logits_args args = {.q = q,
                                       .w = w,
                                       .w_scale = 1.0f,
                                       .keys = keys,
                                       .block_tables = tables,
                                       .n_visible = n_visible,
                                       .scores = out,
                                       .n_heads = s->n_heads,
                                       .dim = s->dim,
                                       .max_visible = most};
    di_case_run(&c, &args, N_ROWS * di_ceil_div(most, DI_INDEX_TILE));
    di_case_free(&c);
}

static void scales_apart(void **state)
{
    (void)state;
    for (int i = 0; i < N_SPREAD_SHAPES; i++)
        for (int p = 0; p < N_SPREADS; p++)
            check_spread(&spread_shapes[i], &spreads[p]);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(scores), cmocka_unit_test(scales_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
