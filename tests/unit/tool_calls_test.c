/* Grammars of tool calls: texts that are calls of the tools, texts that are not, and what is
 * refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tool_calls.h"

/* ---- texts */

typedef struct case_row {
    const char *calls;
    bool accepted;
} case_row;

static void check_rows(const di_so_args *args, const case_row *rows, size_t n)
{
    di_checker *checker;
    OK(di_checker_create(args, NULL, &checker));
    for (size_t i = 0; i < n; i++)
        if (takes(checker, rows[i].calls) != rows[i].accepted)
            fail_msg("wanted %d: %s", rows[i].accepted, rows[i].calls);
    di_checker_destroy(checker);
}
#define CHECK(args, rows) check_rows((args), (rows), sizeof(rows) / sizeof *(rows))

#define WEATHER                                                                                    \
    TOOL("weather", OBJECT("\"city\": {\"type\": \"string\"}, "                                    \
                           "\"days\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 7}, "   \
                           "\"unit\": {\"enum\": [\"c\", \"f\", null]}, "                          \
                           "\"tags\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}",   \
                           ", \"required\": [\"city\"]"))

static void block_of_calls(void **state)
{
    (void)state;
    static const case_row rows[] = {
        {BLOCK(CALL("now", "")), true},
        {BLOCK(CALL("weather", T("city", "Oslo"))), true},
        {BLOCK(CALL("weather", T("city", ""))), true},
        {BLOCK(CALL("weather", T("city", "a</b < </ ｜DSML \n\t\"x\" <｜ 道")) CALL("now", "")),
         true},
        {BLOCK(CALL("weather", J("days", "3") "\n" T("city", "Oslo") "\n" T("unit", "c"))), true},
        {BLOCK(CALL("weather", T("city", "Oslo") "\n" J("unit", "null"))), true},
        {BLOCK(CALL("weather", T("city", "Oslo") "\n" J("tags", "[ \"\\uFF5cx\", \"\" ]"))), true},
        {BLOCK(CALL("weather", T("city", "Oslo") "\n" J("tags", "[\"｜\"]"))), false},
        {BLOCK(""), false},
        {"", false},
        {"Oslo", false},
        {"\n" CALLS CALL("now", "") "\n" CALLS_END, false},
        {BLOCK(CALL("now", "")) "\n", false},
        {BLOCK(CALL("now", "")) EOS, false},
        {BLOCK(CALL("then", "")), false},
        {BLOCK(CALL("now", T("a", "b"))), false},
        {BLOCK(CALL("weather", "")), false},
        {BLOCK(CALL("weather", J("days", "3"))), false},
        {BLOCK(CALL("weather", T("city", "Oslo") "\n" J("days", "8"))), false},
        {BLOCK(CALL("weather", T("city", "Oslo") "\n" T("days", "7"))), false},
        {BLOCK(CALL("weather", J("city", "\"Oslo\""))), false},
        {BLOCK(CALL("weather", J("city", "7"))), false},
        {BLOCK(CALL("weather", T("city", "Oslo") "\n" T("city", "Oslo"))), false},
        {BLOCK(CALL("weather", T("city", "Oslo") "\n" T("unit", "k"))), false},
        {BLOCK(CALL("weather", T("city", "Oslo") "\n" T("other", "k"))), false},
        {BLOCK(CALL("weather", T("city", "Oslo") " \n" T("unit", "c"))), false},
        {BLOCK(CALL("weather", T("city", "a ｜DSML｜ b"))), false},
    };
    const di_so_args args = args_of("[" WEATHER ", " NOW "]");
    CHECK(&args, rows);
}

static void choices(void **state)
{
    (void)state;
    static const case_row named[] = {
        {BLOCK(CALL("now", "")), true},
        {BLOCK(CALL("now", "") CALL("now", "")), true},
        {BLOCK(CALL("weather", T("city", "Oslo"))), false},
        {BLOCK(CALL("now", "") CALL("weather", T("city", "Oslo"))), false},
    };
    static const case_row one[] = {
        {BLOCK(CALL("now", "")), true},
        {BLOCK(CALL("weather", T("city", "Oslo"))), true},
        {BLOCK(CALL("now", "") CALL("now", "")), false},
    };
    static const case_row spaces[] = {
        {BLOCK(CALL("a::f", "")), false},
        {BLOCK(CALL("b::f", "")), true},
        {BLOCK(CALL("f", "")), false},
    };
    di_so_args args =
        args_of("{\"tools\": [" WEATHER ", " NOW "], \"messages\": [], \"tool_choice\": "
                "{\"type\": \"function\", \"function\": {\"name\": \"now\"}}}");
    CHECK(&args, named);
    args = args_of("{\"tools\": [" WEATHER ", " NOW "], \"tool_choice\": \"required\", "
                   "\"parallel_tool_calls\": false}");
    CHECK(&args, one);
    args = args_of(
        "{\"tools\": [{\"namespace\": \"a\", \"function\": {\"name\": \"f\"}}, {\"namespace\": "
        "{\"name\": \"b\"}, \"function\": {\"name\": \"f\"}}], \"tool_choice\": "
        "{\"type\": \"function\", \"function\": {\"name\": \"b::f\"}}}");
    CHECK(&args, spaces);
}

/* Strings as they are: patterns, formats, lengths and lists hold, and the mark never stands in
 * them. */
static void strings(void **state)
{
    (void)state;
    static const case_row rows[] = {
        {BLOCK(CALL("f", T("p", "ab｜"))), true},
        {BLOCK(CALL("f", T("p", "b"))), false},
        {BLOCK(CALL("f", T("p", "a\n｜DSML｜"))), false},
        {BLOCK(CALL("f", T("d", "2026-12-01"))), true},
        {BLOCK(CALL("f", T("d", "2026-13-01"))), false},
        {BLOCK(CALL("f", T("d", "\"2026-12-01\""))), false},
        {BLOCK(CALL("f", T("l", "道\n</"))), true},
        {BLOCK(CALL("f", T("l", "道"))), false},
        {BLOCK(CALL("f", T("l", "12345"))), false},
        {BLOCK(CALL("f", T("l", "<<<<"))), true},
        {BLOCK(CALL("f", T("e", "a\"\n\\</"))), true},
        {BLOCK(CALL("f", T("e", "x"))), true},
        {BLOCK(CALL("f", T("e", "<｜DSML｜>"))), false},
        {BLOCK(CALL("f", T("n", "a"))), false},
        {BLOCK(CALL("f", T("n", "aa"))), true},
        {BLOCK(CALL("f", T("n", "ab｜DSML|"))), true},
        {BLOCK(CALL("f", T("b", "xyx"))), true},
        {BLOCK(CALL("f", T("b", "xyxyx"))), false},
    };
    const di_so_args args = args_of("[" TOOL(
        "f",
        OBJECT("\"p\": {\"type\": \"string\", \"pattern\": \"^a\"}, \"d\": {\"type\": \"string\", "
               "\"format\": \"date\"}, \"l\": {\"type\": \"string\", \"minLength\": 2, "
               "\"maxLength\": 4}, \"e\": {\"enum\": [\"a\\\"\\n\\\\</\", \"x\", "
               "\"<｜DSML｜>\"]}, \"n\": {\"type\": \"string\", \"not\": {\"enum\": [\"a\"]}}, "
               "\"b\": {\"type\": \"string\", \"pattern\": \"^(x|y)+$\", \"maxLength\": 4}",
               "")) "]");
    CHECK(&args, rows);
}

/* Values of several types, references within the parameters, combinations, names that are free. */
static void schemas(void **state)
{
    (void)state;
    static const case_row values[] = {
        {BLOCK(CALL("f", T("any", "1") "\n" J("any2", "1"))), true},
        {BLOCK(CALL("f", J("any", "{\"a\": [\"b\", null]}"))), true},
        {BLOCK(CALL("f", J("any", "\"b\""))), false},
        {BLOCK(CALL("f", T("id", "x7"))), true},
        {BLOCK(CALL("f", J("id", "7"))), true},
        {BLOCK(CALL("f", T("id", "7"))), false},
        {BLOCK(CALL("f", J("tree", "{\"kids\": [{\"kids\": []}, {}]}"))), true},
        {BLOCK(CALL("f", J("tree", "{\"kids\": [1]}"))), false},
    };
    static const case_row either[] = {
        {BLOCK(CALL("f", T("a", "x"))), true},
        {BLOCK(CALL("f", J("b", "1"))), true},
        {BLOCK(CALL("f", J("b", "1") "\n" T("a", "x"))), false},
        {BLOCK(CALL("f", "")), false},
    };
    static const case_row free_names[] = {
        {BLOCK(CALL("f", "")), true},
        {BLOCK(CALL("f", J("x", "1"))), true},
        {BLOCK(CALL("f", J("x", "1") "\n" J("s_1", "true") "\n" T("a", "y"))), true},
        {BLOCK(CALL("f", J("x", "1") "\n" J("y", "2"))), false}, /* they might be the same */
        {BLOCK(CALL("f", T("x", "1"))), false},
        {BLOCK(CALL("f", J("a", "1"))), false},
        {BLOCK(CALL("f", J("x\"", "1"))), false},
    };
    static const case_row listed[] = {
        {BLOCK(CALL("f", T("a", "x") "\n" J("b", "[1]"))), true},
        {BLOCK(CALL("f", "")), true},
        {BLOCK(CALL("f", T("a", "x"))), false},
    };
    di_so_args args = args_of("[" TOOL(
        "f", OBJECT("\"any\": {}, \"any2\": true, \"id\": {\"anyOf\": [{\"type\": \"integer\"}, "
                    "{\"type\": \"string\", \"pattern\": \"^x\"}]}, \"tree\": {\"$ref\": "
                    "\"#/$defs/tree\"}",
                    ", \"$defs\": {\"tree\": {\"type\": \"object\", \"properties\": {\"kids\": "
                    "{\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/tree\"}}}}}")) "]");
    CHECK(&args, values);
    args =
        args_of("[" TOOL("f", "{\"oneOf\": [{\"required\": [\"a\"]}, {\"required\": [\"b\"]}], "
                              "\"properties\": {\"a\": {\"type\": \"string\"}, \"b\": {\"type\": "
                              "\"integer\"}}}") "]");
    CHECK(&args, either);
    args = args_of("[" TOOL(
        "f",
        OBJECT("\"a\": {\"type\": \"string\"}",
               ", \"patternProperties\": {\"^s_\": {\"type\": \"boolean\"}}, "
               "\"additionalProperties\": {\"type\": \"integer\"}, \"maxProperties\": 3")) "]");
    CHECK(&args, free_names);
    args = args_of("[" TOOL("f", "{\"enum\": [{\"a\": \"x\", \"b\": [1]}, {}, 7]}") "]");
    CHECK(&args, listed);
}

/* What a schema is silent about: parameters are those it names, whatever `strict` says; objects in
 * their values are open unless strict. */
static void silent_schemas(void **state)
{
    (void)state;
#define SILENT OBJECT("\"o\": " OBJECT("\"a\": {}", ""), ", \"required\": [\"r\"]")
    static const case_row open[] = {
        {BLOCK(CALL("f", T("r", "x") "\n" J("o", "{\"b\": 1}"))), true},
        {BLOCK(CALL("f", T("r", "x") "\n" J("p", "1"))), false},
    };
    static const case_row strict[] = {
        {BLOCK(CALL("f", J("o", "{\"a\": 1}"))), true},
        {BLOCK(CALL("f", J("o", "{\"b\": 1}"))), false},
        {BLOCK(CALL("f", J("p", "1"))), false},
    };
    static const case_row none[] = {
        {BLOCK(CALL("f", "")), true},
        {BLOCK(CALL("f", T("p", "1"))), false},
    };
    di_so_args args = args_of("[" TOOL("f", SILENT) "]");
    CHECK(&args, open);
    args = args_of("[{\"function\": {\"name\": \"f\", \"strict\": true, \"parameters\": " OBJECT(
        "\"o\": " OBJECT("\"a\": {}", ""), "") "}}]");
    CHECK(&args, strict);
    static const char *const empty[] = {"{}", "true", "{\"type\": \"object\"}", OBJECT("", ""),
                                        "null"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        DI_BUF_AUTO tools = {0};
        OK(di_buf_printf(&tools, "[" TOOL("f", "%s") "]", empty[i]));
        args = args_of(di_buf_str(&tools));
        CHECK(&args, none);
    }
}

/* ---- refusals */

static void refusals(void **state)
{
    (void)state;
#define NAMED(tools, name)                                                                         \
    "{\"tools\": [" tools                                                                          \
    "], \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"" name "\"}}}"
    static const struct {
        const char *tools;
        di_status status;
        const char *error;
    } rows[] = {
        {"[]", DI_ERR_INPUT, "tools: found an empty array, wanted an array with a tool to call"},
        {"{}", DI_ERR_INPUT, "tools: found nothing, wanted an array with a tool to call"},
        {"7", DI_ERR_INPUT, "tool calls: found 7, wanted an object with tools"},
        {"{", DI_ERR_INPUT, NULL},
        {"[1]", DI_ERR_INPUT, "tools[0].function: found nothing, wanted an object with a name"},
        {"[{\"type\": \"web\"}]", DI_ERR_INPUT, "tools[0].type: found \"web\", wanted function"},
        {"[" NOW ", " NOW "]", DI_ERR_INPUT,
         "tools[1].function.name: found \"now\" twice, wanted it once"},
        {"[{\"function\": {\"name\": \"a｜DSML｜\"}}]", DI_ERR_INPUT,
         "tools[0].function.name: found one that no call can be written with, wanted a name "
         "without NUL and without the mark of tags"},
        {"{\"tools\": [" NOW "], \"tool_choice\": \"auto\"}", DI_ERR_INPUT,
         "tool_choice: found \"auto\", wanted \"required\" or {\"type\": \"function\", "
         "\"function\": {\"name\": ...}}"},
        {NAMED(NOW, "then"), DI_ERR_INPUT,
         "tool_choice: found \"then\", wanted the name of one of the tools"},
        {NAMED("{\"namespace\": \"a\", \"function\": {\"name\": \"f\"}}, {\"function\": {\"name\": "
               "\"b::f\"}}, {\"namespace\": \"c\", \"function\": {\"name\": \"f\"}}",
               "f"),
         DI_ERR_INPUT,
         "tool_choice: found \"f\", which 2 tools have, wanted it behind its namespace and ::"},
        {"[" NOW ", " TOOL("f", "{\"type\": \"string\"}") "]", DI_ERR_INPUT,
         "tools[1].function.parameters: JSON schema: nothing satisfies it"},
        {"[" TOOL("f", OBJECT("\"a\": {\"type\": \"str\"}", "")) "]", DI_ERR_INPUT,
         "tools[0].function.parameters: JSON schema: #/properties/a/type: found a string, wanted "
         "the name of a type"},
        {"[" TOOL("f", OBJECT("\"a\": {\"type\": \"string\", \"pattern\": \"(?=a)\"}", "")) "]",
         DI_ERR_UNSUPPORTED,
         "tools[0].function.parameters: JSON schema: #/properties/a/pattern: pattern cannot be "
         "enforced: regular expression, position 0: lookahead (?= is not supported"},
        {"[" TOOL("f", OBJECT("\"a\\\" string=\\\"true\\\">\": {}", "")) "]", DI_ERR_UNSUPPORTED,
         "tools[0].function.parameters: JSON schema: #/properties/a\" string=\"true\">: a\" "
         "string=\"true\"> cannot be enforced: the name of a parameter would end the tag that it "
         "stands in"},
        {"[" TOOL("f", "{\"additionalProperties\": true, \"minProperties\": 2}") "]",
         DI_ERR_UNSUPPORTED,
         "tools[0].function.parameters: JSON schema: #: the schema cannot be enforced: a call has "
         "one parameter at most of each kind that it does not name"},
        {"[{\"function\": {\"name\": \"f\", \"strict\": 1}}]", DI_ERR_INPUT,
         "tools[0].function.strict: found 1, wanted true or false"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const di_so_args args = args_of(rows[i].tools);
        di_checker *checker;
        assert_int_equal(di_checker_create(&args, NULL, &checker), rows[i].status);
        if (rows[i].error != NULL)
            assert_string_equal(di_last_error(), rows[i].error);
    }
}

static void lenient(void **state)
{
    (void)state;
    di_so_args args = args_of("[" NOW ", " TOOL(
        "f", OBJECT("\"a\": {\"type\": \"string\", \"pattern\": \"(?=a)\"}, \"b\": {\"type\": "
                    "\"array\", \"uniqueItems\": true, \"minItems\": 2}",
                    ", \"required\": [\"a\"]")) "]");
    args.lenient = true;
    di_checker *checker;
    OK(di_checker_create(&args, NULL, &checker));
    assert_string_equal(di_checker_not_enforced(checker),
                        "tools[1].function.parameters: #/properties/a/pattern: pattern cannot be "
                        "enforced: regular expression, position 0: lookahead (?= is not "
                        "supported\n"
                        "tools[1].function.parameters: #/properties/b/uniqueItems: uniqueItems "
                        "cannot be enforced: the items are not a few known values\n");
    assert_true(takes(checker, BLOCK(CALL("f", T("a", "b") "\n" J("b", "[1, 1]")))));
    assert_false(takes(checker, BLOCK(CALL("f", J("b", "[1, 1]")))));
    di_checker_destroy(checker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_of_calls), cmocka_unit_test(choices),
        cmocka_unit_test(strings),        cmocka_unit_test(schemas),
        cmocka_unit_test(silent_schemas), cmocka_unit_test(refusals),
        cmocka_unit_test(lenient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
