/* text/encoding_json.h: JSON in prompts is spelled as the reference's json module spells it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "text/encoding.h"
#include "text/encoding_json.h"

static void render(const char *request, di_chat_prompt *out)
{
    *out = (di_chat_prompt){0};
    if (di_chat_render_text(request, strlen(request), out) != DI_OK)
        fail_msg("%s: %s", request, di_last_error());
    assert_int_equal(strlen(out->text.data), out->text.len);
}

/* Parameters of one call with these arguments, as they stand in the prompt. */
static void assert_arguments(const char *arguments, const char *wanted)
{
    DI_BUF_AUTO request = {0};
    assert_int_equal(di_buf_printf(&request,
                                   "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": "
                                   "{\"name\": \"f\", \"arguments\": %s}}]}]",
                                   arguments),
                     DI_OK);
    di_chat_prompt prompt;
    render(di_buf_str(&request), &prompt);
    static const char head[] = "<｜DSML｜ invoke name=\"f\">\n", tail[] = "\n</｜DSML｜ invoke>\n";
    const char *begin = strstr(prompt.text.data, head), *end = strstr(prompt.text.data, tail);
    assert_non_null(begin);
    assert_non_null(end);
    begin += strlen(head);
    char *found = strndup(begin, (size_t)(end - begin));
    assert_string_equal(found, wanted);
    free(found);
    di_chat_prompt_free(&prompt);
}

#define PARAMETER(key, is_string, value)                                                           \
    "<｜DSML｜ parameter name=\"" key "\" string=\"" is_string "\">" value "</｜DSML｜ parameter>"

static void argument_spellings(void **state)
{
    (void)state;
    assert_arguments("\"{}\"", "");
    assert_arguments(
        "{\"a\": 1.50, \"b\": [1e5, true]}",
        PARAMETER("a", "false", "1.5") "\n" PARAMETER("b", "false", "[100000.0, true]"));
    /* integers of any size; the last of equal keys in the place of the first, as in Python */
    assert_arguments("\"{\\\"n\\\": 1, \\\"m\\\": 0, \\\"n\\\": 123456789012345678901234567890}\"",
                     PARAMETER("n", "false",
                               "123456789012345678901234567890") "\n" PARAMETER("m", "false", "0"));
    /* encoded twice */
    assert_arguments("\"\\\"{\\\\\\\"a\\\\\\\": \\\\\\\"x\\\\\\\"}\\\"\"",
                     PARAMETER("a", "true", "x"));
    /* no object: kept whole under the name "arguments" */
    assert_arguments("\"not json\"", PARAMETER("arguments", "true", "not json"));
    assert_arguments("\"[1]\"", PARAMETER("arguments", "true", "[1]"));
    assert_arguments("[1,2]", PARAMETER("arguments", "false", "[1, 2]"));
    assert_arguments("{\"arguments\": \"--x\"}", PARAMETER("arguments", "true", "--x"));
}

static void schema_spelling(void **state)
{
    (void)state;
    di_chat_prompt prompt;
    render(
        "{\"messages\": [{\"role\": \"system\"}], \"tools\": [{\"function\": "
        "{\"parameters\":{\"max\":"
        "18446744073709551615,\"z\":-0,\"r\":[0.1,1E-5,1e16,123456789012345680.0,5e-324,-0.0,1e15],"
        "\"s\":\"\\u00e9\\ud83d\\ude42\\u007f\\/\\u2028\\b\\u001f\"},\"name\":\"f\"}}]}",
        &prompt);
    assert_non_null(strstr(prompt.text.data,
                           "Schemas\n\n{\"parameters\": {\"max\": 18446744073709551615, \"z\": 0, "
                           "\"r\": [0.1, 1e-05, 1e+16, "
                           "1.2345678901234568e+17, 5e-324, -0.0, 1000000000000000.0], \"s\": "
                           "\"é🙂\x7f/\u2028\\b\\u001f\"}, \"name\": \"f\"}\n\nYou MUST"));
    di_chat_prompt_free(&prompt);
}

/* What Python reads beyond JSON, in arguments that are text. */
static void python_spellings(void **state)
{
    (void)state;
    assert_arguments("\"{\\\"a\\\": [NaN, -Infinity, 1e400, 1E5, -0.0, -0]}\"",
                     PARAMETER("a", "false", "[NaN, -Infinity, Infinity, 100000.0, -0.0, 0]"));
    assert_arguments("\"{\\\"a\\\": \\\"\\\\ud83d\\\\uD83D\\\\uDE42\\\"}\"",
                     PARAMETER("a", "true", "\xef\xbf\xbd🙂"));
    /* a raw newline in a string is no JSON: all of it becomes text */
    assert_arguments("\"{\\\"a\\\": \\\"\\n\\\"}\"",
                     PARAMETER("arguments", "true", "{\"a\": \"\n\"}"));
    assert_arguments("\"{} x\"", PARAMETER("arguments", "true", "{} x"));
    assert_arguments("\"{\\\"a\\\": \\\"\\\\u00g0\\\"}\"",
                     PARAMETER("arguments", "true", "{\"a\": \"\\u00g0\"}"));
    assert_arguments(
        "{\"a\": 0.1000000000000000055511151231257827021181583404541015625000000000001}",
        PARAMETER("a", "false", "0.1"));
}

static void longest_integer(void **state)
{
    (void)state;
    for (size_t n = DI_JSON_MAX_INT_DIGITS; n <= DI_JSON_MAX_INT_DIGITS + 1; n++) {
        DI_BUF_AUTO out = {0};
        di_arena arena = {0};
        char *digits = malloc(n);
        const di_jval *v;
        assert_non_null(digits);
        memset(digits, '7', n);
        const bool fits = n == DI_JSON_MAX_INT_DIGITS;
        assert_int_equal(di_jval_parse(&arena, digits, n, DI_JSTRICT, &v),
                         fits ? DI_OK : DI_ERR_INPUT);
        assert_int_equal(di_jval_parse(&arena, digits, n, DI_JPYTHON, &v),
                         fits ? DI_OK : DI_ERR_INPUT);
        assert_int_equal(di_jval_parse(&arena, digits, n, DI_JSYNTAX, &v), DI_OK);
        assert_int_equal(di_jval_write(v, &out), DI_OK);
        assert_int_equal(out.len, n);
        assert_memory_equal(out.data, digits, n);
        free(digits);
        di_arena_free(&arena);
    }
}

static void numbers_in_another_locale(void **state)
{
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
        skip();
    assert_arguments("{\"a\": -12.5e-3}", PARAMETER("a", "false", "-0.0125"));
    setlocale(LC_NUMERIC, "C");
}

static void many_keys_and_duplicates(void **state)
{
    (void)state;
    DI_BUF_AUTO text = {0}, out = {0};
    di_arena arena = {0};
    const di_jval *v;
    assert_int_equal(di_buf_puts(&text, "{"), DI_OK);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(di_buf_printf(&text, "\"k%d\":%d,", i % 600, i), DI_OK);
    assert_int_equal(di_buf_puts(&text, "\"last\":0}"), DI_OK);
    assert_int_equal(di_jval_parse(&arena, text.data, text.len, DI_JSTRICT, &v), DI_ERR_INPUT);
    assert_non_null(strstr(di_last_error(), "duplicate key"));
    assert_int_equal(di_jval_parse(&arena, text.data, text.len, DI_JPYTHON, &v), DI_OK);
    size_t n = 0;
    for (const di_jval *m = v->first; m; m = m->next)
        n++;
    assert_int_equal(n, 601);
    assert_int_equal(di_jval_write(di_jval_get(v, "k399"), &out), DI_OK);
    assert_int_equal(di_jval_write(di_jval_get(v, "k400"), &out), DI_OK);
    assert_string_equal(di_buf_str(&out), "999400");
    di_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(argument_spellings),        cmocka_unit_test(schema_spelling),
        cmocka_unit_test(python_spellings),          cmocka_unit_test(longest_integer),
        cmocka_unit_test(numbers_in_another_locale), cmocka_unit_test(many_keys_and_duplicates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
