/* `deepinfer bench` as a user runs it: the form of what it prints, not how fast anything is. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_fixtures.h"
#include "kernels/kernel.h"
#include "process.h"

#define SMALL "--seconds", "0.001", "--memory-bytes", "4194304"

static void expect(const di_process *process, int code)
{
    if (process->code != code)
        fail_msg("code %d, wanted %d: %s%s", process->code, code, process->out, process->err);
}

/* Reads the numbers behind a row's kernel: threads, median and minimum in us. */
static bool read_row(const char *line, int *threads, double *median, double *minimum)
{
    char op[32], kernel[32];
    const char *rows = strstr(line, "rows=");
    int64_t n_rows = 0;
    return sscanf(line + 2, "%31s", op) == 1 && strcmp(op, "rmsnorm") == 0 && rows &&
           sscanf(rows, "rows=%ld %31s %d %lf %lf", &n_rows, kernel, threads, median, minimum) ==
               5 &&
           (line[0] == '*' || line[0] == ' ');
}

static void kernels_prints_rows(void **state)
{
    (void)state;
    di_process process;
    di_process_run_args(&process, "bench", "kernels", "--op", "rmsnorm", "--threads", "1,2", SMALL);
    expect(&process, 0);
    assert_string_equal(process.err, "");
    assert_int_equal(strncmp(process.out, "machine: ", 9), 0);
    assert_non_null(strstr(process.out, "\nceilings, 1 thread: memory "));
    assert_non_null(strstr(process.out, "\nceilings, 2 threads: memory "));
    int n_rows = 0, n_chosen = 0, n_of_two = 0;
    for (const char *line = process.out; (line = strchr(line, '\n')) != NULL && line[1];) {
        int threads = 0;
        double median = 0.0, minimum = 0.0;
        if (!read_row(++line, &threads, &median, &minimum))
            continue;
        assert_true(minimum > 0.0 && median >= minimum);
        n_rows++;
        n_chosen += line[0] == '*';
        n_of_two += threads == 2;
    }
    /* Two lengths at three widths, on one and two threads: of each the chosen kernel. */
    assert_int_equal(n_chosen, 12);
    assert_true(n_rows >= 12);
    assert_int_equal(2 * n_of_two, n_rows);
    di_process_free(&process);
}

static void kernels_writes_json(void **state)
{
    (void)state;
    char *path = di_cli_expand("{TMP}/bench.json");
    di_process process;
    di_process_run_args(&process, "bench", "kernels", "--kernel", "rope=ref", "--op", "rope",
                        "--threads", "1", "--json", path, SMALL);
    expect(&process, 0);
    json_t *all = json_load_file(path, 0, NULL);
    assert_non_null(all);
    assert_int_equal(json_array_size(json_object_get(all, "ceilings")), 1);
    const json_t *rows = json_object_get(all, "rows");
    assert_int_equal(json_array_size(rows), 3);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        assert_string_equal(json_string_value(json_object_get(row, "kernel")), "ref");
        assert_true(json_real_value(json_object_get(row, "min_seconds")) > 0.0);
        assert_true(json_real_value(json_object_get(row, "floor_seconds")) > 0.0);
    }
    json_decref(all);
    di_process_free(&process);
    free(path);
}

/* As in an engine: with --pin on, by a line for each number of threads. */
static void threads_stay_on_their_cores(void **state)
{
    (void)state;
    di_process process;
    di_process_run_args(&process, "bench", "kernels", "--op", "rope", "--kernel", "rope=ref",
                        "--threads", "1", "--pin", "on", SMALL);
    expect(&process, 0);
    assert_non_null(strstr(process.out, "; pinned\n"));
    di_process_free(&process);
    di_process_run_args(&process, "bench", "kernels", "--op", "rope", "--kernel", "rope=ref",
                        "--threads", "1", SMALL);
    expect(&process, 0);
    assert_null(strstr(process.out, "; pinned\n"));
    di_process_free(&process);
}

static void kernels_covers_every_operation(void **state)
{
    (void)state;
    di_process process;
    di_process_run_args(&process, "bench", "kernels", "--list");
    expect(&process, 0);
    for (int op = 0; op < DI_N_OPS; op++) {
        char text[64];
        snprintf(text, sizeof text, "\n  %s ", di_op_name((di_op)op));
        if (strncmp(process.out, text + 1, strlen(text + 1)) != 0 && !strstr(process.out, text))
            fail_msg("no shape of %s", di_op_name((di_op)op));
    }
    assert_non_null(strstr(process.out, "\n  sampler          129280, greedy\n"));
    assert_non_null(strstr(process.out, "wo_b 5120x8192 m=256\n"));
    assert_non_null(strstr(process.out, "w1 2304x5120 6 of 64 T=64\n"));
    di_process_free(&process);
}

#define TINY_CONFIG DI_CLI_TINY "/config.json"

/* The number behind `label` in `text`, which must be there. */
static double number_after(const char *text, const char *label)
{
    const char *at = strstr(text, label);
    double value = -1.0;
    if (at == NULL || sscanf(at + strlen(label), "%lf", &value) != 1)
        fail_msg("no number after \"%s\" in: %s", label, text);
    return value;
}

static void layers_prints_where_the_time_goes(void **state)
{
    (void)state;
    di_process process;
    di_process_run_args(&process, "bench", "layers", "--config", TINY_CONFIG, "--layers", "5",
                        "--batch", "1,3", "--context", "40,130", "--prefill", "33", "--threads",
                        "2", SMALL);
    expect(&process, 0);
    assert_string_equal(process.err, "");
    static const char *const runs[] = {
        "\ndecode of batch 1 at context 40: ",    "\ndecode of batch 3 at context 40: ",
        "\nprefill of 33 tokens at context 40: ", "\ndecode of batch 1 at context 130: ",
        "\ndecode of batch 3 at context 130: ",   "\nprefill of 33 tokens at context 130: ",
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const double step_ms = number_after(process.out, runs[i]);
        const char *run = strstr(process.out, runs[i]);
        assert_true(step_ms > 0.0);
        /* Two Engram linears and those of five layers' attention and shared experts. */
        assert_true(number_after(run, "\n    gemm_f8 ") >= 5.0 * (5.0 + 3.0));
        assert_int_equal((int)number_after(run, "\n    grouped_gemm_f4 "), 15);
        assert_int_equal((int)number_after(run, "\n    sparse_attention "), 5);
        assert_true(number_after(run, "\n    outside: embedding, head ") > 0.0);
        assert_true(number_after(run, "experts with rows: ") >= 3.0);
        assert_true(number_after(run, "\n    10 layers: ") > 0.0);
    }
    const char *table = strstr(process.out, "\n    context  batch");
    assert_non_null(table);
    assert_non_null(strstr(table, "\n         40      1 "));
    assert_non_null(strstr(table, "\n        130      3 "));
    di_process_free(&process);
}

static double real_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_real(value));
    return json_real_value(value);
}

/* The operations' and the layers' parts make the whole pass. */
static void check_layers_row(const json_t *row, const char *pass, int64_t sequences, int64_t tokens,
                             int64_t context)
{
    assert_string_equal(json_string_value(json_object_get(row, "pass")), pass);
    assert_int_equal(json_integer_value(json_object_get(row, "sequences")), sequences);
    assert_int_equal(json_integer_value(json_object_get(row, "tokens")), tokens);
    assert_int_equal(json_integer_value(json_object_get(row, "context")), context);
    assert_int_equal(json_integer_value(json_object_get(row, "threads")), 2);
    assert_true(json_integer_value(json_object_get(row, "steps")) >= 1);
    assert_true(real_of(row, "median_seconds") >= real_of(row, "min_seconds"));
    assert_true(real_of(row, "min_seconds") > 0.0);
    assert_true(real_of(row, "floor_seconds") > 0.0);
    assert_true(real_of(row, "model_seconds") > 0.0);
    assert_float_equal(real_of(row, "model_tokens_per_second") * real_of(row, "model_seconds"),
                       (double)tokens, 1e-9 * (double)tokens);
    static const char *const parts[] = {"operations", "layers"};
    for (int i = 0; i < 2; i++) {
        double flops = 0.0;
        size_t at;
        const json_t *part;
        json_array_foreach(json_object_get(row, parts[i]), at, part) flops +=
            real_of(part, "flops");
        assert_float_equal(flops, real_of(row, "flops"), 1e-9 * flops);
    }
    const json_t *layers = json_object_get(row, "layers");
    assert_int_equal(json_array_size(layers), 3);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(layers, 0), "layer")), 6);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(layers, 1), "layer")), 7);
    assert_string_equal(json_string_value(json_object_get(json_array_get(layers, 2), "layer")),
                        "outside");
}

static void layers_writes_json(void **state)
{
    (void)state;
    char *path = di_cli_expand("{TMP}/layers.json");
    di_process process;
    di_process_run_args(&process, "bench", "layers", "--config", TINY_CONFIG, "--layers", "2",
                        "--batch", "1,3", "--context", "40", "--prefill", "33", "--threads", "2",
                        "--pin", "off", "--json", path, SMALL);
    expect(&process, 0);
    assert_null(strstr(process.out, "; pinned"));
    json_t *all = json_load_file(path, 0, NULL);
    assert_non_null(all);
    const json_t *ceilings = json_object_get(all, "ceilings"), *rows = json_object_get(all, "rows");
    assert_int_equal(json_array_size(ceilings), 1);
    assert_true(real_of(json_array_get(ceilings, 0), "memory") > 0.0);
    assert_true(json_is_false(json_object_get(json_array_get(ceilings, 0), "pinned")));
    assert_int_equal(json_array_size(rows), 3);
    check_layers_row(json_array_get(rows, 0), "decode", 1, 1, 40);
    check_layers_row(json_array_get(rows, 1), "decode", 3, 3, 40);
    check_layers_row(json_array_get(rows, 2), "prefill", 1, 33, 40);
    json_decref(all);
    di_process_free(&process);
    free(path);
}

/* The layers that are run bring those along whose entries they read. */
static void layers_are_picked_by_kind(void **state)
{
    (void)state;
    di_process process;
    di_process_run_args(&process, "bench", "layers", "--config", TINY_CONFIG, "--layers", "10",
                        "--batch", "2", "--context", "7", "--threads", "1", SMALL);
    expect(&process, 0);
    assert_non_null(strstr(process.out, "\nmodel: layers 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 of 10,"));
    assert_non_null(strstr(process.out, "engram"));
    assert_null(strstr(process.out, "not of a measured kind"));
    di_process_free(&process);
    di_process_run_args(&process, "bench", "layers", "--config", TINY_CONFIG, "--layers", "2",
                        "--batch", "2", "--context", "7", "--threads", "1", SMALL);
    expect(&process, 0);
    assert_non_null(strstr(process.out, "\nmodel: layers 6, 7 of 10,"));
    assert_non_null(strstr(process.out, "not of a measured kind"));
    di_process_free(&process);
}

#define TOKENIZER "--tokenizer", DI_TEST_DATA "/golden/tokenizer.json"

/* One line a batch: 12 numbers, the rates above 0. Forced acceptance is told, and is what was
 * asked. */
static void speculation_prints_what_drafts_gain(void **state)
{
    (void)state;
    static const char *const forced[] = {"0", "3"};
    for (int i = 0; i < 2; i++) {
        di_process process;
        double v[13];
        di_process_run_args(&process, "bench", "speculation", "-m", DI_TEST_DATA "/../models/nano",
                            "--batch", "1,2", "--tokens", "24", "--rounds", "1", "--threads", "1",
                            "--accepted-len", forced[i]);
        assert_int_equal(process.code, 0);
        assert_int_equal(strstr(process.out, "ACCEPTANCE IS FORCED") != NULL, i);
        const char *at = strstr(process.out, "\n    1 |");
        assert_non_null(at);
        assert_int_equal(sscanf(at, "%lf | %lf %lf %lf | %lf %lf | %lf %lf | %lf %lf %lf | %lf %lf",
                                v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7, v + 8, v + 9,
                                v + 10, v + 11, v + 12),
                         13);
        for (int k = 0; k < 13; k++)
            assert_true(v[k] > 0);
        if (i == 1)
            assert_true(v[6] > 2.4 && v[6] < 3.6);
        assert_non_null(strstr(at + 1, "\n    2 |"));
        di_process_free(&process);
    }
}

/* Every grammar has a line, and every text of it is accepted. */
static void structured_prints_its_grammars(void **state)
{
    (void)state;
    di_process process;
    di_process_run_args(&process, "bench", "structured", TOKENIZER, "--rounds", "2");
    expect(&process, 0);
    assert_string_equal(process.err, "");
    assert_int_equal(strncmp(process.out, "vocabulary of ", 14), 0);
    static const char *const lines[] = {"\nregex csv ", "\nschema order ", "\nebnf json ",
                                        "\nall "};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *line = strstr(process.out, lines[i]);
        assert_non_null(line);
        int wrong = -1, refused = -1;
        char *own = strndup(line + 1, strcspn(line + 1, "\n"));
        double kb = 0.0;
        assert_int_equal(sscanf(strrchr(own, '|'), "| %lf %d %d", &kb, &wrong, &refused), 3);
        free(own);
        assert_int_equal(wrong, 0);
        assert_int_equal(refused, 0);
    }
    di_process_free(&process);
}

static const json_t *row_of(const json_t *rows, const char *grammar)
{
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row) if (strcmp(json_string_value(json_object_get(row, "grammar")),
                                                grammar) == 0) return row;
    fail_msg("no row of %s", grammar);
    return NULL;
}

static json_int_t count_of(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    return json_integer_value(json_is_object(value) ? json_object_get(value, "n") : value);
}

static void structured_reads_rows(void **state)
{
    (void)state;
    static const char lines[] =
        "{\"id\": 1, \"regex\": \"a+\", \"text\": \"aa\", \"accept\": true}\n"
        "{\"id\": 2, \"regex\": \"a+\", \"text\": \"b\", \"accept\": true}\n\n"
        "{\"id\": 3, \"regex\": \"(\", \"text\": \"b\"}\n"
        "{\"id\": 4, \"schema\": {}, \"text\": \"[]\", \"accept\": 1}";
    char *rows_path = di_cli_expand("{TMP}/rows.jsonl"), *path = di_cli_expand("{TMP}/so.json");
    di_process process;
    di_cli_write("rows.jsonl", lines, sizeof lines - 1);
    di_process_run_args(&process, "bench", "structured", TOKENIZER, "--jsonl", rows_path, "--json",
                        path);
    expect(&process, 0);
    assert_non_null(strstr(process.out, "worst mask: "));
    json_t *all = json_load_file(path, 0, NULL);
    assert_non_null(all);
    assert_int_equal(count_of(all, "rounds"), 5);
    assert_true(count_of(all, "vocabulary_ns") > 0);
    const json_t *rows = json_object_get(all, "rows");
    assert_int_equal(json_array_size(rows), 3);
    const json_t *regex = row_of(rows, "regex"), *sum = row_of(rows, "all");
    assert_int_equal(count_of(regex, "rows"), 3);
    assert_int_equal(count_of(regex, "wrong"), 1);
    assert_int_equal(count_of(regex, "refused"), 1);
    assert_int_equal(count_of(regex, "compile_ns"), 1);
    assert_int_equal(count_of(row_of(rows, "JSON schema"), "rows"), 1);
    assert_int_equal(count_of(sum, "rows"), 4);
    assert_int_equal(count_of(sum, "compile_ns"), 2);
    assert_int_equal(count_of(sum, "mask_ns"), count_of(sum, "token_ns"));
    json_decref(all);
    di_process_free(&process);
    free(rows_path);
    free(path);
}

static void structured_names_bad_rows(void **state)
{
    (void)state;
    static const struct {
        const char *lines, *error;
    } cases[] = {
        {"\n\n", "found no rows, wanted lines of cases"},
        {"{\"regex\": \"a\", \"text\": \"\"}\n{", "rows.jsonl, line 2: column "},
        {"{\"text\": \"\"}",
         "line 1: wanted one of \"schema\", \"regex\", \"ebnf\" and \"tool_calls\""},
        {"{\"regex\": \"a\"}", "line 1: wanted \"text\", or \"hex\" of pairs"},
    };
    char *path = di_cli_expand("{TMP}/rows.jsonl");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        di_process process;
        di_cli_write("rows.jsonl", cases[i].lines, strlen(cases[i].lines));
        di_process_run_args(&process, "bench", "structured", TOKENIZER, "--jsonl", path);
        if (process.code != 3 || strstr(process.err, cases[i].error) == NULL)
            fail_msg("case %zu: code %d, %s", i, process.code, process.err);
        di_process_free(&process);
    }
    free(path);
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *args[8];
        int code;
        const char *error;
    } cases[] = {
        {{"bench"}, 2, "Usage: deepinfer bench"},
        {{"bench", "all"}, 2, "unknown benchmark 'all'"},
        {{"bench", "kernels", "--op", "none"}, 2, "op: found \"none\""},
        {{"bench", "kernels", "--kernel", "rope"}, 2, "--kernel: 'rope' is not OP=NAME"},
        {{"bench", "kernels", "--kernel", "rope=none", "--list"}, 2, "rope: found kernel \"none\""},
        {{"bench", "kernels", "--isa", "none", "--list"}, 2, "isa: found \"none\""},
        {{"bench", "kernels", "--threads", "1,x"}, 2, "--threads: 'x'"},
        {{"bench", "kernels", "--threads", "0"}, 2, "--threads: '0'"},
        {{"bench", "kernels", "--pin", "maybe"}, 2, "pin: found \"maybe\""},
        {{"bench", "kernels", "--seconds", "-1"}, 2, "--seconds: '-1'"},
        {{"bench", "kernels", "--memory-bytes", "5"}, 2, "--memory-bytes: '5'"},
        {{"bench", "kernels", "--config", "/missing"}, 3, "/missing"},
        {{"bench", "kernels", "x"}, 2, "unexpected argument 'x'"},
        {{"bench", "layers", "--layers", "0"}, 2, "--layers: '0'"},
        {{"bench", "layers", "--layers", "41"}, 2, "layers: found 41, wanted 1 to 40"},
        {{"bench", "layers", "--batch", "1,257"}, 2, "--batch: '257'"},
        {{"bench", "layers", "--context", "-1"}, 2, "--context: '-1'"},
        {{"bench", "layers", "--prefill", "0"}, 2, "--prefill: '0'"},
        {{"bench", "layers", "--config", TINY_CONFIG, "--context", "512"}, 2, "limit of 512"},
        {{"bench", "layers", "--kernel", "rope=none"}, 2, "rope: found kernel \"none\""},
        {{"bench", "layers", "--config", DI_CLI_TINY "/golden.json"}, 3, "golden.json"},
        {{"bench", "speculation", "--batch", "1,65"}, 2, "--batch: '65'"},
        {{"bench", "speculation", "--tokens", "7"}, 2, "--tokens: '7'"},
        {{"bench", "speculation", "--accepted-len", "x"}, 2, "--accepted-len: 'x'"},
        {{"bench", "speculation", "--accepted-len", "0.5"}, 2, "found an accepted length of 0.5"},
        {{"bench", "speculation", "--temperature=-1"}, 2, "--temperature: '-1'"},
        {{"bench", "structured", "--rounds", "0"}, 2, "--rounds: '0'"},
        {{"bench", "structured", "--jsonl", "/missing"}, 3, "/missing"},
        {{"bench", "structured", "--tokenizer", "/missing"}, 3, "/missing"},
        {{"bench", "structured", "--tokenizer", "a", "-m", "b"}, 2, "both --tokenizer and -m"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        di_process process;
        di_process_run(&(di_process_options){.args = cases[i].args}, &process);
        if (process.code != cases[i].code || strstr(process.err, cases[i].error) == NULL)
            fail_msg("case %d: code %d, %s", (int)i, process.code, process.err);
        assert_null(strchr(process.out, '%')); /* nothing was timed */
        di_process_free(&process);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_prints_rows),
        cmocka_unit_test(kernels_writes_json),
        cmocka_unit_test(kernels_covers_every_operation),
        cmocka_unit_test(speculation_prints_what_drafts_gain),
        cmocka_unit_test(structured_prints_its_grammars),
        cmocka_unit_test(structured_reads_rows),
        cmocka_unit_test(structured_names_bad_rows),
        cmocka_unit_test(layers_prints_where_the_time_goes),
        cmocka_unit_test(layers_writes_json),
        cmocka_unit_test(threads_stay_on_their_cores),
        cmocka_unit_test(layers_are_picked_by_kind),
        cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, di_cli_setup, di_cli_teardown);
}
