/* compress_pool against its definition in double precision. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compare.h"
#include "kernel_case.h"
#include "kernels/compress/compress.h"

static void check(int64_t n, int64_t dim, di_pattern pattern, di_pattern gates)
{
    di_kernel_case c =
        di_case_new(DI_OP_compress_pool, "compress_pool, %d groups of %d, %s, gates %s", (int)n,
                    (int)dim, di_pattern_name(pattern), di_pattern_name(gates));
    di_rng rng = di_rng_named(c.what);
    float *k = di_case_input(&c, 2 * n * dim, sizeof *k);
    float *gate = di_case_input(&c, 2 * n * dim, sizeof *gate);
    di_bf16 *latent = di_case_output(&c, n * dim, DI_BF16);
    di_fill_f32(&rng, pattern, k, 2 * n * dim);
    di_fill_f32(&rng, gates, gate, 2 * n * dim);
    const di_compress_pool_args args = {.k = k, .gate = gate, .latent = latent, .dim = dim};
    di_case_run(&c, &args, n);
    for (int64_t at = 0; at < n * dim; at++) {
        const int64_t i = at / dim * 2 * dim + at % dim;
        const double k0 = (double)k[i], k1 = (double)k[i + dim];
        const double w1 = 1 / (1 + exp((double)gate[i] - (double)gate[i + dim]));
        const double want = k0 * (1 - w1) + k1 * w1;
        /* two exps (2 ulp each, and that of the gates' difference), sum, quotient, products, sum */
        const double difference = fmin(fabs((double)gate[i] - (double)gate[i + dim]), 200);
        di_expect_bf16(c.what, at, latent[at], want,
                       (16 + difference) * 0x1p-24 * (fabs(k0) + fabs(k1)) + 0x1p-147);
    }
    di_case_free(&c);
}

static void pool(void **state)
{
    (void)state;
    const int64_t dims[] = {1, 32, 33, 100};
    for (int d = 0; d < 4; d++)
        for (int p = 0; p < DI_N_PATTERNS; p++)
            for (int g = 0; g < DI_N_PATTERNS; g++)
                check(1 + d, dims[d], (di_pattern)p, (di_pattern)g);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(pool)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
