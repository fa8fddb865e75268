/* gemm_f8, gemm_bf16 and grouped_gemm_f4 against the plain sum of products in double precision, and
 * rows against the same rows alone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compare.h"
#include "kernel_case.h"
#include "base/checked.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_bf16_tables.h"
#include "kernels/gemm/gemm_f4_tables.h"
#include "kernels/grouped_gemm/grouped_gemm.h"

static double e4m3_value(int code)
{
    const int e = code >> 3 & 15, m = code & 7;
    const double magnitude = e == 0 ? ldexp(m, -9) : ldexp(8 + m, e - 10);
    return code & 0x80 ? -magnitude : magnitude;
}

/* ------------------------------------------------------------------- gemm */

typedef struct shape {
    int64_t m, n, k, first_column, pad; /* pad: of the row strides */
    bool is_f32_out;
} shape;

static const shape shapes[] = {
    {1, 1, 1, 0, 0, false},     {1, 33, 32, 0, 0, false},  {2, 5, 64, 3, 1, true},
    {7, 40, 300, 30, 0, false}, {8, 31, 256, 33, 5, true}, {9, 2, 257, 0, 3, false},
    {17, 3, 33, 61, 0, true},   {3, 7, 1000, 1, 0, false}, {33, 34, 31, 0, 2, false},
    {4, 9, 544, 0, 0, true},    {5, 10, 513, 7, 0, true},  {6, 6, 1088, 31, 1, false},
    {15, 13, 95, 0, 0, true},   {16, 7, 512, 3, 0, true},  {31, 5, 160, 0, 0, false},
    {70, 11, 48, 1, 0, true},   {3, 5, 5153, 30, 0, true},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

/* More than a kernel takes at once of each size; for these, few patterns. */
static const shape large_shapes[] = {
    {270, 37, 1100, 19, 3, false},
    {259, 690, 40, 5, 0, true},
    {61, 7, 5153, 30, 0, true},
    {9, 3, 30001, 31, 0, false},
};
enum { N_LARGE_SHAPES = sizeof large_shapes / sizeof large_shapes[0] };

typedef struct problem {
    const shape *s;
    di_gemm_args args;
    bool is_f8;
} problem;

static double weight(const problem *p, int64_t column, int64_t i)
{
    const int64_t k = p->s->k, row = p->s->first_column + column;
    if (!p->is_f8)
        return (double)di_bf16_to_f32(((const di_bf16 *)p->args.w)[row * k + i]);
    const uint8_t scale = p->args.scales[row / 32 * di_ceil_div(k, 32) + i / 32];
    return e4m3_value(((const uint8_t *)p->args.w)[row * k + i]) * ldexp(1, scale - 127);
}

static void *gemm_scratch(di_kernel_case *c)
{
    return di_case_scratch(c, DI_CASE_WORKERS, DI_GEMM_SCRATCH_BYTES);
}

static void expect(const di_kernel_case *c, const problem *p)
{
    const shape *s = p->s;
    for (int64_t row = 0; row < s->m; row++) {
        for (int64_t column = 0; column < s->n; column++) {
            double sum = 0, mass = 0;
            for (int64_t i = 0; i < s->k; i++) {
                const double x = (double)di_bf16_to_f32(p->args.x[row * p->args.x_stride + i]);
                const double term = x * weight(p, column, i);
                sum += term;
                mass += fabs(term);
            }
            /* subnormal products lose up to 2^-150 each */
            const double slack = di_sum_slack(s->k, mass) + (double)s->k * 0x1p-149;
            const int64_t at = row * p->args.y_stride + column;
            if (s->is_f32_out)
                di_expect_f32(c->what, at, ((const float *)p->args.y)[at], sum, slack);
            else
                di_expect_bf16(c->what, at, ((const di_bf16 *)p->args.y)[at], sum, slack);
        }
    }
}

/* The order blocks32 (gemm_amx.h) in plain C. */
static float blocks32(const di_bf16 *x, const float *w, int64_t k)
{
    float total = 0;
    for (int64_t i = 0; i < k; i += 32) {
        float chain[2] = {0, 0};
        for (int64_t j = i; j < i + 32 && j < k; j++)
            chain[j & 1] += di_bf16_to_f32(x[j]) * w[j];
        total += chain[0] + chain[1];
    }
    return total;
}

static bool has_order(const di_kernel *k, di_op op, di_order order)
{
    return k->op == op && k->order == order && di_kernel_is_usable(k);
}

/* Kernels of that order have its bits. */
static void check_blocks32(const di_kernel_case *c, const problem *p)
{
    const shape *s = p->s;
    float *w = malloc((size_t)s->k * sizeof *w);
    assert_non_null(w);
    for (int i = 0; i < di_n_kernels; i++) {
        if (!has_order(&di_kernels[i], c->op, DI_ORDER_BLOCKS32))
            continue;
        di_kernels[i].fn(&p->args, 0, s->n, 0);
        for (int64_t column = 0; column < s->n; column++) {
            for (int64_t j = 0; j < s->k; j++)
                w[j] = (float)weight(p, column, j);
            for (int64_t row = 0; row < s->m; row++) {
                const int64_t at = row * p->args.y_stride + column;
                const float sum = blocks32(p->args.x + row * p->args.x_stride, w, s->k);
                const float found = s->is_f32_out
                                        ? ((const float *)p->args.y)[at]
                                        : di_bf16_to_f32(((const di_bf16 *)p->args.y)[at]);
                const float wanted = s->is_f32_out ? sum : di_bf16_to_f32(di_f32_to_bf16(sum));
                if (found != wanted)
                    fail_msg("%s (kernel %s): row %d column %d: found %.9g, wanted %.9g", c->what,
                             di_kernels[i].name, (int)row, (int)column, (double)found,
                             (double)wanted);
            }
        }
    }
    free(w);
}

/* A row alone gives the bits it has beside the others. */
static void check_rows_alone(const di_kernel_case *c, const problem *p)
{
    const shape *s = p->s;
    const size_t bytes = s->is_f32_out ? 4 : 2;
    unsigned char *alone = malloc((size_t)s->n * bytes);
    assert_non_null(alone);
    for (int i = 0; i < di_n_kernels; i++) {
        const di_kernel *k = &di_kernels[i];
        if (k->op != c->op || !k->is_batch_invariant || !di_case_has_kernel(k))
            continue;
        k->fn(&p->args, 0, s->n, 0);
        for (int64_t row = 0; row < s->m; row++) {
            di_gemm_args one = p->args;
            one.x += row * one.x_stride;
            one.y = alone;
            one.m = 1;
            k->fn(&one, 0, s->n, 0);
            char what[256];
            snprintf(what, sizeof what, "%s (kernel %s): row %d alone", c->what, k->name, (int)row);
            di_compare_outputs(what, DI_NUMERICS_EXACT, s->is_f32_out ? DI_F32 : DI_BF16, alone,
                               (const char *)p->args.y + (size_t)(row * p->args.y_stride) * bytes,
                               (size_t)s->n * bytes);
        }
    }
    free(alone);
}

enum { SPECIALS = DI_N_PATTERNS }; /* a pattern of this file's: normal values with put_specials */

/* NaN and infinite inputs, NaN weights, scales at both ends: all rows and columns but the first few
 * keep finite sums. */
static void put_specials(const problem *p, di_rng *rng, di_bf16 *x, void *w, uint8_t *scales)
{
    const shape *s = p->s;
    const int64_t rows = s->first_column + s->n, groups = di_ceil_div(s->k, 32);
    static const uint8_t ends[] = {0, 1, 240, 247, 254, 255};
    if (s->m > 1)
        x[p->args.x_stride + di_rng_below(rng, s->k)] = 0x7f80; /* infinity */
    if (s->m > 2)
        x[2 * p->args.x_stride + di_rng_below(rng, s->k)] = 0x7fc0; /* NaN */
    const int64_t column = s->first_column + di_rng_below(rng, s->n);
    const int64_t at = column * s->k + di_rng_below(rng, s->k);
    if (p->is_f8)
        ((uint8_t *)w)[at] = s->k % 2 ? 0x7f : 0xff;
    else
        ((di_bf16 *)w)[at] = 0x7fc1;
    if (p->is_f8 && s->k > 32) /* a small shape's one scale would hide all else */
        scales[di_rng_below(rng, di_ceil_div(rows, 32) * groups)] =
            ends[di_rng_below(rng, sizeof ends)];
}

static void check(di_op op, const shape *s, di_pattern pattern)
{
    const bool is_special = (int)pattern == SPECIALS;
    if (is_special)
        pattern = DI_PATTERN_NORMAL;
    di_kernel_case c = di_case_new(op, "%s, m %d n %d k %d from column %d, %s", di_op_name(op),
                                   (int)s->m, (int)s->n, (int)s->k, (int)s->first_column,
                                   is_special ? "specials" : di_pattern_name(pattern));
    di_rng rng = di_rng_named(c.what);
    problem p = {.s = s, .is_f8 = op == DI_OP_gemm_f8};
    const int64_t rows = s->first_column + s->n, x_stride = s->k + s->pad;
    const int64_t y_stride = s->n + s->pad,
                  n_scales = di_ceil_div(rows, 32) * di_ceil_div(s->k, 32);
    void *y = di_case_inout(&c, s->m * y_stride, s->is_f32_out ? DI_F32 : DI_BF16);
    di_bf16 *x = di_case_input(&c, s->m * x_stride, sizeof *x);
    void *w = di_case_input(&c, rows * s->k, p.is_f8 ? 1 : 2);
    uint8_t *scales = di_case_input(&c, p.is_f8 ? n_scales : 0, 1);
    memset(y, 0x3c, (size_t)(s->m * y_stride) * (s->is_f32_out ? 4 : 2));
    di_fill_bf16(&rng, pattern, x, s->m * x_stride);
    if (p.is_f8) {
        di_fill_e4m3(&rng, w, rows * s->k);
        di_fill_e8m0(&rng, scales, n_scales);
    } else {
        di_fill_bf16(&rng, DI_PATTERN_NORMAL, w, rows * s->k);
    }
    p.args = (di_gemm_args){.x = x,
                            .x_stride = x_stride,
                            .w = w,
                            .scales = scales,
                            .y = y,
                            .y_stride = y_stride,
                            .m = s->m,
                            .n = s->n,
                            .k = s->k,
                            .first_column = s->first_column,
                            .is_f32_out = s->is_f32_out,
                            .scratch = gemm_scratch(&c),
                            .scratch_stride = DI_GEMM_SCRATCH_BYTES};
    if (is_special)
        put_specials(&p, &rng, x, w, scales);
    if (pattern == DI_PATTERN_SUBNORMAL) /* fused products keep what the reference's lose */
        c.slack = (double)s->k * 0x1p-148;
    di_case_run(&c, &p.args, s->n);
    if (!is_special) /* there the reference's table look-ups and sums are the definition */
        expect(&c, &p);
    if (!is_special && (pattern == DI_PATTERN_NORMAL || pattern == DI_PATTERN_WIDE))
        check_blocks32(&c, &p);
    for (int64_t i = 0; i < s->m * y_stride; i++) /* between the rows */
        if (i % y_stride >= s->n)
            assert_int_equal(s->is_f32_out ? (int)((const uint32_t *)y)[i]
                                           : ((const di_bf16 *)y)[i],
                             s->is_f32_out ? 0x3c3c3c3c : 0x3c3c);
    check_rows_alone(&c, &p);
    di_case_free(&c);
}

static void gemm(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        for (int p = 0; p <= SPECIALS; p++) {
            check(DI_OP_gemm_f8, &shapes[i], (di_pattern)p);
            check(DI_OP_gemm_bf16, &shapes[i], (di_pattern)p);
        }
    }
    for (int i = 0; i < N_LARGE_SHAPES; i++) {
        check(DI_OP_gemm_f8, &large_shapes[i], DI_PATTERN_NORMAL);
        check(DI_OP_gemm_bf16, &large_shapes[i], DI_PATTERN_WIDE);
        check(DI_OP_gemm_f8, &large_shapes[i], (di_pattern)SPECIALS);
        check(DI_OP_gemm_bf16, &large_shapes[i], (di_pattern)SPECIALS);
    }
}

/* ------------------------------------------------------------------- grouped gemm */

enum { MAX_EXPERTS = 5 };

typedef struct group_shape {
    int64_t n, k, pad;
    int counts[MAX_EXPERTS]; /* assignments of each active expert */
    int n_active;
    bool has_rows;
} group_shape;

static const group_shape group_shapes[] = {
    {1, 32, 0, {1}, 1, true},
    {33, 64, 3, {2, 9, 1}, 3, true},
    {5, 288, 0, {8, 0, 17, 3}, 4, false},
    {7, 96, 1, {0, 1, 1, 5, 2}, 5, true},
    {9, 1056, 0, {4, 6, 31}, 3, true},
    {5, 5120, 0, {3, 7}, 2, true},
    {11, 512, 0, {70, 1, 16}, 3, false},
};
enum { N_GROUP_SHAPES = sizeof group_shapes / sizeof group_shapes[0] };

static const group_shape large_group_shapes[] = {
    {37, 1056, 0, {35, 270, 1}, 3, true},
    {690, 64, 0, {259}, 1, false},
};
enum { N_LARGE_GROUP_SHAPES = sizeof large_group_shapes / sizeof large_group_shapes[0] };

static double f4_weight(const di_qweight *w, int64_t column, int64_t i)
{
    static const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const int64_t at = column * w->n_in + i;
    const int code = i % 2 ? w->codes[at / 2] >> 4 : w->codes[at / 2] & 15;
    return (code & 8 ? -1 : 1) * values[code & 7] * ldexp(1, w->scales[at / 32] - 127);
}

static void expect_group(const di_kernel_case *c, const di_grouped_gemm_args *a, int n_active)
{
    for (int e = 0; e < n_active; e++) {
        for (int32_t j = a->expert_begin[e]; j < a->expert_begin[e + 1]; j++) {
            const di_bf16 *x = a->x + (a->rows ? a->rows[j] : j) * a->x_stride;
            for (int64_t column = 0; column < a->n; column++) {
                double sum = 0, mass = 0;
                for (int64_t i = 0; i < a->k; i++) {
                    const double term =
                        (double)di_bf16_to_f32(x[i]) * f4_weight(a->weights[e], column, i);
                    sum += term;
                    mass += fabs(term);
                }
                di_expect_bf16(c->what, j * a->n + column, a->y[j * a->n + column], sum,
                               di_sum_slack(a->k, mass) + (double)a->k * 0x1p-149);
            }
        }
    }
}

/* Kernels of that order have its bits for experts of many assignments, the reference's, which y
 * holds, for others. */
static void check_group_blocks32(const di_kernel_case *c, const di_grouped_gemm_args *a,
                                 int n_active)
{
    const int64_t n_results = a->expert_begin[n_active] * a->n;
    float *w = malloc((size_t)a->k * sizeof *w);
    di_bf16 *reference = malloc((size_t)n_results * sizeof *reference);
    assert_true(w && reference);
    memcpy(reference, a->y, (size_t)n_results * sizeof *reference);
    for (int i = 0; i < di_n_kernels; i++) {
        if (!has_order(&di_kernels[i], c->op, DI_ORDER_BLOCKS32))
            continue;
        di_kernels[i].fn(a, 0, n_active * a->n, 0);
        for (int64_t item = 0; item < n_active * a->n; item++) {
            const int64_t e = item % n_active, column = item / n_active;
            const int32_t first = a->expert_begin[e], end = a->expert_begin[e + 1];
            for (int64_t l = 0; l < a->k; l++)
                w[l] = (float)f4_weight(a->weights[e], column, l);
            for (int32_t j = first; j < end; j++) {
                const di_bf16 *x = a->x + (a->rows ? a->rows[j] : j) * a->x_stride;
                const int64_t at = j * a->n + column;
                const di_bf16 wanted = end - first < DI_GROUPED_GEMM_AMX_ROWS
                                           ? reference[at]
                                           : di_f32_to_bf16(blocks32(x, w, a->k));
                di_expect_bf16_exact(c->what, at, a->y[at], (double)di_bf16_to_f32(wanted));
            }
        }
    }
    free(w);
    free(reference);
}

/* An assignment by itself gives the bits it has beside its expert's others. */
static void check_assignments_alone(const di_kernel_case *c, const di_grouped_gemm_args *a,
                                    int n_active)
{
    di_bf16 *alone = malloc((size_t)a->n * sizeof *alone);
    assert_non_null(alone);
    for (int i = 0; i < di_n_kernels; i++) {
        const di_kernel *k = &di_kernels[i];
        if (k->op != c->op || !k->is_batch_invariant || !di_case_has_kernel(k))
            continue;
        k->fn(a, 0, n_active * a->n, 0);
        for (int e = 0; e < n_active; e++) {
            for (int32_t j = a->expert_begin[e]; j < a->expert_begin[e + 1]; j++) {
                const int32_t row = a->rows ? a->rows[j] : j, begin[2] = {0, 1};
                di_grouped_gemm_args one = *a;
                one.rows = &row;
                one.weights = a->weights + e;
                one.n_active = 1;
                one.expert_begin = begin;
                one.y = alone;
                k->fn(&one, 0, a->n, 0);
                char what[256];
                snprintf(what, sizeof what, "%s (kernel %s): assignment %d alone", c->what, k->name,
                         (int)j);
                di_compare_outputs(what, DI_NUMERICS_EXACT, DI_BF16, alone, a->y + j * a->n,
                                   (size_t)a->n * sizeof *alone);
            }
        }
    }
    free(alone);
}

static void check_group(const group_shape *s, di_pattern pattern)
{
    enum { N_ROWS = 9 };
    const bool is_special = (int)pattern == SPECIALS;
    if (is_special)
        pattern = DI_PATTERN_NORMAL;
    di_kernel_case c = di_case_new(
        DI_OP_grouped_gemm_f4, "grouped_gemm_f4, %d experts, n %d k %d, %s", s->n_active, (int)s->n,
        (int)s->k, is_special ? "specials" : di_pattern_name(pattern));
    di_rng rng = di_rng_named(c.what);
    int32_t *begin = di_case_input(&c, s->n_active + 1, sizeof *begin);
    begin[0] = 0;
    for (int e = 0; e < s->n_active; e++)
        begin[e + 1] = begin[e] + s->counts[e];
    const int64_t n = begin[s->n_active], x_rows = s->has_rows ? N_ROWS : n;
    const int64_t x_stride = s->k + s->pad;
    di_bf16 *x = di_case_input(&c, x_rows * x_stride, sizeof *x);
    di_bf16 *y = di_case_output(&c, n * s->n, DI_BF16);
    int32_t *rows = di_case_input(&c, s->has_rows ? n : 0, sizeof *rows);
    di_qweight weights[MAX_EXPERTS];
    const di_qweight *list[MAX_EXPERTS];
    di_fill_bf16(&rng, pattern, x, x_rows * x_stride);
    for (int64_t j = 0; s->has_rows && j < n; j++)
        rows[j] = j == 0 ? N_ROWS - 1 : (int32_t)di_rng_below(&rng, N_ROWS);
    for (int e = 0; e < s->n_active; e++) {
        uint8_t *codes = di_case_input(&c, s->n * s->k / 2, 1);
        uint8_t *scales = di_case_input(&c, s->n * s->k / 32, 1);
        di_fill_bytes(&rng, codes, s->n * s->k / 2);
        di_fill_e8m0(&rng, scales, s->n * s->k / 32);
        if (is_special) { /* in one column: the others' sums stay finite */
            scales[0] = (uint8_t)(e % 2 ? 255 : 0);
            scales[s->k / 32 - 1] = 248;
        }
        weights[e] = (di_qweight){codes, scales, s->n, s->k, DI_WEIGHT_F4};
        list[e] = &weights[e];
    }
    const di_grouped_gemm_args args = {.x = x,
                                       .x_stride = x_stride,
                                       .rows = s->has_rows ? rows : NULL,
                                       .weights = list,
                                       .expert_begin = begin,
                                       .y = y,
                                       .n_active = s->n_active,
                                       .n = s->n,
                                       .k = s->k,
                                       .scratch = gemm_scratch(&c),
                                       .scratch_stride = DI_GEMM_SCRATCH_BYTES};
    if (pattern == DI_PATTERN_SUBNORMAL)
        c.slack = (double)s->k * 0x1p-148;
    if (is_special && x_rows > 2) {
        x[x_stride + di_rng_below(&rng, s->k)] = 0x7f80;     /* infinity */
        x[2 * x_stride + di_rng_below(&rng, s->k)] = 0x7fc0; /* NaN */
    }
    di_case_run(&c, &args, s->n_active * s->n);
    if (!is_special)
        expect_group(&c, &args, s->n_active);
    if (!is_special && (pattern == DI_PATTERN_NORMAL || pattern == DI_PATTERN_WIDE))
        check_group_blocks32(&c, &args, s->n_active);
    check_assignments_alone(&c, &args, s->n_active);
    di_case_free(&c);
}

static void grouped_gemm(void **state)
{
    (void)state;
    for (int i = 0; i < N_GROUP_SHAPES; i++)
        for (int p = 0; p <= SPECIALS; p++)
            check_group(&group_shapes[i], (di_pattern)p);
    for (int i = 0; i < N_LARGE_GROUP_SHAPES; i++) {
        check_group(&large_group_shapes[i], DI_PATTERN_NORMAL);
        check_group(&large_group_shapes[i], (di_pattern)SPECIALS);
    }
}

static void f4_tables_hold_values_times_scales(void **state)
{
    (void)state;
    for (int scale = 0; scale < 256; scale++) {
        for (int code = 0; code < 16; code++) {
            const float wanted = di_e2m1_to_f32[code] * di_e8m0_to_f32((uint8_t)scale);
            const float found = di_f32_from_bits(di_f4_tables[scale][code]);
            if (wanted != wanted)
                assert_true(found != found);
            else
                assert_int_equal(di_f32_bits(found), di_f32_bits(wanted));
        }
    }
}

static void bf16_tables_hold_values(void **state)
{
    (void)state;
    for (int scale = 2; scale <= 252; scale++) {
        for (int code = 0; code < 32; code++) {
            const float wanted = di_e2m1_to_f32[code & 15] * di_e8m0_to_f32((uint8_t)scale);
            const di_bf16 found = di_f4_bf16_tables[scale][code];
            assert_true(di_bf16_to_f32(found) == wanted);
        }
    }
    for (int code = 0; code < 128; code++) {
        const di_bf16 found =
            (di_bf16)(di_e4m3_bf16_bytes[0][code] | di_e4m3_bf16_bytes[1][code] << 8);
        assert_int_equal(di_f32_bits(di_bf16_to_f32(found)), di_f32_bits(di_e4m3_to_f32[code]));
    }
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(f4_tables_hold_values_times_scales),
                                       cmocka_unit_test(bf16_tables_hold_values),
                                       cmocka_unit_test(gemm), cmocka_unit_test(grouped_gemm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
