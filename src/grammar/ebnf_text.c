/* The lexical part of EBNF: positions, names, numbers, literals, classes. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "grammar/ebnf_parts.h"
#include "text/utf8.h"

di_status di_ebnf_fail(const di_ebnf_parser *p, di_status status, size_t at, const char *fmt, ...)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < p->len; i++) {
        if (p->text[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)p->text[i] & 0xC0) != 0x80) {
            column++; /* in code points */
        }
    }
    char message[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return di_fail(status, "EBNF, line %zu, column %zu: %s", line, column, message);
}

static const char *found(const di_ebnf_parser *p, char buf[static 32])
{
    uint32_t code = 0;
    if (p->at >= p->len)
        return "the end of the grammar";
    if (p->text[p->at] == '\n' || p->text[p->at] == '\r')
        return "the end of the line";
    di_utf8_decode(p->text + p->at, p->len - p->at, &code);
    if (code > 0x20 && code < 0x7F)
        snprintf(buf, 32, "%c", (char)code);
    else
        snprintf(buf, 32, "U+%04X", (unsigned)code);
    return buf;
}

di_status di_ebnf_unexpected(const di_ebnf_parser *p, const char *wanted)
{
    char buf[32];
    return di_ebnf_fail(p, DI_ERR_INPUT, p->at, "found %s, wanted %s", found(p, buf), wanted);
}

int di_ebnf_peek(const di_ebnf_parser *p)
{
    return p->at < p->len ? (unsigned char)p->text[p->at] : -1;
}

bool di_ebnf_take(di_ebnf_parser *p, char byte)
{
    if (di_ebnf_peek(p) != (unsigned char)byte)
        return false;
    p->at++;
    return true;
}

void di_ebnf_skip(di_ebnf_parser *p)
{
    for (int c; (c = di_ebnf_peek(p)) >= 0; p->at++) {
        if (c == '#')
            while (p->at + 1 < p->len && p->text[p->at + 1] != '\n')
                p->at++;
        else if (c != ' ' && c != '\t' && c != '\r' && c != '\n')
            return;
    }
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_byte(int c, bool is_first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.' ||
           (!is_first && is_digit(c));
}

di_ebnf_name di_ebnf_take_name(di_ebnf_parser *p)
{
    di_ebnf_name name = {.at = p->at};
    while (is_name_byte(di_ebnf_peek(p), p->at == name.at))
        p->at++;
    name.len = p->at - name.at;
    return name;
}

bool di_ebnf_name_is(const di_ebnf_parser *p, di_ebnf_name name, const char *wanted)
{
    return name.len == strlen(wanted) && memcmp(p->text + name.at, wanted, name.len) == 0;
}

di_status di_ebnf_number(di_ebnf_parser *p, const char *wanted, uint32_t *out)
{
    const size_t start = p->at;
    uint64_t value = 0;
    for (; is_digit(di_ebnf_peek(p)); p->at++)
        if (value < DI_REPEAT_INF)
            value = value * 10 + (uint64_t)(p->text[p->at] - '0');
    if (p->at == start)
        return di_ebnf_unexpected(p, wanted);
    if (value >= DI_REPEAT_INF)
        return di_ebnf_fail(p, DI_ERR_UNSUPPORTED, start, "found a number above %u",
                            (unsigned)DI_REPEAT_INF - 1);
    *out = (uint32_t)value;
    return DI_OK;
}

static int hex_value(int c)
{
    if (is_digit(c))
        return c - '0';
    const int lower = c | 0x20;
    return c >= 0 && lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* n digits; n = 0: one or more. `start`: of the escape. */
static di_status hex_escape(di_ebnf_parser *p, size_t start, int n, uint32_t *code)
{
    int i = 0;
    for (*code = 0; (n == 0 || i < n) && hex_value(di_ebnf_peek(p)) >= 0; i++, p->at++) {
        *code = *code * 16 + (uint32_t)hex_value(di_ebnf_peek(p));
        if (*code > DI_CODE_LAST)
            return di_ebnf_fail(p, DI_ERR_INPUT, start,
                                "found an escape above U+10FFFF, the last code point");
    }
    if (i < n || i == 0)
        return di_ebnf_unexpected(p, n == 0   ? "hexadecimal digits after \\x"
                                     : n == 4 ? "4 hexadecimal digits after \\u"
                                              : "8 hexadecimal digits after \\U");
    return DI_OK;
}

/* After a backslash at `start`. */
static di_status escape(di_ebnf_parser *p, size_t start, bool in_class, uint32_t *code)
{
    static const char letters[] = {'n',  '\n', 'r',  '\r', 't',  '\t', 'b',  '\b', 'f',
                                   '\f', 'a',  '\a', 'v',  '\v', 'e',  0x1b, '"',  '"',
                                   '\\', '\\', '\'', '\'', '?',  '?',  '/',  '/',  0};
    const int c = di_ebnf_peek(p);
    if (c == 'x' || c == 'u' || c == 'U') {
        p->at++;
        return hex_escape(p, start, c == 'x' ? 0 : c == 'u' ? 4 : 8, code);
    }
    if (c == '0' || (in_class && c > 0 && strchr("^$.*+()[]{}|-", c))) {
        *code = c == '0' ? 0 : (uint32_t)c;
        p->at++;
        return DI_OK;
    }
    for (size_t i = 0; letters[i]; i += 2)
        if (c == letters[i]) {
            *code = (uint32_t)letters[i + 1];
            p->at++;
            return DI_OK;
        }
    if (in_class && c > 0 && strchr("dDwWsS", c))
        return di_ebnf_fail(p, DI_ERR_INPUT, start,
                            "found \\%c in a character class, wanted its ranges written out", c);
    return di_ebnf_unexpected(p, "one of the escapes after \\");
}

/* A code point, perhaps escaped, of a literal or a class that began at `open`. */
static di_status code_point(di_ebnf_parser *p, size_t open, bool in_class, uint32_t *code)
{
    const size_t start = p->at;
    const int c = di_ebnf_peek(p);
    if (c < 0 || c == '\n' || c == '\r')
        return di_ebnf_fail(p, DI_ERR_INPUT, open, "found no %s on the line, wanted one at the end",
                            in_class ? "]" : "\"");
    if (di_ebnf_take(p, '\\'))
        return escape(p, start, in_class, code);
    p->at += di_utf8_decode(p->text + p->at, p->len - p->at, code);
    return DI_OK;
}

/* Bytes up to the closing quote, if there is one on the line. */
static size_t literal_bytes(const di_ebnf_parser *p)
{
    size_t end = p->at;
    while (end < p->len && p->text[end] != '"' && p->text[end] != '\n')
        end += p->text[end] == '\\' && end + 1 < p->len ? 2 : 1;
    return end - p->at;
}

di_status di_ebnf_literal(di_ebnf_parser *p, di_ebnf_string *out)
{
    const size_t open = p->at++;
    uint32_t *code;
    size_t n = 0;
    DI_TRY(DI_ARENA_NEW(p->arena, literal_bytes(p) + 1, &code));
    while (!di_ebnf_take(p, '"')) {
        const size_t start = p->at;
        DI_TRY(code_point(p, open, false, &code[n]));
        if (code[n] >= 0xD800 && code[n] <= 0xDFFF)
            return di_ebnf_fail(p, DI_ERR_INPUT, start,
                                "found a surrogate, wanted a code point of text");
        n++;
    }
    *out = (di_ebnf_string){.code = code, .n = n, .at = open};
    return DI_OK;
}

di_status di_ebnf_class(di_ebnf_parser *p, di_charset *out)
{
    const size_t open = p->at - 1;
    const bool negate = di_ebnf_take(p, '^');
    p->set.n = 0;
    while (!di_ebnf_take(p, ']')) {
        const size_t start = p->at;
        uint32_t first, last;
        DI_TRY(code_point(p, open, true, &first));
        last = first;
        if (di_ebnf_peek(p) == '-' && p->at + 1 < p->len && p->text[p->at + 1] != ']') {
            p->at++;
            DI_TRY(code_point(p, open, true, &last));
        }
        if (first > last)
            return di_ebnf_fail(p, DI_ERR_INPUT, start, "found the reversed range U+%04X to U+%04X",
                                (unsigned)first, (unsigned)last);
        DI_TRY(di_charset_add(&p->set, first, last));
    }
    return di_charset_finish(&p->set, p->arena, negate, out);
}

di_status di_ebnf_codes(di_ebnf_parser *p, di_ebnf_string string, const di_expr **out)
{
    const di_expr **items;
    DI_TRY(DI_ARENA_NEW(p->arena, string.n, &items));
    for (size_t i = 0; i < string.n; i++)
        DI_TRY(di_expr_range(p->arena, string.code[i], string.code[i], &items[i]));
    return di_expr_seq(p->arena, items, string.n, out);
}
