/* base/options.h: precedence, strict values, unknown names, and the table in docs/options.md. */
#define _GNU_SOURCE /* sched_setaffinity, CPU_COUNT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/options.h"
#include "base/topology.h"
#include "deepinfer/tools.h"

extern char **environ;

static int clear_environment(void **state)
{
    (void)state;
    for (int i = 0; i < DI_N_OPTIONS; i++)
        unsetenv(di_option_table[i].env);
    unsetenv("DEEPINFER_THREAD");
    return 0;
}

static void assert_error(di_status status, di_status wanted, const char *text)
{
    assert_int_equal(status, wanted);
    if (!strstr(di_last_error(), text))
        fail_msg("\"%s\" is not in \"%s\"", text, di_last_error());
}

static void defaults(void **state)
{
    (void)state;
    di_effective_options effective;
    assert_int_equal(di_options_resolve(NULL, &effective), DI_OK);
    assert_string_equal(effective.accelerator, "cpu");
    di_topology topology;
    assert_int_equal(di_topology_read(NULL, &topology), DI_OK);
    assert_int_equal(effective.n_threads, di_topology_threads(&topology));
    di_topology_free(&topology);
    assert_string_equal(effective.pin, "auto");
    assert_int_equal(effective.max_step_tokens, 512);
    assert_int_equal(effective.max_context_len, 0);
    assert_string_equal(effective.isa, "best");
    assert_string_equal(effective.kernels, "");
    for (int i = 0; i < DI_N_OPTIONS; i++)
        assert_int_equal(effective.source[i], DI_SOURCE_DEFAULT);

    const di_options zero = {0};
    di_effective_options same;
    assert_int_equal(di_options_resolve(&zero, &same), DI_OK);
    assert_memory_equal(&effective, &same, sizeof same);
}

static void cpu_count_is_the_affinity(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_int_equal(di_affinity_count(), CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(di_affinity_count(), 1);
    di_effective_options effective;
    assert_int_equal(di_options_resolve(NULL, &effective), DI_OK);
    assert_int_equal(effective.n_threads, 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void option_beats_environment_beats_default(void **state)
{
    (void)state;
    setenv("DEEPINFER_THREADS", "3", 1);
    setenv("DEEPINFER_MAX_STEP_TOKENS", "65536", 1);
    setenv("DEEPINFER_MAX_CONTEXT_LEN", "2147483647", 1);
    setenv("DEEPINFER_KERNELS", "gemm=ref,topk=ref", 1);
    setenv("DEEPINFER_ISA", "ref", 1);
    setenv("DEEPINFER_ACCELERATOR", "", 1);
    const di_options given = {.n_threads = 7, .kernels = "rmsnorm=ref"};
    di_effective_options effective;
    assert_int_equal(di_options_resolve(&given, &effective), DI_OK);
    assert_int_equal(effective.n_threads, 7);
    assert_int_equal(effective.source[DI_OPTION_THREADS], DI_SOURCE_OPTION);
    assert_int_equal(effective.max_step_tokens, 65536);
    assert_int_equal(effective.source[DI_OPTION_MAX_STEP_TOKENS], DI_SOURCE_ENVIRONMENT);
    assert_int_equal(effective.max_context_len, 2147483647);
    assert_string_equal(effective.kernels, "rmsnorm=ref");
    assert_string_equal(effective.isa, "ref");
    assert_string_equal(effective.accelerator, "cpu");
    assert_int_equal(effective.source[DI_OPTION_ACCELERATOR], DI_SOURCE_DEFAULT);

    assert_int_equal(di_options_resolve(NULL, &effective), DI_OK);
    assert_int_equal(effective.n_threads, 3);
    assert_string_equal(effective.kernels, "gemm=ref,topk=ref");
}

static void every_isa_level_is_a_value(void **state)
{
    (void)state;
    for (int i = 0; i < DI_N_ISAS; i++) {
        const di_options given = {.isa = di_isa_name((di_isa)i)};
        di_effective_options effective;
        assert_int_equal(di_options_resolve(&given, &effective), DI_OK);
        assert_string_equal(effective.isa, given.isa);
    }
}

static void a_losing_value_is_not_looked_at(void **state)
{
    (void)state;
    setenv("DEEPINFER_ACCELERATOR", "nvidia", 1);
    setenv("DEEPINFER_THREADS", "many", 1);
    const di_options given = {.accelerator = "cpu", .n_threads = 2};
    di_effective_options effective;
    assert_int_equal(di_options_resolve(&given, &effective), DI_OK);
    assert_int_equal(effective.n_threads, 2);
}

static void bad_values_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *env, *value;
        di_status status;
        const char *text;
    } rows[] = {
        {"DEEPINFER_THREADS", "four", DI_ERR_ARGUMENT,
         "DEEPINFER_THREADS: found \"four\", wanted an integer from 1 to 4096"},
        {"DEEPINFER_THREADS", "0", DI_ERR_ARGUMENT, "found 0, wanted an integer from 1 to 4096"},
        {"DEEPINFER_THREADS", "4097", DI_ERR_ARGUMENT, "found 4097"},
        {"DEEPINFER_THREADS", " 4", DI_ERR_ARGUMENT, "found \" 4\""},
        {"DEEPINFER_THREADS", "4 ", DI_ERR_ARGUMENT, "found \"4 \""},
        {"DEEPINFER_THREADS", "+4", DI_ERR_ARGUMENT, "found \"+4\""},
        {"DEEPINFER_THREADS", "-1", DI_ERR_ARGUMENT, "found \"-1\""},
        {"DEEPINFER_THREADS", "0x4", DI_ERR_ARGUMENT, "found \"0x4\""},
        {"DEEPINFER_THREADS", "4.0", DI_ERR_ARGUMENT, "found \"4.0\""},
        {"DEEPINFER_THREADS", "99999999999999999999", DI_ERR_ARGUMENT, "99999999999999999999"},
        {"DEEPINFER_THREADS", "4294967297", DI_ERR_ARGUMENT, "found 4294967297"},
        {"DEEPINFER_MAX_STEP_TOKENS", "65537", DI_ERR_ARGUMENT, "from 1 to 65536"},
        {"DEEPINFER_MAX_CONTEXT_LEN", "2147483648", DI_ERR_ARGUMENT, "from 1 to 2147483647"},
        {"DEEPINFER_ISA", "avx9", DI_ERR_ARGUMENT, "supports \"best\", \"ref\""},
        {"DEEPINFER_KERNELS", "gemm", DI_ERR_ARGUMENT, "op=kernel"},
        {"DEEPINFER_KERNELS", "gemm=", DI_ERR_ARGUMENT, "op=kernel"},
        {"DEEPINFER_KERNELS", "gemm=ref,", DI_ERR_ARGUMENT, "op=kernel"},
        {"DEEPINFER_KERNELS", "gemm=ref;topk=ref", DI_ERR_ARGUMENT, "op=kernel"},
        {"DEEPINFER_KERNELS", "=ref", DI_ERR_ARGUMENT, "op=kernel"},
        {"DEEPINFER_ACCELERATOR", "nvidia", DI_ERR_UNSUPPORTED,
         "DEEPINFER_ACCELERATOR: this build has no \"nvidia\", it supports \"cpu\""},
        {"DEEPINFER_ACCELERATOR", "ascend", DI_ERR_ARGUMENT,
         "found \"ascend\", this build supports \"cpu\""},
        {"DEEPINFER_ACCELERATOR", "neuron", DI_ERR_ARGUMENT, "this build supports \"cpu\""},
        {"DEEPINFER_ACCELERATOR", "CPU", DI_ERR_ARGUMENT, "this build supports \"cpu\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clear_environment(NULL);
        setenv(rows[i].env, rows[i].value, 1);
        di_effective_options effective;
        assert_error(di_options_resolve(NULL, &effective), rows[i].status, rows[i].text);
    }
}

static void bad_api_values_are_refused(void **state)
{
    (void)state;
    di_effective_options effective;
    assert_error(di_options_resolve(&(di_options){.n_threads = -1}, &effective), DI_ERR_ARGUMENT,
                 "n_threads: found -1, wanted an integer from 1 to 4096");
    assert_error(di_options_resolve(&(di_options){.max_context_len = INT64_MIN}, &effective),
                 DI_ERR_ARGUMENT, "max_context_len: found -9223372036854775808");
    assert_error(di_options_resolve(&(di_options){.accelerator = "nvidia"}, &effective),
                 DI_ERR_UNSUPPORTED, "accelerator: this build has no \"nvidia\"");
    assert_error(di_options_resolve(&(di_options){.accelerator = ""}, &effective), DI_ERR_ARGUMENT,
                 "accelerator: found \"\"");
    char kernels[2 * DI_OPTION_TEXT_BYTES];
    memset(kernels, 'a', sizeof kernels);
    kernels[1] = '=';
    kernels[DI_OPTION_TEXT_BYTES] = 0;
    assert_error(di_options_resolve(&(di_options){.kernels = kernels}, &effective), DI_ERR_ARGUMENT,
                 "kernels: found 1024 bytes, wanted under 1024");
    kernels[DI_OPTION_TEXT_BYTES - 1] = 0;
    assert_int_equal(di_options_resolve(&(di_options){.kernels = kernels}, &effective), DI_OK);
    assert_string_equal(effective.kernels, kernels);
}

static void unknown_variables_are_refused(void **state)
{
    (void)state;
    setenv("DEEPINFER_THREAD", "2", 1);
    di_effective_options effective;
    assert_error(di_options_resolve(NULL, &effective), DI_ERR_ARGUMENT,
                 "environment variable DEEPINFER_THREAD: no such option; the nearest is "
                 "DEEPINFER_THREADS");
    const char *dir;
    assert_error(di_option_string("hf_model_dir", &dir), DI_ERR_ARGUMENT, "DEEPINFER_THREAD:");
    unsetenv("DEEPINFER_THREAD");

    char long_name[300];
    memset(long_name, 'X', sizeof long_name);
    memcpy(long_name, "DEEPINFER_", 10);
    long_name[sizeof long_name - 1] = 0;
    setenv(long_name, "1", 1);
    assert_error(di_options_resolve(NULL, &effective), DI_ERR_ARGUMENT, "DEEPINFER_XXX");
    unsetenv(long_name);
    assert_int_equal(di_options_resolve(NULL, &effective), DI_OK);
}

static void fractions(void **state)
{
    (void)state;
    di_effective_options effective;
    const char *const good[] = {"0.5", ".25", "1", "1.000000", "0.0000019", "000.5"};
    const double wanted[] = {0.5, 0.25, 1, 1, 0.000001, 0.5};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        setenv("DEEPINFER_KV_CACHE_FRACTION", good[i], 1);
        assert_int_equal(di_options_resolve(NULL, &effective), DI_OK);
        assert_true(effective.kv_cache_fraction == wanted[i]);
    }
    const char *const bad[] = {"0", "1.1", "2", "-0.5", "0.5x", ".", "1e-1", "0,5", "0.0000001"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("DEEPINFER_KV_CACHE_FRACTION", bad[i], 1);
        assert_error(di_options_resolve(NULL, &effective), DI_ERR_ARGUMENT,
                     "DEEPINFER_KV_CACHE_FRACTION: found ");
        assert_error(DI_ERR_ARGUMENT, DI_ERR_ARGUMENT, "wanted a number from 0.000001 to 1");
    }
    unsetenv("DEEPINFER_KV_CACHE_FRACTION");
    const double bad_numbers[] = {-0.5, 1.001, 1e-9, (double)NAN, (double)INFINITY};
    for (size_t i = 0; i < sizeof bad_numbers / sizeof bad_numbers[0]; i++)
        assert_error(
            di_options_resolve(&(di_options){.kv_cache_fraction = bad_numbers[i]}, &effective),
            DI_ERR_ARGUMENT, "kv_cache_fraction: found ");
    const di_options half = {.kv_cache_fraction = 0.5};
    assert_int_equal(di_options_resolve(&half, &effective), DI_OK);
    assert_true(effective.kv_cache_fraction == 0.5);
    assert_int_equal(effective.source[DI_OPTION_KV_CACHE_FRACTION], DI_SOURCE_OPTION);
}

/* Bytes or a fraction: both at one place are refused, else the higher place is taken. */
static void one_kv_budget(void **state)
{
    (void)state;
    di_effective_options effective;
    const di_options both = {.kv_cache_bytes = 5, .kv_cache_fraction = 0.5};
    const char *const text = "found both kv_cache_bytes and kv_cache_fraction, wanted one of them";
    assert_error(di_options_resolve(&both, &effective), DI_ERR_ARGUMENT, text);
    setenv("DEEPINFER_KV_CACHE_BYTES", "7", 1);
    assert_int_equal(di_options_resolve(&(di_options){.kv_cache_fraction = 0.5}, &effective),
                     DI_OK);
    assert_int_equal(effective.kv_cache_bytes, 0);
    assert_true(effective.kv_cache_fraction == 0.5);
    setenv("DEEPINFER_KV_CACHE_FRACTION", "0.25", 1);
    assert_error(di_options_resolve(NULL, &effective), DI_ERR_ARGUMENT, text);
    assert_int_equal(di_options_resolve(&(di_options){.kv_cache_bytes = 9}, &effective), DI_OK);
    assert_int_equal(effective.kv_cache_bytes, 9);
    assert_true(effective.kv_cache_fraction == 0);
    unsetenv("DEEPINFER_KV_CACHE_BYTES");
    unsetenv("DEEPINFER_KV_CACHE_FRACTION");
}

static void program_strings(void **state)
{
    (void)state;
    const char *dir = "before";
    assert_int_equal(di_option_string("hf_model_dir", &dir), DI_OK);
    assert_null(dir);
    setenv("DEEPINFER_HF_MODEL_DIR", "/models/a b", 1);
    assert_int_equal(di_option_string("hf_model_dir", &dir), DI_OK);
    assert_string_equal(dir, "/models/a b");
    assert_error(di_option_string("n_threads", &dir), DI_ERR_ARGUMENT, "\"n_threads\"");
    assert_error(di_option_string("nonsense", &dir), DI_ERR_ARGUMENT, "\"nonsense\"");
    assert_error(di_option_string(NULL, &dir), DI_ERR_ARGUMENT, "\"\"");
}

static void printed_options_name_value_and_source(void **state)
{
    (void)state;
    setenv("DEEPINFER_MAX_STEP_TOKENS", "64", 1);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_int_equal(di_print_options(&(di_options){.n_threads = 5}, out), DI_OK);
    fclose(out);
    assert_string_equal(text, "accelerator        = cpu  (default; DEEPINFER_ACCELERATOR)\n"
                              "n_threads          = 5  (option; DEEPINFER_THREADS)\n"
                              "pin                = auto  (default; DEEPINFER_PIN)\n"
                              "max_step_tokens    = 64  (environment; DEEPINFER_MAX_STEP_TOKENS)\n"
                              "max_context_len    = the model's limit  (default; "
                              "DEEPINFER_MAX_CONTEXT_LEN)\n"
                              "max_seqs           = 256  (default; DEEPINFER_MAX_SEQS)\n"
                              "kv_cache_bytes     = an eighth of this process's memory  (default; "
                              "DEEPINFER_KV_CACHE_BYTES)\n"
                              "kv_cache_fraction  = none  (default; DEEPINFER_KV_CACHE_FRACTION)\n"
                              "weights            = map  (default; DEEPINFER_WEIGHTS)\n"
                              "weight_cache       = none  (default; DEEPINFER_WEIGHT_CACHE)\n"
                              "prefix_cache       = exact  (default; DEEPINFER_PREFIX_CACHE)\n"
                              "prefix_interval    = 1024  (default; DEEPINFER_PREFIX_INTERVAL)\n"
                              "prefill_truncation = off  (default; "
                              "DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE)\n"
                              "prefill_keep       = 140  (default; "
                              "DEEPINFER_YOCO_PREFILL_KEEP_TOKENS)\n"
                              "async_scheduling   = on  (default; DEEPINFER_ASYNC_SCHEDULING)\n"
                              "batch_invariant    = on  (default; DEEPINFER_BATCH_INVARIANT)\n"
                              "speculation        = auto  (default; DEEPINFER_SPECULATION)\n"
                              "draft_len          = 5  (default; DEEPINFER_USE_NEXTN_DECODE)\n"
                              "draft_varlen       = on  (default; DEEPINFER_ENABLE_MTP_VARLEN)\n"
                              "isa                = best  (default; DEEPINFER_ISA)\n"
                              "kernels            = none  (default; DEEPINFER_KERNELS)\n"
                              "hf_model_dir       = none  (default; DEEPINFER_HF_MODEL_DIR)\n");
    free(text);

    setenv("DEEPINFER_ISA", "none", 1);
    out = open_memstream(&text, &bytes);
    assert_int_equal(di_print_options(NULL, out), DI_ERR_ARGUMENT);
    fclose(out);
    assert_int_equal(bytes, 0);
    free(text);

    unsetenv("DEEPINFER_ISA");
    out = fopen("/dev/full", "w");
    assert_non_null(out);
    assert_error(di_print_options(NULL, out), DI_ERR_IO, "cannot write the options");
    fclose(out);
}

static void append_values(di_buf *row, const di_option *option)
{
    switch (option->type) {
    case DI_OPTION_ENUM:
        for (const char *const *value = option->values; *value; value++)
            assert_int_equal(
                di_buf_printf(row, "%s`%s`", value == option->values ? "" : ", ", *value), DI_OK);
        break;
    case DI_OPTION_INT:
    case DI_OPTION_INT64:
        assert_int_equal(
            di_buf_printf(row, "integer from %" PRId64 " to %" PRId64, option->min, option->max),
            DI_OK);
        break;
    case DI_OPTION_FRACTION:
        assert_int_equal(di_buf_puts(row, "number from 0.000001 to 1"), DI_OK);
        break;
    case DI_OPTION_PAIRS:
        assert_int_equal(di_buf_puts(row, "`op=kernel,op=kernel`"), DI_OK);
        break;
    case DI_OPTION_PATH:
        assert_int_equal(di_buf_puts(row, "path"), DI_OK);
    }
}

/* The document has exactly the rows of the table. */
static void document_shows_the_table(void **state)
{
    (void)state;
    DI_BUF_AUTO text = {0};
    assert_int_equal(di_file_read(DI_TEST_DATA "/../docs/options.md", 1 << 20, &text), DI_OK);
    for (int i = 0; i < DI_N_OPTIONS; i++) {
        const di_option *option = &di_option_table[i];
        DI_BUF_AUTO row = {0};
        assert_int_equal(di_buf_printf(&row, "\n| `%s` | `%s` | ", option->env, option->name),
                         DI_OK);
        append_values(&row, option);
        assert_int_equal(di_buf_printf(&row, " | %s | %s |\n", option->default_text, option->help),
                         DI_OK);
        if (!strstr(text.data, row.data))
            fail_msg("docs/options.md lacks the row:%s", row.data);
    }
    int n_rows = 0;
    for (const char *p = text.data; (p = strstr(p, "\n| `DEEPINFER_")); p++)
        n_rows++;
    assert_int_equal(n_rows, DI_N_OPTIONS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults, clear_environment),
        cmocka_unit_test_setup(cpu_count_is_the_affinity, clear_environment),
        cmocka_unit_test_setup(option_beats_environment_beats_default, clear_environment),
        cmocka_unit_test_setup(every_isa_level_is_a_value, clear_environment),
        cmocka_unit_test_setup(a_losing_value_is_not_looked_at, clear_environment),
        cmocka_unit_test_setup(bad_values_are_refused, clear_environment),
        cmocka_unit_test_setup(bad_api_values_are_refused, clear_environment),
        cmocka_unit_test_setup(unknown_variables_are_refused, clear_environment),
        cmocka_unit_test_setup(fractions, clear_environment),
        cmocka_unit_test_setup(one_kv_budget, clear_environment),
        cmocka_unit_test_setup(program_strings, clear_environment),
        cmocka_unit_test_setup(printed_options_name_value_and_source, clear_environment),
        cmocka_unit_test_setup(document_shows_the_table, clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
