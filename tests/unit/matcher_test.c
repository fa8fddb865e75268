/* Grammars built by hand and at random: texts accepted, masks against trying every token, rollback
 * against reading again. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/mask.h"
#include "grammar/matcher.h"

#define OK(call) assert_int_equal((call), DI_OK)

typedef struct fixture {
    di_grammar_builder *builder;
    di_arena *arena;
    di_vocab *vocab;
} fixture;

/* Every text over "ab" of up to four bytes, some of JSON, UTF-8 cut at all places. */
static di_vocab *make_vocab(void)
{
    static const char *const words[] = {
        "\"",       "\"a",    "a\"", "a\",",  "\":", "{\"", "}",     "]",    "[",
        ",",        ",a",     "],",  "\",\"", "1",   "12",  "\xc3",  "\xa9", "\xc3\xa9",
        "a\xc3",    "\251b",  "c",   "abc",   "\\",  "\\n", "\\u00", "\x80", "ac",
        "aaaaaaaa", "\"ab\"", "b]",  "aa]",   "a]b", "\"]",
    };
    di_vocab_token tokens[128];
    char text[128][8];
    uint32_t n = 0;
    for (uint32_t len = 1; len <= 4; len++) {
        for (uint32_t code = 0; code < 1u << len; code++) {
            for (uint32_t i = 0; i < len; i++)
                text[n][i] = code >> i & 1 ? 'b' : 'a';
            tokens[n] = (di_vocab_token){text[n], len};
            n++;
        }
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        tokens[n++] = (di_vocab_token){words[i], (uint32_t)strlen(words[i])};
    tokens[n++] = (di_vocab_token){NULL, 0}; /* a special token */
    tokens[n++] = (di_vocab_token){"", 0};
    tokens[n++] = (di_vocab_token){"ab", 2}; /* the same bytes again */
    di_vocab *vocab;
    OK(di_vocab_create(tokens, n, &vocab));
    return vocab;
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    OK(di_grammar_builder_create(NULL, &f->builder));
    f->arena = di_grammar_builder_arena(f->builder);
    f->vocab = make_vocab();
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    di_grammar_builder_destroy(f->builder);
    di_vocab_unref(f->vocab);
    free(f);
    return 0;
}

static uint32_t new_rule(fixture *f, const char *name)
{
    uint32_t rule;
    OK(di_grammar_rule(f->builder, name, &rule));
    return rule;
}

static const di_expr *literal(fixture *f, const char *text)
{
    const di_expr *expr;
    OK(di_expr_literal(f->arena, text, strlen(text), &expr));
    return expr;
}

static const di_expr *rule_expr(fixture *f, uint32_t rule)
{
    const di_expr *expr;
    OK(di_expr_rule(f->arena, rule, &expr));
    return expr;
}

static const di_expr *seq(fixture *f, const di_expr *a, const di_expr *b, const di_expr *c)
{
    const di_expr *expr;
    OK(DI_EXPR_SEQ_OF(f->arena, &expr, a, b, c));
    return expr;
}

static const di_expr *alt(fixture *f, const di_expr *a, const di_expr *b)
{
    const di_expr *expr;
    OK(DI_EXPR_ALT_OF(f->arena, &expr, a, b));
    return expr;
}

static const di_expr *repeat(fixture *f, const di_expr *body, uint32_t min, uint32_t max)
{
    const di_expr *expr;
    OK(di_expr_repeat(f->arena, body, min, max, &expr));
    return expr;
}

static di_acceptor *accept_rule(fixture *f, uint32_t root)
{
    di_grammar *grammar;
    di_acceptor *acceptor;
    OK(di_grammar_build(f->builder, root, &grammar));
    OK(di_acceptor_create(grammar, f->vocab, &acceptor));
    di_grammar_unref(grammar);
    return acceptor;
}

static di_acceptor *accept_expr(fixture *f, const di_expr *expr)
{
    const uint32_t root = new_rule(f, "root");
    OK(di_grammar_define(f->builder, root, expr));
    return accept_rule(f, root);
}

static bool matches(di_acceptor *acceptor, const char *text)
{
    di_matcher *m;
    bool accepted;
    OK(di_matcher_create(acceptor, &m));
    OK(di_matcher_accept(m, text, strlen(text), &accepted));
    accepted = accepted && di_matcher_may_end(m);
    di_matcher_destroy(m);
    return accepted;
}

/* Follows random tokens; at each step the mask must be what trying every token says. */
static void check_masks(di_acceptor *acceptor, di_vocab *vocab, unsigned seed, int n_steps)
{
    uint64_t bits[4];
    di_matcher *m;
    OK(di_matcher_create(acceptor, &m));
    assert_true(vocab->n_words <= 4);
    for (int step = 0; step < n_steps; step++) {
        uint32_t allowed[256], n = 0;
        OK(di_matcher_mask(m, bits));
        for (uint32_t id = 0; id < vocab->n_ids; id++) {
            bool accepted;
            OK(di_matcher_accept_token(m, id, &accepted));
            if (di_mask_has(bits, id) != accepted)
                fail_msg("step %d, token %u \"%.*s\": mask %d, tried %d", step, id,
                         (int)vocab->tokens[id].len, vocab->tokens[id].bytes, di_mask_has(bits, id),
                         accepted);
            if (accepted) {
                di_matcher_rollback(m, 1);
                allowed[n++] = id;
            }
        }
        if (n == 0) {
            if (!di_matcher_may_end(m))
                fail_msg("step %d of seed %u: a dead end", step, seed);
            break;
        }
        bool accepted;
        OK(di_matcher_accept_token(m, allowed[(uint32_t)rand_r(&seed) % n], &accepted));
        assert_true(accepted);
    }
    di_matcher_destroy(m);
}

static void left_recursion(void **state)
{
    fixture *f = *state;
    const uint32_t root = new_rule(f, "root"), other = new_rule(f, "other");
    /* root ::= root "a" | other | root; other ::= root? "b" other? "c" */
    const di_expr *r = rule_expr(f, root), *o = rule_expr(f, other);
    OK(di_grammar_define(f->builder, root,
                         alt(f, seq(f, r, literal(f, "a"), di_expr_empty()), alt(f, o, r))));
    OK(di_grammar_define(f->builder, other,
                         seq(f, repeat(f, r, 0, 1), literal(f, "b"),
                             seq(f, repeat(f, o, 0, 1), literal(f, "c"), di_expr_empty()))));
    di_acceptor *a = accept_rule(f, root);
    static const char *const good[] = {"bc", "bca", "bcaa", "bcbc", "bcabc", "bbcc", "bbcabcc"};
    static const char *const bad[] = {"", "a", "b", "abc", "bcb", "bbc", "bcc"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(matches(a, good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(matches(a, bad[i]));
    check_masks(a, f->vocab, 1, 30);
    di_acceptor_unref(a);
}

static void counted(void **state)
{
    fixture *f = *state;
    /* (aa? | c){40,60} with what may be empty inside: no least number */
    const di_expr *a_or_aa =
        seq(f, literal(f, "a"), repeat(f, literal(f, "a"), 0, 1), di_expr_empty());
    const di_expr *body = alt(f, a_or_aa, literal(f, "c"));
    di_acceptor *a = accept_expr(f, repeat(f, body, 40, 60));
    char text[200] = {0};
    for (size_t n = 1; n < 130; n++) {
        memset(text, 'a', n);
        assert_int_equal(matches(a, text), n >= 40 && n <= 120);
        memset(text, 'c', n);
        assert_int_equal(matches(a, text), n >= 40 && n <= 60);
    }
    for (unsigned seed = 1; seed < 20; seed++)
        check_masks(a, f->vocab, seed, 150);
    di_acceptor_unref(a);
    const uint32_t root = new_rule(f, "empties");
    OK(di_grammar_define(f->builder, root, repeat(f, repeat(f, literal(f, "ab"), 0, 50), 3, 4)));
    a = accept_rule(f, root);
    assert_true(matches(a, ""));
    assert_true(matches(a, "ab"));
    assert_false(matches(a, "aba"));
    check_masks(a, f->vocab, 3, 100);
    di_acceptor_unref(a);
}

static void utf8(void **state)
{
    fixture *f = *state;
    const di_expr *expr;
    di_charset set;
    OK(di_charset_range(f->arena, 'a', 'a', &set));
    OK(di_charset_complement(f->arena, set, &set));
    OK(di_expr_chars(f->arena, set, &expr));
    di_acceptor *a = accept_expr(f, repeat(f, expr, 1, DI_REPEAT_INF));
    static const char *const good[] = {"b", "\xc3\xa9", "\xe9\x81\x93", "\xf0\x9f\x98\x80", "\x7f"};
    static const char *const bad[] = {
        "a", "\xff", "\xc0\xa0", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe9\x81", "\x80", "ba"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(matches(a, good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(matches(a, bad[i]));
    for (unsigned seed = 1; seed < 20; seed++)
        check_masks(a, f->vocab, seed, 20);
    di_acceptor_unref(a);
}

/* A list of strings of at most 50 characters, nested lists: what JSON looks like. */
static void nested(void **state)
{
    fixture *f = *state;
    const uint32_t value = new_rule(f, "value"), string = new_rule(f, "string");
    const di_expr *any;
    OK(di_expr_json_any_char(f->arena, &any));
    OK(di_grammar_define(f->builder, string,
                         seq(f, literal(f, "\""), repeat(f, any, 2, 50), literal(f, "\""))));
    const di_expr *v = rule_expr(f, value);
    const di_expr *more = repeat(f, seq(f, literal(f, ","), v, di_expr_empty()), 0, 20);
    const di_expr *list =
        seq(f, literal(f, "["), repeat(f, seq(f, v, more, di_expr_empty()), 0, 1), literal(f, "]"));
    OK(di_grammar_define(f->builder, value, alt(f, list, rule_expr(f, string))));
    di_acceptor *a = accept_rule(f, value);
    assert_true(matches(a, "[]"));
    assert_true(matches(a, "[\"ab\",[[\"a\\n\"],[]],\"\\ud83d\\ude00\\u00e9\"]"));
    assert_false(matches(a, "[\"a\"]"));
    assert_false(matches(a, "[\"ab\",]"));
    assert_false(matches(a, "\"\\ud83d\\u00e9\""));
    for (unsigned seed = 1; seed < 40; seed++)
        check_masks(a, f->vocab, seed, 60);
    di_acceptor_unref(a);
}

/* A random expression; depth bounds it. Rules only where `n_rules` allows. */
static const di_expr *random_expr(fixture *f, unsigned *seed, int depth, uint32_t n_rules)
{
    const int kind = depth == 0 ? rand_r(seed) % 3 : rand_r(seed) % 9;
    const uint32_t min = (uint32_t)rand_r(seed) % 40;
    switch (kind) {
    case 0:
        return literal(f, rand_r(seed) % 2 ? "a" : "b");
    case 1:
        return literal(f, rand_r(seed) % 2 ? "ab" : "c");
    case 2:
        return n_rules == 0 ? literal(f, "\"") : rule_expr(f, (uint32_t)rand_r(seed) % n_rules);
    case 3:
    case 4:
        return seq(f, random_expr(f, seed, depth - 1, n_rules),
                   random_expr(f, seed, depth - 1, n_rules), di_expr_empty());
    case 5:
    case 6:
        return alt(f, random_expr(f, seed, depth - 1, n_rules),
                   random_expr(f, seed, depth - 1, n_rules));
    case 7:
        return repeat(f, random_expr(f, seed, depth - 1, n_rules), 0,
                      rand_r(seed) % 2 ? 1 : DI_REPEAT_INF);
    default:
        return repeat(f, random_expr(f, seed, depth - 1, n_rules), min, min + 30);
    }
}

static void random_grammars(void **state)
{
    int n_built = 0;
    (void)state;
    for (unsigned round = 1; round <= 600; round++) {
        unsigned seed = round;
        void *own;
        set_up(&own);
        fixture *f = own;
        const uint32_t n_rules = round % 4;
        uint32_t rules[4];
        for (uint32_t i = 0; i <= n_rules; i++)
            rules[i] = new_rule(f, "r");
        for (uint32_t i = 0; i <= n_rules; i++)
            OK(di_grammar_define(f->builder, rules[i], random_expr(f, &seed, 3, n_rules + 1)));
        di_grammar *grammar;
        if (di_grammar_build(f->builder, rules[0], &grammar) == DI_OK) {
            di_acceptor *a;
            OK(di_acceptor_create(grammar, f->vocab, &a));
            di_grammar_unref(grammar);
            check_masks(a, f->vocab, seed, 12);
            di_acceptor_unref(a);
            n_built++;
        }
        tear_down(&own);
    }
    assert_true(n_built > 300);
}

static void no_text(void **state)
{
    fixture *f = *state;
    const uint32_t root = new_rule(f, "endless");
    OK(di_grammar_define(f->builder, root,
                         seq(f, literal(f, "a"), rule_expr(f, root), di_expr_empty())));
    di_grammar *grammar;
    assert_int_equal(di_grammar_build(f->builder, root, &grammar), DI_ERR_INPUT);
    assert_string_equal(di_last_error(), "no text at all matches rule endless");
}

static void forced(void **state)
{
    fixture *f = *state;
    di_acceptor *a =
        accept_expr(f, seq(f, literal(f, "abc"), alt(f, literal(f, "\""), literal(f, "b")),
                           repeat(f, literal(f, "c"), 0, 1)));
    di_matcher *m;
    bool accepted;
    DI_BUF_AUTO text = {0};
    OK(di_matcher_create(a, &m));
    OK(di_matcher_forced(m, 100, &text));
    assert_string_equal(di_buf_str(&text), "abc");
    OK(di_matcher_accept(m, "abcb", 4, &accepted));
    assert_true(accepted && di_matcher_may_end(m));
    assert_false(di_matcher_must_end(m));
    OK(di_matcher_accept(m, "c", 1, &accepted));
    assert_true(accepted && di_matcher_must_end(m));
    di_matcher *fork;
    di_matcher_rollback(m, 1);
    OK(di_matcher_fork(m, &fork));
    OK(di_matcher_accept(fork, "c", 1, &accepted));
    assert_true(accepted);
    assert_int_equal(di_matcher_n_accepted(m), 1);
    di_matcher_destroy(fork);
    di_matcher_destroy(m);
    di_acceptor_unref(a);
}

/* An added token goes where it is named, and only as itself. */
static void added_tokens(void **state)
{
    fixture *f = *state;
    static const di_vocab_token tokens[] = {{"a", 1},       {"b", 1},       {"<x>", 3},  {"a<", 2},
                                            {"<", 1},       {"x", 1},       {">", 1},    {">b", 2},
                                            {"\xff<x>", 4}, {"\xff<y>", 4}, {"\xff<", 2}};
    const di_expr *mark, *any;
    const uint32_t root = new_rule(f, "root");
    OK(di_expr_token(f->arena, "<x>", 3, &mark));
    OK(di_expr_range(f->arena, 'a', 'z', &any));
    any = repeat(f, any, 0, DI_REPEAT_INF);
    OK(di_grammar_define(f->builder, root, seq(f, any, mark, any)));
    di_vocab_unref(f->vocab);
    for (uint32_t n = 8; n <= 11; n += 3) { /* without the token, then with it */
        OK(di_vocab_create(tokens, n, &f->vocab));
        assert_int_equal(di_vocab_has_added(f->vocab, "<x>", 3), n > 8);
        assert_false(di_vocab_has_added(f->vocab, "<z>", 3));
        assert_false(di_vocab_has_added(f->vocab, "<x", 2));
        di_grammar_use_tokens(f->builder, f->vocab);
        di_acceptor *a = accept_rule(f, root);
        assert_int_equal(matches(a, "ab<x>c"), n == 8);
        assert_int_equal(matches(a, "ab\xff<x>c"), n > 8);
        for (unsigned seed = 1; seed < 10; seed++)
            check_masks(a, f->vocab, seed, 20);
        uint64_t bits[1];
        di_matcher *m;
        OK(di_matcher_create(a, &m));
        OK(di_matcher_mask(m, bits));
        /* "\xff<" is no added token but what a vocabulary of bytes might have: see
         * di_vocab_from_tokenizer. */
        assert_int_equal(bits[0], n == 8 ? 0x3F : 0x523);
        di_matcher_destroy(m);
        di_acceptor_unref(a);
        if (n == 8)
            di_vocab_unref(f->vocab);
    }
}

/* A code point that stands as its escape, alone and in sets, also where it is counted. */
static void escaped(void **state)
{
    fixture *f = *state;
    const uint32_t root = new_rule(f, "root"), inner = new_rule(f, "inner");
    const di_expr *any;
    OK(di_expr_range(f->arena, 0x80, DI_CODE_LAST, &any));
    any = alt(f, any, literal(f, "a"));
    OK(di_grammar_define(f->builder, inner, repeat(f, any, 40, 41)));
    OK(di_grammar_define(f->builder, root,
                         seq(f, literal(f, "\xc3\xa9"), rule_expr(f, inner), literal(f, "b"))));
    di_grammar_escape(f->builder, inner, 0xE9);
    di_acceptor *a = accept_rule(f, root);
    char text[200] = "\xc3\xa9";
    memset(text + 2, 'a', 39);
    static const struct {
        const char *end;
        bool accepted;
    } rows[] = {{"ab", true},
                {"\\u00e9b", true},
                {"\\u00E9b", true},
                {"\xc3\xa9"
                 "b",
                 false},
                {"\\u00e8b", false},
                {"\xc3\xa8"
                 "b",
                 true},
                {"a\\u00e9b", true},
                {"aa\\u00e9b", false},
                {"\xf0\x9f\x98\x80"
                 "b",
                 true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        strcpy(text + 41, rows[i].end);
        if (matches(a, text) != rows[i].accepted)
            fail_msg("%s: wanted %d", text, rows[i].accepted);
    }
    di_acceptor_unref(a);
}

/* Texts that are told apart by all of their last letters: reading on ends with the bound, and what
 * was read before stays. */
static void too_manifold(void **state)
{
    fixture *f = *state;
    const di_expr *any, *vowel = literal(f, "a");
    OK(di_expr_range(f->arena, 'a', 'b', &any));
    di_acceptor *a =
        accept_expr(f, seq(f, repeat(f, any, 0, DI_REPEAT_INF), vowel, repeat(f, any, 40, 40)));
    di_acceptor_limit(a, (size_t)1 << 20);
    di_matcher *m, *other;
    OK(di_matcher_create(a, &m));
    OK(di_matcher_create(a, &other));
    unsigned seed = 1;
    char text[20001];
    size_t n = 0;
    di_status status = DI_OK;
    for (; n < sizeof text - 1; n++) {
        bool accepted;
        text[n] = rand_r(&seed) % 2 ? 'a' : 'b';
        status = di_matcher_accept(m, text + n, 1, &accepted);
        if (status != DI_OK)
            break;
        assert_true(accepted);
    }
    assert_int_equal(status, DI_ERR_UNSUPPORTED);
    assert_string_equal(di_last_error(), "the texts of the grammar are too manifold: more than 1 "
                                         "MiB to tell apart");
    assert_in_range(di_acceptor_n_bytes(a), 1 << 20, 4 << 20);
    assert_int_equal(di_matcher_n_accepted(m), n);
    bool accepted;
    OK(di_matcher_accept(other, text, n, &accepted)); /* the same text needs nothing new */
    assert_true(accepted);
    assert_int_equal(di_matcher_may_end(other), di_matcher_may_end(m));
    di_matcher_rollback(m, n / 2);
    OK(di_matcher_accept(m, text + n - n / 2, n / 2, &accepted));
    assert_true(accepted);
    di_matcher_destroy(m);
    di_matcher_destroy(other);
    di_acceptor_unref(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(left_recursion, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(utf8, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nested, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(forced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(added_tokens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(escaped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_manifold, set_up, tear_down),
        cmocka_unit_test(random_grammars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
