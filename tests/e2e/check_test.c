/* `deepinfer check` as a user runs it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cli_fixtures.h"
#include "process.h"

#define TOKENIZER DI_TEST_DATA "/golden/tokenizer.json"

static const char lines[] =
    "{\"id\": 1, \"regex\": \"a+\", \"text\": \"aa\"}\n"
    "{\"id\": 2, \"regex\": \"a+\", \"text\": \"ab\"}\n"
    "\n"
    "{\"id\": \"x\", \"schema\": {\"type\": \"integer\", \"minimum\": 1e1}, \"text\": \"10\"}\n"
    "{\"id\": \"y\", \"schema\": {\"type\": \"integer\", \"minimum\": 1e1}, \"text\": \"9\"}\n"
    "{\"ebnf\": \"one ::= \\\"a\\\" | \\\"\\\"\", \"root\": \"one\", \"hex\": \"61\"}\n"
    "{\"id\": 3, \"regex\": \"(\", \"text\": \"(\"}\n"
    "{\"id\": 4, \"regex\": \"(\"}\n";

static const char answers[] = "{\"id\": 1, \"accepted\": true}\n"
                              "{\"id\": 2, \"accepted\": false}\n"
                              "{\"id\": \"x\", \"accepted\": true}\n"
                              "{\"id\": \"y\", \"accepted\": false}\n"
                              "{\"accepted\": true}\n"
                              "{\"id\": 3, \"error\": \"regular expression, position 1: found the "
                              "end of the pattern, wanted ) for the ( before\"}\n"
                              "{\"id\": 4, \"error\": \"regular expression, position 1: found the "
                              "end of the pattern, wanted ) for the ( before\"}\n";

static void run(di_process *process, const char *in, const char *const *args)
{
    di_process_run(&(di_process_options){.args = args, .in = in}, process);
}

#define RUN(process, in, ...) run(process, in, (const char *const[]){__VA_ARGS__, NULL})

static void jsonl_by_bytes_and_by_tokens(void **state)
{
    (void)state;
    di_process process;
    RUN(&process, lines, "check", "--jsonl");
    assert_int_equal(process.code, 0);
    assert_string_equal(process.out, answers);
    assert_string_equal(process.err, "");
    di_process_free(&process);
    RUN(&process, lines, "check", "--jsonl", "--tokenizer", TOKENIZER);
    assert_int_equal(process.code, 0);
    assert_string_equal(process.out, answers);
    di_process_free(&process);
}

static void lines_that_cannot_be_answered(void **state)
{
    (void)state;
    di_process process;
    RUN(&process,
        "{\"text\": \"a\"}\n{\"regex\": \"a\"}\n{\"regex\": \"a\", \"hex\": \"6\"}\n[]\n{", "check",
        "--jsonl");
    assert_int_equal(process.code, 3);
    assert_non_null(strstr(
        process.err, "line 1: wanted one of \"schema\", \"regex\", \"ebnf\" and \"tool_calls\""));
    assert_non_null(strstr(process.err, "line 2: wanted \"text\", or \"hex\" of pairs"));
    assert_non_null(strstr(process.err, "line 3: wanted \"text\", or \"hex\" of pairs"));
    assert_non_null(strstr(process.err, "line 4: found an array, wanted an object"));
    assert_non_null(strstr(process.err, "line 5: column "));
    di_process_free(&process);
}

static void cases_with_verdicts(void **state)
{
    (void)state;
    char *path = di_cli_expand("{TMP}/cases.jsonl");
    static const char right[] = "{\"text\": \"aa\", \"accept\": true}\n{\"hex\": \"62\", "
                                "\"accept\": 0}\n{\"text\": \"a\"}\n";
    static const char wrong[] = "{\"text\": \"aa\", \"accept\": false}\n{\"text\": \"b\", "
                                "\"accept\": 1}\n";
    di_process process;
    di_cli_write("cases.jsonl", right, sizeof right - 1);
    RUN(&process, NULL, "check", "--regex", "a+", "--cases", path);
    assert_int_equal(process.code, 0);
    assert_string_equal(process.out,
                        "{\"accepted\": true}\n{\"accepted\": false}\n{\"accepted\": true}\n");
    di_process_free(&process);
    di_cli_write("cases.jsonl", wrong, sizeof wrong - 1);
    RUN(&process, NULL, "check", "--regex", "a+", "--cases", path);
    assert_int_equal(process.code, 3);
    assert_non_null(strstr(process.err, "2 verdicts are not the wanted ones"));
    di_process_free(&process);
    free(path);
}

/* What was timed and how often. */
static void times(void **state)
{
    (void)state;
    di_process process;
    RUN(&process, lines, "check", "--jsonl", "--tokenizer", TOKENIZER, "--time");
    assert_int_equal(process.code, 0);
    assert_non_null(strstr(process.err, "vocabulary        1 times, us: p50 "));
    assert_non_null(strstr(process.err, "\ncompile           3 times, us: p50 "));
    assert_non_null(strstr(process.err, "\nmask "));
    assert_non_null(strstr(process.err, "\ntoken "));
    di_process_free(&process);
}

static void words_and_refusals(void **state)
{
    (void)state;
    di_process process;
    RUN(&process, NULL, "check", "--json-schema", "{\"enum\": [1, \"a\"]}", "1", "\"a\"", "2");
    assert_int_equal(process.code, 0);
    assert_string_equal(process.out, "accepted\naccepted\nrejected\n");
    di_process_free(&process);
    RUN(&process, NULL, "check", "--json-schema", "{\"format\": \"iri\"}");
    assert_int_equal(process.code, 3);
    assert_non_null(strstr(process.err, "JSON schema: #/format: "));
    di_process_free(&process);
    RUN(&process, NULL, "check", "--regex", "a[]");
    assert_int_equal(process.code, 3);
    assert_non_null(strstr(process.err, "regular expression: no text at all matches"));
    di_process_free(&process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jsonl_by_bytes_and_by_tokens),
        cmocka_unit_test(lines_that_cannot_be_answered),
        cmocka_unit_test(cases_with_verdicts),
        cmocka_unit_test(times),
        cmocka_unit_test(words_and_refusals),
    };
    return cmocka_run_group_tests(tests, di_cli_setup, di_cli_teardown);
}
