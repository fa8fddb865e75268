/* base/status.h: the error text. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>

#include "base/status.h"

static void names(void **state)
{
    (void)state;
    for (int s = DI_OK; s <= DI_ERR_CANCELLED; s++) {
        assert_string_not_equal(di_status_name((di_status)s), "unknown status");
        for (int t = DI_OK; t < s; t++)
            assert_string_not_equal(di_status_name((di_status)s), di_status_name((di_status)t));
    }
    assert_string_equal(di_status_name((di_status)99), "unknown status");
}

static void fail_sets_the_text_and_gives_the_code(void **state)
{
    (void)state;
    assert_int_equal(di_fail(DI_ERR_INPUT, "found %d, wanted %s", 3, "4"), DI_ERR_INPUT);
    assert_string_equal(di_last_error(), "found 3, wanted 4");
    assert_int_equal(di_fail_memory((size_t)12, "a test"), DI_ERR_MEMORY);
    assert_string_equal(di_last_error(), "out of memory: 12 bytes for a test");
}

/* File names and client input cannot break the line or send escape sequences. */
static void the_text_is_one_line(void **state)
{
    (void)state;
    (void)di_fail(DI_ERR_INPUT, "%s", "a\nb\rc\x1b[31md\x7f\te\x01");
    assert_string_equal(di_last_error(), "a?b?c?[31md??e?");
    (void)di_fail(DI_ERR_INPUT, "%s", "caf\xc3\xa9"); /* UTF-8 stays */
    assert_string_equal(di_last_error(), "caf\xc3\xa9");
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    (void)di_fail(DI_ERR_INPUT, "%5000d", 7);
    assert_in_range(strlen(di_last_error()), 500, 4096);
}

static void the_old_text_may_be_an_argument(void **state)
{
    (void)state;
    (void)di_fail(DI_ERR_IO, "inner");
    (void)di_fail(DI_ERR_IO, "outer (%s)", di_last_error());
    assert_string_equal(di_last_error(), "outer (inner)");
    assert_int_equal(di_fail_within(DI_ERR_IO, "file %d", 1), DI_ERR_IO);
    assert_string_equal(di_last_error(), "file 1: outer (inner)");
    di_error_set_text(di_last_error() + 8);
    assert_string_equal(di_last_error(), "outer (inner)");
}

static di_status passes_on(di_status inner, int *n_reached)
{
    DI_TRY(inner);
    ++*n_reached;
    return DI_OK;
}

static void try_returns_on_failure(void **state)
{
    (void)state;
    int n_reached = 0;
    assert_int_equal(passes_on(DI_ERR_RUNTIME, &n_reached), DI_ERR_RUNTIME);
    assert_int_equal(n_reached, 0);
    assert_int_equal(passes_on(DI_OK, &n_reached), DI_OK);
    assert_int_equal(n_reached, 1);
}

static void *other_thread(void *arg)
{
    const bool was_empty = di_last_error()[0] == 0;
    (void)di_fail(DI_ERR_IO, "of the other thread");
    *(bool *)arg = was_empty;
    return NULL;
}

static void texts_belong_to_threads(void **state)
{
    (void)state;
    (void)di_fail(DI_ERR_IO, "mine");
    pthread_t thread;
    bool was_empty = false;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &was_empty), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(was_empty);
    assert_string_equal(di_last_error(), "mine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(fail_sets_the_text_and_gives_the_code),
        cmocka_unit_test(the_text_is_one_line),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(the_old_text_may_be_an_argument),
        cmocka_unit_test(try_returns_on_failure),
        cmocka_unit_test(texts_belong_to_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
