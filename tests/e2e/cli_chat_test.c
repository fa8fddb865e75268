/* `deepinfer chat` from a pipe: messages, commands, files. */
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

static void a_chat_from_a_pipe(void **state)
{
    (void)state;
    char *save = di_cli_expand("/system be brief\nhello\n/save {TMP}/chat.json\n/undo\n/undo\n"
                               "/set temprature 1\n/set temperature 0\nline one\\\nline two\n"
                               "/save {TMP}/chat2.json\n/exit\nnever said\n");
    di_process process;
    di_process_run(&(di_process_options){.args = (const char *const[]){"chat", "-m", DI_CLI_TINY,
                                                                       "--logit-bias", "67=1000",
                                                                       "--max-tokens", "3", NULL},
                                         .in = save},
                   &process);
    free(save);
    assert_int_equal(process.code, 2); /* the first failure: /undo of nothing */
    assert_string_equal(process.out, "aaa\naaa\n");
    assert_non_null(strstr(process.err, "/undo: there is no message\n"));
    assert_non_null(strstr(process.err, "did you mean 'temperature'?\n"));
    di_process_free(&process);

    size_t n = 0;
    char *saved = di_cli_read("chat2.json", &n);
    assert_non_null(saved);
    json_t *request = json_loads(saved, 0, NULL);
    json_t *wanted =
        json_pack("{s:[{s:s,s:s},{s:s,s:s},{s:s,s:s}],s:s}", "messages", "role", "system",
                  "content", "be brief", "role", "user", "content", "line one\nline two", "role",
                  "assistant", "content", "aaa", "thinking_mode", "chat");
    assert_true(json_equal(request, wanted));
    json_decref(request);
    json_decref(wanted);
    free(saved);

    char *load = di_cli_expand("{TMP}/chat2.json");
    di_process_run(
        &(di_process_options){.args = (const char *const[]){"chat", "-m", DI_CLI_TINY, "--load",
                                                            load, "--logit-bias", "68=1000",
                                                            "--max-tokens", "2", NULL},
                              .in = "/regen\n/stats\n"},
        &process);
    assert_int_equal(process.code, 0);
    assert_string_equal(process.out, "bb\n");
    assert_non_null(strstr(process.err, "answers: 1, tokens written: 2"));
    di_process_free(&process);
    free(load);
}

static void chat_commands(void **state)
{
    (void)state;
    static const char bad[] = "{\"messages\": [{\"role\": \"nobody\"}]}";
    di_cli_write("bad-chat.json", bad, strlen(bad));
    static const struct {
        const char *line;
        const char *err; /* a part of it; NULL: silence */
    } rows[] = {
        {"/help", "/regen                 answer the last message anew"},
        {"/stast", "unknown command /stast, did you mean /stats?"},
        {"/thinking maybe", "/thinking: 'maybe' is not on or off"},
        {"/thinking on", NULL},
        {"/effort 101", "/effort: '101' is not 1 to 100, low, high or max"},
        {"/effort 7", NULL},
        {"/regen", "/regen: there is nothing to answer"},
        {"/set temperature", "/set wants a name and a value"},
        {"/set ignore_eos maybe", "--ignore-eos: 'maybe' is not on or off"},
        {"/set ignore_eos on", NULL},
        {"/save", "/save wants a file name"},
        {"/load", "/load wants a file name"},
        {"/load {TMP}/none", "/none: cannot open"},
        {"/load {TMP}/bad-chat.json", "bad-chat.json: "},
        {"/system \xff", "the message is not UTF-8"},
        {"\xff", "the message is not UTF-8"},
        {"/clear", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *line_text = di_cli_expand(rows[i].line);
        di_process process;
        di_process_run(
            &(di_process_options){.args = (const char *const[]){"chat", "-m", DI_CLI_TINY, NULL},
                                  .in = line_text},
            &process);
        assert_string_equal(process.out, "");
        if (rows[i].err == NULL)
            assert_string_equal(process.err, "");
        else if (strstr(process.err, rows[i].err) == NULL)
            fail_msg("%s: %s", rows[i].line, process.err);
        assert_int_equal(process.code == 0, rows[i].err == NULL || i == 0);
        di_process_free(&process);
        free(line_text);
    }
}

/* The mode, the effort and the system message of the options and of a loaded file. */
static void a_chat_keeps_its_mode(void **state)
{
    (void)state;
    char *in = di_cli_expand("/save {TMP}/mode1.json\n/load {TMP}/mode1.json\n/thinking off\n"
                             "hello\n/clear\n/system\n/load {TMP}/mode1.json\n"
                             "/save {TMP}/mode2.json\n");
    di_process process;
    di_process_run(
        &(di_process_options){.args =
                                  (const char *const[]){"chat", "-m", DI_CLI_TINY, "--effort",
                                                        "low", "--system", "short", "--logit-bias",
                                                        "67=1000", "--max-tokens", "1", NULL},
                              .in = in},
        &process);
    assert_int_equal(process.code, 0);
    assert_string_equal(process.out, "a\n");
    di_process_free(&process);
    free(in);
    static const char *const files[] = {"mode1.json", "mode2.json"};
    json_t *wanted = json_pack("{s:[{s:s,s:s}],s:s,s:s}", "messages", "role", "system", "content",
                               "short", "thinking_mode", "thinking", "reasoning_effort", "low");
    for (size_t i = 0; i < 2; i++) {
        size_t n = 0;
        char *saved = di_cli_read(files[i], &n);
        assert_non_null(saved);
        json_t *request = json_loads(saved, 0, NULL);
        assert_true(json_equal(request, wanted));
        json_decref(request);
        free(saved);
    }
    json_decref(wanted);
}

/* A message that does not fit is taken back, and the next one answers. */
static void a_message_that_fails_is_taken_back(void **state)
{
    (void)state;
    char in[4096] = "";
    for (int i = 0; i < 600; i++)
        strcat(in, "z1"); /* two tokens */
    strcat(in, "\nshort\n");
    di_process process;
    di_process_run(&(di_process_options){.args = (const char *const[]){"chat", "-m", DI_CLI_TINY,
                                                                       "--logit-bias", "67=1000",
                                                                       "--max-tokens", "2", NULL},
                                         .in = in},
                   &process);
    assert_int_equal(process.code, 3);
    assert_string_equal(process.out, "aa\n");
    assert_non_null(strstr(process.err, "512"));
    di_process_free(&process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_from_a_pipe),
        cmocka_unit_test(chat_commands),
        cmocka_unit_test(a_chat_keeps_its_mode),
        cmocka_unit_test(a_message_that_fails_is_taken_back),
    };
    return cmocka_run_group_tests_name("cli_chat", tests, di_cli_setup, di_cli_teardown);
}
