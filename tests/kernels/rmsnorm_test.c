/* rmsnorm against y = x / sqrt(mean(x^2) + eps) * w in double precision. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compare.h"
#include "kernel_case.h"
#include "kernels/rmsnorm/rmsnorm.h"

typedef struct shape {
    int64_t n, dim, pad; /* pad: of the row strides */
    bool is_f32, in_place;
    float eps;
} shape;

static const shape shapes[] = {
    {1, 1, 0, false, false, 1e-20f},  {3, 31, 5, true, false, 1e-20f},
    {5, 32, 0, false, true, 1e-20f},  {2, 33, 1, true, true, 1e-6f},
    {4, 257, 3, false, false, 1e-6f}, {2, 5120, 0, false, false, 1e-20f},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static void expect(const di_kernel_case *c, const shape *s, const di_rmsnorm_args *args,
                   const di_bf16 *x, const di_bf16 *y, int64_t stride)
{
    for (int64_t row = 0; row < s->n; row++) {
        double sum = 0;
        for (int64_t i = 0; i < s->dim; i++)
            sum += pow((double)di_bf16_to_f32(x[row * stride + i]), 2);
        const double rs = 1 / sqrt(sum / (double)s->dim + (double)s->eps);
        /* half the sum's relative error, and the roundings of rsqrt and the products */
        const double relative = di_sum_slack(s->dim, 0.5) + 6 * 0x1p-24;
        for (int64_t i = 0; i < s->dim; i++) {
            const double w = s->is_f32 ? (double)((const float *)args->w)[i]
                                       : (double)di_bf16_to_f32(((const di_bf16 *)args->w)[i]);
            const double want = (double)di_bf16_to_f32(x[row * stride + i]) * rs * w;
            di_expect_bf16(c->what, row * stride + i, y[row * stride + i], want,
                           relative * fabs(want) + 0x1p-148);
        }
    }
}

static void check(const shape *s, di_pattern pattern)
{
    di_kernel_case c = di_case_new(DI_OP_rmsnorm, "rmsnorm, %d rows of %d, w %s, %s%s", (int)s->n,
                                   (int)s->dim, s->is_f32 ? "F32" : "BF16",
                                   di_pattern_name(pattern), s->in_place ? ", in place" : "");
    di_rng rng = di_rng_named(c.what);
    const int64_t stride = s->dim + s->pad;
    di_bf16 *y = di_case_inout(&c, s->n * stride, DI_BF16);
    di_bf16 *x = s->in_place ? y : di_case_input(&c, s->n * stride, sizeof *x);
    void *w = di_case_input(&c, s->dim, s->is_f32 ? 4 : 2);
    di_fill_bf16(&rng, DI_PATTERN_NORMAL, y, s->n * stride);
    di_fill_bf16(&rng, pattern, x, s->n * stride);
    if (s->is_f32)
        di_fill_f32(&rng, DI_PATTERN_NORMAL, w, s->dim);
    else
        di_fill_bf16(&rng, DI_PATTERN_NORMAL, w, s->dim);
    const di_rmsnorm_args args = {.x = x,
                                  .w = w,
                                  .y = y,
                                  .dim = s->dim,
                                  .x_stride = stride,
                                  .y_stride = stride,
                                  .w_dtype = s->is_f32 ? DI_F32 : DI_BF16,
                                  .eps = s->eps};
    di_case_run(&c, &args, s->n);
    expect(&c, s, &args, s->in_place ? di_case_before(&c, y) : x, y, stride);
    const di_bf16 *before = di_case_before(&c, y);
    for (int64_t i = 0; i < s->n * stride; i++)
        if (i % stride >= s->dim) /* between the rows */
            assert_int_equal(y[i], before[i]);
    di_case_free(&c);
}

static void rows(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHAPES; i++)
        for (int p = 0; p < DI_N_PATTERNS; p++)
            check(&shapes[i], (di_pattern)p);
}

/* A NaN makes its row NaN, and no other row. */
static void nan_stays_in_its_row(void **state)
{
    (void)state;
    enum { N = 3, DIM = 40 };
    di_kernel_case c = di_case_new(DI_OP_rmsnorm, "rmsnorm, NaN in row 1");
    di_rng rng = di_rng_named(c.what);
    di_bf16 *x = di_case_input(&c, N * DIM, sizeof *x), *w = di_case_input(&c, DIM, sizeof *w);
    di_bf16 *y = di_case_output(&c, N * DIM, DI_BF16);
    di_fill_bf16(&rng, DI_PATTERN_NORMAL, x, N * DIM);
    di_fill_bf16(&rng, DI_PATTERN_NORMAL, w, DIM);
    x[DIM + 39] = 0x7fc0;
    const di_rmsnorm_args args = {.x = x,
                                  .w = w,
                                  .y = y,
                                  .dim = DIM,
                                  .x_stride = DIM,
                                  .y_stride = DIM,
                                  .w_dtype = DI_BF16,
                                  .eps = 1e-20f};
    di_case_run(&c, &args, N);
    for (int i = 0; i < N * DIM; i++)
        assert_int_equal(isnan(di_bf16_to_f32(y[i])) != 0, i / DIM == 1);
    di_case_free(&c);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows),
                                       cmocka_unit_test(nan_stays_in_its_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
