/* Strict parsing of completions, and the public functions: what they refuse. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "deepinfer/tools.h"
#include "dsml.h"

/* ---------------------------------------------------------------------------------- strict */

static void strict_refusals(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"chat", "", "completion, byte 0: found the end, wanted " EOS},
        {"chat", "a", "completion, byte 1: found the end, wanted " EOS},
        {"thinking", "a" EOS, "completion, byte 28: found the end, wanted </think>"},
        {"thinking", "a" ONE_CALL, "completion, byte 1: found tool calls before </think>"},
        {"chat", "a" EOS "x", "completion, byte 29: found the end, wanted " EOS},
        {"chat", "a" EOS EOS, "completion: found " EOS " in the content, at its byte 1"},
        {"chat", "a</think>b" EOS, "completion: found </think> in the content, at its byte 1"},
        {"thinking", "<think>a</think>" EOS,
         "completion: found <think> in the reasoning, at its byte 0"},
        {"chat", "a" CALLS "\n" CALLS_END EOS,
         "completion: found ｜DSML｜ in the content, at its byte 2"},
        {"chat", ONE_CALL "x" EOS, "completion, byte 160: found text after the tool calls"},
        {"chat",
         "\n\n" CALLS "\n" INVOKE("f") PARAMETER("q", "true", "x") "\n" PARAMETER("q", "true", "y"),
         "completion, byte 141: found a parameter twice"},
        {"chat", "\n\n" CALLS "\n " CALLS_END EOS,
         "completion, byte 20: wanted a newline and <｜DSML｜ invoke or </｜DSML｜ calls>"},
        {"chat", "\n\n" CALLS "\n" INVOKE("f") "\n" INVOKE_END,
         "completion, byte 71: found the end within the tool calls"},
        {"chat", "\n\n" CALLS "\n<｜DSML｜ invoke name=\"f\">" INVOKE_END "\n" CALLS_END EOS,
         "completion, byte 39: wanted name=\"...\"> and a newline in an invoke"},
        {"chat", "\n\n" CALLS "\n" INVOKE("a::b::c") "\n" INVOKE_END "\n" CALLS_END EOS,
         "completion: found a tool name with two \"::\", wanted at most one"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *message = NULL;
        assert_int_equal(
            di_chat_parse_text(cases[i][1], strlen(cases[i][1]), cases[i][0], &message),
            DI_ERR_INPUT);
        assert_string_equal(di_last_error(), cases[i][2]);
        assert_null(message);
    }
}

static void strict_messages(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        /* EOS may be missing behind complete calls, as in the reference */
        {ONE_CALL, "{\"role\": \"assistant\", \"content\": \"\", \"reasoning_content\": \"\", "
                   "\"tool_calls\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", "
                   "\"arguments\": \"{\\\"q\\\": \\\"x\\\"}\"}}]}"},
        {"\n\n" CALLS "\n" INVOKE("s::f") INVOKE_END "\n" CALLS_END,
         "{\"role\": \"assistant\", \"content\": \"\", \"reasoning_content\": \"\", "
         "\"tool_calls\": "
         "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}, "
         "\"namespace\": \"s\"}]}"},
        {"a\xff\xe4\n" EOS,
         "{\"role\": \"assistant\", \"content\": \"a\xef\xbf\xbd\xef\xbf\xbd\\n\", "
         "\"reasoning_content\": \"\", \"tool_calls\": []}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *message = NULL;
        assert_int_equal(di_chat_parse_text(cases[i][0], strlen(cases[i][0]), "chat", &message),
                         DI_OK);
        assert_string_equal(message, cases[i][1]);
        free(message);
    }
}

/* -------------------------------------------------------------------------------- public API */

static bool stop_at_once(void *user, di_delta_kind kind, const char *name, const char *text,
                         size_t len)
{
    (void)kind;
    (void)name;
    (void)text;
    (void)len;
    ++*(int *)user;
    return false;
}

static void callback_stops(void **state)
{
    (void)state;
    static const char *const texts[] = {"a", "<think>a", ONE_CALL};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int n_calls = 0;
        di_completion_stream *stream;
        assert_int_equal(di_completion_open("chat", stop_at_once, &n_calls, &stream), DI_OK);
        assert_int_equal(di_completion_push(stream, texts[i], strlen(texts[i])), DI_ERR_CANCELLED);
        assert_int_equal(di_completion_push(stream, "b", 1), DI_ERR_CANCELLED);
        assert_int_equal(di_completion_finish(stream), DI_ERR_CANCELLED);
        assert_int_equal(n_calls, 1);
        di_completion_close(stream);
    }
}

static void wrong_arguments(void **state)
{
    (void)state;
    di_completion_stream *stream = NULL;
    char *message = NULL;
    int n = 0; /* nothing is called */
    assert_int_equal(di_completion_open("deep", stop_at_once, &n, &stream), DI_ERR_ARGUMENT);
    assert_string_equal(di_last_error(), "thinking_mode: found \"deep\", wanted chat or thinking");
    assert_int_equal(di_completion_open(NULL, stop_at_once, &n, &stream), DI_ERR_ARGUMENT);
    assert_int_equal(di_completion_open("chat", NULL, NULL, &stream), DI_ERR_ARGUMENT);
    assert_null(stream);
    assert_int_equal(di_chat_parse_text(NULL, 1, "chat", &message), DI_ERR_ARGUMENT);
    assert_int_equal(di_chat_parse_text("a", 1, "x", &message), DI_ERR_ARGUMENT);
    assert_int_equal(di_completion_push(NULL, "a", 1), DI_ERR_ARGUMENT);
    di_completion_close(NULL);
    assert_int_equal(di_completion_open("chat", stop_at_once, &n, &stream), DI_OK);
    assert_int_equal(di_completion_push(stream, NULL, 0), DI_OK);
    assert_int_equal(di_completion_finish(stream), DI_OK);
    assert_int_equal(di_completion_push(stream, "a", 1), DI_ERR_ARGUMENT);
    di_completion_close(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_refusals),
        cmocka_unit_test(strict_messages),
        cmocka_unit_test(callback_stops),
        cmocka_unit_test(wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
