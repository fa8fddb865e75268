/* What ends the program from outside: Ctrl-C, a reader that leaves, a full disk, a file that is cut
 * while it is mapped. */
#define _GNU_SOURCE /* asprintf */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli_fixtures.h"
#include "process.h"

/* Writes "a" about 500 times for each of many prompts: far more than any test waits for. */
#define P4 "-p", "w", "-p", "x", "-p", "y", "-p", "z"
#define LONG_RUN(model)                                                                            \
    "run", "-m", model, "--logit-bias", "67=1000", "--ignore-eos", P4, P4, P4, P4

static void start(di_process *process, const char *const *args)
{
    di_process_start(&(di_process_options){.args = args}, process);
}
#define START(process, ...) start(process, (const char *const[]){__VA_ARGS__, NULL})

static void ctrl_c_prints_what_there_is(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        di_process process;
        START(&process, LONG_RUN(DI_CLI_TINY));
        assert_true(di_process_read_until(&process, "aa"));
        assert_int_equal(kill(process.pid, signals[i]), 0);
        di_process_wait(&process);
        assert_int_equal(process.code, 130);
        assert_string_equal(process.err, "");
        assert_true(process.out_bytes < 16 * 400);
        assert_int_equal(process.out[process.out_bytes - 1], '\n');
        di_process_free(&process);
    }
}

static void ctrl_c_in_json_is_a_whole_object(void **state)
{
    (void)state;
    di_process process;
    START(&process, LONG_RUN(DI_CLI_TINY), "--json");
    assert_true(di_process_read_until(&process, "\n"));
    assert_int_equal(kill(process.pid, SIGINT), 0);
    di_process_wait(&process);
    assert_int_equal(process.code, 130);
    assert_int_equal(process.out[process.out_bytes - 1], '\n');
    const char *second = strchr(process.out, '\n') + 1;
    if (*second != '\0') { /* unless the signal came between two prompts */
        const char *end = strchr(second, '\n');
        assert_non_null(end);
        assert_non_null(strstr(second, "\"finish_reason\": \"cancelled\""));
    }
    di_process_free(&process);
}

/* On a terminal, to see from its progress that it is under way; 500 tokens one by one. */
static void start_score(di_process *process)
{
    char ids[4096] = "[0";
    for (int i = 1; i < 500; i++)
        strcat(ids, ", 67");
    strcat(ids, "]");
    di_cli_write("ids.json", ids, strlen(ids));
    char *in = di_cli_expand("{TMP}/ids.json");
    char *out = di_cli_expand("{TMP}/scores.safetensors");
    const char *const args[] = {"score", "-m", DI_CLI_TINY, "--token-ids", in,
                                "-o",    out,  "--prefill", "1",           NULL};
    di_process_start(&(di_process_options){.args = args, .is_terminal = true}, process);
    free(in);
    free(out);
    assert_true(di_process_read_until(process, " of 500 tokens"));
    assert_int_equal(di_cli_count("scores.safetensors.tmp"), 1);
}

static void ctrl_c_leaves_no_scores(void **state)
{
    (void)state;
    di_process process;
    start_score(&process);
    assert_int_equal(kill(process.pid, SIGINT), 0);
    di_process_wait(&process);
    assert_int_equal(process.code, 130);
    assert_non_null(strstr(process.out, "interrupted, nothing written"));
    assert_int_equal(di_cli_count("scores"), 0);
    di_process_free(&process);
}

/* The second signal ends it at once: no last words, and nothing left on the disk. */
static void a_second_signal_ends_it_at_once(void **state)
{
    (void)state;
    di_process process;
    start_score(&process);
    static const int signals[] = {SIGSTOP, SIGINT, SIGTERM, SIGCONT};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        assert_int_equal(kill(process.pid, signals[i]), 0);
    di_process_wait(&process);
    assert_true(process.code == 128 + SIGINT || process.code == 128 + SIGTERM);
    assert_null(strstr(process.out, "interrupted"));
    assert_int_equal(di_cli_count("scores"), 0);
    di_process_free(&process);
}

static void ctrl_c_ends_an_answer_not_the_chat(void **state)
{
    (void)state;
    static const char *const args[] = {"chat",    "-m",           DI_CLI_TINY,  "--logit-bias",
                                       "67=1000", "--ignore-eos", "--thinking", NULL};
    di_process process;
    di_process_start(&(di_process_options){.args = args, .is_terminal = true}, &process);
    assert_true(di_process_read_until(&process, "> "));
    assert_int_equal(write(process.in_fd, "hello\n", 6), 6);
    assert_true(di_process_read_until(&process, "\033[2maaa")); /* thinking is dimmed */
    assert_int_equal(kill(process.pid, SIGINT), 0);
    assert_true(di_process_read_until(&process, "deepinfer: stopped"));
    assert_int_equal(write(process.in_fd, "/stats\n", 7), 7);
    assert_true(di_process_read_until(&process, "answers: 1, "));
    assert_int_equal(kill(process.pid, SIGINT), 0); /* at the prompt */
    assert_true(di_process_read_until(&process, "/exit ends the chat"));
    assert_int_equal(write(process.in_fd, "\004", 1), 1);
    di_process_wait(&process);
    assert_int_equal(process.code, 0);
    di_process_free(&process);
}

static void a_reader_that_leaves_ends_it_in_silence(void **state)
{
    (void)state;
    static const char *const extra[] = {"-v", "--json"};
    for (size_t i = 0; i < 2; i++) {
        di_process process;
        START(&process, LONG_RUN(DI_CLI_TINY), extra[i]);
        assert_true(di_process_read_until(&process, i == 0 ? "a" : "\n"));
        close(process.out_fd);
        process.out_fd = -1;
        di_process_wait(&process);
        assert_int_equal(process.code, 141);
        assert_null(strstr(process.err, "write"));
        di_process_free(&process);
    }
}

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    static const char *const commands[][8] = {
        {"run", "-m", DI_CLI_TINY, "-p", "x", "--max-tokens", "3", NULL},
        {"version", NULL},
        {"tokenize", "-m", DI_CLI_TINY, "x", NULL},
        {"kernels", NULL},
        /* More than a buffer, or the library flushes: the reason may be lost. */
        {"run", "--help", NULL},
        {"config", NULL},
        {"inspect", DI_CLI_TINY, NULL},
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        di_process process;
        di_process_run(&(di_process_options){.args = commands[i], .out_path = "/dev/full"},
                       &process);
        assert_int_equal(process.code, 4);
        static const char lost[] = "deepinfer: cannot write to stdout: write error\n";
        if (i < 4 || strcmp(process.err, lost) != 0)
            assert_string_equal(process.err,
                                "deepinfer: cannot write to stdout: No space left on device\n");
        di_process_free(&process);
    }
}

static void a_file_that_cannot_grow_is_an_error(void **state)
{
    (void)state;
    static const char ids[] = "[0, 1, 2, 3, 4, 5, 6, 7]"; /* 40 KiB of logits */
    di_cli_write("few.json", ids, strlen(ids));
    char *in = di_cli_expand("{TMP}/few.json");
    char *out = di_cli_expand("{TMP}/large.safetensors");
    const char *const args[] = {"score", "-m", DI_CLI_TINY, "--token-ids", in, "-o", out, NULL};
    struct rlimit kept;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &kept), 0);
    const struct rlimit low = {.rlim_cur = 8192, .rlim_max = kept.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    di_process process;
    start(&process, args);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &kept), 0);
    di_process_wait(&process);
    assert_int_equal(process.code, 4);
    assert_non_null(strstr(process.err, "large.safetensors: cannot write"));
    assert_non_null(strstr(process.err, "File too large"));
    assert_int_equal(di_cli_count("large"), 0);
    di_process_free(&process);
    free(in);
    free(out);
}

/* L01: no silent zeros. */
static void a_file_cut_while_mapped_is_an_error(void **state)
{
    (void)state;
    static const char shard[] = "mapped/model-00001-of-00001.safetensors";
    di_cli_link_model("links", NULL);
    di_cli_link_model("mapped", "model-00001-of-00001.safetensors");
    size_t n = 0;
    char *data = di_cli_read("links/model-00001-of-00001.safetensors", &n);
    assert_non_null(data);
    di_cli_write(shard, data, n);
    free(data);
    char *model = di_cli_expand("{TMP}/mapped");
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", di_cli_tmp, shard) > 0);
    di_process process;
    START(&process, LONG_RUN(model));
    assert_true(di_process_read_until(&process, "aa"));
    assert_int_equal(truncate(path, 4096), 0);
    di_process_wait(&process);
    assert_int_equal(process.code, 4);
    /* Found between two steps, or within one as a missing page. */
    assert_non_null(strstr(process.err, "cut"));
    di_process_free(&process);
    free(model);
    free(path);
}

static void a_missing_page_is_an_error(void **state)
{
    (void)state;
    di_process process;
    START(&process, LONG_RUN(DI_CLI_TINY));
    assert_true(di_process_read_until(&process, "aa"));
    assert_int_equal(kill(process.pid, SIGBUS), 0);
    di_process_wait(&process);
    assert_int_equal(process.code, 4);
    assert_string_equal(process.err,
                        "deepinfer: a model file was cut or became unreadable while mapped\n");
    di_process_free(&process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ctrl_c_prints_what_there_is),
        cmocka_unit_test(ctrl_c_in_json_is_a_whole_object),
        cmocka_unit_test(ctrl_c_leaves_no_scores),
        cmocka_unit_test(a_second_signal_ends_it_at_once),
        cmocka_unit_test(ctrl_c_ends_an_answer_not_the_chat),
        cmocka_unit_test(a_reader_that_leaves_ends_it_in_silence),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(a_file_that_cannot_grow_is_an_error),
        cmocka_unit_test(a_file_cut_while_mapped_is_an_error),
        cmocka_unit_test(a_missing_page_is_an_error),
    };
    return cmocka_run_group_tests_name("cli_signal", tests, di_cli_setup, di_cli_teardown);
}
