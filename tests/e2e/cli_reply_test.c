/* How the program shows and collects a chat completion, tool calls included. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reply.h"

#define BAR "\xef\xbd\x9c"
static const char completion[] =
    "which city</think>Let me look.\n\n<" BAR "DSML" BAR " calls>\n<" BAR "DSML" BAR
    " invoke name=\"weather\">\n<" BAR "DSML" BAR
    " parameter name=\"city\" string=\"true\">Paris</" BAR "DSML" BAR " parameter>\n</" BAR
    "DSML" BAR " invoke>\n</" BAR "DSML" BAR " calls>";

/* Pushes the completion in pieces of `step` bytes; *message is new. */
static void push(bool is_shown, size_t step, json_t **message)
{
    di_reply *reply = NULL;
    assert_int_equal(di_reply_open(true, is_shown, &reply), DI_EXIT_OK);
    for (size_t i = 0; i < sizeof completion - 1; i += step) {
        const size_t left = sizeof completion - 1 - i;
        assert_int_equal(di_reply_push(reply, completion + i, left < step ? left : step),
                         DI_EXIT_OK);
    }
    assert_int_equal(di_reply_finish(reply, message), DI_EXIT_OK);
    di_reply_close(reply);
}

static void a_message_with_all_parts(void **state)
{
    (void)state;
    json_t *wanted =
        json_pack("{s:s,s:s,s:s,s:[{s:s,s:{s:s,s:s}}]}", "role", "assistant", "content",
                  "Let me look.", "reasoning_content", "which city", "tool_calls", "type",
                  "function", "function", "name", "weather", "arguments", "{\"city\": \"Paris\"}");
    assert_non_null(wanted);
    for (size_t step = 1; step < sizeof completion; step += 13) {
        json_t *message = NULL;
        push(false, step, &message);
        if (json_equal(message, wanted) == 0) {
            json_dumpf(message, stderr, 0);
            fail_msg("pieces of %zu bytes", step);
        }
        json_decref(message);
    }
    json_decref(wanted);
}

static void what_is_shown_of_it(void **state)
{
    (void)state;
    fflush(stdout);
    FILE *shown = tmpfile();
    assert_non_null(shown);
    const int kept = dup(STDOUT_FILENO);
    assert_true(dup2(fileno(shown), STDOUT_FILENO) >= 0);
    json_t *message = NULL;
    push(true, 7, &message);
    fflush(stdout);
    assert_true(dup2(kept, STDOUT_FILENO) >= 0);
    close(kept);
    json_decref(message);
    char text[512] = "";
    rewind(shown);
    const size_t n = fread(text, 1, sizeof text - 1, shown);
    text[n] = '\0';
    fclose(shown);
    assert_string_equal(text, "<think>\nwhich city\n</think>\nLet me look.\n"
                              "[tool call] weather {\"city\": \"Paris\"}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_with_all_parts),
        cmocka_unit_test(what_is_shown_of_it),
    };
    return cmocka_run_group_tests_name("cli_reply", tests, NULL, NULL);
}
