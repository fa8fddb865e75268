/* The forward pass against the official reference's vectors (tests/golden/). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "golden_checks.h"
#include "share.h"

static void tiny_constants_match(void **state)
{
    (void)state;
    di_golden_constants_match("tiny");
}

static void small_constants_match(void **state)
{
    (void)state;
    di_golden_constants_match("small");
}

static void tiny_layers_match(void **state)
{
    (void)state;
    di_golden_layers_match("tiny");
}

static void small_layers_match(void **state)
{
    (void)state;
    di_golden_layers_match("small");
}

static void tiny_logits_match(void **state)
{
    (void)state;
    di_golden_logits_match("tiny");
}

static void small_logits_match(void **state)
{
    (void)state;
    if (DI_TEST_SHARE > 1)
        skip();
    di_golden_logits_match("small");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_constants_match), cmocka_unit_test(small_constants_match),
        cmocka_unit_test(tiny_layers_match),    cmocka_unit_test(small_layers_match),
        cmocka_unit_test(tiny_logits_match),    cmocka_unit_test(small_logits_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
