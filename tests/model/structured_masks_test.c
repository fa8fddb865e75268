/* Token masks over DeepSeek-V3's vocabulary against those that other engines agree on
 * (tests/cases/structured/masks.jsonl.xz): every step of 211 texts. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/compile.h"
#include "grammar/mask.h"
#include "tokenizers.h"
#include "xz.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != DI_OK)                                                                       \
            fail_msg("%s", di_last_error());                                                       \
    } while (0)

/* Steps at which the reference is wrong, with what is right. */
static const struct {
    const char *id;
    size_t step;
    uint32_t n;
} others[] = {
    /* The text's own next token ("ba", "ab" of aabb...) is not in the reference's mask. */
    {"mask-eb-recursion-palindrome", 1, 2},
    {"mask-eb-anbn", 1, 9},
    {"mask-eb-anbn", 2, 2},
    /* Free text: 362 tokens that begin inside a character would make it no UTF-8. */
    {"mask-eb-tagdispatch-two", 0, 127621},
    {"mask-eb-tagdispatch-two", 1, 127568},
    {"mask-eb-tagdispatch-two", 5, 127621},
    {"mask-eb-tagdispatch-two", 6, 127621},
    {"mask-eb-tagdispatch-two", 7, 127621},
    {"mask-eb-tagdispatch-two", 8, 127567},
    {"mask-eb-tagdispatch-two", 13, 127621},
    {"mask-eb-tagdispatch-noloop", 0, 127621},
    {"mask-eb-tagdispatch-noloop", 1, 127567},
    /* Second 60 at a time of day that has no leap second (22:59:60Z is invalid by its label). */
    {"mask-hw-fmt-date-time-a1", 12, 66},
    {"mask-mb-Github_easy-o39428-0", 25, 66},
    {"mask-mb-Github_easy-o39428-0", 45, 66},
    {"mask-mb-Github_easy-o9829-0", 19, 66},
    {"mask-mb-Github_easy-o9829-0", 57, 66},
    {"mask-mb-Github_easy-o9829-0", 96, 66},
    /* A domain of one label (john.smith@example is invalid by its label). */
    {"mask-hw-fmt-email-a2", 6, 25600},
};

typedef struct fixture {
    di_vocab *vocab;
    uint64_t *left_out; /* ids the reference does not count */
    uint64_t *bits;
    int n_steps;
    size_t n_others;
} fixture;

/* First 16 hex digits of the SHA-256 of the allowed ids, joined by commas; *n counts them. */
static void digest(const fixture *f, char out[17], uint32_t *n)
{
    DI_BUF_AUTO text = {0};
    unsigned char hash[SHA256_DIGEST_LENGTH];
    *n = 0;
    for (uint32_t id = 0; id < f->vocab->n_ids; id++)
        if (di_mask_has(f->bits, id) && !di_mask_has(f->left_out, id))
            OK(di_buf_printf(&text, "%s%u", (*n)++ == 0 ? "" : ",", id));
    SHA256((const unsigned char *)di_buf_str(&text), text.len, hash);
    for (int i = 0; i < 8; i++)
        snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

/* The count that is right where the reference's is not; 0: the reference is right. */
static uint32_t right_count(const char *id, size_t step)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].step == step && strcmp(others[i].id, id) == 0)
            return others[i].n;
    return 0;
}

static void check_step(fixture *f, di_matcher *m, const json_t *step, const char *id, size_t index)
{
    const json_t *count = json_object_get(step, "n"), *eos = json_object_get(step, "eos");
    char hash[17];
    uint32_t n;
    if (!json_is_integer(count))
        return; /* the others do not agree here */
    OK(di_matcher_mask(m, f->bits));
    digest(f, hash, &n);
    const uint32_t right = right_count(id, index);
    if (right != 0 && right != n)
        fail_msg("%s, step %zu: %u tokens, wanted %u", id, index, n, right);
    if (right != 0)
        f->n_others++;
    else if ((json_int_t)n != json_integer_value(count) ||
             strcmp(hash, json_string_value(json_object_get(step, "sha"))) != 0)
        fail_msg("%s, step %zu: %u tokens, wanted %lld", id, index, n,
                 (long long)json_integer_value(count));
    if (json_is_boolean(eos) && json_is_true(eos) != di_matcher_may_end(m))
        fail_msg("%s, step %zu: may end %d", id, index, di_matcher_may_end(m));
    f->n_steps++;
}

static void check_row(fixture *f, const json_t *row)
{
    const char *id = json_string_value(json_object_get(row, "id"));
    const json_t *ids = json_object_get(row, "ids"), *steps = json_object_get(row, "steps");
    di_so_args args = DI_SO_ARGS_INIT;
    args.schema_type = di_schema_type_from_name(json_string_value(json_object_get(row, "kind")));
    args.schema = json_string_value(json_object_get(row, "grammar"));
    args.root = json_string_value(json_object_get(row, "root"));
    args.is_strict = true;
    args.max_whitespace = -1;
    di_grammar *grammar;
    di_acceptor *acceptor;
    di_matcher *m;
    if (di_grammar_compile(&args, NULL, &grammar) != DI_OK)
        fail_msg("%s: %s", id, di_last_error());
    OK(di_acceptor_create(grammar, f->vocab, &acceptor));
    OK(di_matcher_create(acceptor, &m));
    for (size_t i = 0; i <= json_array_size(ids); i++) {
        bool accepted;
        check_step(f, m, json_array_get(steps, i), id, i);
        if (i == json_array_size(ids))
            break;
        OK(di_matcher_accept_token(m, (uint32_t)json_integer_value(json_array_get(ids, i)),
                                   &accepted));
        if (!accepted)
            fail_msg("%s: token %zu is refused", id, i);
    }
    di_matcher_destroy(m);
    di_acceptor_unref(acceptor);
    di_grammar_unref(grammar);
}

static void masks(void **state)
{
    fixture *f = *state;
    DI_BUF_AUTO text = {0};
    size_t at = 0, len;
    const char *line;
    OK(di_test_read("cases/structured/masks.jsonl.xz", &text));
    while (di_test_next_line(&text, &at, &line, &len)) {
        json_t *row = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
        assert_non_null(row);
        check_row(f, row);
        json_decref(row);
    }
    assert_int_equal(f->n_steps, 2033);
    assert_int_equal(f->n_others, sizeof others / sizeof *others);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    di_tokenizer *tokenizer = di_test_tokenizer(DI_TEST_V3_TOKENIZER);
    json_t *meta = di_test_json("cases/structured/masks.meta.json");
    if (f == NULL || tokenizer == NULL || meta == NULL)
        return 1;
    OK(di_vocab_from_tokenizer(tokenizer, &f->vocab));
    di_tokenizer_close(tokenizer);
    f->left_out = calloc(f->vocab->n_words, sizeof *f->left_out);
    f->bits = calloc(f->vocab->n_words, sizeof *f->bits);
    const json_t *list = json_object_get(meta, "excluded");
    for (size_t i = 0; i < json_array_size(list); i++)
        di_mask_set(f->left_out, (uint32_t)json_integer_value(json_array_get(list, i)));
    json_decref(meta);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    di_vocab_unref(f->vocab);
    free(f->left_out);
    free(f->bits);
    free(f);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
