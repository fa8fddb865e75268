#define _GNU_SOURCE /* asprintf */

/* The program's command line: what it prints where, and its exit codes. Rows are data. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_fixtures.h"
#include "process.h"

enum { MAX_ARGS = 16 };

/* {TMP}, {TINY}, {DATA} in args are replaced. out and err are extended regular expressions that
 * must be found; NULL: must be empty. With a code of 2 or more, stderr is one line "deepinfer: ..."
 * unless is_long. */
typedef struct cli_case {
    const char *id;
    const char *args[MAX_ARGS];
    const char *in;
    int code;
    const char *out;
    const char *err;
    bool is_long;
} cli_case;

static bool matches(const char *text, const char *pattern)
{
    if (pattern == NULL)
        return text[0] == '\0';
    regex_t regex;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    const bool is_match = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return is_match;
}

static bool is_one_error_line(const char *text)
{
    const char *end = strchr(text, '\n');
    return strncmp(text, "deepinfer: ", 11) == 0 && end != NULL && end[1] == '\0';
}

static int check_case(const cli_case *row)
{
    char *args[MAX_ARGS + 1] = {NULL};
    for (size_t i = 0; i < MAX_ARGS && row->args[i] != NULL; i++)
        args[i] = di_cli_expand(row->args[i]);
    di_process process;
    di_process_run(&(di_process_options){.args = (const char *const *)args, .in = row->in},
                   &process);
    const bool is_good = process.code == row->code && matches(process.out, row->out) &&
                         matches(process.err, row->err) &&
                         (row->code < 2 || row->is_long || is_one_error_line(process.err));
    if (!is_good)
        print_error("%s: code %d, wanted %d\nstdout: %s\nwanted: %s\nstderr: %s\nwanted: %s\n",
                    row->id, process.code, row->code, process.out,
                    row->out != NULL ? row->out : "nothing", process.err,
                    row->err != NULL ? row->err : "nothing");
    for (size_t i = 0; i < MAX_ARGS; i++)
        free(args[i]);
    di_process_free(&process);
    return is_good ? 0 : 1;
}

static void check_cases(const cli_case *rows, size_t n)
{
    int n_failed = 0;
    for (size_t i = 0; i < n; i++)
        n_failed += check_case(&rows[i]);
    assert_int_equal(n_failed, 0);
}
#define CHECK_CASES(rows) check_cases(rows, sizeof(rows) / sizeof((rows)[0]))

/* ---------------------------------------------------------------------------------------- usage */

#define ALL_COMMANDS                                                                               \
    "commands: run, chat, batch, score, eval, selftest, bench, inspect, tokenize, detokenize, "    \
    "check, encode, parse, kernels, devices, config, version"

static void the_program_without_a_command(void **state)
{
    (void)state;
    static const cli_case rows[] = {
        {"no argument", {NULL}, NULL, 2, NULL, "^Usage: deepinfer COMMAND", true},
        {"--help", {"--help"}, NULL, 0, "^Usage: .*Commands:.* tokenize .*Exit codes", NULL},
        {"-h", {"-h"}, NULL, 0, "^Usage: ", NULL},
        {"help", {"help"}, NULL, 0, "^Usage: ", NULL},
        {"--version",
         {"--version"},
         NULL,
         0,
         "^deepinfer 0\\.1\\.0\nbuilt with (gcc|clang) ",
         NULL},
        {"version", {"version"}, NULL, 0, "^deepinfer 0\\.1\\.0\n.*\ncpu: ", NULL},
        {"misspelt",
         {"tokenzie"},
         NULL,
         2,
         NULL,
         "unknown command 'tokenzie', did you mean 'tokenize'\\? .*" ALL_COMMANDS},
        {"unknown", {"frobnicate"}, NULL, 2, NULL, "'frobnicate' \\(" ALL_COMMANDS},
        {"unknown option", {"--frob"}, NULL, 2, NULL, "unknown option '--frob'"},
        {"control bytes", {"a\nb\033"}, NULL, 2, NULL, "unknown command 'a\\?b\\?'"},
    };
    CHECK_CASES(rows);
}

static void every_command_has_help(void **state)
{
    (void)state;
    static const char *const commands[] = {"run",        "chat",   "score",  "inspect", "tokenize",
                                           "detokenize", "check",  "encode", "parse",   "kernels",
                                           "devices",    "config", "version"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char *usage = NULL;
        assert_true(asprintf(&usage, "^Usage: deepinfer %s .*print this help", commands[i]) > 0);
        const cli_case rows[] = {
            {commands[i], {commands[i], "--help"}, NULL, 0, usage, NULL},
            {commands[i], {commands[i], "-h"}, NULL, 0, usage, NULL},
            {commands[i], {commands[i], "--frobnicate"}, NULL, 2, NULL, "'--frobnicate'"},
        };
        CHECK_CASES(rows);
        free(usage);
    }
}

/* C07, M04, M08: each bad value is named before any model is touched (the model is not there). */
static void bad_values_are_named_first(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"--max-tokens", "abc", "--max-tokens: 'abc' is not a whole number"},
        {"--max-tokens", "-2", "--max-tokens: '-2' is out of range, wanted -1 or more"},
        {"--max-tokens", "99999999999999999999", "--max-tokens: .* out of range"},
        {"--max-tokens", "1.5", "--max-tokens: '1.5' is not a whole number"},
        {"--max-tokens", " 5", "--max-tokens: ' 5' is not a whole number"},
        {"--max-tokens", "", "--max-tokens: '' is not a whole number"},
        {"--min-tokens", "-1", "--min-tokens: '-1' is out of range"},
        {"--temperature", "-1", "--temperature: '-1' is out of range, wanted 0 or more"},
        {"--temperature", "nan", "--temperature: 'nan' is not a number"},
        {"--temperature", "1e999", "--temperature: '1e999' is out of range"},
        {"--temperature", "1x", "--temperature: '1x' is not a number"},
        {"--top-p", "1.5", "--top-p: '1.5' is out of range, wanted 0 to 1"},
        {"--top-p", "-0.1", "--top-p: '-0.1' is out of range"},
        {"--top-k", "-2", "--top-k: '-2' is out of range"},
        {"--top-k", "1e3", "--top-k: '1e3' is not a whole number"},
        {"--min-p", "2", "--min-p: '2' is out of range, wanted 0 to 1"},
        {"--repetition-penalty", "0", "--repetition-penalty: .* wanted more than 0"},
        {"--presence-penalty", "2.5", "--presence-penalty: .* wanted -2 to 2"},
        {"--frequency-penalty", "-3", "--frequency-penalty: .* wanted -2 to 2"},
        {"--logit-bias", "abc=5", "--logit-bias: 'abc' is not a whole number"},
        {"--logit-bias", "-1=5", "--logit-bias: '-1' is out of range"},
        {"--logit-bias", "5", "--logit-bias: '5' is not ID=BIAS"},
        {"--logit-bias", "5=inf", "--logit-bias: 'inf' is not a number, wanted a finite number"},
        {"--logit-bias", "{\"-1\": 5}", "--logit-bias: '-1' is out of range"},
        {"--logit-bias", "{\"abc\": 5}", "--logit-bias: 'abc' is not a whole number"},
        {"--logit-bias", "{\"3\": \"x\"}", "--logit-bias: the bias of '3' is not a number"},
        {"--logit-bias", "{\"3\": 1e300}", "--logit-bias: .* out of range"},
        {"--logit-bias", "{", "--logit-bias: '\\{' is not JSON"},
        {"--seed", "-1", "--seed: '-1' is not a whole number"},
        {"--verification", "maybe", "--verification: 'maybe' is not match or reject"},
        {"--verification", "", "--verification: '' is not match or reject"},
        {"--seed", "18446744073709551616", "--seed: '18446744073709551616' is out of range"},
        {"--stop", "", "--stop: the text is empty"},
        {"--stop", "a\xff", "--stop: the text is not UTF-8"},
        {"--stop-id", "x", "--stop-id: 'x' is not a whole number"},
        {"--logprobs", "-1", "--logprobs: '-1' is out of range"},
        {"--threads", "0", "--threads: '0' is out of range"},
        {"--max-step-tokens", "0", "--max-step-tokens: '0' is out of range"},
        {"--max-context-len", "0", "--max-context-len: '0' is out of range"},
        {"--isa", "mmx", "isa: .*\"mmx\""},
        {"--accelerator", "abacus", "accelerator: .*\"abacus\""},
        {"--accelerator", "nvidia", "accelerator: .*\"nvidia\""},
        {"--kernel", "foo", "--kernel: 'foo' is not OP=NAME"},
        {"--kernel", "foo=bar", "foo"},
        {"--effort", "0", "--effort: '0' is not 1 to 100, low, high or max"},
        {"--effort", "medium", "--effort: 'medium' is not"},
        {"--max-tokns", "5", "unknown option '--max-tokns', did you mean '--max-tokens'\\?"},
        {"--max", "5", "option '--max' is ambiguous"},
        {"--json=5", "--echo", "option '--json' takes no value"},
        {"-z", "5", "unknown option '-z'"},
        {"-vz", "5", "unknown option '-z'"},
        {"stray", "-v", "unexpected argument 'stray'"},
        {"-v", "--file", "option '--file' wants a value"},
        {"-v", "-f", "option '-f' wants a value"},
    };
    int n_failed = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        n_failed +=
            check_case(&(cli_case){rows[i][0],
                                   {"run", "-m", "/nonexistent", "-p", "x", rows[i][0], rows[i][1]},
                                   NULL,
                                   2,
                                   NULL,
                                   rows[i][2]});
    assert_int_equal(n_failed, 0);
}

static void options_that_do_not_go_together(void **state)
{
    (void)state;
    static const cli_case rows[] = {
        {"chat of ids", {"run", "--chat", "--token-ids", "x"}, NULL, 2, NULL, "--token-ids"},
        {"chat of specials",
         {"run", "-p", "x", "--chat", "--parse-special"},
         NULL,
         2,
         NULL,
         "--parse-special"},
        {"inspect twice", {"inspect", "a", "-m", "b"}, NULL, 2, NULL, "'a' and -m 'b'"},
        {"inspect -n", {"inspect", "a", "-n", "3"}, NULL, 2, NULL, "-n is only for --tensor"},
        {"score nothing", {"score"}, NULL, 2, NULL, "--token-ids FILE is missing"},
        {"score nowhere", {"score", "--token-ids", "x"}, NULL, 2, NULL, "-o FILE is missing"},
        {"score chunk 0",
         {"score", "--token-ids", "x", "-o", "y", "--chunk", "0"},
         NULL,
         2,
         NULL,
         "--chunk: '0' is out of range"},
        {"two tokenizers",
         {"tokenize", "--tokenizer", "a", "-m", "b"},
         NULL,
         2,
         NULL,
         "--tokenizer"},
        {"two texts", {"tokenize", "x", "-f", "b"}, NULL, 2, NULL, "'x' and -f 'b'"},
        {"jsonl word", {"tokenize", "--jsonl", "x"}, NULL, 2, NULL, "--jsonl reads"},
        {"no id",
         {"detokenize", "--tokenizer", "{TINY}", "5", "x"},
         NULL,
         2,
         NULL,
         "'x' is not a whole number"},
        {"min and max",
         {"run", "-p", "x", "--min-tokens", "5", "--max-tokens", "3"},
         NULL,
         2,
         NULL,
         "--min-tokens: 5 is more than --max-tokens 3"},
        {"empty model", {"run", "-p", "x", "-m", ""}, NULL, 2, NULL, "--model: the name is empty"},
        {"parse mode", {"parse", "--jsonl", "--thinking"}, NULL, 2, NULL, "--thinking"},
    };
    CHECK_CASES(rows);
}

static void the_environment_is_checked(void **state)
{
    (void)state;
    static const struct {
        const char *env;
        const char *err;
    } rows[] = {{"DEEPINFER_THREADS=many", "DEEPINFER_THREADS"},
                {"DEEPINFER_THREDS=2", "DEEPINFER_THREDS"},
                {"DEEPINFER_ACCELERATOR=abacus", "DEEPINFER_ACCELERATOR"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static const char *const args[] = {"run", "-m", "/nonexistent", "-p", "x", NULL};
        di_process process;
        di_process_run(&(di_process_options){.args = args, .env = rows[i].env}, &process);
        assert_int_equal(process.code, 2);
        assert_true(matches(process.err, rows[i].err));
        assert_true(is_one_error_line(process.err));
        di_process_free(&process);
    }
    static const char *const args[] = {"run", "-p", "x", NULL};
    di_process process;
    di_process_run(
        &(di_process_options){.args = args, .env = "DEEPINFER_HF_MODEL_DIR=/nonexistent"},
        &process);
    assert_int_equal(process.code, 3);
    assert_true(matches(process.err, "/nonexistent"));
    di_process_free(&process);
}

static void a_terminal_is_no_prompt(void **state)
{
    (void)state;
    static const char *const args[] = {"run", "-m", "/nonexistent", NULL};
    di_process process;
    di_process_run(&(di_process_options){.args = args, .is_terminal = true}, &process);
    assert_int_equal(process.code, 2);
    assert_true(matches(process.out, "^deepinfer: no prompt: give -p, "));
    di_process_free(&process);
}

/* ---------------------------------------------------------------------------------------- input */

/* C01, C02, L01, L07, L09: bad files end with 3, one line that names the file, and a clean stdout.
 */
static void bad_files_are_input_errors(void **state)
{
    (void)state;
    di_cli_write("empty.txt", "", 0);
    di_cli_write("newline.txt", "\n", 1);
    di_cli_write("bad.json", "[1, 2", 5);
    di_cli_write("object.json", "{\"a\": 1}", 8);
    di_cli_write("float.json", "[1, 2.5]", 8);
    di_cli_write("negative.json", "[1, -5]", 7);
    di_cli_write("big.json", "[1, 99999]", 10);
    di_cli_write("empty.json", "[]", 2);
    di_cli_link_model("cut-shard", "model-00001-of-00001.safetensors");
    size_t n = 0;
    di_cli_link_model("whole", NULL);
    char *shard = di_cli_read("whole/model-00001-of-00001.safetensors", &n);
    assert_non_null(shard);
    di_cli_write("cut-shard/model-00001-of-00001.safetensors", shard, n - 4096);
    free(shard);
    di_cli_link_model("odd-tokenizer", "tokenizer.json");
    static const char odd[] = "{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}";
    di_cli_write("odd-tokenizer/tokenizer.json", odd, strlen(odd));
    di_cli_link_model("no-config", "config.json");
#define RUN "run", "-m", "{TINY}"
    static const cli_case rows[] = {
        {"no file", {RUN, "-f", "{TMP}/none"}, NULL, 3, NULL, "/none: cannot open: No such file"},
        {"folder", {RUN, "-f", "{TMP}"}, NULL, 3, NULL, "cannot read: Is a directory"},
        {"empty file", {RUN, "-f", "{TMP}/empty.txt"}, NULL, 3, NULL, "the prompt is empty"},
        {"only a newline", {RUN, "-f", "{TMP}/newline.txt"}, NULL, 3, NULL, "the prompt is empty"},
        {"empty stdin", {RUN}, "", 3, NULL, "the prompt is empty"},
        {"bad ids", {RUN, "--token-ids", "{TMP}/bad.json"}, NULL, 3, NULL, "bad.json: line 1"},
        {"no array", {RUN, "--token-ids", "{TMP}/object.json"}, NULL, 3, NULL, "found no array"},
        {"a float", {RUN, "--token-ids", "{TMP}/float.json"}, NULL, 3, NULL, "item 1 is no token"},
        {"below 0", {RUN, "--token-ids", "{TMP}/negative.json"}, NULL, 3, NULL, "item 1 is no"},
        {"no token", {RUN, "--token-ids", "{TMP}/big.json"}, NULL, 3, NULL, "99999.*1279"},
        {"no ids", {RUN, "--token-ids", "{TMP}/empty.json"}, NULL, 3, NULL, "ids is empty"},
        {"no chat", {RUN, "--messages", "{TMP}/object.json"}, NULL, 3, NULL, "\"messages\""},
        {"no UTF-8", {RUN, "--chat", "-p", "a\xff"}, NULL, 3, NULL, "must be UTF-8"},
        {"no model", {"run", "-m", "{TMP}/none", "-p", "x"}, NULL, 3, NULL, "/none"},
        {"cut shard",
         {"run", "-m", "{TMP}/cut-shard", "-p", "x"},
         NULL,
         3,
         NULL,
         "model-00001-of-00001.safetensors"},
        {"C02",
         {"run", "-m", "{TMP}/odd-tokenizer", "-p", "x"},
         NULL,
         3,
         NULL,
         "tokenizer.json.*Unigram"},
        {"no config", {"run", "-m", "{TMP}/no-config", "-p", "x"}, NULL, 3, NULL, "config.json"},
        {"score folder",
         {"score", "-m", "{TINY}", "--token-ids", "{TMP}/big.json", "-o", "{TMP}"},
         NULL,
         2,
         NULL,
         "not a regular file"},
        {"inspect nothing", {"inspect", "{TMP}/none"}, NULL, 3, NULL, "/none"},
    };
#undef RUN
    CHECK_CASES(rows);
}

/* L01, L06, L07, L09 as a user meets them. */
static void inspect_refuses_damaged_files(void **state)
{
    (void)state;
    static const char *const files[] = {
        "L01/cut-data",        "L01/cut-header",      "L01/cut-length",    "L01/empty",
        "L06/negative",        "L06/wrap-small",      "L06/float-dim",     "L06/big-dim",
        "L06/wrap-to-zero",    "L07/negative-offset", "L07/size-mismatch", "L07/end-before-begin",
        "L07/three-offsets",   "L07/duplicate-key",   "L07/gap",           "L07/overlap",
        "L07/overlap-partial", "L07/trailing",        "L09/html",          "L09/model",
    };
    int n_failed = 0;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *path = NULL;
        assert_true(asprintf(&path, "{DATA}/cases/bugs/%s.safetensors", files[i]) > 0);
        n_failed += check_case(
            &(cli_case){files[i], {"inspect", path}, NULL, 3, "", strchr(files[i], '/') + 1});
        free(path);
    }
    assert_int_equal(n_failed, 0);
    static const cli_case rows[] = {
        {"good", {"inspect", "{DATA}/cases/bugs/L01/good.safetensors"}, NULL, 0, ".", NULL},
        {"L13 f32",
         {"inspect", "{DATA}/cases/bugs/L13/sink-f32.safetensors", "--tensor", "attn_sink"},
         NULL,
         0,
         "-0\\.31.*0\\.27.*-1\\.5.*0\\.125",
         NULL},
        {"no tensor",
         {"inspect", "{DATA}/cases/bugs/L01/good.safetensors", "--tensor", "none"},
         NULL,
         3,
         "",
         "none"},
        {"model", {"inspect", "{TINY}"}, NULL, 0, "1280", NULL},
        {"plan", {"inspect", "{TINY}", "--memplan"}, NULL, 0, "bytes|MiB|KiB", NULL},
    };
    CHECK_CASES(rows);
}

/* -------------------------------------------------------------------------------- text, formats */

static void texts_and_ids(void **state)
{
    (void)state;
#define TOKENIZER "--tokenizer", "{DATA}/golden/tokenizer.json"
    static const cli_case rows[] = {
        {"words", {"tokenize", TOKENIZER, "a", "b"}, NULL, 0, "^\\[67\\]\n\\[68\\]\n$", NULL},
        {"stdin", {"tokenize", TOKENIZER}, "a", 0, "^\\[67\\]\n$", NULL},
        {"a marker is text", {"tokenize", TOKENIZER, "<think>"}, NULL, 0, "^\\[30, .*\\]\n$", NULL},
        {"or a token",
         {"tokenize", TOKENIZER, "--parse-special", "<think>"},
         NULL,
         0,
         "^\\[1268\\]\n$",
         NULL},
        {"lines",
         {"tokenize", TOKENIZER, "--jsonl"},
         "{\"text\": \"a\"}\n\n{\"text\": \"<think>\"}",
         0,
         "^\\{\"ids\": \\[67\\]\\}\n\\{\"ids\": \\[1268\\]\\}\n$",
         NULL},
        {"lines without",
         {"tokenize", TOKENIZER, "--jsonl", "--no-parse-special"},
         "{\"text\": \"<think>\"}",
         0,
         "^\\{\"ids\": \\[30, .*\\]\\}\n$",
         NULL},
        {"bad ids",
         {"detokenize", TOKENIZER, "--jsonl"},
         "{\"id\": 1}\n{\"ids\": [1.5]}\n{\"ids\": [99999]}\n{\"ids\": [67]}\n[1]\n",
         3,
         "^(\\{\"error\": \".*\"\\}\n){3}\\{\"text\": \"a\"\\}\n\\{\"error\": .*\\}\n$",
         "line 1: .*line 2: .*item 0.*line 3: .*99999.*line 5: ",
         true},
        {"no lines",
         {"tokenize", TOKENIZER, "--jsonl", "-f", "{TMP}/none"},
         NULL,
         3,
         NULL,
         "/none"},
        {"a folder of lines",
         {"tokenize", TOKENIZER, "--jsonl", "-f", "{TMP}"},
         NULL,
         3,
         NULL,
         "cannot read"},
        {"a bad line",
         {"tokenize", TOKENIZER, "--jsonl"},
         "{\"text\": \"a\"}\n{\"txt\": 1}\nx\n{\"text\": \"b\"}\n",
         3,
         "^\\{\"ids\": \\[67\\]\\}\n\\{\"error\": .*\\}\n\\{\"error\": .*\\}\n\\{\"ids\": "
         "\\[68\\]\\}"
         "\n$",
         "line 2: .*\n.*line 3: ",
         true},
        {"back", {"detokenize", TOKENIZER, "67", "68"}, NULL, 0, "^ab$", NULL},
        {"back from stdin", {"detokenize", TOKENIZER}, "[67, 68]\n", 0, "^ab$", NULL},
        {"half a character",
         {"detokenize", TOKENIZER, "--jsonl"},
         "{\"ids\": [67, 174]}",
         0,
         "^\\{\"text\": \"a\xef\xbf\xbd\"\\}\n$",
         NULL},
        {"special", {"detokenize", TOKENIZER, "0", "67"}, NULL, 0, "sentence.*a$", NULL},
        {"skipped", {"detokenize", TOKENIZER, "--skip-special", "0", "67"}, NULL, 0, "^a$", NULL},
        {"no token", {"detokenize", TOKENIZER, "99999"}, NULL, 3, NULL, "99999"},
        {"no file", {"tokenize", "--tokenizer", "{TMP}/none", "a"}, NULL, 3, NULL, "/none"},
    };
#undef TOKENIZER
    CHECK_CASES(rows);
}

/* V05 among them: no message is an error, leading spaces stay, the mode decides the end. */
static void chats_and_completions(void **state)
{
    (void)state;
    static const char chat[] = "[{\"role\": \"user\", \"content\": \"hi\"}]";
    di_cli_write("chat.json", chat, strlen(chat));
#define BAR "\xef\xbd\x9c"
    static const cli_case rows[] = {
        {"chat",
         {"encode"},
         "[{\"role\": \"user\", \"content\": \"  hi \"}]",
         0,
         "<" BAR "User" BAR ">  hi <" BAR "Assistant" BAR "></think>$",
         NULL},
        {"thinking",
         {"encode"},
         "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"thinking_mode\": "
         "\"thinking\"}",
         0,
         "Effort: 75 .*<" BAR "Assistant" BAR "><think>$",
         NULL},
        {"from a file", {"encode", "{TMP}/chat.json"}, NULL, 0, "></think>$", NULL},
        {"no text", {"parse", "--jsonl"}, "{\"text\": 1}", 3, "^\\{\"error\": ", "line 1: "},
        {"nobody", {"encode"}, "[]", 3, NULL, "stdin: "},
        {"no JSON", {"encode"}, "hi", 3, NULL, "stdin: line 1"},
        {"a number", {"encode"}, "5", 3, NULL, "stdin: "},
        {"lines",
         {"encode", "--jsonl"},
         "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n{\"messages\": []}\n",
         0,
         "^\\{\"prompt\": \".*hi.*\"\\}\n\\{\"error\": \".*\"\\}\n$",
         NULL},
        {"a line that is no chat",
         {"encode", "--jsonl"},
         "{\"a\": 1}",
         3,
         "^\\{\"error\": ",
         "line 1: "},
        {"answer",
         {"parse"},
         "hello<" BAR "end\xe2\x96\x81of\xe2\x96\x81sentence" BAR ">",
         0,
         "^\\{.*\"content\": ?\"hello\"",
         NULL},
        {"cut answer", {"parse"}, "hello", 3, NULL, "stdin: "},
        {"lines of answers",
         {"parse", "--jsonl"},
         "{\"text\": \"why</think>because<" BAR "end\xe2\x96\x81of\xe2\x96\x81sentence" BAR
         ">\", \"thinking_mode\": \"thinking\"}\n{\"text\": \"cut\"}\n",
         0,
         "^\\{\"message\": \\{.*\"because\".*\"why\".*\\}\\}\n\\{\"error\": ",
         NULL},
    };
#undef BAR
    CHECK_CASES(rows);
}

static void what_it_is_and_would_do(void **state)
{
    (void)state;
    static const cli_case rows[] = {
        {"config", {"config", "--threads", "3"}, NULL, 0, "threads += 3", NULL},
        {"config bad", {"config", "--threads", "x"}, NULL, 2, NULL, "--threads"},
        {"kernels", {"kernels"}, NULL, 0, "\\*", NULL},
    };
    CHECK_CASES(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_without_a_command),
        cmocka_unit_test(every_command_has_help),
        cmocka_unit_test(bad_values_are_named_first),
        cmocka_unit_test(options_that_do_not_go_together),
        cmocka_unit_test(the_environment_is_checked),
        cmocka_unit_test(a_terminal_is_no_prompt),
        cmocka_unit_test(bad_files_are_input_errors),
        cmocka_unit_test(inspect_refuses_damaged_files),
        cmocka_unit_test(texts_and_ids),
        cmocka_unit_test(chats_and_completions),
        cmocka_unit_test(what_it_is_and_would_do),
    };
    return cmocka_run_group_tests_name("cli", tests, di_cli_setup, di_cli_teardown);
}
