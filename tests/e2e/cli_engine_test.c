/* The engine's options and several samples, through the program. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_fixtures.h"
#include "process.h"

/* Runs `deepinfer COMMAND...`; the texts live until the next run. */
static const di_process *run(int wanted_code, const char *const *args)
{
    static di_process process;
    di_process_free(&process);
    di_process_run(&(di_process_options){.args = args}, &process);
    if (process.code != wanted_code)
        fail_msg("code %d, wanted %d; stderr: %s", process.code, wanted_code, process.err);
    return &process;
}
#define RUN(code, ...) run(code, (const char *const[]){__VA_ARGS__, NULL})

/* Options that must not change what comes out, and others that name the same value. */
static const char *const settings[][2] = {
    {"--max-seqs", "2"},
    {"--kv-cache-bytes", "1"},
    {"--prefix-cache", "off"},
    {"--prefix-cache", "exact"},
    {"--async-scheduling", "off"},
    {"--async-scheduling", "on"},
    {"--batch-invariant", "on"},
    {"--max-step-tokens", "3"},
    {"--threads", "2"},
    {"--pin", "on"},
    {"--pin", "off"},
    {"--weights", "copy"},
    {"--weights", "map"},
    {"--weight-cache", "150000"},
    {"--prefill-truncation", "exact"},
    {"--prefill-truncation", "off"},
    {"--prefill-keep", "30"},
};

static void options_are_known_to_config(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "= %s  (option; ", settings[i][1]);
        const di_process *p = RUN(0, "config", settings[i][0], settings[i][1]);
        assert_non_null(strstr(p->out, line));
    }
}

/* The part of a JSON line that does not hold times. */
static char *without_times(const char *out)
{
    char *all = strdup(out), *to = all;
    assert_non_null(all);
    for (const char *line = out; *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *end = strstr(line, ", \"usage\"");
        assert_non_null(end);
        memmove(to, line, (size_t)(end - line));
        to += end - line;
    }
    *to = '\0';
    return all;
}

static void results_do_not_depend_on_them(void **state)
{
    (void)state;
    char *first = NULL;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const di_process *p =
            RUN(0, "run", "-m", DI_CLI_TINY, "--json", "--logprobs", "2", "--seed", "9", "--n", "2",
                "--max-tokens", "20", "-p", "Once upon a time", "-p", "Once upon a night",
                settings[i][0], settings[i][1]);
        char *kept = without_times(p->out);
        if (first == NULL)
            first = kept;
        else
            assert_string_equal(first, kept);
        if (first != kept)
            free(kept);
    }
    free(first);
}

static void bad_values_are_usage_errors(void **state)
{
    static const char *const bad[][2] = {
        {"--max-seqs", "0"},
        {"--max-seqs", "many"},
        {"--kv-cache-bytes", "0"},
        {"--kv-cache-bytes", "1G"},
        {"--prefix-cache", "sometimes"},
        {"--prefill-truncation", "on"},
        {"--prefill-keep", "0"},
        {"--async-scheduling", "maybe"},
        {"--batch-invariant", "2"},
        {"--n", "0"},
        {"--n", "129"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const di_process *p = RUN(2, "run", "-m", DI_CLI_TINY, "-p", "x", bad[i][0], bad[i][1]);
        assert_int_equal(p->out_bytes, 0);
        assert_ptr_equal(strchr(p->err, '\n'), p->err + p->err_bytes - 1);
    }
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (; (text = strstr(text, word)) != NULL; text++)
        n++;
    return n;
}

static void samples_are_all_given(void **state)
{
    (void)state;
    const di_process *p = RUN(0, "run", "-m", DI_CLI_TINY, "--json", "--seed", "9", "--n", "3",
                              "--max-tokens", "5", "-p", "a", "-p", "b");
    assert_int_equal(count(p->out, "\n"), 6);
    for (int i = 0; i < 6; i++) {
        char start[64];
        snprintf(start, sizeof start, "{\"index\": %d, \"sample_index\": %d, ", i / 3, i % 3);
        assert_int_equal(count(p->out, start), 1);
    }
    p = RUN(0, "run", "-m", DI_CLI_TINY, "--json", "--seed", "9", "--max-tokens", "5", "-p", "a");
    assert_int_equal(count(p->out, "sample_index"), 0);
    RUN(3, "run", "-m", DI_CLI_TINY, "--n", "3", "--max-seqs", "2", "-p", "a");

    /* As text, an empty line stands between them. */
    p = RUN(0, "run", "-m", DI_CLI_TINY, "--seed", "9", "--n", "3", "--max-tokens", "5",
            "--logit-bias", "{\"67\": 100}", "-p", "a");
    assert_string_equal(p->out, "aaaaa\n\naaaaa\n\naaaaa\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_known_to_config),
        cmocka_unit_test(results_do_not_depend_on_them),
        cmocka_unit_test(bad_values_are_usage_errors),
        cmocka_unit_test(samples_are_all_given),
    };
    return cmocka_run_group_tests(tests, di_cli_setup, di_cli_teardown);
}
