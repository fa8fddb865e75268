/* embed against its definition: every stream starts as the token's row. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compare.h"
#include "kernel_case.h"
#include "kernels/embed/embed.h"

static void check(int64_t n, int64_t dim, int hc)
{
    enum { VOCAB = 11 };
    di_kernel_case c =
        di_case_new(DI_OP_embed, "embed, %d rows of %d, %d streams", (int)n, (int)dim, hc);
    di_rng rng = di_rng_named(c.what);
    di_bf16 *table = di_case_input(&c, VOCAB * dim, sizeof *table);
    int32_t *ids = di_case_input(&c, n, sizeof *ids);
    di_bf16 *h = di_case_output(&c, n * hc * dim, DI_BF16);
    di_fill_bytes(&rng, (uint8_t *)table, 2 * VOCAB * dim); /* NaN payloads too: a copy */
    for (int64_t i = 0; i < n; i++)
        ids[i] = i == 0 ? VOCAB - 1 : (int32_t)di_rng_below(&rng, VOCAB);
    const di_embed_args args = {.table = table, .token_ids = ids, .h = h, .dim = dim, .hc = hc};
    di_case_run(&c, &args, n);
    for (int64_t i = 0; i < n * hc; i++)
        assert_memory_equal(h + i * dim, table + ids[i / hc] * dim, (size_t)dim * sizeof *h);
    di_case_free(&c);
}

static void embed(void **state)
{
    (void)state;
    const int64_t dims[] = {1, 31, 32, 97};
    for (int hc = 1; hc <= 5; hc++)
        for (int d = 0; d < 4; d++)
            for (int64_t n = 1; n <= 17; n += 8)
                check(n, dims[d], hc);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(embed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
