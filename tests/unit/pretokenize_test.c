/* Splits: pieces, their order, what is refused, and Oniguruma's reading of a pattern. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "text/pretokenize.h"
#include "text/split_pattern.h"

/* Pieces joined with "|". */
static di_status append_piece(void *user, const char *piece, size_t len)
{
    di_buf *out = user;
    assert_true(len > 0);
    if (out->len)
        DI_TRY(di_buf_puts(out, "|"));
    return di_buf_append(out, piece, len);
}

static void assert_pieces(const char *const *regexes, size_t n_regexes, const char *text,
                          const char *wanted)
{
    di_pretokenizer pretokenizer = {0};
    for (size_t i = 0; i < n_regexes; i++)
        assert_int_equal(di_pretokenizer_add(&pretokenizer, regexes[i], strlen(regexes[i])), DI_OK);
    di_split_scratch *scratch;
    assert_int_equal(di_split_scratch_create(&scratch), DI_OK);
    DI_BUF_AUTO out = {0};
    assert_int_equal(di_pretokenize(&pretokenizer, scratch, text, strlen(text), append_piece, &out),
                     DI_OK);
    assert_string_equal(di_buf_str(&out), wanted);
    di_split_scratch_destroy(scratch);
    di_pretokenizer_free(&pretokenizer);
}

static void splits_in_turn(void **state)
{
    (void)state;
    static const char *const regexes[] = {"\\p{N}{1,3}", "[一-龥]+", " ?\\p{L}+|\\s+(?!\\S)|\\s+"};
    assert_pieces(regexes, 0, "as it is 1", "as it is 1");
    assert_pieces(regexes, 1, "a12345b6", "a|123|45|b|6");
    assert_pieces(regexes, 2, "a道部1道", "a|道部|1|道");
    assert_pieces(regexes, 3, "to be  or\t\n!?  ", "to| be| | or|\t|\n|!?|  ");
    assert_pieces(regexes, 3, "", "");
    assert_pieces(regexes, 3,
                  "12\xff\xfe"
                  "34",
                  "12|\xff\xfe|34"); /* invalid bytes: one piece */
    assert_pieces(regexes, 3, "a\xe2\x80 b", "a|\xe2\x80| b");
}

static void no_split_sees_beyond_its_piece(void **state)
{
    (void)state;
    static const char *const regexes[] = {"[0-9]", "(?<=1)x|y(?=2)|a$|^b"};
    assert_pieces(regexes, 2, "1xx", "1|xx");
    assert_pieces(regexes, 2, "yy2", "yy|2");
    assert_pieces(regexes, 2, "ca3bc", "c|a|3|b|c");
    assert_pieces(regexes, 2, "ca\nbc", "c|a|\n|b|c"); /* ^ and $ know lines, as in Oniguruma */
}

static void empty_matches_cut(void **state)
{
    (void)state;
    static const char *const regexes[] = {"(?=é)|x*"};
    assert_pieces(regexes, 1, "aéxxb", "a|é|xx|b");
}

/* U+180E is no white space (it was, until Unicode 6.3); U+0085 is. */
static void white_space_is_the_unicode_property(void **state)
{
    (void)state;
    static const char *const regexes[] = {"\\s+"};
    assert_pieces(regexes, 1,
                  "a\xe1\xa0\x8e"
                  "b\xc2\x85"
                  "c",
                  "a\xe1\xa0\x8e"
                  "b|\xc2\x85|c");
    static const char *const in_class[] = {"[^\\s]+"};
    assert_pieces(in_class, 1,
                  "a\xe1\xa0\x8e"
                  "b\xc2\xa0"
                  "c",
                  "a\xe1\xa0\x8e"
                  "b|\xc2\xa0|c");
}

static void patterns_read_otherwise_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\\w+",  "\\bx",  "\\h",     "[a[bc]]",  "[[:alpha:]]", "[a&&b]",  "[]a]",
        "[^]a]", "(?m)a", "(?<n>a)", "(?R)",     "(*UTF)a",     "(a)\\1",  "\\K",
        "a{,3}", "{",     "a{1,2}+", "\\p{Han}", "\\p{^L}",     "\\pL",    "\\x41",
        "\\",    "\\p{L", "\\G",     "\\A",      "\\Z",         "\\u0041", "(?i)a",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        DI_BUF_AUTO out = {0};
        if (di_split_pattern_translate(bad[i], strlen(bad[i]), &out) != DI_ERR_UNSUPPORTED)
            fail_msg("\"%s\" was not refused", bad[i]);
        assert_non_null(strstr(di_last_error(), "wanted"));
    }
    static const char *const broken[] = {"(a",     "[a",       "a)",         "*",
                                         "a{3,2}", "(?<=a+)b", "\\x{110000}"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        di_pretokenizer pretokenizer = {0};
        assert_int_equal(di_pretokenizer_add(&pretokenizer, broken[i], strlen(broken[i])),
                         DI_ERR_INPUT);
        assert_int_equal(pretokenizer.n_splitters, 0);
    }
}

/* A regex that would backtrack for ever is an error, not a hang or a crash. */
static void runaway_regex(void **state)
{
    (void)state;
    static const char regex[] = "(?:a?a*)*(?:a?a*)*(?:a?a*)*b";
    char text[4000];
    memset(text, 'a', sizeof text);
    di_pretokenizer pretokenizer = {0};
    assert_int_equal(di_pretokenizer_add(&pretokenizer, regex, strlen(regex)), DI_OK);
    di_split_scratch *scratch;
    assert_int_equal(di_split_scratch_create(&scratch), DI_OK);
    DI_BUF_AUTO out = {0};
    memcpy(text + sizeof text - 2, "cb", 2);
    const di_status status =
        di_pretokenize(&pretokenizer, scratch, text, sizeof text, append_piece, &out);
    assert_int_equal(status, DI_ERR_UNSUPPORTED);
    assert_non_null(strstr(di_last_error(), "regex"));
    di_split_scratch_destroy(scratch);
    di_pretokenizer_free(&pretokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_in_turn),
        cmocka_unit_test(no_split_sees_beyond_its_piece),
        cmocka_unit_test(empty_matches_cut),
        cmocka_unit_test(white_space_is_the_unicode_property),
        cmocka_unit_test(patterns_read_otherwise_are_refused),
        cmocka_unit_test(runaway_regex),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
