#include "grammar/regex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/regex_parts.h"
#include "text/utf8.h"

enum { DEFAULT_DEPTH = 200, MAX_RANGES = 1 << 20 };
#define NO_CODE UINT32_MAX

uint32_t di_regex_peek(const di_regex_parser *p)
{
    return p->at < p->n ? p->code[p->at] : NO_CODE;
}

bool di_regex_take(di_regex_parser *p, uint32_t code)
{
    if (di_regex_peek(p) != code)
        return false;
    p->at++;
    return true;
}

const char *di_regex_found(const di_regex_parser *p, size_t at, char buf[static 32])
{
    if (at >= p->n)
        return "the end of the pattern";
    if (p->code[at] > 0x20 && p->code[at] < 0x7F)
        snprintf(buf, 32, "%c", (char)p->code[at]);
    else
        snprintf(buf, 32, "U+%04X", (unsigned)p->code[at]);
    return buf;
}

di_status di_regex_unexpected(const di_regex_parser *p, const char *wanted)
{
    char buf[32];
    return DI_REGEX_FAIL(DI_ERR_INPUT, p->at, "found %s, wanted %s", di_regex_found(p, p->at, buf),
                         wanted);
}

di_status di_regex_charge(di_regex_parser *p, di_charset set)
{
    p->n_ranges += set.n;
    if (p->n_ranges > MAX_RANGES)
        return DI_REGEX_FAIL(DI_ERR_UNSUPPORTED, p->at,
                             "the pattern has more than %d ranges of characters", MAX_RANGES);
    return DI_OK;
}

static di_status push(di_regex_parser *p, di_regex_item item)
{
    DI_TRY(DI_GROW(&p->stack, &p->stack_cap, p->n_stack + 1));
    p->stack[p->n_stack++] = item;
    return DI_OK;
}

static di_status set_item(di_regex_parser *p, di_charset set, di_regex_item *out)
{
    const di_expr *expr;
    DI_TRY(di_regex_charge(p, set));
    DI_TRY(di_expr_chars(p->arena, set, &expr));
    *out = di_regex_item_plain(expr);
    return DI_OK;
}

static di_status literal(di_regex_parser *p, uint32_t code, di_regex_item *out)
{
    di_charset set;
    DI_TRY(di_charset_range(p->arena, code, code, &set));
    DI_TRY(di_regex_fold(p, set, &set));
    return set_item(p, set, out);
}

static di_status dot(di_regex_parser *p, di_regex_item *out)
{
    static const di_code_range newlines[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    di_charset set = di_charset_all();
    if (p->dot_is_no_newline)
        DI_TRY(di_charset_complement(p->arena, (di_charset){.ranges = newlines, .n = 3}, &set));
    return set_item(p, set, out);
}

static di_status escape(di_regex_parser *p, di_regex_item *out)
{
    di_charset set;
    uint32_t code;
    DI_TRY(di_regex_escape(p, p->at - 1, false, &set, &code));
    DI_TRY(di_regex_fold(p, set, &set));
    return set_item(p, set, out);
}

static bool is_name_code(uint32_t code, bool is_first)
{
    return code == '_' || code == '$' || (code >= 'a' && code <= 'z') ||
           (code >= 'A' && code <= 'Z') || (!is_first && code >= '0' && code <= '9') ||
           (code >= 0x80 && code != NO_CODE);
}

/* After `(?<`: through `>`. */
static di_status group_name(di_regex_parser *p)
{
    const size_t start = p->at;
    while (is_name_code(di_regex_peek(p), p->at == start))
        p->at++;
    const size_t len = p->at - start;
    if (len == 0)
        return di_regex_unexpected(p, "the name of a group");
    if (!di_regex_take(p, '>'))
        return di_regex_unexpected(p, "> at the end of a group's name");
    for (size_t i = 0; i < p->n_names; i++) {
        const di_regex_name *other = &p->names[i];
        if (!other->is_hidden && other->len == len &&
            memcmp(p->code + other->at, p->code + start, len * sizeof *p->code) == 0)
            return DI_REGEX_FAIL(DI_ERR_INPUT, start, "found a second group of the same name");
    }
    DI_TRY(DI_GROW(&p->names, &p->names_cap, p->n_names + 1));
    p->names[p->n_names++] = (di_regex_name){.at = start, .len = len};
    return DI_OK;
}

/* i, m and s of `(?ims-ims:`, and where they are from. */
typedef struct group_flags {
    bool i, s;
} group_flags;

static di_status flag(di_regex_parser *p, bool value, unsigned *seen, group_flags *flags)
{
    const uint32_t letter = di_regex_peek(p);
    if (letter == 'm')
        return DI_REGEX_FAIL(DI_ERR_UNSUPPORTED, p->at, "the flag m is not supported");
    if (letter != 'i' && letter != 's')
        return di_regex_unexpected(p, "one of the flags i and s, : or )");
    const unsigned bit = letter == 'i' ? 1 : 2;
    if (*seen & bit)
        return DI_REGEX_FAIL(DI_ERR_INPUT, p->at, "found the flag %c twice", (char)letter);
    *seen |= bit;
    *(letter == 'i' ? &flags->i : &flags->s) = value;
    p->at++;
    return DI_OK;
}

/* After `(?`, at a flag or `-`: through `:`. */
static di_status inline_flags(di_regex_parser *p)
{
    const size_t start = p->at;
    group_flags flags = {.i = p->ignore_case, .s = !p->dot_is_no_newline};
    unsigned seen = 0;
    bool value = true;
    while (di_regex_peek(p) != ':' && di_regex_peek(p) != ')') {
        if (value && di_regex_take(p, '-'))
            value = false;
        else
            DI_TRY(flag(p, value, &seen, &flags));
    }
    if (seen == 0)
        return di_regex_unexpected(p, "one of the flags i and s");
    if (!di_regex_take(p, ':'))
        return DI_REGEX_FAIL(DI_ERR_UNSUPPORTED, start,
                             "flags for the rest of a group are not supported; (?%c:...) is",
                             (char)p->code[start]);
    p->ignore_case = flags.i;
    p->dot_is_no_newline = !flags.s;
    return DI_OK;
}

static di_status lookaround(size_t start, const char *what)
{
    return DI_REGEX_FAIL(DI_ERR_UNSUPPORTED, start, "%s is not supported", what);
}

/* After `(`, which is at `start`: what comes before the group's body. */
static di_status group_head(di_regex_parser *p, size_t start)
{
    if (!di_regex_take(p, '?'))
        return DI_OK;
    if (di_regex_take(p, ':'))
        return DI_OK;
    if (di_regex_take(p, '='))
        return lookaround(start, "lookahead (?=");
    if (di_regex_take(p, '!'))
        return lookaround(start, "negative lookahead (?!");
    if (di_regex_take(p, '<')) {
        if (di_regex_take(p, '='))
            return lookaround(start, "lookbehind (?<=");
        if (di_regex_take(p, '!'))
            return lookaround(start, "negative lookbehind (?<!");
        return group_name(p);
    }
    const uint32_t next = di_regex_peek(p);
    if (next == 'P')
        return di_regex_unexpected(p, "a group; a named one is (?<name>...)");
    if (next == '-' || (next >= 'a' && next <= 'z'))
        return inline_flags(p);
    return di_regex_unexpected(p, "one of : = ! < i s - after (?");
}

static di_status disjunction(di_regex_parser *p, di_regex_item *out);

/* After `(`. */
static di_status group(di_regex_parser *p, di_regex_item *out)
{
    const size_t start = p->at - 1;
    const bool ignore_case = p->ignore_case, dot_is_no_newline = p->dot_is_no_newline;
    if (p->depth == p->max_depth)
        return DI_REGEX_FAIL(DI_ERR_UNSUPPORTED, start, "groups are nested deeper than %u",
                             (unsigned)p->max_depth);
    p->depth++;
    DI_TRY(group_head(p, start));
    DI_TRY(disjunction(p, out));
    if (!di_regex_take(p, ')'))
        return di_regex_unexpected(p, ") for the ( before");
    p->depth--;
    p->ignore_case = ignore_case;
    p->dot_is_no_newline = dot_is_no_newline;
    return DI_OK;
}

/* A count of a quantifier. */
static di_status count(di_regex_parser *p, uint32_t *out)
{
    const size_t start = p->at;
    uint64_t value = 0;
    for (uint32_t c; c = di_regex_peek(p), c >= '0' && c <= '9'; p->at++)
        if (value < DI_REPEAT_INF)
            value = value * 10 + (c - '0');
    if (p->at == start)
        return di_regex_unexpected(p, "a count, as in {2}, {2,} or {2,3}; a brace is \\{");
    if (value >= DI_REPEAT_INF)
        return DI_REGEX_FAIL(DI_ERR_UNSUPPORTED, start, "found a count above %u",
                             (unsigned)DI_REPEAT_INF - 1);
    *out = (uint32_t)value;
    return DI_OK;
}

/* After `{`. */
static di_status counts(di_regex_parser *p, uint32_t *min, uint32_t *max)
{
    const size_t start = p->at - 1;
    DI_TRY(count(p, min));
    *max = *min;
    if (di_regex_take(p, ',')) {
        *max = DI_REPEAT_INF;
        if (di_regex_peek(p) != '}')
            DI_TRY(count(p, max));
    }
    if (!di_regex_take(p, '}'))
        return di_regex_unexpected(p, "} after the counts");
    if (*min > *max)
        return DI_REGEX_FAIL(DI_ERR_INPUT, start, "found the reversed counts {%u,%u}",
                             (unsigned)*min, (unsigned)*max);
    return DI_OK;
}

static di_status quantifier(di_regex_parser *p, di_regex_item *item)
{
    uint32_t min = 0, max = DI_REPEAT_INF;
    switch (di_regex_peek(p)) {
    case '*':
        break;
    case '+':
        min = 1;
        break;
    case '?':
        max = 1;
        break;
    case '{':
        break;
    default:
        return DI_OK;
    }
    if (p->code[p->at++] == '{')
        DI_TRY(counts(p, &min, &max));
    (void)di_regex_take(p, '?'); /* lazy: the same texts */
    return di_regex_item_repeat(p->arena, *item, min, max, item);
}

static di_status term(di_regex_parser *p, di_regex_item *out)
{
    const uint32_t code = p->code[p->at];
    di_charset set;
    switch (code) {
    case '^':
    case '$':
        p->at++;
        return di_regex_item_anchor(p->arena, code == '$', out);
    case '*':
    case '+':
    case '?':
    case '{':
        return di_regex_unexpected(p, "something to repeat before it");
    case '}':
    case ']':
        return di_regex_unexpected(p, code == '}' ? "\\} for a brace" : "\\] for a bracket");
    case '(':
        p->at++;
        DI_TRY(group(p, out));
        break;
    case '[':
        p->at++;
        DI_TRY(di_regex_class(p, &set));
        DI_TRY(set_item(p, set, out));
        break;
    case '.':
        p->at++;
        DI_TRY(dot(p, out));
        break;
    case '\\':
        p->at++;
        DI_TRY(escape(p, out));
        break;
    default:
        p->at++;
        DI_TRY(literal(p, code, out));
    }
    return quantifier(p, out);
}

static bool ends_alternative(const di_regex_parser *p)
{
    return p->at == p->n || p->code[p->at] == '|' || p->code[p->at] == ')';
}

static di_status alternative(di_regex_parser *p, di_regex_item *out)
{
    const size_t base = p->n_stack;
    while (!ends_alternative(p)) {
        di_regex_item item;
        DI_TRY(term(p, &item));
        DI_TRY(push(p, item));
    }
    DI_TRY(di_regex_item_seq(p->arena, p->stack + base, p->n_stack - base, out));
    p->n_stack = base;
    return DI_OK;
}

static di_status disjunction(di_regex_parser *p, di_regex_item *out)
{
    const size_t base = p->n_stack, names = p->n_names;
    do {
        di_regex_item item;
        for (size_t i = names; i < p->n_names; i++)
            p->names[i].is_hidden = true;
        DI_TRY(alternative(p, &item));
        DI_TRY(push(p, item));
    } while (di_regex_take(p, '|'));
    for (size_t i = names; i < p->n_names; i++)
        p->names[i].is_hidden = false;
    DI_TRY(di_regex_item_alt(p->arena, p->stack + base, p->n_stack - base, out));
    p->n_stack = base;
    return DI_OK;
}

static di_status decode(di_arena *arena, const char *pattern, size_t len, di_regex_parser *p)
{
    uint32_t *code;
    DI_TRY(DI_ARENA_NEW(arena, len, &code));
    for (size_t at = 0; at < len;) {
        const size_t n_bytes = di_utf8_decode(pattern + at, len - at, &code[p->n]);
        if (n_bytes == 0)
            return DI_REGEX_FAIL(DI_ERR_INPUT, p->n, "found the byte 0x%02x, wanted UTF-8",
                                 (unsigned)(unsigned char)pattern[at]);
        at += n_bytes;
        p->n++;
    }
    p->code = code;
    return DI_OK;
}

static di_status parse(di_regex_parser *p, di_regex_mode mode, const di_expr **out)
{
    di_regex_item item;
    DI_TRY(DI_GROW(&p->stack, &p->stack_cap, 1)); /* never NULL */
    DI_TRY(disjunction(p, &item));
    if (p->at < p->n)
        return di_regex_unexpected(p, "a ( before it");
    return di_regex_item_language(p->arena, item, mode, out);
}

di_status di_regex_parse(di_arena *arena, const char *pattern, size_t len,
                         const di_regex_options *options, const di_expr **out)
{
    di_regex_parser p = {
        .arena = arena,
        .max_depth = options->max_depth ? options->max_depth : DEFAULT_DEPTH,
        .ignore_case = options->ignore_case,
        .dot_is_no_newline = options->dot_is_no_newline,
    };
    DI_TRY(decode(arena, pattern, len, &p));
    const di_status status = parse(&p, options->mode, out);
    free(p.stack);
    free(p.names);
    di_charset_builder_free(&p.builder);
    return status;
}
