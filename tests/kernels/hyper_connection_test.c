/* hc_project, hc_mix, hc_collapse and hc_expand against model spec 4.1 in double precision. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compare.h"
#include "kernel_case.h"
#include "base/json.h"
#include "kernels/all.h"
#include "kernels/hyper_connection/hyper_connection.h"

enum { HC_MAX = DI_HC_LIMIT };

/* ------------------------------------------------------------------- project */

static void check_project(int64_t n, int64_t dim, int hc, di_pattern pattern)
{
    di_kernel_case c = di_case_new(DI_OP_hc_project, "hc_project, %d rows, %d streams of %d, %s",
                                   (int)n, hc, (int)dim, di_pattern_name(pattern));
    di_rng rng = di_rng_named(c.what);
    const int64_t width = hc * dim, n_out = (2 + hc) * hc;
    di_bf16 *h = di_case_input(&c, n * width, sizeof *h);
    float *fn = di_case_input(&c, n_out * width, sizeof *fn);
    float *y = di_case_output(&c, n * (n_out + 1), DI_F32);
    di_fill_bf16(&rng, pattern, h, n * width);
    di_fill_f32(&rng, pattern, fn, n_out * width);
    const di_hc_project_args args = {.h = h, .fn = fn, .y = y, .n = n, .dim = dim, .hc = hc};
    di_case_run(&c, &args, di_hc_project_items(n, hc));
    for (int64_t at = 0; at < n * (n_out + 1); at++) {
        const int64_t row = at / (n_out + 1), k = at % (n_out + 1);
        double sum = 0, mass = 0;
        for (int64_t i = 0; i < width; i++) {
            const double x = (double)di_bf16_to_f32(h[row * width + i]);
            const double term = x * (k < n_out ? (double)fn[k * width + i] : x);
            sum += term;
            mass += fabs(term);
        }
        di_expect_f32(c.what, at, y[at], sum, di_sum_slack(width, mass) + (double)width * 0x1p-149);
    }
    di_case_free(&c);
}

static void project(void **state)
{
    (void)state;
    const struct {
        int64_t n, dim;
        int hc;
    } shapes[] = {{1, 33, 1}, {1, 40, 4},  {3, 32, 2}, {5, 31, 3}, {2, 5, 7},
                  {1, 3, 16}, {6, 550, 4}, {17, 9, 4}, {33, 16, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int p = 0; p < DI_N_PATTERNS; p++)
            check_project(shapes[i].n, shapes[i].dim, shapes[i].hc, (di_pattern)p);
}

/* A row with a NaN or an infinity has NaN or infinite sums; its neighbours in the block do not. */
static void project_keeps_nan_in_its_row(void **state)
{
    (void)state;
    enum { N = 6, DIM = 21, HC = 4, WIDTH = DIM * HC, N_OUT = (2 + HC) * HC };
    di_kernel_case c = di_case_new(DI_OP_hc_project, "hc_project, NaN in row 1");
    di_rng rng = di_rng_named(c.what);
    di_bf16 *h = di_case_input(&c, N * WIDTH, sizeof *h);
    float *fn = di_case_input(&c, N_OUT * WIDTH, sizeof *fn);
    float *y = di_case_output(&c, N * (N_OUT + 1), DI_F32);
    di_fill_bf16(&rng, DI_PATTERN_NORMAL, h, N * WIDTH);
    di_fill_f32(&rng, DI_PATTERN_NORMAL, fn, N_OUT * WIDTH);
    h[WIDTH + WIDTH - 1] = 0x7fc0;
    h[4 * WIDTH + 3] = 0xff80;
    const di_hc_project_args args = {.h = h, .fn = fn, .y = y, .n = N, .dim = DIM, .hc = HC};
    di_case_run(&c, &args, di_hc_project_items(N, HC));
    for (int i = 0; i < N * (N_OUT + 1); i++) {
        const int row = i / (N_OUT + 1);
        assert_int_equal(isnan(y[i]) != 0, row == 1);
        assert_int_equal(isinf(y[i]) != 0, row == 4);
    }
    di_case_free(&c);
}

/* ------------------------------------------------------------------- mix */

typedef struct mix_shape {
    int64_t n, dim;
    int hc, n_iters;
} mix_shape;

static const mix_shape mix_shapes[] = {{1, 33, 1, 20},  {3, 32, 2, 20}, {5, 31, 3, 1},
                                       {2, 128, 4, 20}, {1, 5, 16, 7},  {2, 64, 4, 2}};
enum { N_MIX_SHAPES = sizeof mix_shapes / sizeof mix_shapes[0] };

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void normalize(double *c, int hc, double eps, bool rows)
{
    for (int i = 0; i < hc; i++) {
        double sum = 0;
        for (int j = 0; j < hc; j++)
            sum += rows ? c[i * hc + j] : c[j * hc + i];
        for (int j = 0; j < hc; j++)
            c[rows ? i * hc + j : j * hc + i] /= sum + eps;
    }
}

static void sinkhorn(double *c, int hc, double eps, int n_iters)
{
    for (int j = 0; j < hc; j++) {
        double largest = c[j * hc], sum = 0;
        for (int k = 0; k < hc; k++)
            largest = fmax(largest, c[j * hc + k]);
        for (int k = 0; k < hc; k++)
            sum += c[j * hc + k] = exp(c[j * hc + k] - largest);
        for (int k = 0; k < hc; k++)
            c[j * hc + k] = c[j * hc + k] / sum + eps;
    }
    normalize(c, hc, eps, false);
    for (int i = 1; i < n_iters; i++) {
        normalize(c, hc, eps, true);
        normalize(c, hc, eps, false);
    }
}

static void expect_mix(const di_kernel_case *c, const di_hc_mix_args *a, int64_t row)
{
    const int hc = a->hc;
    const int n_out = (2 + hc) * hc;
    const float *products = a->products + row * (n_out + 1);
    double m[(2 + HC_MAX) * HC_MAX], slack[(2 + HC_MAX) * HC_MAX], worst = 0;
    const double squares = (double)products[n_out];
    const double rs = 1 / sqrt(squares / (double)(hc * a->dim) + (double)a->norm_eps);
    for (int k = 0; k < n_out; k++) {
        const double scale = (double)a->scale[k < hc ? 0 : k < 2 * hc ? 1 : 2];
        const double product = (double)products[k] * rs * scale;
        m[k] = product + (double)a->base[k];
        slack[k] = 8 * 0x1p-24 * (fabs(product) + fabs(m[k]) + fabs((double)a->base[k]));
        worst = k >= 2 * hc ? fmax(worst, slack[k]) : worst;
    }
    for (int j = 0; j < hc; j++) { /* sigmoid's slope is at most 1/4 */
        di_expect_f32(c->what, row * hc + j, a->pre[row * hc + j], sigmoid(m[j]) + (double)a->eps,
                      slack[j] / 4 + 6 * 0x1p-24);
        di_expect_f32(c->what, row * hc + j, a->post[row * hc + j], 2 * sigmoid(m[hc + j]),
                      slack[hc + j] / 2 + 12 * 0x1p-24);
    }
    /* exp turns the exponents' absolute errors into relative ones; a normalisation at most adds the
     * largest of them and hc + 2 roundings, and pulls the sums together. */
    double *comb = m + 2 * hc;
    sinkhorn(comb, hc, (double)a->eps, a->n_iters);
    const double relative = 4 * worst + (2.0 * a->n_iters + 2) * (hc + 4) * 0x1p-24;
    for (int i = 0; i < hc * hc; i++)
        di_expect_f32(c->what, row * hc * hc + i, a->comb[row * hc * hc + i], comb[i],
                      relative * comb[i] + 0x1p-140);
}

/* What streams of a pattern give: products about as large as a stream's values, and the squares. */
static void fill_products(di_rng *rng, di_pattern pattern, float *products, int64_t n,
                          int64_t n_out, int64_t width)
{
    for (int64_t row = 0; row < n; row++) {
        float *y = products + row * (n_out + 1);
        double squares = 0;
        di_fill_f32(rng, pattern, y, n_out + 1);
        for (int64_t i = 0; i <= n_out; i++)
            squares += (double)y[i] * (double)y[i] / (double)(n_out + 1);
        y[n_out] = (float)(squares * (double)width);
    }
}

static void check_mix(const mix_shape *s, di_pattern pattern)
{
    di_kernel_case c =
        di_case_new(DI_OP_hc_mix, "hc_mix, %d rows, %d streams of %d, %d rounds, %s", (int)s->n,
                    s->hc, (int)s->dim, s->n_iters, di_pattern_name(pattern));
    di_rng rng = di_rng_named(c.what);
    const int64_t width = s->hc * s->dim, n_out = (2 + s->hc) * s->hc;
    float *products = di_case_input(&c, s->n * (n_out + 1), sizeof *products);
    float *base = di_case_input(&c, n_out, sizeof *base),
          *scale = di_case_input(&c, 3, sizeof *scale);
    float *pre = di_case_output(&c, s->n * s->hc, DI_F32);
    float *post = di_case_output(&c, s->n * s->hc, DI_F32);
    float *comb = di_case_output(&c, s->n * s->hc * s->hc, DI_F32);
    fill_products(&rng, pattern, products, s->n, n_out, width);
    di_fill_f32(&rng, DI_PATTERN_NORMAL, base, n_out);
    di_fill_f32(&rng, DI_PATTERN_NORMAL, scale, 3);
    const di_hc_mix_args args = {.products = products,
                                 .base = base,
                                 .scale = scale,
                                 .pre = pre,
                                 .post = post,
                                 .comb = comb,
                                 .dim = s->dim,
                                 .hc = s->hc,
                                 .n_iters = s->n_iters,
                                 .eps = 1e-6f,
                                 .norm_eps = 1e-20f};
    di_case_run(&c, &args, s->n);
    for (int64_t row = 0; row < s->n; row++)
        expect_mix(&c, &args, row);
    di_case_free(&c);
}

static void mix(void **state)
{
    (void)state;
    for (int i = 0; i < N_MIX_SHAPES; i++)
        for (int p = 0; p < DI_N_PATTERNS; p++)
            check_mix(&mix_shapes[i], (di_pattern)p);
}

/* ------------------------------------------------------------------- collapse, expand */

static void check_collapse(int64_t n, int64_t dim, int hc, di_pattern pattern)
{
    di_kernel_case c = di_case_new(DI_OP_hc_collapse, "hc_collapse, %d rows, %d streams of %d, %s",
                                   (int)n, hc, (int)dim, di_pattern_name(pattern));
    di_rng rng = di_rng_named(c.what);
    di_bf16 *h = di_case_input(&c, n * hc * dim, sizeof *h);
    float *pre = di_case_input(&c, n * hc, sizeof *pre);
    di_bf16 *y = di_case_output(&c, n * dim, DI_BF16);
    di_fill_bf16(&rng, pattern, h, n * hc * dim);
    di_fill_f32(&rng, DI_PATTERN_NORMAL, pre, n * hc);
    const di_hc_collapse_args args = {.h = h, .pre = pre, .y = y, .dim = dim, .hc = hc};
    di_case_run(&c, &args, n);
    for (int64_t i = 0; i < n * dim; i++) {
        double sum = 0, mass = 0;
        for (int j = 0; j < hc; j++) {
            const double term = (double)pre[i / dim * hc + j] *
                                (double)di_bf16_to_f32(h[(i / dim * hc + j) * dim + i % dim]);
            sum += term;
            mass += fabs(term);
        }
        di_expect_bf16(c.what, i, y[i], sum, (hc + 1) * 0x1p-24 * mass + hc * 0x1p-149);
    }
    di_case_free(&c);
}

static void check_expand(int64_t n, int64_t dim, int hc, di_pattern pattern)
{
    di_kernel_case c = di_case_new(DI_OP_hc_expand, "hc_expand, %d rows, %d streams of %d, %s",
                                   (int)n, hc, (int)dim, di_pattern_name(pattern));
    di_rng rng = di_rng_named(c.what);
    di_bf16 *h = di_case_inout(&c, n * hc * dim, DI_BF16),
            *y = di_case_input(&c, n * dim, sizeof *y);
    float *post = di_case_input(&c, n * hc, sizeof *post);
    float *comb = di_case_input(&c, n * hc * hc, sizeof *comb);
    di_fill_bf16(&rng, pattern, h, n * hc * dim);
    di_fill_bf16(&rng, pattern, y, n * dim);
    di_fill_f32(&rng, DI_PATTERN_NORMAL, post, n * hc);
    di_fill_f32(&rng, DI_PATTERN_NORMAL, comb, n * hc * hc);
    const di_hc_expand_args args = {
        .h = h, .y = y, .post = post, .comb = comb, .dim = dim, .hc = hc};
    di_case_run(&c, &args, n);
    const di_bf16 *before = di_case_before(&c, h);
    for (int64_t at = 0; at < n * hc * dim; at++) {
        const int64_t row = at / (hc * dim), i = at % dim;
        const int k = (int)(at / dim % hc);
        double sum = (double)post[row * hc + k] * (double)di_bf16_to_f32(y[row * dim + i]);
        double mass = fabs(sum);
        for (int j = 0; j < hc; j++) {
            const double term = (double)comb[(row * hc + j) * hc + k] *
                                (double)di_bf16_to_f32(before[(row * hc + j) * dim + i]);
            sum += term;
            mass += fabs(term);
        }
        di_expect_bf16(c.what, at, h[at], sum, (hc + 2) * 0x1p-24 * mass + hc * 0x1p-148);
    }
    di_case_free(&c);
}

static void collapse_and_expand(void **state)
{
    (void)state;
    const int64_t dims[] = {1, 31, 32, 97};
    const int hcs[] = {1, 2, 3, 4, 16};
    for (int d = 0; d < 4; d++) {
        for (int i = 0; i < 5; i++) {
            for (int p = 0; p < DI_N_PATTERNS; p++) {
                check_collapse(1 + d * 3, dims[d], hcs[i], (di_pattern)p);
                check_expand(1 + d * 3, dims[d], hcs[i], (di_pattern)p);
            }
        }
    }
}

/* ------------------------------------------------------------------- cases/bugs/V08 */

static double number(const json_t *o, const char *key, size_t i)
{
    return json_number_value(json_array_get(json_object_get(o, key), i));
}

/* A nearly symmetric matrix would hide a product the wrong way round; this one does not. */
static void expand_multiplies_the_transposed_matrix(void **state)
{
    (void)state;
    json_t *o;
    assert_int_equal(di_json_load(DI_TEST_DATA "/cases/bugs/V08/mhc.json", 1 << 20, &o), DI_OK);
    di_bf16 h[4], y = di_f32_to_bf16(1.0f);
    float comb[16], post[4] = {0};
    for (size_t j = 0; j < 4; j++) {
        h[j] = di_f32_to_bf16((float)number(o, "streams", j));
        const json_t *row = json_array_get(json_object_get(o, "comb"), j);
        for (size_t k = 0; k < 4; k++)
            comb[j * 4 + k] = (float)json_number_value(json_array_get(row, k));
    }
    const di_hc_expand_args args = {.h = h, .y = &y, .post = post, .comb = comb, .dim = 1, .hc = 4};
    di_hc_expand_ref(&args, 0, 1, 0);
    for (size_t k = 0; k < 4; k++) {
        assert_int_equal(h[k], di_f32_to_bf16((float)number(o, "combT_times_x", k)));
        assert_int_not_equal(h[k], di_f32_to_bf16((float)number(o, "comb_times_x", k)));
    }
    json_decref(o);
}

/* "row and column sums within 2e-5 of 1 (fp32); 3e-3 means it ran in bf16": for entries of moderate
 * spread, where 20 rounds converge. */
static void sinkhorn_is_fp32(void **state)
{
    (void)state;
    enum { DIM = 64, HC = 4, WIDTH = DIM * HC, N_OUT = (2 + HC) * HC };
    di_rng rng = di_rng_named("sinkhorn");
    static di_bf16 h[WIDTH];
    static float fn[N_OUT * WIDTH], base[N_OUT], scale[3] = {1, 1, 0.25f};
    float pre[HC], post[HC], comb[HC * HC];
    for (int round = 0; round < 20; round++) {
        di_fill_bf16(&rng, DI_PATTERN_NORMAL, h, WIDTH);
        di_fill_f32(&rng, DI_PATTERN_NORMAL, fn, N_OUT * WIDTH);
        for (int i = 0; i < N_OUT * WIDTH; i++)
            fn[i] /= 16;
        di_fill_f32(&rng, DI_PATTERN_NORMAL, base, N_OUT);
        for (int i = 0; i < N_OUT; i++)
            base[i] /= 4;
        float products[N_OUT + 1];
        const di_hc_project_args project = {
            .h = h, .fn = fn, .y = products, .n = 1, .dim = DIM, .hc = HC};
        di_hc_project_ref(&project, 0, di_hc_project_items(1, HC), 0);
        const di_hc_mix_args args = {.products = products,
                                     .base = base,
                                     .scale = scale,
                                     .pre = pre,
                                     .post = post,
                                     .comb = comb,
                                     .dim = DIM,
                                     .hc = HC,
                                     .n_iters = 20,
                                     .eps = 1e-6f,
                                     .norm_eps = 1e-20f};
        di_hc_mix_ref(&args, 0, 1, 0);
        for (int i = 0; i < HC; i++) {
            double row = 0, column = 0;
            for (int j = 0; j < HC; j++) {
                row += (double)comb[i * HC + j];
                column += (double)comb[j * HC + i];
            }
            assert_true(fabs(row - 1) < 2e-5);
            assert_true(fabs(column - 1) < 2e-5);
        }
    }
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(project),
        cmocka_unit_test(project_keeps_nan_in_its_row),
        cmocka_unit_test(mix),
        cmocka_unit_test(collapse_and_expand),
        cmocka_unit_test(expand_multiplies_the_transposed_matrix),
        cmocka_unit_test(sinkhorn_is_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
