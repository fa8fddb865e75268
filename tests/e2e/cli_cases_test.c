/* The case files through the program's line filters, as another program would drive them. */
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

#include "process.h"
#include "xz.h"

/* Checks the answer to one row; false if it is wrong. */
typedef bool (*check_fn)(const json_t *row, const json_t *answer);

static json_t *parse(const char *text, size_t bytes)
{
    json_t *value = json_loadb(text, bytes, JSON_ALLOW_NUL, NULL);
    assert_non_null(value);
    return value;
}

static size_t compare(const di_buf *cases, const di_buf *answers, check_fn check)
{
    size_t at_case = 0, at_answer = 0, n_rows = 0, n_wrong = 0, n_row = 0, n_answer = 0;
    const char *row_text = NULL, *answer_text = NULL;
    while (di_test_next_line(cases, &at_case, &row_text, &n_row)) {
        assert_true(di_test_next_line(answers, &at_answer, &answer_text, &n_answer));
        json_t *row = parse(row_text, n_row);
        json_t *answer = parse(answer_text, n_answer);
        n_rows++;
        if (!check(row, answer) && n_wrong++ < 5)
            print_error("%.*s\n-> %.*s\n", (int)n_row, row_text, (int)n_answer, answer_text);
        json_decref(row);
        json_decref(answer);
    }
    assert_false(di_test_next_line(answers, &at_answer, &answer_text, &n_answer));
    assert_int_equal(n_wrong, 0);
    return n_rows;
}

/* All lines of a case file through `deepinfer ARGS...`; the number of them. */
static size_t filter(const char *path, const char *const *args, check_fn check)
{
    di_buf cases = {0};
    assert_int_equal(di_test_xz_read(path, &cases), DI_OK);
    di_process process;
    di_process_run(
        &(di_process_options){.args = args, .in = (const char *)cases.data, .in_bytes = cases.len},
        &process);
    assert_string_equal(process.err, "");
    assert_int_equal(process.code, 0);
    di_buf answers = {0};
    assert_int_equal(di_buf_append(&answers, process.out, process.out_bytes), DI_OK);
    const size_t n = compare(&cases, &answers, check);
    di_buf_free(&answers);
    di_buf_free(&cases);
    di_process_free(&process);
    return n;
}
#define FILTER(name, check, ...)                                                                   \
    filter(DI_TEST_DATA "/cases/" name, (const char *const[]){__VA_ARGS__, NULL}, check)

static bool same(const json_t *row, const char *wanted, const json_t *answer, const char *key)
{
    return json_object_size(answer) == 1 &&
           json_equal(json_object_get(row, wanted), json_object_get(answer, key));
}

static bool has_ids(const json_t *row, const json_t *answer)
{
    return same(row, "ids", answer, "ids");
}

static bool has_text(const json_t *row, const json_t *answer)
{
    const bool differs = json_object_get(row, "decoded") != NULL;
    return same(row, differs ? "decoded" : "text", answer, "text");
}

static bool is_refused(const json_t *answer)
{
    return json_object_size(answer) == 1 && json_is_string(json_object_get(answer, "error"));
}

static bool has_prompt(const json_t *row, const json_t *answer)
{
    if (json_is_true(json_object_get(row, "error")))
        return is_refused(answer);
    return same(row, "prompt", answer, "prompt");
}

static bool has_message(const json_t *row, const json_t *answer)
{
    if (json_is_true(json_object_get(row, "error")))
        return is_refused(answer);
    return same(row, "message", answer, "message");
}

#define GOLDEN_TOKENIZER "--tokenizer", DI_TEST_DATA "/golden/tokenizer.json"

static void tokenizer_cases(void **state)
{
    (void)state;
    assert_true(FILTER("tokenizer/tokens_tiny.jsonl.xz", has_ids, "tokenize", "--jsonl",
                       GOLDEN_TOKENIZER) > 800);
    assert_true(FILTER("tokenizer/tokens_tiny.jsonl.xz", has_text, "detokenize", "--jsonl",
                       GOLDEN_TOKENIZER) > 800);
}

static void chat_cases(void **state)
{
    (void)state;
    assert_true(FILTER("chat/chat_encode.jsonl.xz", has_prompt, "encode", "--jsonl") >= 100);
    assert_true(FILTER("chat/chat_encode_more.jsonl.xz", has_prompt, "encode", "--jsonl") > 20);
    assert_true(FILTER("chat/chat_images.jsonl.xz", has_prompt, "encode", "--jsonl") > 2);
    assert_true(FILTER("chat/chat_parse.jsonl.xz", has_message, "parse", "--jsonl") >= 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokenizer_cases),
        cmocka_unit_test(chat_cases),
    };
    return cmocka_run_group_tests_name("cli_cases", tests, NULL, NULL);
}
