/* text/utf8.h against the definition, over every pair of leading bytes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "text/utf8.h"

/* Length of the character at s by decoding and encoding again; 0 if there is none. */
static size_t slow_char(const unsigned char *s, size_t n)
{
    static const unsigned char marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (n && s[0] < 0x80)
        return 1;
    for (size_t len = 2; len <= 4 && len <= n; len++) {
        const unsigned char payload = (unsigned char)(0xff >> (len + 1));
        if ((s[0] & ~payload & 0xff) != marks[len])
            continue;
        unsigned c = s[0] & payload;
        for (size_t i = 1; i < len; i++) {
            if ((s[i] & 0xc0) != 0x80)
                return 0;
            c = c << 6 | (s[i] & 0x3f);
        }
        return c >= least[len] && c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff) ? len : 0;
    }
    return 0;
}

/* Whether some bytes added to s make a character. */
static bool slow_cut(const unsigned char *s, size_t n)
{
    unsigned char t[4];
    memcpy(t, s, n);
    for (size_t len = n + 1; len <= 4; len++)
        for (int second = 0x80; second <= (n > 1 ? 0x80 : 0xbf); second++) {
            for (size_t i = n; i < len; i++)
                t[i] = 0x80;
            if (n == 1)
                t[1] = (unsigned char)second;
            if (slow_char(t, len) == len)
                return true;
        }
    return false;
}

static void check(const unsigned char *s, size_t n)
{
    size_t len;
    const di_utf8_kind kind = di_utf8_next((const char *)s, n, &len);
    const size_t whole = slow_char(s, n);
    assert_int_equal(kind == DI_UTF8_CHAR, whole != 0);
    if (whole) {
        assert_int_equal(len, whole);
        return;
    }
    assert_int_equal(kind == DI_UTF8_CUT, slow_cut(s, n));
    if (kind == DI_UTF8_CUT) {
        assert_int_equal(len, n);
        return;
    }
    size_t longest =
        1; /* maximal subpart: the longest beginning of a character, at least one byte */
    while (longest < n && slow_cut(s, longest + 1))
        longest++;
    assert_int_equal(len, slow_cut(s, 1) ? longest : 1);
}

static void every_sequence(void **state)
{
    (void)state;
    static const unsigned char tails[] = {0x41, 0x80, 0xbf, 0xe2};
    const size_t n_tails = sizeof tails;
    for (int lead = 0; lead < 256; lead++)
        for (int second = 0; second < 256; second++)
            for (size_t a = 0; a < n_tails; a++)
                for (size_t b = 0; b < n_tails; b++) {
                    const unsigned char s[] = {(unsigned char)lead, (unsigned char)second, tails[a],
                                               tails[b]};
                    for (size_t n = 1; n <= 4; n++)
                        check(s, n);
                }
}

static void replacement(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"", ""},
        {"plain", "plain"},
        {"\xe2\x80", "\xef\xbf\xbd"},
        {"\xe2\x80"
         "A",
         "\xef\xbf\xbd"
         "A"},
        {"\xf0\x9f\x91", "\xef\xbf\xbd"},
        {"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf0\x9f\xf0\x9f\x91\xa8", "\xef\xbf\xbd\xf0\x9f\x91\xa8"},
        {"12345678\xff"
         "12345678",
         "12345678\xef\xbf\xbd"
         "12345678"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        DI_BUF_AUTO out = {0};
        assert_int_equal(di_utf8_append_lossy(&out, rows[i].in, strlen(rows[i].in)), DI_OK);
        assert_string_equal(di_buf_str(&out), rows[i].out);
        assert_int_equal(di_utf8_valid_prefix(di_buf_str(&out), out.len), out.len);
    }
    assert_int_equal(di_utf8_valid_prefix("12345678\xc3\xa9\xff", 11), 10);
}

static void decode(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        size_t n_bytes;
        uint32_t code;
    } rows[] = {
        {"A", 1, 0x41},
        {"\xc3\xa9", 2, 0xe9},
        {"\xe9\x81\x93", 3, 0x9053},
        {"\xf0\x9f\x98\x80", 4, 0x1f600},
        {"\xc0\x80", 0, 7},
        {"\xed\xa0\x80", 0, 7},
        {"\xe9\x81", 0, 7},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t code = 7;
        assert_int_equal(di_utf8_decode(rows[i].in, strlen(rows[i].in), &code), rows[i].n_bytes);
        assert_int_equal(code, rows[i].code);
    }
    uint32_t code = 7;
    assert_int_equal(di_utf8_decode("", 0, &code), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sequence),
        cmocka_unit_test(replacement),
        cmocka_unit_test(decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
