/* The self-test passes on the tiny checkpoint, and reports kernels whose results depend on the
 * batch: else it would prove nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/selftest.h"
#include "golden.h"
#include "kernels/all.h"
#include "kernels/gemm/gemm.h"

static di_golden golden;

static int open_model(void **state)
{
    (void)state;
    di_golden_open("tiny", &golden);
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    di_golden_close(&golden);
    return 0;
}

/* Runs it; the report is to free. */
static char *report_of(const di_selftest_options *selftest, const di_kernel *const *kernels,
                       di_status wanted)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    const di_options options = {.n_threads = 2};
    const di_status status = di_selftest_with(golden.model, &options, selftest, kernels, out);
    assert_int_equal(fclose(out), 0);
    if (status != wanted)
        fail_msg("status %s, wanted %s: %s\n%s", di_status_name(status), di_status_name(wanted),
                 di_last_error(), text);
    return text;
}

/* The line of a check. */
static void line_of(const char *report, const char *check, char *line, size_t bytes)
{
    const char *at = report;
    while (at && (strlen(at) < 9 || strncmp(at + 8, check, strlen(check)) != 0)) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    if (!at)
        fail_msg("no line of %s in\n%s", check, report);
    snprintf(line, bytes, "%.*s", (int)strcspn(at, "\n"), at);
}

static void expect_failure(const char *report, const char *check, const char *text)
{
    char line[1200];
    line_of(report, check, line, sizeof line);
    if (strncmp(line, "FAILED  ", 8) != 0 || !strstr(line, text))
        fail_msg("wanted a failure with \"%s\", found: %s", text, line);
}

/* The number before `text` in a check's line. */
static long number_before(const char *report, const char *check, const char *text)
{
    char line[1200];
    line_of(report, check, line, sizeof line);
    char *at = strstr(line, text);
    assert_non_null(at);
    while (at > line && at[-1] != '(')
        at--;
    return strtol(at, NULL, 10);
}

static void the_engine_passes(void **state)
{
    (void)state;
    char *report = report_of(NULL, NULL, DI_OK);
    static const char *const names[] = {"operations",   "needle",     "batch",
                                        "chunks",       "threads",    "async",
                                        "prefix-cache", "preemption", "seeds"};
    char line[1200];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        line_of(report, names[i], line, sizeof line);
        if (strncmp(line, "ok      ", 8) != 0)
            fail_msg("%s", line);
    }
    assert_int_equal(di_n_st_checks, sizeof names / sizeof names[0]);
    assert_null(strstr(report, "FAILED"));
    assert_non_null(strstr(report, "all 9 checks passed (seed 1)\n"));
    /* what was to be compared did happen */
    assert_true(number_before(report, "preemption", " preemptions)") > 0);
    assert_true(number_before(report, "prefix-cache", " of ") >= 128);
    free(report);
}

/* ------------------------------------------------------------------- kernels that are wrong */

/* Sums in as many parts as there are rows, at most 4. */
static void split_by_rows(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_gemm_args *a = args;
    const int64_t parts = a->m < 4 ? a->m : 4;
    for (int64_t column = begin; column < end; column++) {
        const di_bf16 *w = (const di_bf16 *)a->w + (a->first_column + column) * a->k;
        for (int64_t row = 0; row < a->m; row++) {
            float total = 0;
            for (int64_t p = 0; p < parts; p++) {
                float sum = 0;
                for (int64_t i = a->k * p / parts; i < a->k * (p + 1) / parts; i++)
                    sum += di_bf16_to_f32(a->x[row * a->x_stride + i]) * di_bf16_to_f32(w[i]);
                total += sum;
            }
            if (a->is_f32_out)
                ((float *)a->y)[row * a->y_stride + column] = total;
            else
                ((di_bf16 *)a->y)[row * a->y_stride + column] = di_f32_to_bf16(total);
        }
    }
}

static void a_sum_split_by_rows_is_reported(void **state)
{
    (void)state;
    static const di_kernel wrong = {.op = DI_OP_gemm_bf16,
                                    .name = "split_by_rows",
                                    .is_batch_invariant = true,
                                    .fn = split_by_rows};
    const di_kernel *kernels[DI_N_OPS] = {[DI_OP_gemm_bf16] = &wrong};
    char *report = report_of(NULL, kernels, DI_ERR_RUNTIME);
    assert_non_null(strstr(di_last_error(), " of 9 checks failed"));
    expect_failure(report, "operations", ": gemm_bf16=split_by_rows, ");
    expect_failure(report, "needle", "requests, request ");
    expect_failure(report, "batch", ": all at once, request ");
    expect_failure(report, "chunks", ": in passes of ");
    /* both values and where */
    expect_failure(report, "batch", "position ");
    expect_failure(report, "batch", "found ");
    expect_failure(report, "batch", "wanted ");
    assert_non_null(strstr(report, " of 9 checks failed (seed 1)\n"));
    free(report);
}

/* The first column of each thread's share but the first is off. */
static void off_at_shares(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_gemm_args *a = args;
    di_gemm_bf16_ref(args, begin, end, worker);
    for (int64_t row = 0; row < a->m && begin > 0 && a->is_f32_out; row++)
        ((float *)a->y)[row * a->y_stride + begin] += 8;
}

static void a_result_by_thread_is_reported(void **state)
{
    (void)state;
    static const di_kernel wrong = {
        .op = DI_OP_gemm_bf16, .name = "by_share", .is_batch_invariant = true, .fn = off_at_shares};
    const di_kernel *kernels[DI_N_OPS] = {[DI_OP_gemm_bf16] = &wrong};
    char *report = report_of(NULL, kernels, DI_ERR_RUNTIME);
    expect_failure(report, "operations", ": gemm_bf16=by_share, ");
    expect_failure(report, "threads", ": with 2 threads, request ");
    free(report);
}

/* ------------------------------------------------------------------- options */

static bool stop_at_once(void *user)
{
    ++*(int *)user;
    return false;
}

static void it_can_be_stopped(void **state)
{
    (void)state;
    int n_asked = 0;
    const di_selftest_options selftest = {.go_on = stop_at_once, .user = &n_asked};
    char *report = report_of(&selftest, NULL, DI_ERR_CANCELLED);
    assert_int_equal(n_asked, 1);
    assert_null(strstr(report, "needle"));
    free(report);
    assert_int_equal(di_selftest_run(NULL, NULL, NULL, stdout), DI_ERR_ARGUMENT);
    const di_options bad = {.n_threads = -1};
    assert_int_equal(di_selftest_run(golden.model, &bad, NULL, stdout), DI_ERR_ARGUMENT);
}

/* A short context leaves room for short requests only. */
static void a_short_context(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    const di_options options = {.n_threads = 1, .max_context_len = 9};
    const di_selftest_options selftest = {.seed = 5};
    if (di_selftest_run(golden.model, &options, &selftest, out) != DI_OK)
        fail_msg("%s", di_last_error());
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "all 9 checks passed (seed 5)\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_engine_passes),
        cmocka_unit_test(a_sum_split_by_rows_is_reported),
        cmocka_unit_test(a_result_by_thread_is_reported),
        cmocka_unit_test(it_can_be_stopped),
        cmocka_unit_test(a_short_context),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
