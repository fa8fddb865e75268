#include "text/encoding_json.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/strmap.h"

enum { LINEAR_KEYS = 8, NODE_BLOCK = 32, REAL_DIGITS = 17 };

typedef struct parser {
    di_arena *arena;
    const char *text;
    size_t len;
    size_t at;
    di_jrules rules;
    int depth;
    char *decoded; /* room for every string with an escape: none grows by decoding */
    size_t decoded_len;
    di_jval *nodes; /* free nodes of the newest block */
    size_t n_nodes;
} parser;

static di_status fail_at(const parser *p, size_t at, const char *what)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < p->len; i++) {
        column++;
        if (p->text[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return di_fail(DI_ERR_INPUT, "line %zu, column %zu: not valid JSON: %s", line, column, what);
}

static void skip_space(parser *p)
{
    while (p->at < p->len && p->text[p->at] && strchr(" \t\n\r", p->text[p->at]))
        p->at++;
}

static bool take(parser *p, char c)
{
    const bool is_next = p->at < p->len && p->text[p->at] == c;
    p->at += is_next;
    return is_next;
}

static bool take_word(parser *p, const char *word)
{
    const size_t n = strlen(word);
    const bool is_next = p->len - p->at >= n && memcmp(p->text + p->at, word, n) == 0;
    p->at += is_next ? n : 0;
    return is_next;
}

static di_status new_node(parser *p, di_jval **out)
{
    if (p->n_nodes == 0) {
        DI_TRY(DI_ARENA_NEW(p->arena, NODE_BLOCK, &p->nodes));
        p->n_nodes = NODE_BLOCK;
    }
    *out = p->nodes++;
    p->n_nodes--;
    **out = (di_jval){0};
    return DI_OK;
}

static bool read_hex4(const parser *p, size_t at, uint32_t *out)
{
    uint32_t x = 0;
    if (p->len - at < 4)
        return false;
    for (size_t i = at; i < at + 4; i++) {
        const char c = p->text[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return false;
        x = x << 4 | (uint32_t)digit;
    }
    *out = x;
    return true;
}

/* p->at is behind "\u". */
static di_status read_unicode_escape(parser *p)
{
    uint32_t c, low;
    if (!read_hex4(p, p->at, &c))
        return fail_at(p, p->at, "wanted four hexadecimal digits");
    p->at += 4;
    if (c >= 0xd800 && c < 0xdc00 && p->len - p->at >= 6 && p->text[p->at] == '\\' &&
        p->text[p->at + 1] == 'u' && read_hex4(p, p->at + 2, &low) && low >= 0xdc00 &&
        low < 0xe000) {
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        p->at += 6;
    } else if (c >= 0xd800 && c < 0xe000) {
        if (p->rules == DI_JSTRICT)
            return fail_at(p, p->at - 6, "half of a surrogate pair");
        c = 0xfffd;
    }
    p->decoded_len += (size_t)utf8proc_encode_char((utf8proc_int32_t)c,
                                                   (utf8proc_uint8_t *)p->decoded + p->decoded_len);
    return DI_OK;
}

static di_status read_escape(parser *p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    p->at++;
    if (take(p, 'u'))
        return read_unicode_escape(p);
    const char *found = p->at < p->len && p->text[p->at] ? strchr(from, p->text[p->at]) : NULL;
    if (!found)
        return fail_at(p, p->at, "unknown escape");
    p->decoded[p->decoded_len++] = to[found - from];
    p->at++;
    return DI_OK;
}

/* Checks one character at p->at and steps over it. */
static di_status read_char(parser *p)
{
    const unsigned char c = (unsigned char)p->text[p->at];
    if (c < 0x20)
        return fail_at(p, p->at, "control character in a string");
    utf8proc_int32_t code;
    const utf8proc_ssize_t n = c < 0x80
                                   ? 1
                                   : utf8proc_iterate((const utf8proc_uint8_t *)p->text + p->at,
                                                      (utf8proc_ssize_t)(p->len - p->at), &code);
    if (n <= 0)
        return fail_at(p, p->at, "not UTF-8");
    p->at += (size_t)n;
    return DI_OK;
}

/* p->at is behind the opening quote. */
static di_status read_string(parser *p, const char **out, size_t *out_len)
{
    const size_t begin = p->at;
    while (p->at < p->len && p->text[p->at] != '"' && p->text[p->at] != '\\')
        DI_TRY(read_char(p));
    if (take(p, '"')) {
        *out = p->text + begin;
        *out_len = p->at - 1 - begin;
        return DI_OK;
    }
    if (!p->decoded)
        DI_TRY(DI_ARENA_NEW(p->arena, p->len + 1, &p->decoded));
    const size_t decoded_begin = p->decoded_len;
    memcpy(p->decoded + p->decoded_len, p->text + begin, p->at - begin);
    p->decoded_len += p->at - begin;
    while (p->at < p->len && p->text[p->at] != '"') {
        const size_t at = p->at;
        if (p->text[at] == '\\') {
            DI_TRY(read_escape(p));
            continue;
        }
        DI_TRY(read_char(p));
        memcpy(p->decoded + p->decoded_len, p->text + at, p->at - at);
        p->decoded_len += p->at - at;
    }
    if (!take(p, '"'))
        return fail_at(p, p->at, "string without an end");
    *out = p->decoded + decoded_begin;
    *out_len = p->decoded_len - decoded_begin;
    return DI_OK;
}

static size_t count_digits(const parser *p, size_t at)
{
    size_t n = 0;
    while (at + n < p->len && p->text[at + n] >= '0' && p->text[at + n] <= '9')
        n++;
    return n;
}

/* Value of the number text [begin, end): given to strtod without its point, which the locale might
 * want to be a comma. */
static di_status parse_real(parser *p, size_t begin, size_t end, double *out)
{
    char local[64];
    char *spelling = local;
    if (end - begin + 32 > sizeof local)
        DI_TRY(DI_ARENA_NEW(p->arena, end - begin + 32, &spelling));
    size_t n = 0;
    int64_t exponent = 0;
    bool is_behind_point = false;
    size_t at = begin;
    for (; at < end && p->text[at] != 'e' && p->text[at] != 'E'; at++) {
        if (p->text[at] == '.') {
            is_behind_point = true;
        } else {
            spelling[n++] = p->text[at];
            exponent -= is_behind_point;
        }
    }
    if (at < end) {
        const bool is_negative = p->text[at + 1] == '-';
        int64_t written = 0;
        for (at++; at < end; at++)
            if (p->text[at] >= '0' && p->text[at] <= '9' && written < 1000000000000)
                written = written * 10 + (p->text[at] - '0');
        exponent += is_negative ? -written : written;
    }
    snprintf(spelling + n, 32, "e%lld", (long long)exponent);
    *out = strtod(spelling, NULL);
    return DI_OK;
}

static di_status read_number(parser *p, di_jval *v)
{
    const size_t begin = p->at;
    take(p, '-');
    const size_t n_int = count_digits(p, p->at);
    if (n_int == 0 || (n_int > 1 && p->text[p->at] == '0'))
        return fail_at(p, begin, "not a number");
    p->at += n_int;
    const size_t int_end = p->at;
    if (p->at < p->len && p->text[p->at] == '.') {
        const size_t n = count_digits(p, p->at + 1);
        if (n == 0)
            return fail_at(p, p->at, "no digit after the point");
        p->at += 1 + n;
    }
    if (p->at < p->len && (p->text[p->at] == 'e' || p->text[p->at] == 'E')) {
        p->at++;
        if (!take(p, '-'))
            take(p, '+');
        const size_t n = count_digits(p, p->at);
        if (n == 0)
            return fail_at(p, p->at, "no digit in the exponent");
        p->at += n;
    }
    if (p->at == int_end) {
        if (n_int > DI_JSON_MAX_INT_DIGITS && p->rules != DI_JSYNTAX)
            return fail_at(p, begin, "an integer of more than 4300 digits");
        v->kind = DI_JINT;
        v->text = p->text + begin;
        v->len = p->at - begin;
        if (v->len == 2 && memcmp(v->text, "-0", 2) == 0) {
            v->text++;
            v->len--;
        }
        return DI_OK;
    }
    v->kind = DI_JREAL;
    DI_TRY(parse_real(p, begin, p->at, &v->real));
    if (p->rules == DI_JSTRICT && isinf(v->real))
        return fail_at(p, begin, "number out of range");
    return DI_OK;
}

static di_status read_value(parser *p, di_jval *v);

static di_status enter(parser *p)
{
    if (++p->depth > DI_JSON_MAX_DEPTH)
        return fail_at(p, p->at, "nested more than 500 deep");
    return DI_OK;
}

static di_status read_array(parser *p, di_jval *v)
{
    v->kind = DI_JARRAY;
    DI_TRY(enter(p));
    skip_space(p);
    di_jval **tail = &v->first;
    if (!take(p, ']')) {
        do {
            DI_TRY(new_node(p, tail));
            DI_TRY(read_value(p, *tail));
            tail = &(*tail)->next;
        } while (take(p, ','));
        if (!take(p, ']'))
            return fail_at(p, p->at, "wanted ',' or ']'");
    }
    p->depth--;
    return DI_OK;
}

static di_jval *find_member(const di_jval *object, const char *key, size_t len)
{
    for (di_jval *m = object->first; m; m = m->next)
        if (m->key_len == len && memcmp(m->key, key, len) == 0)
            return m;
    return NULL;
}

/* The member of that name, or NULL. Few keys are compared one by one, many through `keys`. */
static di_status find_duplicate(const di_jval *object, size_t n, di_strmap *keys, di_jval *member,
                                di_jval **out)
{
    *out = NULL;
    if (n < LINEAR_KEYS) {
        *out = find_member(object, member->key, member->key_len);
        return DI_OK;
    }
    if (keys->n == 0)
        for (di_jval *m = object->first; m; m = m->next)
            DI_TRY(di_strmap_put(keys, m->key, m->key_len, (int64_t)(intptr_t)m, NULL));
    int64_t found;
    if (di_strmap_get(keys, member->key, member->key_len, &found))
        *out = (di_jval *)(intptr_t)found;
    else
        DI_TRY(di_strmap_put(keys, member->key, member->key_len, (int64_t)(intptr_t)member, NULL));
    return DI_OK;
}

static di_status read_member(parser *p, di_jval *m)
{
    if (!take(p, '"'))
        return fail_at(p, p->at, "wanted a string as the key");
    DI_TRY(read_string(p, &m->key, &m->key_len));
    skip_space(p);
    if (!take(p, ':'))
        return fail_at(p, p->at, "wanted ':'");
    return read_value(p, m);
}

static di_status read_members(parser *p, di_jval *object, di_strmap *keys)
{
    di_jval **tail = &object->first;
    size_t n = 0;
    do {
        skip_space(p);
        const size_t begin = p->at;
        di_jval *m, *same;
        DI_TRY(new_node(p, &m));
        DI_TRY(read_member(p, m));
        DI_TRY(find_duplicate(object, n, keys, m, &same));
        if (!same) {
            *tail = m;
            tail = &m->next;
            n++;
        } else if (p->rules == DI_JSTRICT) {
            return fail_at(p, begin, "duplicate key");
        } else {
            di_jval *next = same->next;
            *same = *m;
            same->next = next;
        }
    } while (take(p, ','));
    return take(p, '}') ? DI_OK : fail_at(p, p->at, "wanted ',' or '}'");
}

static di_status read_object(parser *p, di_jval *v)
{
    v->kind = DI_JOBJECT;
    DI_TRY(enter(p));
    skip_space(p);
    if (!take(p, '}')) {
        di_strmap keys = {0};
        const di_status status = read_members(p, v, &keys);
        di_strmap_free(&keys);
        DI_TRY(status);
    }
    p->depth--;
    return DI_OK;
}

static bool take_constant(parser *p, di_jval *v)
{
    static const struct {
        const char *word;
        di_jkind kind;
        double real;
        di_jrules rules;
    } constants[] = {
        {"null", DI_JNULL, 0, DI_JSTRICT},
        {"false", DI_JFALSE, 0, DI_JSTRICT},
        {"true", DI_JTRUE, 0, DI_JSTRICT},
        {"NaN", DI_JREAL, NAN, DI_JPYTHON},
        {"Infinity", DI_JREAL, INFINITY, DI_JPYTHON},
        {"-Infinity", DI_JREAL, -INFINITY, DI_JPYTHON},
    };
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (constants[i].rules <= p->rules && take_word(p, constants[i].word)) {
            v->kind = constants[i].kind;
            v->real = constants[i].real;
            return true;
        }
    }
    return false;
}

/* Fills v, whose key is already set, and steps over the white space around the value. */
static di_status read_value(parser *p, di_jval *v)
{
    skip_space(p);
    if (p->at == p->len)
        return fail_at(p, p->at, "wanted a value");
    if (take(p, '{')) {
        DI_TRY(read_object(p, v));
    } else if (take(p, '[')) {
        DI_TRY(read_array(p, v));
    } else if (take(p, '"')) {
        v->kind = DI_JSTRING;
        DI_TRY(read_string(p, &v->text, &v->len));
    } else if (!take_constant(p, v)) {
        DI_TRY(read_number(p, v));
    }
    skip_space(p);
    return DI_OK;
}

di_status di_jval_parse(di_arena *arena, const char *text, size_t len, di_jrules rules,
                        const di_jval **out)
{
    parser p = {.arena = arena, .text = text, .len = len, .rules = rules};
    di_jval *root;
    DI_TRY(new_node(&p, &root));
    DI_TRY(read_value(&p, root));
    if (p.at != len)
        return fail_at(&p, p.at, "text after the value");
    *out = root;
    return DI_OK;
}

const di_jval *di_jval_get(const di_jval *object, const char *key)
{
    return object && object->kind == DI_JOBJECT ? find_member(object, key, strlen(key)) : NULL;
}

const di_jval *di_jval_get_set(const di_jval *object, const char *key)
{
    const di_jval *v = di_jval_get(object, key);
    return v && v->kind != DI_JNULL ? v : NULL;
}

bool di_jval_is_string(const di_jval *value, const char *s)
{
    return value && value->kind == DI_JSTRING && value->len == strlen(s) &&
           memcmp(value->text, s, value->len) == 0;
}

bool di_jval_is_truthy(const di_jval *value)
{
    if (!value)
        return false;
    switch (value->kind) {
    case DI_JNULL:
    case DI_JFALSE:
        return false;
    case DI_JTRUE:
        return true;
    case DI_JINT:
        return value->len != 1 || value->text[0] != '0';
    case DI_JREAL:
        return value->real != 0;
    case DI_JSTRING:
        return value->len > 0;
    case DI_JARRAY:
    case DI_JOBJECT:
        return value->first != NULL;
    }
    return false;
}

di_jdescription di_jval_describe(const di_jval *value)
{
    static const char *const types[] = {"null",     "false",    "true",     "an integer",
                                        "a number", "a string", "an array", "an object"};
    enum { LONGEST = 64 };
    di_jdescription d;
    snprintf(d.text, sizeof d.text, "%s", value ? types[value->kind] : "nothing");
    if (!value || value->len > LONGEST)
        return d;
    if (value->kind == DI_JINT)
        snprintf(d.text, sizeof d.text, "%.*s", (int)value->len, value->text);
    if (value->kind == DI_JSTRING)
        snprintf(d.text, sizeof d.text, "\"%.*s\"", (int)value->len, value->text);
    if (value->kind == DI_JREAL) {
        DI_BUF_AUTO spelling = {0};
        if (di_json_write_real(value->real, &spelling) == DI_OK)
            snprintf(d.text, sizeof d.text, "%s", di_buf_str(&spelling));
    }
    return d;
}

static di_status write_escape(unsigned char c, di_buf *out)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *found = c ? strchr(from, c) : NULL;
    if (found)
        return di_buf_append(out, (char[]){'\\', to[found - from]}, 2);
    return di_buf_printf(out, "\\u%04x", c);
}

di_status di_json_write_string(const char *text, size_t len, di_buf *out)
{
    DI_TRY(di_buf_reserve(out, len + 2));
    DI_TRY(di_buf_puts(out, "\""));
    size_t begin = 0, at = 0;
    while (at < len) {
        const unsigned char c = (unsigned char)text[at];
        const bool is_escaped = c < 0x20 || c == '"' || c == '\\';
        utf8proc_int32_t code;
        const utf8proc_ssize_t n = c < 0x80 ? 1
                                            : utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                                                               (utf8proc_ssize_t)(len - at), &code);
        if (n > 0 && !is_escaped) {
            at += (size_t)n;
            continue;
        }
        DI_TRY(di_buf_append(out, text + begin, at - begin));
        DI_TRY(n > 0 ? write_escape(c, out) : di_buf_puts(out, "\xef\xbf\xbd"));
        begin = ++at;
    }
    DI_TRY(di_buf_append(out, text + begin, at - begin));
    return di_buf_puts(out, "\"");
}

/* Shortest decimal digits (no trailing zeros needed) and exponent of a finite x != 0:
 * x = 0.d1d2d3... * 10^*point. Reads snprintf's output whatever the locale's point is. */
static int shortest_digits(double x, char digits[REAL_DIGITS + 1], int *point)
{
    char spelling[64];
    for (int n = 1; n <= REAL_DIGITS; n++) {
        snprintf(spelling, sizeof spelling, "%.*e", n - 1, x);
        if (strtod(spelling, NULL) == x)
            break;
    }
    int n = 0;
    const char *s = spelling;
    for (; *s && *s != 'e'; s++)
        if (*s >= '0' && *s <= '9' && n < REAL_DIGITS)
            digits[n++] = *s;
    digits[n] = 0;
    *point = (*s ? (int)strtol(s + 1, NULL, 10) : 0) + 1;
    return n;
}

di_status di_json_write_real(double x, di_buf *out)
{
    if (isnan(x))
        return di_buf_puts(out, "NaN");
    if (signbit(x))
        DI_TRY(di_buf_puts(out, "-"));
    if (isinf(x))
        return di_buf_puts(out, "Infinity");
    if (x == 0)
        return di_buf_puts(out, "0.0");
    char digits[REAL_DIGITS + 1];
    int point;
    const int n = shortest_digits(fabs(x), digits, &point);
    if (point <= -4 || point > 16)
        return di_buf_printf(out, "%c%s%se%c%02d", digits[0], n > 1 ? "." : "", digits + 1,
                             point > 0 ? '+' : '-', abs(point - 1));
    if (point <= 0)
        return di_buf_printf(out, "0.%.*s%s", -point, "0000", digits);
    if (point >= n)
        return di_buf_printf(out, "%s%.*s.0", digits, point - n, "0000000000000000");
    return di_buf_printf(out, "%.*s.%s", point, digits, digits + point);
}

di_status di_jval_write(const di_jval *value, di_buf *out)
{
    static const char *const words[] = {"null", "false", "true"};
    switch (value->kind) {
    case DI_JNULL:
    case DI_JFALSE:
    case DI_JTRUE:
        return di_buf_puts(out, words[value->kind]);
    case DI_JINT:
        return di_buf_append(out, value->text, value->len);
    case DI_JREAL:
        return di_json_write_real(value->real, out);
    case DI_JSTRING:
        return di_json_write_string(value->text, value->len, out);
    case DI_JARRAY:
    case DI_JOBJECT:
        break;
    }
    const bool is_object = value->kind == DI_JOBJECT;
    DI_TRY(di_buf_puts(out, is_object ? "{" : "["));
    for (const di_jval *v = value->first; v; v = v->next) {
        if (v != value->first)
            DI_TRY(di_buf_puts(out, ", "));
        if (is_object) {
            DI_TRY(di_json_write_string(v->key, v->key_len, out));
            DI_TRY(di_buf_puts(out, ": "));
        }
        DI_TRY(di_jval_write(v, out));
    }
    return di_buf_puts(out, is_object ? "}" : "]");
}
