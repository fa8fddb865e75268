/* Calls that are asked for, through the program: `batch` with tool_choice, `run` and `check`. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_fixtures.h"
#include "process.h"
#include "tool_calls.h"

#define NANO DI_TEST_DATA "/../models/nano" /* the tiny one has no room for tools */

#define TOOLS                                                                                      \
    "[" TOOL("pick", OBJECT("\"n\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 99}, "    \
                            "\"s\": {\"enum\": [\"a\", \"b\"]}",                                   \
                            ", \"required\": [\"n\", \"s\"]")) ", " NOW "]"

static const char *path_of(const char *name)
{
    static char path[2][256];
    static int which;
    which = !which;
    snprintf(path[which], sizeof path[which], "%s/%s", di_cli_tmp, name);
    return path[which];
}

static void run(const char *const *args, int wanted_code, di_process *process)
{
    di_process_start(&(di_process_options){.args = args}, process);
    di_process_wait(process);
    if (process->code != wanted_code)
        fail_msg("code %d, wanted %d; stderr: %s", process->code, wanted_code, process->err);
}

/* ---- batch */

static const json_t *at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL)
        fail_msg("no %s", key);
    return value;
}

/* {custom_id: response body} */
static json_t *answers(const char *name)
{
    size_t bytes;
    char *text = di_cli_read(name, &bytes);
    json_t *all = json_object();
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        json_object_set(all, json_string_value(at(object, "custom_id")),
                        json_object_get(json_object_get(object, "response"), "body"));
        json_decref(object);
    }
    free(text);
    return all;
}

/* Every call is of one of the tools, and its arguments are what the schema wants. */
static size_t check_calls(const json_t *body, const char *only)
{
    const json_t *choice = json_array_get(at(body, "choices"), 0), *message = at(choice, "message");
    const json_t *calls = at(message, "tool_calls"), *call;
    size_t i;
    assert_string_equal(json_string_value(at(choice, "finish_reason")), "tool_calls");
    assert_true(json_is_null(at(message, "content")));
    json_array_foreach(calls, i, call)
    {
        const json_t *function = at(call, "function");
        const char *name = json_string_value(at(function, "name"));
        json_t *arguments =
            json_loads(json_string_value(at(function, "arguments")), JSON_REJECT_DUPLICATES, NULL);
        assert_true(json_is_object(arguments));
        assert_true(only == NULL || strcmp(name, only) == 0);
        if (strcmp(name, "pick") == 0) {
            const char *s = json_string_value(at(arguments, "s"));
            assert_true(json_is_integer(at(arguments, "n")));
            assert_true(strcmp(s, "a") == 0 || strcmp(s, "b") == 0);
            assert_int_equal(json_object_size(arguments), 2);
        } else {
            assert_string_equal(name, "now");
            assert_int_equal(json_object_size(arguments), 0);
        }
        json_decref(arguments);
    }
    return json_array_size(calls);
}

static void write_requests(const char *name)
{
#define CHAT                                                                                       \
    "\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"max_tokens\": 900, "              \
    "\"tools\": " TOOLS
    static const struct {
        const char *id, *fields;
    } rows[] = {
        {"required", "\"tool_choice\": \"required\""},
        {"named", "\"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"pick\"}}, "
                  "\"parallel_tool_calls\": false"},
        {"unknown", "\"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"no\"}}"},
        {"both", "\"tool_choice\": \"required\", \"guided_regex\": \"a\""},
    };
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        fprintf(file,
                "{\"custom_id\": \"%s\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", "
                "\"body\": {" CHAT ", \"seed\": 5, %s}}\n",
                rows[i].id, rows[i].fields);
    fclose(file);
}

static void batch(void **state)
{
    (void)state;
    di_process process = {0};
    write_requests("calls.jsonl");
    const char *const args[] = {
        "batch", "-m", NANO, "-i", path_of("calls.jsonl"), "-o", path_of("calls.out"), NULL};
    run(args, 3, &process);
    di_process_free(&process);
    json_t *all = answers("calls.out");
    assert_in_range(check_calls(at(all, "required"), NULL), 1, 900);
    assert_int_equal(check_calls(at(all, "named"), "pick"), 1);
    const json_t *unknown = at(at(all, "unknown"), "error");
    assert_string_equal(json_string_value(at(unknown, "message")),
                        "tool_choice: found \"no\", wanted the name of one of the tools");
    assert_string_equal(json_string_value(at(unknown, "param")), "tool_choice");
    assert_string_equal(json_string_value(at(at(at(all, "both"), "error"), "message")),
                        "tool_choice: found it beside another field that asks for structured "
                        "output, wanted one of them");
    json_decref(all);
}

/* ---- run, check */

static void run_and_check(void **state)
{
    (void)state;
    di_process process = {0};
    const char *chat = "{" CHAT "}";
    di_cli_write("chat.json", chat, strlen(chat));
    di_cli_write("tools.json", TOOLS, strlen(TOOLS));
    const char *const own[] = {
        "run",           "-m",   DI_CLI_TINY,  "--messages", path_of("chat.json"),
        "--tool-choice", "pick", "--one-call", "--seed",     "2",
        "--max-tokens",  "900",  NULL};
    run(own, 0, &process);
    assert_int_equal(strncmp(process.out, "[tool call] pick {\"", 19), 0);
    assert_ptr_equal(strchr(process.out, '\n'), process.out + process.out_bytes - 1);
    di_process_free(&process);
    const char *const none[] = {"run", "-m", DI_CLI_TINY, "-p", "x", "--tool-choice", "pick", NULL};
    run(none, 3, &process);
    assert_non_null(strstr(process.err, "--tool-choice: the prompt is no chat that has \"tools\""));
    di_process_free(&process);
    const char *const two[] = {"run", "-p", "x", "--regex", "a", "--one-call", NULL};
    run(two, 2, &process);
    assert_non_null(strstr(process.err, "both --regex and --one-call: wanted one of them"));
    di_process_free(&process);
    const char *const check[] = {"check",
                                 "--tool-calls",
                                 path_of("tools.json"),
                                 "--tool-choice",
                                 "now",
                                 "-m",
                                 DI_CLI_TINY,
                                 BLOCK(CALL("now", "")),
                                 BLOCK(CALL("pick", J("n", "1") "\n" T("s", "a"))),
                                 NULL};
    run(check, 0, &process);
    assert_string_equal(process.out, "accepted\nrejected\n");
    di_process_free(&process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(batch), cmocka_unit_test(run_and_check)};
    return cmocka_run_group_tests(tests, di_cli_setup, di_cli_teardown);
}
