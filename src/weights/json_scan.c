#include "weights/json_scan.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

enum { MAX_DEPTH = 32 };

void di_json_scan_free(di_json_scan *scan)
{
    di_buf_free(&scan->string);
}

di_status di_json_scan_fail(const di_json_scan *scan, const char *wanted)
{
    char found[32] = "the end";
    if (scan->at < scan->end) {
        const unsigned char c = (unsigned char)*scan->at;
        if (c > 0x20 && c < 0x7f)
            snprintf(found, sizeof found, "'%c'", c);
        else
            snprintf(found, sizeof found, "byte 0x%02x", c);
    }
    const char *context = scan->context ? scan->context : "";
    return di_fail(DI_ERR_INPUT, "%s: %s%sbyte %zu of the JSON text: found %s, wanted %s",
                   scan->name, context, *context ? ": " : "", (size_t)(scan->at - scan->text),
                   found, wanted);
}

static void skip_space(di_json_scan *scan)
{
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\n' || *scan->at == '\r'))
        scan->at++;
}

bool di_json_scan_take(di_json_scan *scan, char c)
{
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

di_status di_json_scan_expect(di_json_scan *scan, char c)
{
    const char wanted[] = {'\'', c, '\'', 0};
    return di_json_scan_take(scan, c) ? DI_OK : di_json_scan_fail(scan, wanted);
}

static bool read_hex4(di_json_scan *scan, uint32_t *out)
{
    if (scan->end - scan->at < 4)
        return false;
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        const char c = scan->at[i];
        if (!isxdigit((unsigned char)c))
            return false;
        v = v * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    scan->at += 4;
    *out = v;
    return true;
}

/* After "\u". Surrogates have to come in pairs. */
static di_status read_unicode_escape(di_json_scan *scan)
{
    uint32_t c, low;
    if (!read_hex4(scan, &c))
        return di_json_scan_fail(scan, "four hexadecimal digits");
    if (c >= 0xd800 && c < 0xdc00) {
        if (scan->end - scan->at < 6 || scan->at[0] != '\\' || scan->at[1] != 'u')
            return di_json_scan_fail(scan, "the second half of a surrogate pair");
        scan->at += 2;
        if (!read_hex4(scan, &low) || low < 0xdc00 || low > 0xdfff)
            return di_json_scan_fail(scan, "the second half of a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xdc00 && c < 0xe000) {
        return di_json_scan_fail(scan, "the first half of a surrogate pair before the second");
    }
    if (c == 0)
        return di_json_scan_fail(scan, "a name without NUL before this");
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t n = utf8proc_encode_char((utf8proc_int32_t)c, bytes);
    return di_buf_append(&scan->string, bytes, (size_t)n);
}

static di_status read_escape(di_json_scan *scan)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (scan->at == scan->end)
        return di_json_scan_fail(scan, "an escape");
    if (*scan->at == 'u') {
        scan->at++;
        return read_unicode_escape(scan);
    }
    const char *hit = memchr(from, *scan->at, sizeof from - 1);
    if (!hit)
        return di_json_scan_fail(scan, "an escape");
    scan->at++;
    return di_buf_append(&scan->string, &to[hit - from], 1);
}

/* A run of bytes without quotes, escapes and control characters. */
static di_status read_plain(di_json_scan *scan)
{
    const char *start = scan->at;
    while (scan->at < scan->end && (unsigned char)*scan->at >= 0x20 && *scan->at != '"' &&
           *scan->at != '\\') {
        if ((unsigned char)*scan->at < 0x80) {
            scan->at++;
            continue;
        }
        utf8proc_int32_t c;
        const utf8proc_ssize_t n =
            utf8proc_iterate((const utf8proc_uint8_t *)scan->at, scan->end - scan->at, &c);
        if (n <= 0)
            return di_json_scan_fail(scan, "UTF-8");
        scan->at += n;
    }
    return di_buf_append(&scan->string, start, (size_t)(scan->at - start));
}

di_status di_json_scan_string(di_json_scan *scan)
{
    di_buf_clear(&scan->string);
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != '"')
        return di_json_scan_fail(scan, "a string");
    scan->at++;
    for (;;) {
        DI_TRY(read_plain(scan));
        if (scan->at == scan->end || (*scan->at != '"' && *scan->at != '\\'))
            return di_json_scan_fail(scan, "the rest of a string");
        if (*scan->at++ == '"')
            return DI_OK;
        DI_TRY(read_escape(scan));
    }
}

di_status di_json_scan_count(di_json_scan *scan, uint64_t *out)
{
    skip_space(scan);
    const char *start = scan->at;
    uint64_t v = 0;
    while (scan->at < scan->end && isdigit((unsigned char)*scan->at)) {
        const uint64_t digit = (uint64_t)(*scan->at - '0');
        if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, digit, &v)) {
            scan->at = start;
            return di_json_scan_fail(scan, "a whole number below 2^64");
        }
        scan->at++;
    }
    const bool has_leading_zero = scan->at - start > 1 && *start == '0';
    const bool goes_on = scan->at < scan->end && strchr(".eE+-", *scan->at) && *scan->at;
    if (scan->at == start || has_leading_zero || goes_on) {
        scan->at = has_leading_zero ? start : scan->at;
        return di_json_scan_fail(scan, "a whole number of at least 0");
    }
    *out = v;
    return DI_OK;
}

static bool skip_digits(di_json_scan *scan)
{
    const char *start = scan->at;
    while (scan->at < scan->end && isdigit((unsigned char)*scan->at))
        scan->at++;
    return scan->at > start;
}

static bool next_is(const di_json_scan *scan, const char *set)
{
    return scan->at < scan->end && *scan->at && strchr(set, *scan->at);
}

static di_status skip_number(di_json_scan *scan)
{
    if (next_is(scan, "-"))
        scan->at++;
    const bool is_zero = next_is(scan, "0");
    const char *start = scan->at;
    if (!skip_digits(scan) || (is_zero && scan->at - start > 1))
        return di_json_scan_fail(scan, "a number");
    if (next_is(scan, ".")) {
        scan->at++;
        if (!skip_digits(scan))
            return di_json_scan_fail(scan, "a digit");
    }
    if (next_is(scan, "eE")) {
        scan->at++;
        if (next_is(scan, "+-"))
            scan->at++;
        if (!skip_digits(scan))
            return di_json_scan_fail(scan, "a digit");
    }
    return DI_OK;
}

static bool take_word(di_json_scan *scan, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(scan->end - scan->at) < n || memcmp(scan->at, word, n) != 0)
        return false;
    scan->at += n;
    return true;
}

static di_status skip_value(di_json_scan *scan, int depth);

static di_status skip_array(di_json_scan *scan, int depth)
{
    if (di_json_scan_take(scan, ']'))
        return DI_OK;
    do
        DI_TRY(skip_value(scan, depth));
    while (di_json_scan_take(scan, ','));
    return di_json_scan_expect(scan, ']');
}

static di_status skip_object(di_json_scan *scan, int depth)
{
    bool has_key;
    for (bool is_first = true;; is_first = false) {
        DI_TRY(di_json_scan_key(scan, is_first, &has_key));
        if (!has_key)
            return DI_OK;
        DI_TRY(skip_value(scan, depth));
    }
}

static di_status skip_value(di_json_scan *scan, int depth)
{
    if (depth == MAX_DEPTH)
        return di_json_scan_fail(scan, "at most 32 levels of nesting");
    skip_space(scan);
    if (next_is(scan, "\""))
        return di_json_scan_string(scan);
    if (di_json_scan_take(scan, '{'))
        return skip_object(scan, depth + 1);
    if (di_json_scan_take(scan, '['))
        return skip_array(scan, depth + 1);
    if (take_word(scan, "true") || take_word(scan, "false") || take_word(scan, "null"))
        return DI_OK;
    if (next_is(scan, "-0123456789"))
        return skip_number(scan);
    return di_json_scan_fail(scan, "a value");
}

di_status di_json_scan_skip(di_json_scan *scan)
{
    return skip_value(scan, 0);
}

di_status di_json_scan_key(di_json_scan *scan, bool is_first, bool *has_key)
{
    *has_key = false;
    if (di_json_scan_take(scan, '}'))
        return DI_OK;
    if (!is_first)
        DI_TRY(di_json_scan_expect(scan, ','));
    DI_TRY(di_json_scan_string(scan));
    *has_key = true;
    return di_json_scan_expect(scan, ':');
}

di_status di_json_scan_end(di_json_scan *scan)
{
    skip_space(scan);
    return scan->at == scan->end ? DI_OK : di_json_scan_fail(scan, "the end of the text");
}
