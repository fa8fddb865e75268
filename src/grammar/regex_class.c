/* Escapes and character classes of regular expressions. */
#include <stdio.h>
#include <string.h>

#include "grammar/regex_parts.h"
#include "grammar/unicode.h"

enum { NO_CODE = UINT32_MAX };

#define RANGES(...)                                                                                \
    {                                                                                              \
        .ranges = (const di_code_range[]){__VA_ARGS__},                                            \
        .n = sizeof((const di_code_range[]){__VA_ARGS__}) / sizeof(di_code_range)                  \
    }

static const di_charset digits = RANGES({'0', '9'});
static const di_charset word = RANGES({'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'});
static const di_charset spaces = RANGES({0x09, 0x0D}, {0x20, 0x20}, {0xA0, 0xA0}, {0x1680, 0x1680},
                                        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                        {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF});

static bool is_digit(uint32_t code)
{
    return code >= '0' && code <= '9';
}

static bool is_ascii_letter(uint32_t code)
{
    return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
}

static int hex_value(uint32_t code)
{
    if (is_digit(code))
        return (int)(code - '0');
    const uint32_t lower = code | 0x20;
    return code < 0x80 && lower >= 'a' && lower <= 'f' ? (int)(lower - 'a' + 10) : -1;
}

di_status di_regex_fold(di_regex_parser *p, di_charset set, di_charset *out)
{
    *out = set;
    return p->ignore_case ? di_unicode_fold(p->arena, set, out) : DI_OK;
}

static di_status hex_digits(di_regex_parser *p, int n, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < n; i++, p->at++) {
        const int value = hex_value(di_regex_peek(p));
        if (value < 0)
            return di_regex_unexpected(p, n == 2 ? "two hexadecimal digits after \\x"
                                                 : "four hexadecimal digits or {...} after \\u");
        *code = *code * 16 + (uint32_t)value;
    }
    return DI_OK;
}

/* After \u{ */
static di_status braced_code(di_regex_parser *p, uint32_t *code)
{
    const size_t start = p->at;
    for (*code = 0; hex_value(di_regex_peek(p)) >= 0; p->at++) {
        *code = *code * 16 + (uint32_t)hex_value(di_regex_peek(p));
        if (*code > DI_CODE_LAST)
            return DI_REGEX_FAIL(DI_ERR_INPUT, start,
                                 "found a code point above U+10FFFF, wanted \\u{0} to \\u{10FFFF}");
    }
    if (p->at == start)
        return di_regex_unexpected(p, "hexadecimal digits after \\u{");
    return di_regex_take(p, '}') ? DI_OK : di_regex_unexpected(p, "} after \\u{ and its digits");
}

/* After \u: also the second half of a surrogate pair. */
static di_status unicode_escape(di_regex_parser *p, uint32_t *code)
{
    if (di_regex_take(p, '{'))
        return braced_code(p, code);
    DI_TRY(hex_digits(p, 4, code));
    const bool is_high = *code >= 0xD800 && *code <= 0xDBFF;
    if (!is_high || p->at + 6 > p->n || p->code[p->at] != '\\' || p->code[p->at + 1] != 'u')
        return DI_OK;
    uint32_t low = 0;
    for (size_t i = p->at + 2; i < p->at + 6; i++) {
        const int value = hex_value(p->code[i]);
        if (value < 0)
            return DI_OK;
        low = low * 16 + (uint32_t)value;
    }
    if (low >= 0xDC00 && low <= 0xDFFF) {
        p->at += 6;
        *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
    }
    return DI_OK;
}

/* After \p or \P. */
static di_status property(di_regex_parser *p, size_t start, bool negate, di_charset *set)
{
    char name[64];
    size_t n = 0;
    if (!di_regex_take(p, '{'))
        return di_regex_unexpected(p, "{ and the name of a property after \\p or \\P");
    for (; di_regex_peek(p) != '}'; p->at++) {
        const uint32_t code = di_regex_peek(p);
        if (code != '_' && code != '=' && !is_digit(code) && !is_ascii_letter(code))
            return di_regex_unexpected(p, "the name of a property and }");
        if (n == sizeof name - 1)
            return DI_REGEX_FAIL(DI_ERR_INPUT, start,
                                 "found a property with a name of more than "
                                 "%zu letters",
                                 sizeof name - 1);
        name[n++] = (char)code;
    }
    p->at++;
    name[n] = 0;
    const di_status status = di_unicode_property(p->arena, name, set);
    if (status != DI_OK)
        return di_fail_within(status, "regular expression, position %zu", start);
    DI_TRY(di_regex_charge(p, *set));
    return negate ? di_charset_complement(p->arena, *set, set) : DI_OK;
}

/* \d \w \s and their complements. */
static di_status shorthand(di_regex_parser *p, uint32_t letter, di_charset *set)
{
    const uint32_t lower = letter | 0x20;
    *set = lower == 'd' ? digits : lower == 'w' ? word : spaces;
    DI_TRY(di_regex_fold(p, *set, set));
    return letter == lower ? DI_OK : di_charset_complement(p->arena, *set, set);
}

static di_status refuse_letter(const di_regex_parser *p, size_t start, uint32_t letter)
{
    char buf[32];
    if (letter == 'b' || letter == 'B')
        return DI_REGEX_FAIL(DI_ERR_UNSUPPORTED, start, "word boundaries (\\%c) are not supported",
                             (char)letter);
    if (letter == 'k' || is_digit(letter))
        return DI_REGEX_FAIL(DI_ERR_UNSUPPORTED, start, "back-references (\\%c) are not supported",
                             (char)letter);
    return DI_REGEX_FAIL(DI_ERR_INPUT, start, "found \\ and %s, which is no escape",
                         di_regex_found(p, p->at - 1, buf));
}

static uint32_t control_letter(uint32_t letter)
{
    static const char letters[] = "n\nr\rt\tf\fv\v";
    for (size_t i = 0; letters[i]; i += 2)
        if (letter == (uint32_t)letters[i])
            return (uint32_t)letters[i + 1];
    return NO_CODE;
}

/* Escapes of one code point. */
static di_status code_escape(di_regex_parser *p, size_t start, bool in_class, uint32_t letter,
                             uint32_t *code)
{
    *code = control_letter(letter);
    if (*code != NO_CODE)
        return DI_OK;
    if (letter == 'u')
        return unicode_escape(p, code);
    if (letter == 'x')
        return hex_digits(p, 2, code);
    if (letter == 'c') {
        if (!is_ascii_letter(di_regex_peek(p)))
            return di_regex_unexpected(p, "a letter after \\c");
        *code = p->code[p->at++] % 32;
        return DI_OK;
    }
    if (letter == '0') {
        *code = 0;
        return is_digit(di_regex_peek(p)) ? di_regex_unexpected(p, "no digit after \\0") : DI_OK;
    }
    if (letter == 'b' && in_class) {
        *code = '\b';
        return DI_OK;
    }
    if (letter >= 0x80 || letter < 0x20 || is_digit(letter) || is_ascii_letter(letter))
        return refuse_letter(p, start, letter);
    *code = letter;
    return DI_OK;
}

di_status di_regex_escape(di_regex_parser *p, size_t start, bool in_class, di_charset *set,
                          uint32_t *code)
{
    const uint32_t letter = di_regex_peek(p);
    if (letter == NO_CODE)
        return di_regex_unexpected(p, "a character after \\");
    p->at++;
    *code = NO_CODE;
    if (letter == 'p' || letter == 'P')
        return property(p, start, letter == 'P', set);
    if (letter < 0x80 && strchr("dDwWsS", (int)letter) && letter != 0)
        return shorthand(p, letter, set);
    DI_TRY(code_escape(p, start, in_class, letter, code));
    return di_charset_range(p->arena, *code, *code, set);
}

/* One member of a class: *code is NO_CODE if it is a set. */
static di_status class_atom(di_regex_parser *p, di_charset *set, uint32_t *code)
{
    const size_t start = p->at;
    *code = di_regex_peek(p);
    if (*code == NO_CODE)
        return di_regex_unexpected(p, "] at the end of a character class");
    p->at++;
    if (*code == '\\')
        return di_regex_escape(p, start, true, set, code);
    return di_charset_range(p->arena, *code, *code, set);
}

static di_status class_range(di_regex_parser *p)
{
    const size_t start = p->at;
    di_charset first_set, last_set;
    uint32_t first, last;
    DI_TRY(class_atom(p, &first_set, &first));
    const bool is_range = p->at + 1 < p->n && p->code[p->at] == '-' && p->code[p->at + 1] != ']';
    if (!is_range)
        return di_charset_add_set(&p->builder, first_set);
    p->at++;
    DI_TRY(class_atom(p, &last_set, &last));
    if (first == NO_CODE || last == NO_CODE)
        return DI_REGEX_FAIL(DI_ERR_INPUT, start,
                             "found a set of characters as the end of a range; a dash is \\-");
    if (first > last)
        return DI_REGEX_FAIL(DI_ERR_INPUT, start,
                             "found the reversed range U+%04X to U+%04X in a character class",
                             first, last);
    return di_charset_add(&p->builder, first, last);
}

di_status di_regex_class(di_regex_parser *p, di_charset *out)
{
    const bool negate = di_regex_take(p, '^');
    p->builder.n = 0;
    while (!di_regex_take(p, ']'))
        DI_TRY(class_range(p));
    di_charset set;
    DI_TRY(di_charset_finish(&p->builder, p->arena, false, &set));
    DI_TRY(di_regex_fold(p, set, &set));
    *out = set;
    return negate ? di_charset_complement(p->arena, set, out) : DI_OK;
}
