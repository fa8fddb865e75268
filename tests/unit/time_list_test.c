/* Lists of times in deepinfer/tools.h. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "deepinfer/tools.h"

static void tails_of_values_in_any_order(void **state)
{
    (void)state;
    di_time_list list = {0};
    for (int64_t i = 0; i < 1000; i++)
        assert_int_equal(di_time_list_add(&list, i * 7919 % 1000), DI_OK); /* 0 to 999, mixed */
    const di_time_tails t = di_time_list_tails(&list);
    assert_int_equal(t.n, 1000);
    assert_int_equal(t.p50, 499);
    assert_int_equal(t.p90, 899);
    assert_int_equal(t.p99, 989);
    assert_int_equal(t.worst, 999);
    di_time_list_free(&list);
    assert_int_equal(list.n, 0);
}

static void tails_of_few(void **state)
{
    (void)state;
    di_time_list list = {0};
    di_time_tails t = di_time_list_tails(&list);
    assert_int_equal(t.n, 0);
    assert_int_equal(t.worst, 0);
    assert_int_equal(di_time_list_add(&list, 5), DI_OK);
    t = di_time_list_tails(&list);
    assert_int_equal(t.p50, 5);
    assert_int_equal(t.p99, 5);
    assert_int_equal(t.worst, 5);
    assert_int_equal(di_time_list_add(&list, 3), DI_OK);
    t = di_time_list_tails(&list);
    assert_int_equal(t.p50, 3);
    assert_int_equal(t.p99, 3);
    assert_int_equal(t.worst, 5);
    di_time_list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tails_of_values_in_any_order),
        cmocka_unit_test(tails_of_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
