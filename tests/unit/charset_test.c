/* Sets of code points against a table of flags. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/charset.h"

enum { N_CODES = 300 };

/* A random set below N_CODES, and its members as flags. */
static di_charset random_set(di_arena *arena, unsigned *seed, bool negate, bool *flags)
{
    di_charset_builder builder = {0};
    memset(flags, negate, N_CODES);
    for (int n = (int)(rand_r(seed) % 6); n > 0; n--) {
        const uint32_t first = (uint32_t)rand_r(seed) % N_CODES;
        const uint32_t last = first + (uint32_t)rand_r(seed) % (N_CODES - first);
        assert_int_equal(di_charset_add(&builder, first, last), DI_OK);
        memset(flags + first, !negate, last - first + 1);
    }
    di_charset set;
    assert_int_equal(di_charset_finish(&builder, arena, negate, &set), DI_OK);
    di_charset_builder_free(&builder);
    for (uint32_t i = 1; i < set.n; i++)
        assert_true(set.ranges[i].first > set.ranges[i - 1].last + 1);
    return set;
}

static void operations(void **state)
{
    (void)state;
    di_arena arena = {0};
    unsigned seed = 1;
    for (int round = 0; round < 500; round++) {
        bool in_a[N_CODES], in_b[N_CODES];
        const di_charset a = random_set(&arena, &seed, round % 3 == 0, in_a);
        const di_charset b = random_set(&arena, &seed, round % 5 == 0, in_b);
        di_charset both, minus, others;
        assert_int_equal(di_charset_intersect(&arena, a, b, &both), DI_OK);
        assert_int_equal(di_charset_minus(&arena, a, b, &minus), DI_OK);
        assert_int_equal(di_charset_complement(&arena, a, &others), DI_OK);
        for (uint32_t code = 0; code < N_CODES; code++) {
            assert_int_equal(di_charset_contains(a, code), in_a[code]);
            assert_int_equal(di_charset_contains(both, code), in_a[code] && in_b[code]);
            assert_int_equal(di_charset_contains(minus, code), in_a[code] && !in_b[code]);
            assert_int_equal(di_charset_contains(others, code), !in_a[code]);
        }
        di_arena_reset(&arena);
    }
    di_arena_free(&arena);
}

static void surrogates(void **state)
{
    (void)state;
    di_arena arena = {0};
    di_charset set, rest;
    assert_int_equal(di_charset_range(&arena, 0, DI_CODE_LAST, &set), DI_OK);
    assert_int_equal(set.n, 2);
    assert_false(di_charset_contains(set, 0xD800));
    assert_false(di_charset_contains(set, 0xDFFF));
    assert_true(di_charset_contains(set, 0xE000));
    assert_int_equal(di_charset_complement(&arena, set, &rest), DI_OK);
    assert_int_equal(rest.n, 0);
    di_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations),
        cmocka_unit_test(surrogates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
