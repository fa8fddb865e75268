/* Streaming decode gives whole characters, in all what a whole decode gives (fault T04). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "text/detokenizer.h"
#include "text/utf8.h"
#include "tokenizers.h"
#include "xz.h"

static di_tokenizer *v3, *golden;

static void whole_decode(const di_tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                         di_buf *out)
{
    DI_BUF_AUTO bytes = {0};
    assert_int_equal(di_tokenizer_decode(t, ids, n, skip_special, &bytes), DI_OK);
    assert_int_equal(di_utf8_append_lossy(out, di_buf_str(&bytes), bytes.len), DI_OK);
}

/* Pieces are whole characters, in all the whole decode. */
static void check_stream(const di_tokenizer *t, const int32_t *ids, size_t n, bool skip_special)
{
    DI_BUF_AUTO wanted = {0}, out = {0};
    whole_decode(t, ids, n, skip_special, &wanted);
    di_detokenizer d;
    di_detokenizer_init(&d, t, skip_special);
    for (size_t i = 0; i < n; i++) {
        const size_t before = out.len;
        assert_int_equal(di_detokenizer_push(&d, ids[i], &out), DI_OK);
        const char *piece = di_buf_str(&out) + before;
        assert_int_equal(di_utf8_valid_prefix(piece, out.len - before), out.len - before);
        assert_true(out.len <= wanted.len);
    }
    assert_int_equal(di_detokenizer_finish(&d, &out), DI_OK);
    assert_int_equal(out.len, wanted.len);
    assert_memory_equal(di_buf_str(&out), di_buf_str(&wanted), wanted.len);
    assert_int_equal(di_detokenizer_finish(&d, &out), DI_OK); /* the tail comes once */
    assert_int_equal(out.len, wanted.len);
}

static void emoji_over_several_tokens(void **state) /* T04 */
{
    (void)state;
    json_t *rows = di_test_json("cases/bugs/T04/cases.json");
    assert_int_equal(json_array_size(rows), 4);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        const char *text = json_string_value(json_object_get(row, "text"));
        DI_IDS_AUTO wanted = {0}, ids = {0};
        assert_int_equal(di_test_json_ids(json_object_get(row, "ids"), &wanted), DI_OK);
        assert_int_equal(di_tokenizer_encode(v3, text, strlen(text), NULL, 0, &ids), DI_OK);
        assert_int_equal(ids.len, wanted.len);
        assert_memory_equal(ids.data, wanted.data, ids.len * sizeof *ids.data);
        DI_BUF_AUTO whole = {0};
        whole_decode(v3, ids.data, ids.len, false, &whole);
        assert_string_equal(di_buf_str(&whole), text);
        for (size_t n = 0; n <= ids.len; n++)
            check_stream(v3, ids.data, n, false);
    }
    json_decref(rows);
}

static void cut_tail_comes_once_at_the_end(void **state) /* T04 */
{
    (void)state;
    DI_BUF_AUTO out = {0}, bytes = {0};
    di_detokenizer d;
    di_detokenizer_init(&d, v3, false);
    const int32_t id = 25730;
    assert_int_equal(di_detokenizer_push(&d, id, &out), DI_OK);
    assert_int_equal(out.len, 0);
    assert_int_equal(di_detokenizer_finish(&d, &out), DI_OK);
    assert_string_equal(di_buf_str(&out), DI_UTF8_REPLACEMENT);
    assert_int_equal(di_tokenizer_decode(v3, &id, 1, false, &bytes), DI_OK);
    assert_string_equal(di_buf_str(&bytes), "\xf0\x9f\x91");
}

/* Each text cut behind every token: the tail of a cut character is one U+FFFD. */
static void check_file(const di_tokenizer *t, const char *path)
{
    DI_BUF_AUTO lines = {0};
    assert_int_equal(di_test_read(path, &lines), DI_OK);
    size_t at = 0, len;
    const char *line;
    while (di_test_next_line(&lines, &at, &line, &len)) {
        json_t *row = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
        DI_IDS_AUTO ids = {0};
        assert_int_equal(di_test_json_ids(json_object_get(row, "ids"), &ids), DI_OK);
        check_stream(t, ids.data, ids.len, true);
        for (size_t n = 0; n < ids.len && n < 64; n++)
            check_stream(t, ids.data, n, false);
        json_decref(row);
    }
}

static void every_case_cut_at_every_token(void **state)
{
    (void)state;
    check_file(v3, "cases/tokenizer/tokens_deepseek_v3.jsonl.xz");
    check_file(golden, "cases/tokenizer/tokens_tiny.jsonl.xz");
}

static void random_ids(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (int i = 0; i < 3000; i++) {
        const di_tokenizer *t = i & 1 ? v3 : golden;
        int32_t ids[40];
        for (int k = 0; k < 40; k++) { /* mostly single bytes: broken characters of every kind */
            const uint32_t range =
                di_test_random(&seed) % 4 ? 259 : (uint32_t)di_tokenizer_n_ids(t);
            ids[k] = (int32_t)(di_test_random(&seed) % range);
        }
        check_stream(t, ids, 40, i & 2);
    }
}

static void special_tokens_may_be_left_out(void **state)
{
    (void)state;
    const int32_t ids[] = {0, 25730, 2, 104, 1};
    DI_BUF_AUTO with = {0}, without = {0};
    di_detokenizer d;
    di_detokenizer_init(&d, v3, true);
    for (int i = 0; i < 5; i++)
        assert_int_equal(di_detokenizer_push(&d, ids[i], &without), DI_OK);
    assert_string_equal(di_buf_str(&without), "👨"); /* as HF: joined over the token left out */
    di_detokenizer_init(&d, v3, false);
    for (int i = 0; i < 5; i++)
        assert_int_equal(di_detokenizer_push(&d, ids[i], &with), DI_OK);
    assert_string_equal(di_buf_str(&with),
                        "<｜begin▁of▁sentence｜>" DI_UTF8_REPLACEMENT
                        "<｜▁pad▁｜>" DI_UTF8_REPLACEMENT "<｜end▁of▁sentence｜>");
}

/* Long tokens between the two halves of a character. */
static void long_tokens_behind_a_cut_one(void **state)
{
    (void)state;
    int n_long = 0;
    for (int32_t id = 0; id < di_tokenizer_n_ids(v3); id++) {
        if (di_tokenizer_token(v3, id)->n_bytes < 60)
            continue;
        const int32_t ids[] = {25730, id, 104, 25730, 104, id};
        check_stream(v3, ids, sizeof ids / sizeof *ids, false);
        n_long++;
    }
    assert_true(n_long > 10);
}

static void bad_id_changes_nothing(void **state)
{
    (void)state;
    DI_BUF_AUTO out = {0};
    di_detokenizer d;
    di_detokenizer_init(&d, v3, false);
    assert_int_equal(di_detokenizer_push(&d, 25730, &out), DI_OK);
    assert_int_equal(di_detokenizer_push(&d, 128815, &out), DI_ERR_ARGUMENT);
    assert_non_null(strstr(di_last_error(), "128815"));
    assert_int_equal(di_detokenizer_push(&d, -1, &out), DI_ERR_ARGUMENT);
    assert_int_equal(out.len, 0);
    assert_int_equal(di_detokenizer_push(&d, 104, &out), DI_OK);
    assert_string_equal(di_buf_str(&out), "👨");
}

static int open_both(void **state)
{
    (void)state;
    v3 = di_test_tokenizer(DI_TEST_V3_TOKENIZER);
    golden = di_test_tokenizer(DI_TEST_GOLDEN_TOKENIZER);
    return v3 && golden ? 0 : -1;
}

static int close_both(void **state)
{
    (void)state;
    di_tokenizer_close(v3);
    di_tokenizer_close(golden);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emoji_over_several_tokens),
        cmocka_unit_test(cut_tail_comes_once_at_the_end),
        cmocka_unit_test(every_case_cut_at_every_token),
        cmocka_unit_test(random_ids),
        cmocka_unit_test(special_tokens_may_be_left_out),
        cmocka_unit_test(long_tokens_behind_a_cut_one),
        cmocka_unit_test(bad_id_changes_nothing),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
