/* grammar/regex.h: what is refused and how, what matches (by the oracle), anchors against PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <jansson.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expr_oracle.h"
#include "grammar/regex.h"
#include "grammar_run.h"
#include "random.h"
#include "share.h"
#include "xz.h"

/* The oracle's answer, which must be the matcher's too. */
static bool accepts(const di_expr *expr, const char *text, size_t len)
{
    bool is_match;
    if (di_test_expr_accepts(NULL, expr, text, len, &is_match) != DI_OK)
        fail_msg("%s: %s", text, di_last_error());
    const bool wanted = di_expr_oracle(expr, NULL, 0, text, len);
    if (is_match != wanted)
        fail_msg("\"%s\": the matcher says %d", text, is_match);
    return wanted;
}

static bool matches(const char *pattern, di_regex_options options, const char *text, size_t len)
{
    di_arena arena = {0};
    const di_expr *expr;
    if (di_regex_parse(&arena, pattern, strlen(pattern), &options, &expr) != DI_OK)
        fail_msg("%s: %s", pattern, di_last_error());
    const bool is_match = accepts(expr, text, len);
    di_arena_free(&arena);
    return is_match;
}

static void assert_match(const char *pattern, di_regex_options options, const char *text,
                         bool wanted)
{
    if (matches(pattern, options, text, strlen(text)) != wanted)
        fail_msg("%s, mode %d, \"%s\": wanted %d", pattern, options.mode, text, wanted);
}

static void full(const char *pattern, const char *text, bool wanted)
{
    assert_match(pattern, (di_regex_options){.mode = DI_REGEX_FULL}, text, wanted);
}

static void search(const char *pattern, const char *text, bool wanted)
{
    assert_match(pattern, (di_regex_options){.mode = DI_REGEX_SEARCH}, text, wanted);
}

static void errors(void **state)
{
    (void)state;
    const di_status BAD = DI_ERR_INPUT, NO = DI_ERR_UNSUPPORTED;
    const struct {
        const char *pattern;
        di_status status;
        size_t at;
        const char *what;
    } cases[] = {
        {"ab(c", BAD, 4, "found the end of the pattern, wanted )"},
        {"abc)", BAD, 3, "found ), wanted a ( before"},
        {"[abc", BAD, 4, "found the end of the pattern, wanted ]"},
        {"[z-a]", BAD, 1, "reversed range U+007A to U+0061"},
        {"[\\d-z]", BAD, 1, "a dash is \\-"},
        {"[a-\\w]", BAD, 1, "a dash is \\-"},
        {"]", BAD, 0, "wanted \\]"},
        {"a}", BAD, 1, "wanted \\}"},
        {"é日{x}", BAD, 3, "found x, wanted a count"},
        {"a{,2}", BAD, 2, "found ,, wanted a count"},
        {"a{1,2", BAD, 5, "wanted }"},
        {"a{3,2}", BAD, 1, "reversed counts {3,2}"},
        {"a{99999999999999999999}", NO, 2, "count above 4294967294"},
        {"a{2,4294967295}", NO, 4, "count above 4294967294"},
        {"*a", BAD, 0, "found *, wanted something to repeat"},
        {"a|+b", BAD, 2, "found +, wanted something to repeat"},
        {"(?)", BAD, 2, "found )"},
        {"a**", BAD, 2, "found *, wanted something to repeat"},
        {"a{2}{3}", BAD, 4, "found {, wanted something to repeat"},
        {"^*", BAD, 1, "found *, wanted something to repeat"},
        {"abc\\", BAD, 4, "found the end of the pattern, wanted a character after \\"},
        {"\\a", BAD, 0, "found \\ and a, which is no escape"},
        {"x\\Z", BAD, 1, "found \\ and Z"},
        {"\\é", BAD, 0, "found \\ and U+00E9"},
        {"\\x1g", BAD, 3, "found g, wanted two hexadecimal digits"},
        {"\\u12", BAD, 4, "wanted four hexadecimal digits"},
        {"\\u{110000}", BAD, 3, "above U+10FFFF"},
        {"[\\u{110000}]", BAD, 4, "above U+10FFFF"},
        {"\\u{}", BAD, 3, "wanted hexadecimal digits"},
        {"\\u{41", BAD, 5, "wanted }"},
        {"\\c1", BAD, 2, "wanted a letter after \\c"},
        {"\\01", BAD, 2, "no digit after \\0"},
        {"(?<n", BAD, 4, "wanted > at the end"},
        {"(?<>a)", BAD, 3, "wanted the name of a group"},
        {"(?<1>a)", BAD, 3, "wanted the name of a group"},
        {"(?<a>x)(?<a>y)", BAD, 10, "second group of the same name"},
        {"(?P<a>b", BAD, 2, "found P, wanted a group"},
        {"a(?=b)", NO, 1, "lookahead (?= is not supported"},
        {"^(?!a)", NO, 1, "negative lookahead (?! is not supported"},
        {"(?<=a)b", NO, 0, "lookbehind (?<= is not supported"},
        {"(?<!a)b", NO, 0, "negative lookbehind (?<! is not supported"},
        {"(a)\\1", NO, 3, "back-references (\\1) are not supported"},
        {"(?<x>a)\\k<x>", NO, 7, "back-references (\\k) are not supported"},
        {"a\\Bb", NO, 1, "word boundaries (\\B) are not supported"},
        {"\\bb", NO, 0, "word boundaries (\\b) are not supported"},
        {"(?i)a", NO, 2, "(?i:...) is"},
        {"(?m:a)", NO, 2, "flag m is not supported"},
        {"(?ii:a)", BAD, 3, "flag i twice"},
        {"(?i-i:a)", BAD, 4, "flag i twice"},
        {"(?x:a)", BAD, 2, "found x, wanted one of the flags"},
        {"(?-:a)", BAD, 3, "found :, wanted one of the flags"},
        {"\\pL", BAD, 2, "found L, wanted {"},
        {"\\p{L", BAD, 4, "wanted the name of a property and }"},
        {"a\\p{Script=Greek}", NO, 1, "Unicode property \"Script=Greek\""},
        {"\\p{Foo}", NO, 0, "Unicode property \"Foo\""},
        {"a\xff", BAD, 1, "found the byte 0xff, wanted UTF-8"},
        {"a\x80", BAD, 1, "found the byte 0x80, wanted UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        di_arena arena = {0};
        const di_regex_options options = {.mode = DI_REGEX_SEARCH};
        const di_expr *expr = NULL;
        const di_status status =
            di_regex_parse(&arena, cases[i].pattern, strlen(cases[i].pattern), &options, &expr);
        char position[64];
        snprintf(position, sizeof position, "regular expression, position %zu: ", cases[i].at);
        const char *error = di_last_error();
        if (status != cases[i].status || strncmp(error, position, strlen(position)) != 0 ||
            !strstr(error, cases[i].what))
            fail_msg("%s: found %d \"%s\", wanted %d at %zu \"%s\"", cases[i].pattern, status,
                     status ? error : "", cases[i].status, cases[i].at, cases[i].what);
        assert_null(expr);
        di_arena_free(&arena);
    }
}

static void constructs(void **state)
{
    (void)state;
    full("", "", true);
    full("", "a", false);
    full("a||b", "", true);
    full("()", "", true);
    full("(?:)|x", "x", true);
    full("(?<name>a)|(?<name>b)", "b", true);
    full("(?<größe$_1>a)", "a", true);
    full("\\u{1F600}\\uD83D\\uDE00😀", "😀😀😀", true);
    full("[\\uD83D\\uDE00-\\u{1F64F}]", "😁", true);
    full("\\uD800", "", false);
    full("[^\\uD800]", "a", true);
    full("[]", "a", false);
    full("[]*", "", true);
    full("[^]", "\n", true);
    full("a[]|b", "b", true);
    full("\\x41\\u0042\\u{43}\\cJ\\t\\/\\-", "ABC\n\t/-", true);
    full("[\\b\\-\\]^-]", "\b", true);
    full("[\\b\\-\\]^-]", "-", true);
    full("[\\b\\-\\]^-]", "^", true);
    full("[\\b\\-\\]^-]", "]", true);
    full("[+--]", ",", true); /* from + to - */
    full("[a-z-9]", "-", true);
    full("\\s", "\xc2\xa0", true);
    full("\\s", "\xef\xbb\xbf", true);
    full("\\s", "\xc2\x85", false);
    full("\\S", "\xe2\x80\x83", false);
    full("\\w", "é", false);
    full("\\W", "é", true);
    full("\\d", "٣", false);
    full("[\\D]", "٣", true);
    full(".", "\n", true);
    full("a{0}b{1,}?c{2}?d{2,3}", "bbccdd", true);
    full("a{2,3}", "aaaa", false);
    full("(a{4294967294}|b)", "b", true);
    full("(a?){4294967294}", "aa", true);
    full("(?s:a.b)", "a\nb", true);
    full("\xc2\xa0", "\xc2\xa0", true);
    const di_regex_options no_newline = {.dot_is_no_newline = true};
    assert_match("a.b", no_newline, "a\nb", false);
    assert_match("a.b", no_newline,
                 "a\xe2\x80\xa8"
                 "b",
                 false);
    assert_match("a.b", no_newline, "a\vb", true);
    assert_match("(?s:a.b).", no_newline, "a\nbc", true);
    assert_match("(?s:a.b).", no_newline, "a\nb\n", false);
    assert_match("(?-s:.)", (di_regex_options){0}, "\r", false);
}

static void properties(void **state)
{
    (void)state;
    full("\\p{Lu}\\p{Ll}*", "Éa", true);
    full("\\p{Letter}+", "aπ日", true);
    full("\\p{L}", "1", false);
    full("\\P{L}", "1", true);
    full("\\p{Nd}", "৪", true);
    full("\\p{digit}", "½", false);
    full("\\p{N}", "½", true);
    full("\\p{General_Category=Zs}", "\xc2\xa0", true);
    full("\\p{gc=punct}", "!", true);
    full("[\\p{Sc}\\p{So}]+", "€©", true);
    full("[^\\p{L}]", "a", false);
    full("\\p{Cn}", "\xef\xbf\xbf", true); /* U+FFFF */
    full("\\p{Assigned}", "\xef\xbf\xbf", false);
    full("\\p{Co}", "\xf4\x8f\xbf\xbd", true);
    full("\\p{Any}", "\xf4\x8f\xbf\xbf", true);
    full("\\p{ASCII}", "\xc2\x80", false);
    full("\\p{AHex}{3}", "09f", true);
    full("\\p{White_Space}", "\xc2\x85", true);
    full("\\p{Cs}", "a", false);
}

static void case_folding(void **state)
{
    (void)state;
    const di_regex_options fold = {.ignore_case = true};
    assert_match("straSSe", fold, "STRASSE", true);
    assert_match("σ", fold, "ς", true);
    assert_match("K", fold, "\xe2\x84\xaa", true); /* KELVIN SIGN */
    assert_match("[^a-c]", fold, "B", false);
    assert_match("[^a-c]", fold, "D", true);
    assert_match("\\w", fold, "ſ", true);
    assert_match("\\W", fold, "ſ", false);
    assert_match("\\p{Lu}", fold, "a", true);
    assert_match("ß", fold, "ss", false);
    assert_match("[Я]", fold, "я", true);
    assert_match("(?-i:a)a", fold, "aA", true);
    assert_match("(?-i:a)a", fold, "Aa", false);
    full("(?i:a)a", "Aa", true);
    full("(?i:a)a", "AA", false);
    full("(?i-s:a.)", "A\n", false);
    full("(a(?i:b)c)", "aBc", true);
    full("(a(?i:b)c)", "aBC", false);
}

static void anchors(void **state)
{
    (void)state;
    search("b", "abc", true);
    search("^b", "abc", false);
    search("^a|b$", "axx", true);
    search("^a|b$", "xxb", true);
    search("^a|b$", "xax", false);
    search("^a|b$", "bx", false);
    search("^(a|b)$", "ab", false);
    search("(^a)(b$)", "ab", true);
    search("(^a)(b$)", "xab", false);
    search("a^b", "ab", false);
    search("a$b|c", "xcx", true);
    search("a*^b", "b", true);
    search("a*^b", "ab", false);
    search("^$", "", true);
    search("^$", "a", false);
    search("$^", "", true);
    search("x*$", "axx\n", true);
    search("a$", "a\n", false);
    search(".", "\n", true);
    search("^(\\/?((\\.{2})|([a-z]*))($|\\/))*$", "../ab/c", true);
    search("^(\\/?((\\.{2})|([a-z]*))($|\\/))*$", "..ab/c", false);
    search("^(\\/?((\\.{2})|([a-z]*))($|\\/))*$", "ab//", true);
    search("(^|,)a(,|$)", "b,a", true);
    search("(^|,)a(,|$)", "ba", false);
    search("(^a|b){3}", "abb", true);
    search("(^a|b){3}", "bab", false);
    search("(a|^){3}b", "ab", true);
    search("(a|^){3}b", "cab", false);
    search("((^)*a)+", "caa", true);
    full("^a|b$", "a", true);
    full("^a|b$", "ab", false);
    full("a^|b", "a", false);
    full("(^a)?b$", "ab", true);
    full("(b^a)?b$", "b", true);
}

/* A random pattern over a and b. */
static void random_pattern(di_rng *rng, int depth, di_buf *out)
{
    static const char *const leaves[] = {"a", "b", "[ab]", "^", "$", "", "a*", "b?", "^", "$"};
    static const char *const counts[] = {"", "", "*", "+", "?", "{2}", "{0,2}", "{2,}"};
    const int64_t n = depth > 0 ? di_rng_between(rng, 1, 3) : 1;
    for (int64_t i = 0; i < n; i++) {
        if (depth == 0) {
            assert_int_equal(di_buf_puts(out, leaves[di_rng_below(rng, 10)]), DI_OK);
            continue;
        }
        const bool is_group = di_rng_below(rng, 3) != 0;
        assert_int_equal(di_buf_puts(out, is_group ? "(?:" : ""), DI_OK);
        random_pattern(rng, depth - 1, out);
        if (is_group && di_rng_below(rng, 2)) {
            assert_int_equal(di_buf_puts(out, "|"), DI_OK);
            random_pattern(rng, depth - 1, out);
        }
        if (is_group)
            assert_int_equal(di_buf_printf(out, ")%s", counts[di_rng_below(rng, 8)]), DI_OK);
    }
}

/* -1: it gave up. */
static int pcre2_matches(const char *pattern, di_regex_mode mode, const char *text)
{
    const uint32_t whole = mode == DI_REGEX_FULL ? PCRE2_ANCHORED | PCRE2_ENDANCHORED : 0;
    int error;
    PCRE2_SIZE at;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_DOTALL | whole, &error, &at, NULL);
    assert_non_null(code);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_set_match_limit(context, 20000);
    const int found =
        pcre2_match(code, (PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0, 0, data, context);
    pcre2_match_context_free(context);
    assert_true(found >= 0 || found == PCRE2_ERROR_NOMATCH || found == PCRE2_ERROR_MATCHLIMIT);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    return found == PCRE2_ERROR_MATCHLIMIT ? -1 : found >= 0;
}

static void anchors_like_pcre2(void **state)
{
    (void)state;
    static const char *const texts[] = {"",    "a",   "b",   "aa",  "ab",  "ba",   "bb",
                                        "aab", "aba", "abb", "bab", "bba", "abab", "babba"};
    di_rng rng = di_rng_named("anchors");
    int n_matches = 0;
    for (int round = 0; round < 1000 / DI_TEST_SHARE; round++) {
        DI_BUF_AUTO pattern = {0};
        random_pattern(&rng, (int)di_rng_between(&rng, 1, 3), &pattern);
        for (int mode = DI_REGEX_FULL; mode <= DI_REGEX_SEARCH; mode++) {
            for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                const int wanted = pcre2_matches(di_buf_str(&pattern), mode, texts[i]);
                if (wanted >= 0)
                    assert_match(di_buf_str(&pattern), (di_regex_options){.mode = mode}, texts[i],
                                 wanted);
                n_matches += wanted == 1;
            }
        }
    }
    assert_true(n_matches > 1000 / DI_TEST_SHARE);
}

/* One row: 1 if as wanted. */
static int row(const json_t *json)
{
    const char *pattern = json_string_value(json_object_get(json, "pattern"));
    const json_t *text = json_object_get(json, "text");
    const bool must_fail = json_is_true(json_object_get(json, "expect_error"));
    const di_regex_options options = {.mode = DI_REGEX_FULL};
    di_arena arena = {0};
    const di_expr *expr;
    const di_status status = di_regex_parse(&arena, pattern, strlen(pattern), &options, &expr);
    bool is_right = status != DI_OK && must_fail;
    if (status == DI_OK && !must_fail)
        is_right =
            di_expr_oracle(expr, NULL, 0, json_string_value(text), json_string_length(text)) ==
            json_is_true(json_object_get(json, "match"));
    if (!is_right)
        print_error("%s: %s on %s: %s\n", json_string_value(json_object_get(json, "id")), pattern,
                    json_string_value(text), status == DI_OK ? "accepted" : di_last_error());
    di_arena_free(&arena);
    return is_right;
}

static void given(void **state)
{
    (void)state;
    static const char *const files[] = {"regex", "regex_either"};
    static const int n_rows[] = {999, 3};
    for (int i = 0; i < 2; i++) {
        DI_BUF_AUTO lines = {0};
        char path[256];
        snprintf(path, sizeof path, DI_TEST_DATA "/cases/structured/%s.jsonl.xz", files[i]);
        assert_int_equal(di_test_xz_read(path, &lines), DI_OK);
        const char *line;
        size_t at = 0, len;
        int n = 0, n_right = 0;
        while (di_test_next_line(&lines, &at, &line, &len)) {
            json_t *json = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
            assert_non_null(json);
            n_right += row(json);
            n++;
            json_decref(json);
        }
        assert_int_equal(n, n_rows[i]);
        assert_int_equal(n_right, n);
    }
}

static di_status parse_text(const di_buf *pattern, uint32_t max_depth, const di_expr **expr,
                            di_arena *arena)
{
    const di_regex_options options = {.mode = DI_REGEX_SEARCH, .max_depth = max_depth};
    return di_regex_parse(arena, pattern->data, pattern->len, &options, expr);
}

static void fill(di_buf *out, const char *unit, int n, const char *tail)
{
    di_buf_clear(out);
    for (int i = 0; i < n; i++)
        assert_int_equal(di_buf_puts(out, unit), DI_OK);
    assert_int_equal(di_buf_puts(out, tail), DI_OK);
}

/* What is too large is one line of error, nothing else. */
static void bombs(void **state)
{
    (void)state;
    di_arena arena = {0};
    DI_BUF_AUTO text = {0};
    const di_expr *expr;
    fill(&text, "(", 60000, "");
    assert_int_equal(parse_text(&text, 0, &expr, &arena), DI_ERR_UNSUPPORTED);
    assert_non_null(strstr(di_last_error(), "position 200: groups are nested deeper than 200"));
    fill(&text, "[", 60000, "");
    assert_int_equal(parse_text(&text, 0, &expr, &arena), DI_ERR_INPUT);
    fill(&text, "(", 8, "a))))))))");
    assert_int_equal(parse_text(&text, 8, &expr, &arena), DI_OK);
    assert_int_equal(parse_text(&text, 7, &expr, &arena), DI_ERR_UNSUPPORTED);
    fill(&text, "\\p{L}", 60000, "");
    assert_int_equal(parse_text(&text, 0, &expr, &arena), DI_ERR_UNSUPPORTED);
    assert_non_null(strstr(di_last_error(), "more than 1048576 ranges"));
    fill(&text, "[", 1, "");
    for (int i = 0; i < 60000; i++)
        assert_int_equal(di_buf_puts(&text, "\\P{L}"), DI_OK);
    assert_int_equal(parse_text(&text, 0, &expr, &arena), DI_ERR_UNSUPPORTED);
    di_arena_reset(&arena);
    fill(&text, "^", 60000, "a");
    assert_int_equal(parse_text(&text, 0, &expr, &arena), DI_OK);
    assert_true(di_expr_oracle(expr, NULL, 0, "ab", 2));
    di_arena_reset(&arena);
    fill(&text, "(^|$|a)", 8000, "");
    assert_int_equal(parse_text(&text, 0, &expr, &arena), DI_ERR_UNSUPPORTED);
    assert_non_null(strstr(di_last_error(), "anchors"));
    di_arena_reset(&arena);
    fill(&text, "(", 100, "^|a$|b");
    for (int i = 0; i < 100; i++)
        assert_int_equal(di_buf_puts(&text, "c)*"), DI_OK);
    assert_int_equal(parse_text(&text, 0, &expr, &arena), DI_ERR_UNSUPPORTED);
    di_arena_free(&arena);
}

static void expressions(void **state)
{
    (void)state;
    di_arena arena = {0};
    const di_expr *expr;
    const di_regex_options options = {.mode = DI_REGEX_FULL};
    assert_int_equal(di_regex_parse(&arena, "^a{7,4294967294}$", 17, &options, &expr), DI_OK);
    assert_int_equal(expr->kind, DI_EXPR_REPEAT); /* never unrolled */
    assert_int_equal(expr->repeat.min, 7);
    assert_int_equal(expr->repeat.max, 4294967294u);
    assert_int_equal(expr->repeat.body->kind, DI_EXPR_CHARS);
    assert_int_equal(di_regex_parse(&arena, "a^", 2, &options, &expr), DI_OK);
    assert_int_equal(expr->kind, DI_EXPR_NOTHING);
    assert_int_equal(di_regex_parse(&arena, "^(ab|c)$", 8, &options, &expr), DI_OK);
    assert_int_equal(expr->kind, DI_EXPR_ALT);
    assert_int_equal(expr->list.n, 2);
    assert_int_equal(di_regex_parse(&arena, "a\0b", 3, &options, &expr), DI_OK);
    assert_true(di_expr_oracle(expr, NULL, 0, "a\0b", 3));
    di_arena_free(&arena);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors),      cmocka_unit_test(constructs),
        cmocka_unit_test(properties),  cmocka_unit_test(case_folding),
        cmocka_unit_test(anchors),     cmocka_unit_test(anchors_like_pcre2),
        cmocka_unit_test(given),       cmocka_unit_test(bombs),
        cmocka_unit_test(expressions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
