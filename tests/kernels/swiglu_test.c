/* swiglu against its definition in double precision. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compare.h"
#include "kernel_case.h"
#include "kernels/swiglu/swiglu.h"

typedef enum alias { APART, OVER_GATE, OVER_UP } alias;

static void check(int64_t n, int64_t dim, di_pattern pattern, bool has_weights, alias where)
{
    di_kernel_case c =
        di_case_new(DI_OP_swiglu, "swiglu, %d rows of %d, %s, %s, alias %d", (int)n, (int)dim,
                    di_pattern_name(pattern), has_weights ? "weights" : "no weights", (int)where);
    di_rng rng = di_rng_named(c.what);
    di_bf16 *y =
        where == APART ? di_case_output(&c, n * dim, DI_BF16) : di_case_inout(&c, n * dim, DI_BF16);
    di_bf16 *gate = where == OVER_GATE ? y : di_case_input(&c, n * dim, sizeof *gate);
    di_bf16 *up = where == OVER_UP ? y : di_case_input(&c, n * dim, sizeof *up);
    float *weights = di_case_input(&c, has_weights ? n : 0, sizeof *weights);
    di_fill_bf16(&rng, pattern, gate, n * dim);
    di_fill_bf16(&rng, pattern, up, n * dim);
    for (int64_t i = 0; i < n * dim; i += 5) { /* around the limits */
        gate[i] = di_f32_to_bf16(di_rng_normal(&rng) * 10);
        up[i] = di_f32_to_bf16(di_rng_normal(&rng) * 10);
    }
    if (has_weights)
        di_fill_f32(&rng, DI_PATTERN_NORMAL, weights, n);
    const float limit = 10.0f;
    const di_swiglu_args args = {.gate = gate,
                                 .up = up,
                                 .weights = has_weights ? weights : NULL,
                                 .y = y,
                                 .dim = dim,
                                 .limit = limit};
    di_case_run(&c, &args, n);
    const di_bf16 *g_in = where == OVER_GATE ? di_case_before(&c, y) : gate;
    const di_bf16 *u_in = where == OVER_UP ? di_case_before(&c, y) : up;
    for (int64_t i = 0; i < n * dim; i++) {
        const double g = fmin((double)di_bf16_to_f32(g_in[i]), (double)limit);
        const double u = fmax(fmin((double)di_bf16_to_f32(u_in[i]), (double)limit), -(double)limit);
        const double w = has_weights ? (double)weights[i / dim] : 1;
        const double want = g / (1 + exp(-g)) * u * w;
        /* exp underflows to 0 or overflows beyond +-87: silu is below 1e-36 there */
        di_expect_bf16(c.what, i, y[i], want, 10 * 0x1p-24 * fabs(want) + 1e-35 * fabs(u * w));
    }
    di_case_free(&c);
}

static void swiglu(void **state)
{
    (void)state;
    const int64_t dims[] = {1, 32, 61, 128};
    for (int d = 0; d < 4; d++)
        for (int p = 0; p < DI_N_PATTERNS; p++)
            for (int i = 0; i < 6; i++)
                check(1 + 2 * d, dims[d], (di_pattern)p, i % 2, (alias)(i / 2));
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(swiglu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
