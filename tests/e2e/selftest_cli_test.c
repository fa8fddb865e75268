/* `deepinfer selftest` as a user runs it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <signal.h>
#include <string.h>

#include "cli_fixtures.h"
#include "process.h"

static void it_passes(void **state)
{
    (void)state;
    di_process process;
    di_process_run_args(&process, "selftest", "-m", DI_CLI_TINY, "--threads", "2", "--seed", "42");
    if (process.code != 0)
        fail_msg("code %d: %s%s", process.code, process.out, process.err);
    assert_string_equal(process.err, "");
    size_t n_ok = 0, n_lines = 0;
    for (const char *line = process.out; *line != '\0'; line = strchr(line, '\n') + 1) {
        n_ok += strncmp(line, "ok      ", 8) == 0;
        n_lines++;
    }
    assert_int_equal(n_ok, 9);
    assert_int_equal(n_lines, 10);
    assert_non_null(strstr(process.out, "\nall 9 checks passed (seed 42)\n"));
    di_process_free(&process);
}

static void it_can_be_interrupted(void **state)
{
    (void)state;
    static const char *const args[] = {"selftest", "-m", DI_CLI_TINY, "--full", NULL};
    di_process process;
    di_process_start(&(di_process_options){.args = args}, &process);
    assert_true(di_process_read_until(&process, "operations"));
    assert_int_equal(kill(process.pid, SIGINT), 0);
    di_process_wait(&process);
    assert_int_equal(process.code, 130);
    assert_non_null(strstr(process.err, "deepinfer: the self-test was stopped"));
    assert_null(strstr(process.out, "seeds"));
    di_process_free(&process);
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *args[6];
        int code;
        const char *error;
    } cases[] = {
        {{"selftest", "--quick", "--full"}, 2, "--quick cannot be used with --full"},
        {{"selftest", "--seed", "0"}, 2, "--seed"},
        {{"selftest", "x"}, 2, "x"},
        {{"selftest", "-m", "/missing"}, 3, "/missing"},
        {{"selftest", "--kernel", "gemm_bf16=none"}, 2, "gemm_bf16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        di_process process;
        di_process_run(&(di_process_options){.args = cases[i].args}, &process);
        if (process.code != cases[i].code || strstr(process.err, cases[i].error) == NULL)
            fail_msg("case %d: code %d, %s", (int)i, process.code, process.err);
        assert_string_equal(process.out, "");
        di_process_free(&process);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_passes),
        cmocka_unit_test(it_can_be_interrupted),
        cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
