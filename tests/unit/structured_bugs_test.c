/* Faults of structured output that users of other engines reported (tests/cases/bugs/S*). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deepinfer/tools.h"
#include "tokenizers.h"
#include "xz.h"

static void read_file(const char *name, di_buf *out)
{
    char path[128];
    snprintf(path, sizeof path, "cases/bugs/%s", name);
    if (di_test_read(path, out) != DI_OK)
        fail_msg("%s", di_last_error());
}

static di_status compile(di_schema_type type, const char *text, size_t len, di_checker **out)
{
    di_so_args args = DI_SO_ARGS_INIT;
    args.schema_type = type;
    args.schema = text;
    args.schema_bytes = len;
    return di_checker_create(&args, NULL, out);
}

static di_checker *compile_file(di_schema_type type, const char *name)
{
    DI_BUF_AUTO text = {0};
    di_checker *checker;
    read_file(name, &text);
    while (type == DI_SCHEMA_REGEX && text.len > 0 && text.data[text.len - 1] == '\n')
        text.len--;
    if (compile(type, di_buf_str(&text), text.len, &checker) != DI_OK)
        fail_msg("%s: %s", name, di_last_error());
    return checker;
}

/* The text of a case, given as it is or in hex. */
static size_t case_text(const json_t *row, char *out, size_t most)
{
    const char *hex = json_string_value(json_object_get(row, "hex"));
    if (hex == NULL) {
        const json_t *text = json_object_get(row, "text");
        assert_true(json_string_length(text) <= most);
        memcpy(out, json_string_value(text), json_string_length(text));
        return json_string_length(text);
    }
    for (size_t i = 0; hex[2 * i] != '\0'; i++) {
        const char pair[] = {hex[2 * i], hex[2 * i + 1], '\0'};
        out[i] = (char)strtol(pair, NULL, 16);
    }
    return strlen(hex) / 2;
}

static void check_file(di_schema_type type, const char *grammar, const char *cases)
{
    DI_BUF_AUTO text = {0};
    di_checker *checker = compile_file(type, grammar);
    size_t at = 0, len, n = 0;
    const char *line;
    read_file(cases, &text);
    while (di_test_next_line(&text, &at, &line, &len)) {
        char bytes[1024];
        bool accepted;
        json_t *row = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
        assert_non_null(row);
        const size_t n_bytes = case_text(row, bytes, sizeof bytes);
        assert_int_equal(di_checker_match(checker, bytes, n_bytes, &accepted), DI_OK);
        if (accepted != (json_integer_value(json_object_get(row, "accept")) != 0))
            fail_msg("%s: %.*s: accepted %d", grammar, (int)len, line, accepted);
        json_decref(row);
        n++;
    }
    assert_true(n > 0);
    di_checker_destroy(checker);
}

static void given_verdicts(void **state)
{
    (void)state;
    static const struct {
        di_schema_type type;
        const char *grammar, *cases;
    } rows[] = {
        {DI_SCHEMA_JSON, "S01/schema.json", "S01/cases.jsonl"},
        {DI_SCHEMA_JSON, "S02/schema.json", "S02/cases.jsonl"},
        {DI_SCHEMA_JSON, "S04/schema.json", "S04/cases.jsonl"},
        {DI_SCHEMA_JSON, "S05/schema.json", "S05/cases.jsonl"},
        {DI_SCHEMA_JSON, "S07/schema.json", "S07/cases.jsonl"},
        {DI_SCHEMA_JSON, "S08/schema-int.json", "S08/cases-int.jsonl"},
        {DI_SCHEMA_JSON, "S08/schema-num.json", "S08/cases-num.jsonl"},
        {DI_SCHEMA_JSON, "S10/schema.json", "S10/cases.jsonl"},
        {DI_SCHEMA_JSON, "S10/schema-ascii.json", "S10/cases.jsonl"},
        {DI_SCHEMA_REGEX, "S11/pattern-cjk.txt", "S11/cases-cjk.jsonl"},
        {DI_SCHEMA_REGEX, "S11/pattern-neg.txt", "S11/cases-neg.jsonl"},
        {DI_SCHEMA_EBNF, "S14/left.ebnf", "S14/cases-left.jsonl"},
        {DI_SCHEMA_EBNF, "S14/min-rep.ebnf", "S14/cases-min-rep.jsonl"},
        {DI_SCHEMA_EBNF, "S14/empty-alt-star.ebnf", "S14/cases-empty-alt-star.jsonl"},
        {DI_SCHEMA_JSON, "S16/schema.json", "S16/cases.jsonl"},
        {DI_SCHEMA_JSON, "S19/schema.json", "S19/cases.jsonl"},
        {DI_SCHEMA_JSON, "S19/datetime.json", "S19/cases-datetime.jsonl"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_file(rows[i].type, rows[i].grammar, rows[i].cases);
}

/* S08: five schemas that nothing satisfies, with one kind of error. */
static void unsatisfiable(void **state)
{
    (void)state;
    json_t *list = di_test_json("cases/bugs/S08/unsatisfiable.json");
    assert_int_equal(json_array_size(list), 5);
    for (size_t i = 0; i < json_array_size(list); i++) {
        char *text = json_dumps(json_array_get(list, i), 0);
        di_checker *checker;
        assert_int_equal(compile(DI_SCHEMA_JSON, text, strlen(text), &checker), DI_ERR_INPUT);
        assert_non_null(strstr(di_last_error(), "nothing satisfies it"));
        free(text);
    }
    json_decref(list);
}

/* S14: recursion of every kind compiles and ends; depth has a limit that is told. */
static void recursion(void **state)
{
    (void)state;
    static const char *const good[] = {"S14/left-indirect.ebnf", "S14/hidden-left.ebnf",
                                       "S14/nullable-star.ebnf", "S14/unit-cycle.ebnf"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        di_checker_destroy(compile_file(DI_SCHEMA_EBNF, good[i]));
    DI_BUF_AUTO text = {0};
    di_checker *checker;
    read_file("S14/undefined-rule.ebnf", &text);
    assert_int_equal(compile(DI_SCHEMA_EBNF, di_buf_str(&text), text.len, &checker), DI_ERR_INPUT);
    assert_non_null(strstr(di_last_error(), "line 1, column"));
    di_buf_clear(&text);
    for (int i = 0; i < 60000; i++)
        assert_int_equal(di_buf_puts(&text, i == 0 ? "root ::= (" : "("), DI_OK);
    assert_int_not_equal(compile(DI_SCHEMA_EBNF, di_buf_str(&text), text.len, &checker), DI_OK);
    assert_non_null(strstr(di_last_error(), "200"));
    assert_int_not_equal(compile(DI_SCHEMA_REGEX, di_buf_str(&text) + 9, text.len - 9, &checker),
                         DI_OK);
}

static void long_chain(void **state)
{
    (void)state;
    DI_BUF_AUTO text = {0};
    di_checker *checker;
    bool accepted;
    assert_int_equal(di_buf_puts(&text, "root ::= r0\n"), DI_OK);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(di_buf_printf(&text, "r%d ::= r%d\n", i, i + 1), DI_OK);
    assert_int_equal(di_buf_puts(&text, "r5000 ::= \"x\"\n"), DI_OK);
    assert_int_equal(compile(DI_SCHEMA_EBNF, di_buf_str(&text), text.len, &checker), DI_OK);
    assert_int_equal(di_checker_match(checker, "x", 1, &accepted), DI_OK);
    assert_true(accepted);
    di_checker_destroy(checker);
}

/* S16: 300 nullable properties. */
static void wide_object(void **state)
{
    (void)state;
    di_checker *checker = compile_file(DI_SCHEMA_JSON, "S16/wide.json");
    bool accepted;
    assert_int_equal(di_checker_match(checker, "[]", 2, &accepted), DI_OK);
    assert_false(accepted);
    di_checker_destroy(checker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_verdicts), cmocka_unit_test(unsatisfiable),
        cmocka_unit_test(recursion),      cmocka_unit_test(long_chain),
        cmocka_unit_test(wide_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
