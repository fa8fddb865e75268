/* BPE against the plain algorithm, and its work on long words (fault T03). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_impl.h"
#include "tokenizers.h"

static di_tokenizer *v3, *golden;

/* The golden file's merge list, read here once more, by rank. */
typedef struct di_plain_merge {
    int32_t left, right, result;
} di_plain_merge;

static di_plain_merge *merges;
static size_t n_merges;

static int32_t find_text(const char *a, const char *b)
{
    char text[256];
    snprintf(text, sizeof text, "%s%s", a, b);
    return di_tokenizer_find(golden, text, strlen(text));
}

static void read_merges(void)
{
    json_t *root = di_test_json(DI_TEST_GOLDEN_TOKENIZER);
    const json_t *list = json_object_get(json_object_get(root, "model"), "merges");
    n_merges = json_array_size(list);
    merges = calloc(n_merges, sizeof *merges);
    for (size_t i = 0; i < n_merges; i++) {
        const json_t *pair = json_array_get(list, i);
        const char *a = json_string_value(json_array_get(pair, 0));
        const char *b = json_string_value(json_array_get(pair, 1));
        merges[i] = (di_plain_merge){find_text(a, ""), find_text(b, ""), find_text(a, b)};
    }
    json_decref(root);
}

static size_t plain_rank(int32_t left, int32_t right)
{
    size_t i = 0;
    while (i < n_merges && (merges[i].left != left || merges[i].right != right))
        i++;
    return i;
}

/* Joins the lowest-ranked, then leftmost, pair until there is none. */
static void plain_encode(const char *bytes, size_t len, di_ids *out)
{
    for (size_t i = 0; i < len; i++)
        assert_int_equal(di_ids_push(out, golden->bpe.byte_ids[(unsigned char)bytes[i]]), DI_OK);
    for (;;) {
        size_t best = n_merges;
        size_t where = 0;
        for (size_t i = 0; i + 1 < out->len; i++) {
            const size_t rank = plain_rank(out->data[i], out->data[i + 1]);
            if (rank < best) {
                best = rank;
                where = i;
            }
        }
        if (best == n_merges)
            return;
        out->data[where] = merges[best].result;
        memmove(out->data + where + 1, out->data + where + 2,
                (out->len - where - 2) * sizeof *out->data);
        out->len--;
    }
}

static void assert_plain(const char *bytes, size_t len)
{
    DI_IDS_AUTO wanted = {0}, found = {0};
    plain_encode(bytes, len, &wanted);
    di_bpe_scratch scratch = {0};
    assert_int_equal(di_bpe_encode(&golden->bpe, &scratch, bytes, len, &found), DI_OK);
    di_bpe_scratch_free(&scratch);
    assert_int_equal(found.len, wanted.len);
    assert_memory_equal(found.data, wanted.data, wanted.len * sizeof *wanted.data);
}

static void same_ids_as_the_plain_algorithm(void **state)
{
    (void)state;
    static const char *const alphabets[] = {"ab", "the ", "aeinorst", "=-_ ", "\n\t ", "x"};
    uint64_t seed = 3;
    for (int i = 0; i < 60; i++) {
        char text[160];
        const size_t len =
            i < 30 ? 1 + di_test_random(&seed) % 48 : 49 + di_test_random(&seed) % 111;
        const char *alphabet = alphabets[i % 6];
        for (size_t k = 0; k < len; k++)
            text[k] = alphabet[di_test_random(&seed) % strlen(alphabet)];
        if (i % 5 == 4)
            for (size_t k = 0; k < len; k++)
                text[k] = (char)di_test_random(&seed);
        assert_plain(text, len);
    }
}

static uint64_t steps_of(const char *text, size_t len, di_ids *ids)
{
    di_encoder *encoder;
    assert_int_equal(di_encoder_create(v3, &encoder), DI_OK);
    const di_text_span whole = {0, len};
    assert_int_equal(di_encoder_run(encoder, text, len, &whole, 1, ids), DI_OK);
    const uint64_t steps = di_encoder_n_steps(encoder);
    di_encoder_destroy(encoder);
    return steps;
}

typedef struct di_long_word {
    const char *unit; /* repeated; NULL: the pseudo-random letters of T03 */
    size_t n;
    size_t n_tokens;
    int32_t first, last[2]; /* -1: any */
} di_long_word;

static void make_word(const di_long_word *word, size_t n, di_buf *out)
{
    for (uint64_t i = 0; i < n; i++) {
        const char letter = (char)(97 + (i * i * 7 + i * 3) % 26);
        assert_int_equal(di_buf_append(out, word->unit ? word->unit : &letter,
                                       word->unit ? strlen(word->unit) : 1),
                         DI_OK);
    }
}

static void long_words_in_n_log_n(void **state) /* T03 */
{
    (void)state;
    static const di_long_word words[] = {
        {"a", 100000, 12500, 89086, {89086, 89086}}, {"_", 50000, 782, -1, {62204, 8770}},
        {"x", 524288, 65536, 89450, {89450, 89450}}, {NULL, 200000, 92308, 480, {87, 6183}},
        {"道", 100000, 100000, 896, {896, 896}},     {" ", 200000, 1563, -1, {69933, 16932}},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        DI_BUF_AUTO text = {0}, half = {0};
        DI_IDS_AUTO ids = {0}, half_ids = {0};
        make_word(&words[i], words[i].n, &text);
        make_word(&words[i], words[i].n / 2, &half);
        const uint64_t steps = steps_of(text.data, text.len, &ids);
        assert_int_equal(ids.len, words[i].n_tokens);
        if (words[i].first >= 0)
            assert_int_equal(ids.data[0], words[i].first);
        for (int k = 0; k < 2; k++)
            assert_int_equal(ids.data[ids.len - 2 + (size_t)k], words[i].last[k]);
        assert_true((double)steps < 2.5 * (double)steps_of(half.data, half.len, &half_ids));
        assert_true((double)steps < 6.0 * (double)text.len * log2((double)text.len));
    }
}

static void long_word_agrees_with_the_plain_algorithm(void **state)
{
    (void)state;
    const di_long_word letters = {0};
    DI_BUF_AUTO text = {0};
    make_word(&letters, 600, &text);
    assert_plain(text.data, text.len);
}

static void pretokens_of_a_long_text_cost_no_more(void **state)
{
    (void)state;
    DI_BUF_AUTO lines = {0}, twice = {0};
    assert_int_equal(di_test_read("cases/tokenizer/tokens_tiny.jsonl.xz", &lines), DI_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(di_buf_append(&twice, lines.data, lines.len), DI_OK);
    DI_IDS_AUTO ids = {0};
    steps_of(lines.data, lines.len, &ids); /* what the tokenizer remembers of words is known now */
    const uint64_t once = steps_of(lines.data, lines.len, &ids);
    const uint64_t both = steps_of(twice.data, twice.len, &ids);
    assert_true((double)both < 2.01 * (double)once);
    assert_true(once < 20 * lines.len);
}

static void memory_of_the_whole_word_is_right(void **state)
{
    (void)state;
    /* second pass: every answer comes from the table of whole words */
    for (int pass = 0; pass < 2; pass++)
        for (int32_t id = 0; id < golden->n_file_ids; id++) {
            const di_token *token = di_tokenizer_token(golden, id);
            if (token->is_added)
                continue;
            DI_IDS_AUTO wanted = {0}, found = {0};
            di_encoder *encoder;
            assert_int_equal(di_encoder_create(golden, &encoder), DI_OK);
            const di_text_span whole = {0, token->n_bytes};
            assert_int_equal(
                di_encoder_run(encoder, token->bytes, token->n_bytes, &whole, 1, &found), DI_OK);
            di_encoder_destroy(encoder);
            if (golden->whole[id] == DI_WHOLE_UNKNOWN)
                continue; /* the splits cut this token */
            plain_encode(token->bytes, token->n_bytes, &wanted);
            assert_int_equal(found.len, wanted.len);
            assert_memory_equal(found.data, wanted.data, wanted.len * sizeof *wanted.data);
            assert_int_equal(golden->whole[id], found.len == 1 ? DI_WHOLE_YES : DI_WHOLE_NO);
        }
}

static int open_both(void **state)
{
    (void)state;
    v3 = di_test_tokenizer(DI_TEST_V3_TOKENIZER);
    golden = di_test_tokenizer(DI_TEST_GOLDEN_TOKENIZER);
    if (!v3 || !golden)
        return -1;
    read_merges();
    return n_merges == 1005 ? 0 : -1;
}

static int close_both(void **state)
{
    (void)state;
    di_tokenizer_close(v3);
    di_tokenizer_close(golden);
    free(merges);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_ids_as_the_plain_algorithm),
        cmocka_unit_test(long_words_in_n_log_n),
        cmocka_unit_test(long_word_agrees_with_the_plain_algorithm),
        cmocka_unit_test(pretokens_of_a_long_text_cost_no_more),
        cmocka_unit_test(memory_of_the_whole_word_is_right),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
