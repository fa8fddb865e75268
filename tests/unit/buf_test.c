/* base/buf.h */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"

static void require(di_status status)
{
    if (status != DI_OK)
        fail_msg("%s", di_last_error());
}

static void text_grows_and_stays_terminated(void **state)
{
    (void)state;
    DI_BUF_AUTO buf = {0};
    assert_string_equal(di_buf_str(&buf), "");
    for (int i = 0; i < 3000; i++) {
        require(di_buf_append(&buf, &(char){(char)('a' + i % 26)}, 1));
        assert_int_equal(buf.len, i + 1);
        assert_int_equal(buf.data[buf.len], 0);
    }
    for (int i = 0; i < 3000; i++)
        assert_int_equal(buf.data[i], 'a' + i % 26);
}

static void bytes_may_be_nul(void **state)
{
    (void)state;
    DI_BUF_AUTO buf = {0};
    require(di_buf_append(&buf, "a\0b", 3));
    require(di_buf_append(&buf, NULL, 0));
    require(di_buf_puts(&buf, "c"));
    assert_int_equal(buf.len, 4);
    assert_memory_equal(buf.data, "a\0bc", 5);
}

static void printf_appends(void **state)
{
    (void)state;
    DI_BUF_AUTO buf = {0};
    require(di_buf_puts(&buf, "x="));
    require(di_buf_printf(&buf, "%d, %s", 42, "y"));
    assert_string_equal(di_buf_str(&buf), "x=42, y");
    require(di_buf_printf(&buf, "%1000s", "end")); /* longer than what is reserved */
    assert_int_equal(buf.len, 1007);
    assert_string_equal(di_buf_str(&buf) + 1004, "end");
    require(di_buf_printf(&buf, "%s", ""));
    assert_int_equal(buf.len, 1007);
}

static void clear_keeps_the_memory(void **state)
{
    (void)state;
    DI_BUF_AUTO buf = {0};
    di_buf_clear(&buf);
    assert_string_equal(di_buf_str(&buf), "");
    require(di_buf_puts(&buf, "some text"));
    const char *data = buf.data;
    di_buf_clear(&buf);
    assert_string_equal(di_buf_str(&buf), "");
    assert_ptr_equal(buf.data, data);
    di_buf_free(&buf);
    assert_null(buf.data);
    assert_int_equal(buf.cap, 0);
}

static void impossible_sizes_are_errors(void **state)
{
    (void)state;
    DI_BUF_AUTO buf = {0};
    require(di_buf_puts(&buf, "text"));
    assert_int_equal(di_buf_reserve(&buf, SIZE_MAX), DI_ERR_MEMORY);
    assert_int_equal(di_buf_reserve(&buf, SIZE_MAX - 4), DI_ERR_MEMORY);
    assert_string_equal(di_buf_str(&buf), "text"); /* intact */
    int32_t *array = NULL;
    size_t cap = 0;
    assert_int_equal(DI_GROW(&array, &cap, SIZE_MAX / 2), DI_ERR_MEMORY);
    assert_null(array);
    assert_int_equal(cap, 0);
}

/* Amortised: n appends reallocate O(log n) times. */
static void growth_is_geometric(void **state)
{
    (void)state;
    int32_t *array = NULL;
    size_t cap = 0, n_growths = 0;
    for (size_t need = 1; need <= 100000; need++) {
        const size_t before = cap;
        require(DI_GROW(&array, &cap, need));
        assert_true(cap >= need);
        array[need - 1] = (int32_t)need;
        n_growths += cap != before;
    }
    for (size_t i = 0; i < 100000; i++)
        assert_int_equal(array[i], i + 1);
    assert_true(n_growths < 40);
    free(array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(text_grows_and_stays_terminated),
                                       cmocka_unit_test(bytes_may_be_nul),
                                       cmocka_unit_test(printf_appends),
                                       cmocka_unit_test(clear_keeps_the_memory),
                                       cmocka_unit_test(impossible_sizes_are_errors),
                                       cmocka_unit_test(growth_is_geometric)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
