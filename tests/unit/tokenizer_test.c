/* Encoding and decoding with both tokenizers, and the reported faults T01, T06, T07, T09. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "text/utf8.h"
#include "tokenizers.h"
#include "xz.h"

static di_tokenizer *v3, *golden;

static void assert_ids(const di_ids *found, const json_t *wanted, const char *what)
{
    for (size_t i = 0; i < found->len && i < json_array_size(wanted); i++)
        if (found->data[i] != json_integer_value(json_array_get(wanted, i)))
            fail_msg("id %zu of \"%.80s\": found %d, wanted %lld", i, what, found->data[i],
                     (long long)json_integer_value(json_array_get(wanted, i)));
    assert_int_equal(found->len, json_array_size(wanted));
}

static void assert_bytes(const di_buf *found, const char *wanted, size_t len)
{
    assert_int_equal(found->len, len);
    assert_memory_equal(di_buf_str(found), wanted, len);
}

static void check_case(const di_tokenizer *t, const json_t *row)
{
    const json_t *text = json_object_get(row, "text");
    const json_t *decoded = json_object_get(row, "decoded");
    const char *s = json_string_value(text);
    DI_IDS_AUTO ids = {0};
    assert_int_equal(di_tokenizer_encode(t, s, json_string_length(text), NULL, 0, &ids), DI_OK);
    assert_ids(&ids, json_object_get(row, "ids"), s);
    DI_BUF_AUTO bytes = {0}, shown = {0};
    assert_int_equal(di_tokenizer_decode(t, ids.data, ids.len, false, &bytes), DI_OK);
    assert_bytes(&bytes, s, json_string_length(text));
    assert_int_equal(di_utf8_append_lossy(&shown, bytes.data, bytes.len), DI_OK);
    const json_t *wanted = decoded ? decoded : text;
    assert_bytes(&shown, json_string_value(wanted), json_string_length(wanted));
}

static size_t check_cases(const di_tokenizer *t, const char *path)
{
    DI_BUF_AUTO lines = {0};
    assert_int_equal(di_test_read(path, &lines), DI_OK);
    size_t at = 0, n = 0, len;
    const char *line;
    while (di_test_next_line(&lines, &at, &line, &len)) {
        json_t *row = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
        assert_non_null(row);
        check_case(t, row);
        json_decref(row);
        n++;
    }
    return n;
}

static void all_cases_of_both_tokenizers(void **state)
{
    (void)state;
    assert_int_equal(check_cases(v3, "cases/tokenizer/tokens_deepseek_v3.jsonl.xz"), 855);
    assert_int_equal(check_cases(golden, "cases/tokenizer/tokens_tiny.jsonl.xz"), 855);
}

static void white_space_is_kept(void **state) /* T01 */
{
    (void)state;
    json_t *rows = di_test_json("cases/bugs/T01/cases.json");
    assert_int_equal(json_array_size(rows), 8);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) check_case(v3, row);
    json_decref(rows);
}

static size_t from_hex(const char *hex, char *out)
{
    size_t n = 0;
    for (unsigned byte; sscanf(hex + 2 * n, "%2x", &byte) == 1; n++)
        out[n] = (char)byte;
    return n;
}

static void assert_round_trip(const di_tokenizer *t, const char *bytes, size_t len)
{
    DI_IDS_AUTO ids = {0};
    assert_int_equal(di_tokenizer_encode(t, bytes, len, NULL, 0, &ids), DI_OK);
    DI_BUF_AUTO back = {0};
    assert_int_equal(di_tokenizer_decode(t, ids.data, ids.len, false, &back), DI_OK);
    assert_bytes(&back, bytes, len);
}

static void any_bytes_come_back(void **state) /* T06 */
{
    (void)state;
    DI_BUF_AUTO lines = {0};
    assert_int_equal(di_test_read("cases/bugs/T06/bytes.jsonl", &lines), DI_OK);
    size_t at = 0, n = 0, len;
    const char *line;
    while (di_test_next_line(&lines, &at, &line, &len)) {
        json_t *row = json_loadb(line, len, 0, NULL);
        char bytes[16];
        const size_t n_bytes = from_hex(json_string_value(json_object_get(row, "hex")), bytes);
        assert_round_trip(v3, bytes, n_bytes);
        json_decref(row);
        n++;
    }
    assert_int_equal(n, 7);
    uint64_t seed = 6;
    for (int i = 0; i < 2000; i++) {
        static const char *const bits[] = {
            "a", " ", "\n", "\xe2\x80", "\xff",         "\xc0\x80", "\xed\xa0",
            "7", "é", "道", "<think>",  "\xf0\x9f\x91", "",         "\x00x"};
        char text[256];
        size_t n_text = 0;
        for (uint32_t k = di_test_random(&seed) % 24; k > 0; k--) {
            const char *bit = bits[di_test_random(&seed) % (sizeof bits / sizeof *bits)];
            const size_t n_bit = *bit ? strlen(bit) : 1;
            memcpy(text + n_text, bit, n_bit);
            n_text += n_bit;
        }
        assert_round_trip(i & 1 ? v3 : golden, text, n_text);
    }
    for (int byte = 0; byte < 256; byte++) {
        const char c = (char)byte;
        assert_round_trip(v3, &c, 1);
    }
}

/* An invalid byte does not disturb the words beside it. */
static void invalid_bytes_stand_alone(void **state)
{
    (void)state;
    DI_IDS_AUTO ids = {0}, left = {0};
    assert_int_equal(di_tokenizer_encode(v3, "hello world\xff!", 13, NULL, 0, &ids), DI_OK);
    assert_int_equal(di_tokenizer_encode(v3, "hello world", 11, NULL, 0, &left), DI_OK);
    assert_int_equal(ids.len, left.len + 2);
    assert_memory_equal(ids.data, left.data, left.len * sizeof *left.data);
    assert_int_equal(ids.data[ids.len - 1], 3); /* "!" */
    const di_token *token = di_tokenizer_token(v3, ids.data[left.len]);
    assert_int_equal(token->n_bytes, 1);
    assert_int_equal((unsigned char)token->bytes[0], 0xff);
}

static void assert_plain(const char *text, size_t len, const json_t *wanted)
{
    const di_text_span whole = {0, len};
    DI_IDS_AUTO ids = {0};
    assert_int_equal(di_tokenizer_encode(v3, text, len, &whole, 1, &ids), DI_OK);
    if (wanted)
        assert_ids(&ids, wanted, text);
    for (size_t i = 0; i < ids.len; i++)
        assert_false(di_tokenizer_token(v3, ids.data[i])->is_added);
    DI_BUF_AUTO back = {0};
    assert_int_equal(di_tokenizer_decode(v3, ids.data, ids.len, true, &back), DI_OK);
    assert_bytes(&back, text, len);
}

static void user_text_gives_no_role_tokens(void **state) /* T07 */
{
    (void)state;
    json_t *rows = di_test_json("cases/bugs/T07/cases.json");
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        const json_t *content = json_object_get(row, "content");
        if (!content)
            continue;
        const char *text = json_string_value(content);
        const size_t len = json_string_length(content);
        assert_plain(text, len, json_object_get(row, "ids_right"));
        const json_t *parsed = json_object_get(row, "ids_if_special_parsed");
        DI_IDS_AUTO ids = {0};
        assert_int_equal(di_tokenizer_encode(v3, text, len, NULL, 0, &ids), DI_OK);
        if (parsed)
            assert_ids(&ids, parsed, text);
    }
    assert_int_equal(i, 5);
    json_decref(rows);
    /* every added token, whole or with its middle or edge in a user's span */
    for (int32_t id = 0; id < di_tokenizer_n_ids(v3); id++) {
        const di_token *token = di_tokenizer_token(v3, id);
        if (token->is_added)
            assert_plain(token->text, token->text_len, NULL);
    }
}

static void a_marker_cut_over_two_parts_stays_text(void **state) /* T07 */
{
    (void)state;
    static const char text[] = "<｜User｜>";
    const size_t len = sizeof text - 1;
    DI_IDS_AUTO apart = {0};
    const di_text_span whole = {0, len};
    assert_int_equal(di_tokenizer_encode(v3, text, len, &whole, 1, &apart), DI_OK);
    for (size_t cut = 0; cut <= len; cut++) {
        const di_text_span both[] = {{0, cut}, {cut, len}};
        const di_text_span first[] = {{0, cut}};
        const di_text_span last[] = {{cut, len}};
        const di_text_span one[] = {{cut, cut + (cut < len)}};
        const di_text_span none[] = {{cut, cut}};
        const struct {
            const di_text_span *spans;
            size_t n;
            bool is_token; /* no byte of the text is a user's */
        } tries[] = {{both, 2, false},     {first, 1, cut == 0}, {last, 1, cut == len},
                     {one, 1, cut == len}, {none, 1, true},      {none, 1, true}};
        for (size_t i = 0; i < 5; i++) {
            DI_IDS_AUTO ids = {0};
            assert_int_equal(di_tokenizer_encode(v3, text, len, tries[i].spans, tries[i].n, &ids),
                             DI_OK);
            if (tries[i].is_token) {
                assert_int_equal(ids.len, 1);
                assert_int_equal(ids.data[0], 128803);
            } else {
                assert_int_equal(ids.len, apart.len);
                assert_memory_equal(ids.data, apart.data, ids.len * sizeof *ids.data);
            }
        }
    }
}

static void template_tokens_beside_user_text(void **state)
{
    (void)state;
    static const char text[] = "<｜User｜>hi<｜User｜>x<｜Assistant｜>";
    const size_t marker = strlen("<｜User｜>");
    const di_text_span user = {marker, marker * 2 + 3};
    DI_IDS_AUTO ids = {0};
    assert_int_equal(di_tokenizer_encode(v3, text, sizeof text - 1, &user, 1, &ids), DI_OK);
    static const int32_t wanted[] = {128803, 6366, 30, 28217, 6756, 28217, 32, 90, 128804};
    assert_int_equal(ids.len, 9);
    assert_memory_equal(ids.data, wanted, sizeof wanted);
    const di_text_span bad[] = {{3, 2}, {0, sizeof text}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(di_tokenizer_encode(v3, text, sizeof text - 1, &bad[i], 1, &ids),
                         DI_ERR_ARGUMENT);
    const di_text_span overlap[] = {{0, 5}, {4, 6}};
    assert_int_equal(di_tokenizer_encode(v3, text, sizeof text - 1, overlap, 2, &ids),
                     DI_ERR_ARGUMENT);
    assert_int_equal(ids.len, 9);
}

static void seams_cut_nothing(void **state) /* T09 */
{
    (void)state;
    json_t *rows = di_test_json("cases/bugs/T09/cases.json");
    assert_int_equal(json_array_size(rows), 9);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        const json_t *parts = json_object_get(row, "parts");
        DI_BUF_AUTO text = {0};
        di_text_span spans[2];
        for (size_t k = 0; k < 2; k++) {
            spans[k].begin = text.len;
            assert_int_equal(di_buf_puts(&text, json_string_value(json_array_get(parts, k))),
                             DI_OK);
            spans[k].end = text.len;
        }
        /* no part, the second part, or both parts a user's */
        const bool is_marker = text.data[0] == '<';
        for (size_t n_plain = 0; n_plain <= (is_marker ? 1 : 2); n_plain++) {
            DI_IDS_AUTO ids = {0};
            assert_int_equal(
                di_tokenizer_encode(v3, text.data, text.len, spans + 2 - n_plain, n_plain, &ids),
                DI_OK);
            assert_ids(&ids, json_object_get(row, "ids_joined"), text.data);
        }
    }
    json_decref(rows);
}

static void spec_prompt_vector(void **state)
{
    (void)state;
    static const char text[] = "<｜begin▁of▁sentence｜><｜User｜>What is 2+2?<｜Assistant｜>";
    static const int32_t wanted[] = {0, 128803, 3085, 344, 223, 20, 13, 20, 33, 128804};
    DI_IDS_AUTO ids = {0};
    assert_int_equal(di_tokenizer_encode(v3, text, sizeof text - 1, NULL, 0, &ids), DI_OK);
    assert_int_equal(ids.len, 10);
    assert_memory_equal(ids.data, wanted, sizeof wanted);
}

static void public_calls(void **state)
{
    (void)state;
    di_tokenizer *t;
    assert_int_equal(di_tokenizer_open(DI_TEST_DATA "/golden", &t), DI_OK); /* a directory */
    int32_t *ids;
    size_t n;
    static const char text[] = "<think>a\0b";
    assert_int_equal(di_tokenizer_encode_text(t, text, 10, true, &ids, &n), DI_OK);
    assert_int_equal(ids[0], 1268);
    assert_int_equal(n, 4);
    char *back;
    size_t n_back;
    assert_int_equal(di_tokenizer_decode_ids(t, ids, n, false, &back, &n_back), DI_OK);
    assert_int_equal(n_back, 10);
    assert_memory_equal(back, text, 11);
    free(back);
    free(ids);
    assert_int_equal(di_tokenizer_encode_text(t, text, 10, false, &ids, &n), DI_OK);
    assert_true(n > 4 && ids[0] != 1268);
    free(ids);
    assert_int_equal(di_tokenizer_encode_text(t, "", 0, false, &ids, &n), DI_OK);
    assert_int_equal(n, 0);
    assert_non_null(ids);
    free(ids);
    assert_int_equal(di_tokenizer_decode_ids(t, NULL, 0, false, &back, &n_back), DI_OK);
    assert_string_equal(back, "");
    free(back);
    static const int32_t special[] = {0, 12, 1268, 1};
    assert_int_equal(di_tokenizer_decode_ids(t, special, 4, true, &back, &n_back), DI_OK);
    assert_string_equal(back, "*<think>");
    free(back);
    for (int i = 0; i < 2; i++) {
        const int32_t bad[] = {12, i ? -1 : 1280};
        assert_int_equal(di_tokenizer_decode_ids(t, bad, 2, true, &back, &n_back), DI_ERR_ARGUMENT);
        assert_non_null(strstr(di_last_error(), i ? "-1" : "1280"));
    }
    assert_int_equal(di_utf8_replace_invalid("a\xff\xe2\x82", 4, &back, &n_back), DI_OK);
    assert_string_equal(back, "a" DI_UTF8_REPLACEMENT DI_UTF8_REPLACEMENT);
    free(back);
    di_tokenizer_close(t);
    di_tokenizer_close(NULL);
}

static void queries(void **state)
{
    (void)state;
    assert_int_equal(di_tokenizer_n_ids(v3), 128815);
    assert_int_equal(di_tokenizer_n_tokens(v3), 128815);
    assert_int_equal(di_tokenizer_find(v3, "<｜User｜>", strlen("<｜User｜>")), 128803);
    assert_int_equal(di_tokenizer_find(v3, "Ġworld", strlen("Ġworld")), 2058);
    assert_int_equal(di_tokenizer_find(v3, " world", 6), -1);
    assert_string_equal(di_tokenizer_token(v3, 2058)->text, "Ġworld");
    assert_int_equal(di_tokenizer_token(v3, 2058)->n_bytes, 6);
    assert_memory_equal(di_tokenizer_token(v3, 2058)->bytes, " world", 6);
    assert_true(di_tokenizer_token(v3, 128803)->is_added);
    assert_false(di_tokenizer_is_special(v3, 128803)); /* as V3's file has it */
    assert_true(di_tokenizer_is_special(v3, 0));
    assert_false(di_tokenizer_is_special(v3, -1));
    assert_null(di_tokenizer_token(v3, 128815));
    assert_null(di_tokenizer_token(v3, -1));
}

static void ids_of_the_config_beyond_the_file(void **state)
{
    (void)state;
    di_tokenizer *t = di_test_tokenizer(DI_TEST_GOLDEN_TOKENIZER);
    assert_int_equal(di_tokenizer_set_vocab_size(t, 1279), DI_ERR_INPUT);
    assert_non_null(strstr(di_last_error(), "1279"));
    assert_int_equal(di_tokenizer_set_vocab_size(t, 1300), DI_OK);
    const int32_t ids[] = {12, 1299, 12};
    DI_BUF_AUTO out = {0};
    assert_int_equal(di_tokenizer_decode(t, ids, 3, false, &out), DI_OK);
    assert_string_equal(di_buf_str(&out), "**");
    const int32_t beyond = 1300;
    assert_int_equal(di_tokenizer_decode(t, &beyond, 1, false, &out), DI_ERR_ARGUMENT);
    assert_string_equal(di_buf_str(&out), "**");
    di_tokenizer_close(t);
}

typedef struct di_race {
    const di_tokenizer *tokenizer;
    const di_buf *text;
    di_ids ids;
} di_race;

static void *race(void *arg)
{
    di_race *r = arg;
    if (di_tokenizer_encode(r->tokenizer, r->text->data, r->text->len, NULL, 0, &r->ids) != DI_OK)
        r->ids.len = 0;
    return NULL;
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    di_tokenizer *t = di_test_tokenizer(DI_TEST_GOLDEN_TOKENIZER);
    DI_BUF_AUTO text = {0};
    assert_int_equal(di_test_read("cases/tokenizer/tokens_tiny.jsonl.xz", &text), DI_OK);
    di_race races[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        races[i] = (di_race){.tokenizer = t, .text = &text};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &races[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        assert_true(races[i].ids.len > 100000);
        assert_int_equal(races[i].ids.len, races[0].ids.len);
        assert_memory_equal(races[i].ids.data, races[0].ids.data, races[0].ids.len * 4);
    }
    for (int i = 0; i < 4; i++)
        di_ids_free(&races[i].ids);
    di_tokenizer_close(t);
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
        cmocka_unit_test(all_cases_of_both_tokenizers),
        cmocka_unit_test(white_space_is_kept),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(invalid_bytes_stand_alone),
        cmocka_unit_test(user_text_gives_no_role_tokens),
        cmocka_unit_test(a_marker_cut_over_two_parts_stays_text),
        cmocka_unit_test(template_tokens_beside_user_text),
        cmocka_unit_test(seams_cut_nothing),
        cmocka_unit_test(spec_prompt_vector),
        cmocka_unit_test(public_calls),
        cmocka_unit_test(queries),
        cmocka_unit_test(ids_of_the_config_beyond_the_file),
        cmocka_unit_test(threads_share_a_tokenizer),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
