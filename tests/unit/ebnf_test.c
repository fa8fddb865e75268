/* grammar/ebnf.h: what is refused and where, what the rules accept (by the oracle), the given
 * cases. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expr_oracle.h"
#include "grammar/ebnf.h"
#include "grammar/ebnf_parts.h"
#include "grammar_run.h"
#include "random.h"
#include "share.h"
#include "xz.h"

/* Parsed rules, as the oracle wants them. */
typedef struct rules {
    di_grammar_builder *builder;
    const di_expr **bodies;
    uint32_t n;
    uint32_t root;
} rules;

static void free_rules(rules *r)
{
    free(r->bodies);
    di_grammar_builder_destroy(r->builder);
}

/* The way of di_ebnf_parse, but with the rules in hand. */
static di_status parse(const char *text, size_t len, const char *root, rules *r)
{
    di_ebnf_parser p = {0};
    *r = (rules){0};
    assert_int_equal(di_grammar_builder_create(NULL, &r->builder), DI_OK);
    uint32_t root_rule;
    const di_status wanted = di_ebnf_parse(r->builder, text, len, root, &root_rule);
    di_grammar_builder_destroy(r->builder);
    assert_int_equal(di_grammar_builder_create(NULL, &r->builder), DI_OK);
    if (wanted != DI_OK)
        return wanted;
    const di_status status = di_ebnf_rules(&p, r->builder, text, len);
    if (status == DI_OK) {
        r->n = (uint32_t)p.n_rules;
        r->bodies = calloc(p.n_rules, sizeof *r->bodies);
        assert_non_null(r->bodies);
        for (size_t i = 0; i < p.n_rules; i++)
            r->bodies[p.rules[i].rule] = p.rules[i].expr;
        for (size_t i = 0; i < p.n_rules; i++)
            assert_int_equal(di_grammar_define(r->builder, p.rules[i].rule, p.rules[i].expr),
                             DI_OK);
        r->root = root_rule;
    }
    di_ebnf_parser_free(&p);
    return status;
}

/* The oracle's answer, which must be the matcher's too. */
static bool accepts(const rules *r, const char *text, size_t len)
{
    bool is_match;
    if (di_test_grammar_accepts(r->builder, r->root, text, len, &is_match) != DI_OK)
        fail_msg("%s: %s", text, di_last_error());
    const bool wanted = di_expr_oracle(r->bodies[r->root], r->bodies, r->n, text, len);
    if (is_match != wanted)
        fail_msg("\"%s\": the matcher says %d", text, is_match);
    return wanted;
}

static void check(const char *grammar, const char *text, bool wanted)
{
    rules r;
    if (parse(grammar, strlen(grammar), NULL, &r) != DI_OK)
        fail_msg("%s: %s", grammar, di_last_error());
    if (accepts(&r, text, strlen(text)) != wanted)
        fail_msg("%s on \"%s\": wanted %d", grammar, text, wanted);
    free_rules(&r);
}

static void errors(void **state)
{
    (void)state;
    const di_status BAD = DI_ERR_INPUT, NO = DI_ERR_UNSUPPORTED;
    const struct {
        const char *grammar;
        di_status status;
        int line, column;
        const char *what;
    } cases[] = {
        {"", BAD, 1, 1, "found the end of the grammar, wanted the name of a rule"},
        {"# only\n  # comments", BAD, 2, 13, "wanted the name of a rule"},
        {"root ::= \"a\"\nroot ::= \"b\"", BAD, 2, 1, "second definition of rule \"root\""},
        {"root ::= [abc\nb ::= \"x\"", BAD, 1, 10, "found no ] on the line"},
        {"root ::= \"abc", BAD, 1, 10, "found no \" on the line"},
        {"root ::= \"a\nb\"", BAD, 1, 10, "found no \" on the line"},
        {"root ::= [z-a]", BAD, 1, 11, "reversed range U+007A to U+0061"},
        {"root ::= \"\\u12\"", BAD, 1, 15, "found \", wanted 4 hexadecimal digits"},
        {"root ::= \"\\U0001F60\"", BAD, 1, 20, "wanted 8 hexadecimal digits"},
        {"root ::= \"\\xg\"", BAD, 1, 13, "found g, wanted hexadecimal digits"},
        {"root ::= \"\\x110000\"", BAD, 1, 11, "above U+10FFFF"},
        {"root ::= \"\\ud800\"", BAD, 1, 11, "found a surrogate"},
        {"root ::= \"\\d\"", BAD, 1, 12, "found d, wanted one of the escapes"},
        {"root ::= \"\\-\"", BAD, 1, 12, "found -, wanted one of the escapes"},
        {"root ::= [\\d]", BAD, 1, 11, "found \\d in a character class"},
        {"root ::= [\\q]", BAD, 1, 12, "found q, wanted one of the escapes"},
        {"root ::= \\d", BAD, 1, 10, "found \\, wanted an element"},
        {"root ::= \"a\"{-1}", BAD, 1, 14, "found -, wanted a count"},
        {"root ::= \"a\"{x}", BAD, 1, 14, "found x, wanted a count"},
        {"root ::= \"a\"{,3}", BAD, 1, 14, "found ,, wanted a count"},
        {"root ::= \"a\"{3,2}", BAD, 1, 13, "reversed counts {3,2}"},
        {"root ::= \"a\"{3", BAD, 1, 15, "wanted } after"},
        {"root ::= \"a\"{99999999999999999999}", NO, 1, 14, "a number above 4294967294"},
        {"root ::= \"a\"++", BAD, 1, 14, "found +, wanted one repetition at most"},
        {"root ::= \"a\" * {2}", BAD, 1, 16, "found {, wanted one repetition at most"},
        {"root ::= *", BAD, 1, 10, "found *, wanted an element"},
        {"root ::= \na ::= \"x\"", BAD, 2, 1, "found a, wanted an element"},
        {"root ::= \"é\" |", BAD, 1, 15, "found the end of the grammar, wanted an element"},
        {"root ::= \"a\" | | \"b\"", BAD, 1, 16, "found |, wanted an element"},
        {"root ::= ( | \"b\")", BAD, 1, 12, "found |, wanted an element"},
        {"root ::= (\"a\" | )", BAD, 1, 17, "found ), wanted an element"},
        {"root ::= (\"a\"", BAD, 1, 14, "wanted ) for the ("},
        {"root ::= \"a\")", BAD, 1, 13, "found ), wanted the name of a rule"},
        {"root ::= (\"a\"\nb ::= \"c\")", BAD, 2, 1, "wanted ) before the next rule"},
        {"root := \"a\"", BAD, 1, 6, "found :, wanted ::="},
        {"root ::= \"a\" b ::= \"c\"", BAD, 1, 14, "name of a rule first on its line"},
        {"root ::= 1a\n1a ::= \"x\"", BAD, 1, 10, "found 1, wanted an element"},
        {"start ::= \"a\"", BAD, 1, 14, "found no rule \"root\""},
        {"root ::= \"a\"\n  | nope", BAD, 2, 5, "found rule \"nope\", which is not defined"},
        {"root ::= true", BAD, 1, 10, "cannot be the name of a rule"},
        {"root ::= a\na ::= b (=c)\nb ::= \"x\"", BAD, 2, 11, "found rule \"c\""},
        {"root ::= \"a\" (=\"b\") \"c\"", BAD, 1, 21, "wanted the end of the rule after (=...)"},
        {"root ::= (\"a\" (=\"b\"))", BAD, 1, 15, "found (= in a group"},
        {"root[max_tokens=3] ::= \"a\"", NO, 1, 5, "options of rules are not supported"},
        {"root ::= \"a\"\nb[capture] ::= \"a\"", NO, 2, 2, "options of rules are not supported"},
        {"root ::= <think>", NO, 1, 10, "elements that are tokens"},
        {"root ::= !<[10]>", NO, 1, 10, "elements that are tokens"},
        {"root ::= Token(1, 2)", NO, 1, 10, "the macro Token"},
        {"root ::= ExcludeToken(1)", NO, 1, 10, "the macro ExcludeToken"},
        {"root ::= TokenTagDispatch((1, r))\nr ::= \"a\"", NO, 1, 10, "the macro TokenTagDispatch"},
        {"root ::= TagDispatch((\"<t>\", nope))", BAD, 1, 30, "found rule \"nope\""},
        {"root ::= TagDispatch((\"\", r))\nr ::= \"x\"", BAD, 1, 23,
         "wanted a tag that is not empty"},
        {"root ::= TagDispatch(\"<t>\")", BAD, 1, 22, "found \", wanted a pair"},
        {"root ::= TagDispatch((\"<t>\", \"r\"))", BAD, 1, 22, "found (, wanted a pair"},
        {"root ::= TagDispatch()", BAD, 1, 10, "one pair (\"tag\", rule) or more"},
        {"root ::= TagDispatch((\"a\", root), loop=1)", BAD, 1, 35,
         "\"loop\", which is no argument"},
        {"root ::= TagDispatch((\"a\", root), loop_after_dispatch=1)", BAD, 1, 55, "true or false"},
        {"root ::= TagDispatch((\"a\", root), excludes=\"b\")", BAD, 1, 44, "wanted a tuple"},
        {"root ::= TagDispatch((\"a\", root), excludes=(\"\",))", BAD, 1, 45, "not empty"},
        {"root ::= TagDispatch((\"ab\", root), excludes=(\"a\",))", BAD, 1, 46,
         "a tag begins with"},
        {"root ::= TagDispatch((\"a\" root))", BAD, 1, 27, "found r, wanted , or )"},
        {"root ::= TagDispatch(loop_after_dispatch=true, (\"a\", root))", BAD, 1, 48, "NAME=VALUE"},
        {"root ::= Regex()", BAD, 1, 10, "a regular expression in quotes"},
        {"root ::= Regex(\"a\", flags=\"x\")", BAD, 1, 27, "only the flags i, s and u"},
        {"root ::= Regex(\"a\", pattern=\"x\")", BAD, 1, 21, "same argument twice"},
        {"root ::= Regex(\"a(\")", BAD, 1, 16, "regular expression, position 2: found the end"},
        {"root ::= Regex(\"\\\\bx\")", NO, 1, 16, "position 0: word boundaries"},
        {"root ::= Substring(\"a\", 1)", BAD, 1, 25, "wanted a string"},
        {"root ::= Substring()", BAD, 1, 10, "one string or more"},
        {"root ::= \"a\xff\"", BAD, 1, 12, "found the byte 0xff, wanted UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rules r;
        const di_status status = parse(cases[i].grammar, strlen(cases[i].grammar), NULL, &r);
        char position[64];
        snprintf(position, sizeof position, "EBNF, line %d, column %d: ", cases[i].line,
                 cases[i].column);
        const char *error = status ? di_last_error() : "";
        if (status != cases[i].status || strncmp(error, position, strlen(position)) != 0 ||
            !strstr(error, cases[i].what))
            fail_msg("%s: found %d \"%s\", wanted %d, %s%s", cases[i].grammar, status, error,
                     cases[i].status, position, cases[i].what);
        free_rules(&r);
    }
}

static void elements(void **state)
{
    (void)state;
    check("root ::= \"\\n\\r\\t\\b\\f\\a\\v\\e\\\"\\\\\\'\\?\\/\\x41\\u0042\\U00000043\"",
          "\n\r\t\b\f\a\v\x1b\"\\'?/ABC", true);
    check("root ::= \"\\x1F600\"", "😀", true);
    check("root ::= [\\^\\$\\.\\*\\+\\?\\(\\)\\[\\]\\{\\}\\|\\/\\-\\\\]{16}", "^$.*+?()[]{}|/-\\",
          true);
    check("root ::= [-a]+", "-a-", true);
    check("root ::= [a-]+", "-a-", true);
    check("root ::= [a-c-]+", "b-", true);
    check("root ::= [^\\x41-C]", "B", false);
    check("root ::= [^]", "\n", true);
    check("root ::= [] | \"b\"", "b", true);
    check("root ::= []", "", false);
    check("root ::= . \"x\" .", "\nxé", true);
    check("root ::= .\n. ::= \"x\"", "a", false);
    check("root ::= \"\" | \"a\"", "", true);
    check("root ::= ( ) ( \n ) \"a\"", "a", true);
    check("root ::= \"a\" { 2 , 3 }", "aaa", true);
    check("root ::= \"a\"{2,}", "a", false);
    check("root ::= (\"a\"+)+ \"b\"{0} \"c\"\n*", "aacc", true);
    check("root\n::=\r\n\"a\" # c ::= \"d\"\r\n b\r\nb ::= \"b\"\r\n", "ab", true);
    check("root ::= a-b _c .d E\na-b ::= \"1\"\n_c ::= \"2\"\n.d ::= \"3\"\nE ::= \"4\"", "1234",
          true);
    check("root ::= a[b]\na ::= \"a\"", "ab", true);
    check("root ::= x (=\"b\" | y)\nx ::= \"a\" (=y)\ny ::= \"c\"", "a", true);
    check("root ::= Token\nToken ::= \"t\"", "t", true);
}

static void recursion(void **state)
{
    (void)state;
    check("root ::= root | \"a\"", "a", true);
    check("root ::= root | \"a\"", "aa", false);
    check("root ::= root \"a\" | \"b\"", "baaa", true);
    check("root ::= a | \"x\"\na ::= root \"y\"", "xyyy", true);
    check("root ::= e root \"a\" | \"b\"\ne ::= \"c\"?", "cbaa", true);
    check("root ::= e root \"a\" | \"b\"\ne ::= \"c\"?", "cccbaa", false);
    check("root ::= root root root | \"a\" | \"\"", "aaaa", true);
    check("root ::= a\na ::= b\nb ::= a", "", false);
    check("root ::= (root? \"a\")*", "aaa", true);
}

#define TAGS "root ::= TagDispatch((\"<a>\", a), (\"<b>\", b)%s)\na ::= \"x\"+\nb ::= root \"]\"\n"

static void check_tags(const char *options, const char *text, bool wanted)
{
    char grammar[512];
    snprintf(grammar, sizeof grammar, TAGS, options);
    check(grammar, text, wanted);
}

static void dispatch(void **state)
{
    (void)state;
    check_tags("", "", true);
    check_tags("", "free < text <a", true);
    check_tags("", "<a>", false);
    check_tags("", "<a>x more <a>xx", true);
    check_tags("", "<a>y", false);
    check_tags("", "<<a>x", true);
    check_tags("", "1 <b>2 <a>x 3] 4", true);
    check_tags("", "<b>", false);
    check_tags(", loop_after_dispatch=false", "1 <a>xx", true);
    check_tags(", loop_after_dispatch=false", "1 <a>xx ", false);
    check_tags(", loop_after_dispatch=false", "1 <a", true);
    check_tags(", excludes=(\"</s>\",),", "1 </s", true);
    check_tags(", excludes=(\"</s>\",),", "1 </s>", false);
    check_tags(", excludes=(\"</s>\", \"]]\")", "<a>x]]", false);
    check_tags(", excludes=()", "]]", true);
    check("root ::= TagDispatch((\"é日\", r), ) \".\"\nr ::= \"!\"", "éé日!.", true);
    /* Tags in tags: the first to be complete counts. */
    check("root ::= TagDispatch((\"abc\", r), (\"b\", s))\nr ::= \"1\"\ns ::= \"2\"", "abc1",
          false);
    check("root ::= TagDispatch((\"abc\", r), (\"b\", s))\nr ::= \"1\"\ns ::= \"2\"", "ab2c", true);
    check("root ::= TagDispatch((\"aab\", r), (\"ba\", s))\nr ::= \"1\"\ns ::= \"2\"", "baab1",
          false);
    check("root ::= TagDispatch((\"aab\", r), (\"ba\", s))\nr ::= \"1\"\ns ::= \"2\"", "ba2aab1",
          true);
    check("root ::= TagDispatch((\"ab\", r), (\"b\", s))\nr ::= \"1\"\ns ::= \"2\"", "ab2ab1",
          true);
    check("root ::= TagDispatch((\"aa\", r))\nr ::= \"1\"", "aaa1", false);
    check("root ::= TagDispatch((\"aa\", r))\nr ::= \"1\"", "aa1ba", true);
    check("root ::= TagDispatch((\"ab\", r), excludes=(\"ba\",))\nr ::= \"1\"", "bab1", false);
    check("root ::= TagDispatch((\"ab\", r), excludes=(\"b\",))\nr ::= \"1\"", "ab1", true);
}

/* What may happen: at each position the text goes on freely, or a tag that is just complete hands
 * over to its rule, the letter x. */
static bool dispatch_accepts(const char *text, const char *const *tags, int n_tags,
                             const char *exclude, bool is_loop)
{
    size_t begin = 0;
    for (size_t at = 0; text[at]; at++) {
        bool is_tag = false;
        for (int i = 0; i < n_tags; i++) {
            const size_t len = strlen(tags[i]);
            is_tag |= at + 1 - begin >= len && memcmp(text + at + 1 - len, tags[i], len) == 0;
        }
        const size_t len = strlen(exclude);
        if (is_tag) {
            if (text[at + 1] != 'x')
                return false;
            begin = at + 2;
            at++;
            if (!is_loop)
                return text[begin] == 0;
        } else if (at + 1 - begin >= len && memcmp(text + at + 1 - len, exclude, len) == 0) {
            return false;
        }
    }
    return true;
}

static void random_word(di_rng *rng, int64_t most, const char *letters, char *out)
{
    const int64_t n = di_rng_between(rng, 1, most);
    for (int64_t i = 0; i < n; i++)
        out[i] = letters[di_rng_below(rng, (int64_t)strlen(letters))];
    out[n] = 0;
}

static void random_dispatches(void **state)
{
    (void)state;
    di_rng rng = di_rng_named("dispatch");
    int n_accepted = 0, n_texts = 0;
    for (int round = 0; round < 400 / DI_TEST_SHARE; round++) {
        char words[3][8], exclude[8], grammar[256];
        const char *tags[3];
        for (int i = 0; i < 3; i++) {
            random_word(&rng, 4, "ab", words[i]);
            tags[i] = words[i];
        }
        random_word(&rng, 4, "ab", exclude);
        const bool is_loop = di_rng_below(&rng, 2);
        snprintf(grammar, sizeof grammar,
                 "root ::= TagDispatch((\"%s\", r), (\"%s\", r), (\"%s\", r), excludes=(\"%s\",), "
                 "loop_after_dispatch=%s)\nr ::= \"x\"",
                 words[0], words[1], words[2], exclude, is_loop ? "true" : "false");
        rules r;
        const bool is_prefix = !strncmp(words[0], exclude, strlen(exclude)) ||
                               !strncmp(words[1], exclude, strlen(exclude)) ||
                               !strncmp(words[2], exclude, strlen(exclude));
        const di_status status = parse(grammar, strlen(grammar), NULL, &r);
        assert_int_equal(status, is_prefix ? DI_ERR_INPUT : DI_OK);
        for (int i = 0; i < 40 && status == DI_OK; i++, n_texts++) {
            char text[16];
            random_word(&rng, 10, "aabbx", text);
            const bool wanted = dispatch_accepts(text, tags, 3, exclude, is_loop);
            if (accepts(&r, text, strlen(text)) != wanted)
                fail_msg("%s on %s: wanted %d", grammar, text, wanted);
            n_accepted += wanted;
        }
        free_rules(&r);
    }
    assert_true(n_accepted * 20 > n_texts && n_accepted < n_texts);
}

static void other_macros(void **state)
{
    (void)state;
    check("root ::= Regex(\"\\\\d+\\\\.\\\\d\") \"!\"", "12.3!", true);
    check("root ::= Regex(\"a|^b$\")*", "abba", true);
    check("root ::= Regex(\".\")", "\n", true);
    check("root ::= Regex(\".\", flags=\"u\")", "\n", false);
    check("root ::= Regex(\".\", flags=\"su\")", "\n", true);
    check("root ::= Regex(\"é\", flags=\"i\")", "É", true);
    check("root ::= Regex(\"é\")", "É", false);
    check("root ::= Regex(pattern=\".*\", json_string=true)", "a'\xc2\x80", true);
    check("root ::= Regex(\".*\", true)", "\"", false);
    check("root ::= Regex(\"(a|.)+b?\", json_string=true)", "\\b", false);
    check("root ::= Regex(\".*\", json_string=true)", "\x1f", false);
    check("root ::= Regex(\".*\", json_string=false)", "\"\\", true);
    const char *runs = "root ::= Substring(\"ab\", \"c\", \"d\") \".\"";
    check(runs, ".", true);
    check(runs, "abcd.", true);
    check(runs, "cd.", true);
    check(runs, "abc.", true);
    check(runs, "abd.", false);
    check(runs, "bc.", false);
    check(runs, "cc.", false);
}

static void given(void **state)
{
    (void)state;
    DI_BUF_AUTO lines = {0};
    assert_int_equal(di_test_xz_read(DI_TEST_DATA "/cases/structured/ebnf.jsonl.xz", &lines),
                     DI_OK);
    const char *line;
    size_t at = 0, len;
    int n = 0, n_right = 0;
    for (; di_test_next_line(&lines, &at, &line, &len); n++) {
        json_t *json = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
        assert_non_null(json);
        const json_t *grammar = json_object_get(json, "grammar");
        const json_t *text = json_object_get(json, "text");
        const bool must_fail = json_is_true(json_object_get(json, "expect_error"));
        rules r;
        const di_status status = parse(json_string_value(grammar), json_string_length(grammar),
                                       json_string_value(json_object_get(json, "root")), &r);
        bool is_right = must_fail == (status != DI_OK);
        if (is_right && !must_fail)
            is_right = accepts(&r, json_string_value(text), json_string_length(text)) ==
                       json_is_true(json_object_get(json, "match"));
        if (!is_right)
            print_error("%s: %s\n", json_string_value(json_object_get(json, "id")),
                        status ? di_last_error() : "wrong");
        n_right += is_right;
        free_rules(&r);
        json_decref(json);
    }
    assert_int_equal(n, 281);
    assert_int_equal(n_right, n);
}

static void fill(di_buf *out, const char *head, const char *unit, int n)
{
    di_buf_clear(out);
    assert_int_equal(di_buf_puts(out, head), DI_OK);
    for (int i = 0; i < n; i++)
        assert_int_equal(di_buf_puts(out, unit), DI_OK);
}

static void bombs(void **state)
{
    (void)state;
    static const struct {
        const char *head, *unit;
        di_status status;
    } cases[] = {
        {"root ::= ", "(", DI_ERR_UNSUPPORTED},
        {"root ::= ", "[", DI_ERR_INPUT},
        {"root ::= ", "(=", DI_ERR_INPUT},
        {"root ::= TagDispatch(", "(", DI_ERR_INPUT},
        {"root ::= TagDispatch(", "(\"abababab\", root),", DI_ERR_INPUT},
        {"root ::= ", "a[", DI_ERR_INPUT},
        {"root ::= \"", "\\\"", DI_ERR_INPUT},
        {"root ::= ", "root ", DI_OK},
        {"root ::= \"a\"", "| \"b\"", DI_OK},
    };
    DI_BUF_AUTO text = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rules r;
        fill(&text, cases[i].head, cases[i].unit, 60000);
        const di_status status = parse(text.data, text.len, NULL, &r);
        if (status != cases[i].status)
            fail_msg("%s%s...: found %d", cases[i].head, cases[i].unit, status);
        free_rules(&r);
    }
    rules r;
    fill(&text, "root ::= TagDispatch(", "(\"abcdefghij\", root),", 1001);
    assert_int_equal(di_buf_puts(&text, ")"), DI_OK);
    assert_int_equal(parse(text.data, text.len, NULL, &r), DI_ERR_UNSUPPORTED);
    assert_non_null(strstr(di_last_error(), "10010 characters together, wanted 10000 at most"));
    free_rules(&r);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors),
        cmocka_unit_test(elements),
        cmocka_unit_test(recursion),
        cmocka_unit_test(dispatch),
        cmocka_unit_test(random_dispatches),
        cmocka_unit_test(other_macros),
        cmocka_unit_test(given),
        cmocka_unit_test(bombs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
