/* Lines of cases: what of a line comes where. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "deepinfer/tools.h"

static di_check_row read_row(const char *line)
{
    di_check_row row;
    if (di_check_row_read(line, strlen(line), &row) != DI_OK)
        fail_msg("%s: %s", line, di_last_error());
    return row;
}

static void assert_bytes(const char *found, size_t bytes, const char *wanted)
{
    assert_int_equal(bytes, strlen(wanted));
    assert_memory_equal(found, wanted, bytes);
}

static void a_schema_is_kept_to_the_digit(void **state)
{
    (void)state;
    di_check_row row = read_row("{\"id\": {\"n\": [1]}, \"schema\": {\"maximum\": 1.00e400, "
                                "\"x\": \"}\\\"\"}, \"text\": \"a\\u0000b\"}");
    assert_int_equal(row.so.schema_type, DI_SCHEMA_JSON);
    assert_bytes(row.so.schema, row.so.schema_bytes, "{\"maximum\": 1.00e400, \"x\": \"}\\\"\"}");
    assert_string_equal(row.id, "{\"n\": [1]}");
    assert_int_equal(row.text_bytes, 3);
    assert_memory_equal(row.text, "a\0b", 3);
    assert_int_equal(row.wanted, -1);
    assert_int_equal(row.so.max_whitespace, -1);
    assert_false(row.so.is_strict || row.so.any_order || row.so.lenient);
    di_check_row_free(&row);
    assert_null(row.owned);
}

static void options_and_verdicts(void **state)
{
    (void)state;
    di_check_row row = read_row("{\"schema\": true, \"strict\": true, \"any_order\": true, "
                                "\"lenient\": true, \"max_whitespace\": 3, \"accept\": true}");
    assert_true(row.so.is_strict && row.so.any_order && row.so.lenient);
    assert_int_equal(row.so.max_whitespace, 3);
    assert_int_equal(row.wanted, 1);
    assert_null(row.text);
    assert_null(row.id);
    di_check_row_free(&row);
    row = read_row("{\"ebnf\": \"list ::= [a]\", \"root\": \"list\", \"hex\": \"00fF\", "
                   "\"accept\": 0}");
    assert_int_equal(row.so.schema_type, DI_SCHEMA_EBNF);
    assert_bytes(row.so.schema, row.so.schema_bytes, "list ::= [a]");
    assert_string_equal(row.so.root, "list");
    assert_int_equal(row.text_bytes, 2);
    assert_memory_equal(row.text, "\0\xff", 2);
    assert_int_equal(row.wanted, 0);
    di_check_row_free(&row);
    row = read_row("{\"regex\": \"a*\", \"root\": \"list\", \"text\": \"\", \"accept\": 1}");
    assert_int_equal(row.so.schema_type, DI_SCHEMA_REGEX);
    assert_null(row.so.root);
    assert_non_null(row.text);
    assert_int_equal(row.text_bytes, 0);
    assert_int_equal(row.wanted, 1);
    di_check_row_free(&row);
    row = read_row("{\"text\": \"a\"}");
    assert_int_equal(row.so.schema_type, DI_SCHEMA_NONE);
    di_check_row_free(&row);
}

static void digits_that_are_none_are_no_text(void **state)
{
    (void)state;
    static const char *const lines[] = {"{\"hex\": \"0\"}", "{\"hex\": \"0g\"}", "{\"hex\": 5}",
                                        "{\"text\": 5}", "{\"text\": \"a\", \"hex\": \"zz\"}"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        di_check_row row = read_row(lines[i]);
        assert_null(row.text);
        di_check_row_free(&row);
    }
}

static void lines_that_are_no_objects(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "[]",
        "{",
        "{\"schema\": ",
        "1",
        "{\"schema\": {}",
        "{\"text\": \"\\ud800\"}",
        "{\"text\": \"a\", \"text\": \"b\"}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        di_check_row row;
        assert_int_equal(di_check_row_read(lines[i], strlen(lines[i]), &row), DI_ERR_INPUT);
        assert_null(strchr(di_last_error(), '\n'));
    }
}

static void equal_constraints(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"schema\": {}}",
        "{\"schema\": { }}",
        "{\"schema\": {}, \"strict\": true}",
        "{\"schema\": {}, \"max_whitespace\": 2}",
        "{\"regex\": \"{}\"}",
        "{\"ebnf\": \"{}\"}",
        "{\"ebnf\": \"{}\", \"root\": \"a\"}",
        "{\"ebnf\": \"{}\", \"root\": \"b\"}",
    };
    const size_t n = sizeof lines / sizeof *lines;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            di_check_row a = read_row(lines[i]), b = read_row(lines[k]);
            assert_int_equal(di_check_row_same(&a, &b), i == k);
            di_check_row_free(&a);
            di_check_row_free(&b);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_schema_is_kept_to_the_digit),
        cmocka_unit_test(options_and_verdicts),
        cmocka_unit_test(digits_that_are_none_are_no_text),
        cmocka_unit_test(lines_that_are_no_objects),
        cmocka_unit_test(equal_constraints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
