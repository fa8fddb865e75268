/* A rendered chat through the tokenizer: for harmless text the ids of the reference, which parses
 * special tokens in the whole string; markers in content never become tokens (T07). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "text/encoding.h"
#include "tokenizers.h"
#include "xz.h"

#define CASES DI_TEST_DATA "/cases/"

static di_tokenizer *v3, *golden;

static void encode(const di_tokenizer *t, const char *request, size_t len, bool is_whole,
                   di_ids *out)
{
    di_chat_prompt prompt = {0};
    assert_int_equal(di_chat_render_text(request, len, &prompt), DI_OK);
    assert_int_equal(di_tokenizer_encode(t, prompt.text.data, prompt.text.len, prompt.content,
                                         is_whole ? 0 : prompt.n_content, out),
                     DI_OK);
    di_chat_prompt_free(&prompt);
}

static void check_case(const di_tokenizer *t, const char *line, size_t len)
{
    DI_IDS_AUTO ids = {0}, wanted = {0};
    encode(t, line, len, false, &ids);
    encode(t, line, len, true, &wanted);
    assert_int_equal(ids.len, wanted.len);
    assert_memory_equal(ids.data, wanted.data, ids.len * sizeof *ids.data);
}

static void harmless_text(void **state)
{
    (void)state;
    static const char *const names[] = {"chat_encode", "chat_encode_more", "chat_images"};
    size_t n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, CASES "chat/%s.jsonl.xz", names[i]);
        DI_BUF_AUTO text = {0};
        assert_int_equal(di_test_xz_read(path, &text), DI_OK);
        size_t at = 0, len;
        const char *line;
        while (di_test_next_line(&text, &at, &line, &len)) {
            json_t *row = json_loadb(line, len, 0, NULL);
            assert_non_null(row);
            if (json_object_get(row, "prompt")) {
                check_case(v3, line, len);
                check_case(golden, line, len);
                n++;
            }
            json_decref(row);
        }
    }
    assert_int_equal(n, 240);
}

static size_t count_added(const di_tokenizer *t, const di_ids *ids)
{
    size_t n = 0;
    for (size_t i = 0; i < ids->len; i++)
        n += di_tokenizer_token(t, ids->data[i])->is_added;
    return n;
}

static void t07_ids(void **state)
{
    (void)state;
    json_t *rows = json_load_file(CASES "bugs/T07/cases.json", JSON_ALLOW_NUL, NULL);
    assert_non_null(rows);
    size_t i, n = 0;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        const json_t *right = json_object_get(row, "ids_right");
        if (!right)
            continue;
        json_t *messages =
            json_pack("[{s:s, s:O}]", "role", "user", "content", json_object_get(row, "content"));
        char *request = json_dumps(messages, 0);
        DI_IDS_AUTO ids = {0};
        encode(v3, request, strlen(request), false, &ids);
        assert_true(ids.len > json_array_size(right) + 3);
        assert_int_equal(ids.data[0], 0);
        assert_int_equal(ids.data[1], 128803);
        for (size_t j = 0; j < json_array_size(right); j++)
            assert_int_equal(ids.data[2 + j], json_integer_value(json_array_get(right, j)));
        assert_int_equal(ids.data[2 + json_array_size(right)], 128804);
        free(request);
        json_decref(messages);
        n++;
    }
    assert_int_equal(n, 3);
    json_decref(rows);
}

/* A marker as every text of a request with tools, calls and results: as many added tokens as with a
 * plain word there. */
static void markers_in_content(void **state)
{
    (void)state;
    static const char *const words[] = {
        "word", "<｜User｜>", DI_CHAT_EOS, DI_CHAT_DSML, DI_CHAT_THINK_END, "<｜noise｜>", "<｜Us"};
    size_t wanted = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *w = words[i];
        json_t *call = json_pack("{s:{s:s, s:{s:s, s:[s]}}}", "function", "name", w, "arguments", w,
                                 w, "b", w);
        json_t *request =
            json_pack("{s:s, s:[{s:{s:s, s:s}}], s:[{s:s, s:s}, {s:s, s:s}, {s:s, s:s, s:s, "
                      "s:[o]}, {s:s, s:s},"
                      " {s:s, s:s}]}",
                      "thinking_mode", "thinking", "tools", "function", "name", w, "description", w,
                      "messages", "role", "system", "content", w, "role", "user", "content", w,
                      "role", "assistant", "content", w, "reasoning_content", w, "tool_calls", call,
                      "role", "tool", "content", w, "role", "user", "content", "er｜>");
        assert_non_null(request);
        char *text = json_dumps(request, 0);
        DI_IDS_AUTO ids = {0};
        encode(golden, text, strlen(text), false, &ids);
        wanted = i ? wanted : count_added(golden, &ids);
        assert_int_equal(count_added(golden, &ids), wanted);
        free(text);
        json_decref(request);
    }
    assert_true(wanted > 20);
}

static int open_tokenizers(void **state)
{
    (void)state;
    v3 = di_test_tokenizer(DI_TEST_V3_TOKENIZER);
    golden = di_test_tokenizer(DI_TEST_GOLDEN_TOKENIZER);
    return v3 && golden ? 0 : -1;
}

static int close_tokenizers(void **state)
{
    (void)state;
    di_tokenizer_close(v3);
    di_tokenizer_close(golden);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(harmless_text),
        cmocka_unit_test(t07_ids),
        cmocka_unit_test(markers_in_content),
    };
    return cmocka_run_group_tests(tests, open_tokenizers, close_tokenizers);
}
