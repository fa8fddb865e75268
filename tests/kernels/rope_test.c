/* rope against (re + i im) * (cos + i sin) in double precision. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compare.h"
#include "kernel_case.h"
#include "kernels/rope/rope.h"

typedef struct shape {
    int64_t n, n_heads, head_dim, rope_dim, pad;
} shape;

static const shape shapes[] = {{1, 1, 64, 16, 0}, {3, 4, 64, 64, 0}, {2, 3, 40, 2, 7},
                               {5, 1, 34, 34, 1}, {2, 2, 97, 22, 3}, {2, 2, 512, 64, 0}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static void expect(const di_kernel_case *c, const shape *s, const di_rope_args *a,
                   const di_bf16 *before)
{
    for (int64_t i = 0; i < s->n * a->x_stride; i++) {
        const int64_t row = i / a->x_stride, place = i % a->x_stride;
        const int64_t channel = place % s->head_dim - (s->head_dim - s->rope_dim);
        if (place >= s->n_heads * s->head_dim || channel < 0) {
            assert_int_equal(a->x[i], before[i]);
            continue;
        }
        const int64_t at = row * (s->rope_dim / 2) + channel / 2;
        const double co = (double)a->cos[at], si = (double)a->sin[at] * (a->is_inverse ? -1 : 1);
        const int64_t even = i - channel % 2;
        const double re = (double)di_bf16_to_f32(before[even]);
        const double im = (double)di_bf16_to_f32(before[even + 1]);
        const double want = channel % 2 ? re * si + im * co : re * co - im * si;
        di_expect_bf16(c->what, i, a->x[i], want, 2 * 0x1p-24 * (fabs(re) + fabs(im)) + 0x1p-148);
    }
}

static void check(const shape *s, di_pattern pattern, bool is_inverse)
{
    di_kernel_case c = di_case_new(DI_OP_rope, "rope, %d rows of %d heads, %d of %d channels, %s%s",
                                   (int)s->n, (int)s->n_heads, (int)s->rope_dim, (int)s->head_dim,
                                   di_pattern_name(pattern), is_inverse ? ", inverse" : "");
    di_rng rng = di_rng_named(c.what);
    const int64_t stride = s->n_heads * s->head_dim + s->pad, half = s->n * (s->rope_dim / 2);
    di_bf16 *x = di_case_inout(&c, s->n * stride, DI_BF16);
    float *co = di_case_input(&c, half, sizeof *co), *si = di_case_input(&c, half, sizeof *si);
    di_fill_bf16(&rng, pattern, x, s->n * stride);
    for (int64_t i = 0; i < half; i++) {
        const double angle = di_rng_uniform(&rng) * 1000;
        co[i] = (float)cos(angle);
        si[i] = (float)sin(angle);
    }
    const di_rope_args args = {.x = x,
                               .cos = co,
                               .sin = si,
                               .n_heads = s->n_heads,
                               .head_dim = s->head_dim,
                               .rope_dim = s->rope_dim,
                               .x_stride = stride,
                               .is_inverse = is_inverse};
    di_case_run(&c, &args, s->n);
    expect(&c, s, &args, di_case_before(&c, x));
    di_case_free(&c);
}

static void rotations(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHAPES; i++)
        for (int p = 0; p < DI_N_PATTERNS; p++)
            for (int inverse = 0; inverse < 2; inverse++)
                check(&shapes[i], (di_pattern)p, inverse);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(rotations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
