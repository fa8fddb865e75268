/* base/json.h */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "base/json.h"

static di_status parse(const char *text, bool any_value, json_t **out)
{
    return di_json_parse(text, strlen(text), "a.json", any_value, out);
}

static void values_are_read(void **state)
{
    (void)state;
    json_t *o;
    assert_int_equal(parse("{\"a\": [1, 2.5, \"x\", null, true]}", false, &o), DI_OK);
    const json_t *a = json_object_get(o, "a");
    assert_int_equal(json_array_size(a), 5);
    assert_int_equal(json_integer_value(json_array_get(a, 0)), 1);
    json_decref(o);
    assert_int_equal(parse("3", true, &o), DI_OK);
    assert_int_equal(json_integer_value(o), 3);
    json_decref(o);
}

static void bad_texts_name_the_place(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "{",
                                        "{\"a\": 1,}",
                                        "{\"a\": 01}",
                                        "[1 2]",
                                        "nul",
                                        "{} x",
                                        "{\"a\": NaN}",
                                        "\"\\ud800\"",
                                        "[\"\x01\"]",
                                        "3",
                                        "{\"a\": 1, \"a\": 2}",
                                        "[\"\xff\"]"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        json_t *o = NULL;
        if (parse(texts[i], false, &o) != DI_ERR_INPUT)
            fail_msg("\"%s\" was accepted", texts[i]);
        assert_null(o);
        assert_non_null(strstr(di_last_error(), "a.json: line "));
        assert_non_null(strstr(di_last_error(), "column "));
        assert_null(strchr(di_last_error(), '\n'));
    }
    json_t *o;
    assert_int_equal(parse("{\n  \"a\": 1,\n  \"b\" 2\n}", false, &o), DI_ERR_INPUT);
    assert_non_null(strstr(di_last_error(), "a.json: line 3, column "));
}

/* Nesting cannot exhaust the stack. */
static void deep_nesting_is_refused(void **state)
{
    (void)state;
    enum { DEPTH = 200000 };
    char *text = malloc(DEPTH + 1);
    assert_non_null(text);
    memset(text, '[', DEPTH);
    text[DEPTH] = 0;
    json_t *o;
    assert_int_equal(parse(text, false, &o), DI_ERR_INPUT);
    free(text);
}

static void files(void **state)
{
    (void)state;
    json_t *o;
    const char *path = DI_TEST_DATA "/cases/bugs/V10/case.json";
    assert_int_equal(di_json_load(path, 1 << 20, &o), DI_OK);
    assert_int_equal(json_integer_value(json_object_get(o, "positions")), 20);
    json_decref(o);
    assert_int_equal(di_json_load(path, 10, &o), DI_ERR_INPUT);
    assert_int_equal(di_json_load(DI_TEST_DATA "/no-such.json", 1 << 20, &o), DI_ERR_IO);
    assert_non_null(strstr(di_last_error(), "no-such.json"));
}

static void types_have_names(void **state)
{
    (void)state;
    json_t *o;
    assert_int_equal(parse("[{}, [], \"\", 1, 1.5, true, false, null]", false, &o), DI_OK);
    static const char *const names[] = {"an object",           "an array", "a string", "an integer",
                                        "a fractional number", "true",     "false",    "null"};
    for (size_t i = 0; i < 8; i++)
        assert_string_equal(di_json_type_name(json_array_get(o, i)), names[i]);
    assert_string_equal(di_json_type_name(NULL), "nothing");
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_read),
                                       cmocka_unit_test(bad_texts_name_the_place),
                                       cmocka_unit_test(deep_nesting_is_refused),
                                       cmocka_unit_test(files), cmocka_unit_test(types_have_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
