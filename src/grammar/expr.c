#include "grammar/expr.h"

#include <string.h>

#include "grammar/dfa.h"
#include "text/utf8.h"

static const di_expr nothing = {.kind = DI_EXPR_NOTHING};
static const di_expr empty = {.kind = DI_EXPR_EMPTY};

const di_expr *di_expr_nothing(void)
{
    return &nothing;
}

const di_expr *di_expr_empty(void)
{
    return &empty;
}

static di_status node(di_arena *arena, di_expr value, const di_expr **out)
{
    di_expr *expr;
    DI_TRY(DI_ARENA_NEW(arena, 1, &expr));
    *expr = value;
    *out = expr;
    return DI_OK;
}

di_status di_expr_chars(di_arena *arena, di_charset chars, const di_expr **out)
{
    if (chars.n == 0) {
        *out = &nothing;
        return DI_OK;
    }
    return node(arena, (di_expr){.kind = DI_EXPR_CHARS, .chars = chars}, out);
}

di_status di_expr_range(di_arena *arena, uint32_t first, uint32_t last, const di_expr **out)
{
    di_charset set;
    DI_TRY(di_charset_range(arena, first, last, &set));
    return di_expr_chars(arena, set, out);
}

di_status di_expr_rule(di_arena *arena, uint32_t rule, const di_expr **out)
{
    return node(arena, (di_expr){.kind = DI_EXPR_RULE, .rule = rule}, out);
}

di_status di_expr_from_dfa(di_arena *arena, di_expr_dfa dfa, const di_expr **out)
{
    if (dfa.dfa->n_states == 0 || dfa.min_len > dfa.max_len) {
        *out = &nothing;
        return DI_OK;
    }
    return node(arena, (di_expr){.kind = DI_EXPR_DFA, .dfa = dfa}, out);
}

di_status di_expr_from_members(di_arena *arena, const di_expr_members *members, const di_expr **out)
{
    di_expr_member *copy;
    DI_TRY(DI_ARENA_NEW(arena, members->n, &copy));
    if (members->n > 0)
        memcpy(copy, members->members, members->n * sizeof *copy);
    di_expr value = {.kind = DI_EXPR_MEMBERS, .members = *members};
    value.members.members = copy;
    return node(arena, value, out);
}

di_status di_expr_token(di_arena *arena, const char *text, size_t len, const di_expr **out)
{
    char *copy;
    DI_TRY(DI_ARENA_NEW(arena, len + 1, &copy));
    memcpy(copy, text, len);
    copy[len] = '\0';
    return node(arena, (di_expr){.kind = DI_EXPR_TOKEN, .token = {.text = copy, .len = len}}, out);
}

/* Copies items, taking the items of lists of the same kind in their place. */
static di_status list(di_arena *arena, di_expr_kind kind, const di_expr *const *items, size_t n,
                      const di_expr **out)
{
    const di_expr *const neutral = kind == DI_EXPR_SEQ ? &empty : &nothing;
    size_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += items[i]->kind == kind ? items[i]->list.n : 1;
    const di_expr **copy;
    DI_TRY(DI_ARENA_NEW(arena, total, &copy));
    uint32_t n_copy = 0;
    for (size_t i = 0; i < n; i++) {
        const di_expr *item = items[i];
        if (kind == DI_EXPR_SEQ && item->kind == DI_EXPR_NOTHING) {
            *out = &nothing;
            return DI_OK;
        }
        if (item->kind == neutral->kind)
            continue;
        if (item->kind == kind) {
            memcpy(copy + n_copy, item->list.items, item->list.n * sizeof *copy);
            n_copy += item->list.n;
        } else {
            copy[n_copy++] = item;
        }
    }
    if (n_copy <= 1) {
        *out = n_copy == 1 ? copy[0] : neutral;
        return DI_OK;
    }
    return node(arena, (di_expr){.kind = kind, .list = {.items = copy, .n = n_copy}}, out);
}

di_status di_expr_seq(di_arena *arena, const di_expr *const *items, size_t n, const di_expr **out)
{
    return list(arena, DI_EXPR_SEQ, items, n, out);
}

di_status di_expr_alt(di_arena *arena, const di_expr *const *items, size_t n, const di_expr **out)
{
    return list(arena, DI_EXPR_ALT, items, n, out);
}

di_status di_expr_repeat(di_arena *arena, const di_expr *body, uint32_t min, uint32_t max,
                         const di_expr **out)
{
    if (min > max || (body->kind == DI_EXPR_NOTHING && min > 0)) {
        *out = &nothing;
        return DI_OK;
    }
    if (max == 0 || body->kind == DI_EXPR_NOTHING || body->kind == DI_EXPR_EMPTY) {
        *out = &empty;
        return DI_OK;
    }
    if (min == 1 && max == 1) {
        *out = body;
        return DI_OK;
    }
    return node(arena,
                (di_expr){.kind = DI_EXPR_REPEAT, .repeat = {.body = body, .min = min, .max = max}},
                out);
}

di_status di_expr_literal(di_arena *arena, const char *text, size_t len, const di_expr **out)
{
    const di_expr **items;
    DI_TRY(DI_ARENA_NEW(arena, len, &items));
    size_t n = 0;
    for (size_t at = 0; at < len;) {
        uint32_t code;
        const size_t n_bytes = di_utf8_decode(text + at, len - at, &code);
        if (n_bytes == 0)
            return di_fail(DI_ERR_INPUT, "byte %zu of a literal: found 0x%02x, wanted UTF-8", at,
                           (unsigned)(unsigned char)text[at]);
        DI_TRY(di_expr_range(arena, code, code, &items[n++]));
        at += n_bytes;
    }
    return di_expr_seq(arena, items, n, out);
}

/* `\` and the letter of a short escape, or \u00XX. */
static di_status escape_of(di_arena *arena, uint32_t code, const di_expr **out)
{
    static const char *const short_escapes[128] = {
        ['\b'] = "\\b", ['\f'] = "\\f", ['\n'] = "\\n",  ['\r'] = "\\r",
        ['\t'] = "\\t", ['"'] = "\\\"", ['\\'] = "\\\\",
    };
    if (short_escapes[code] != NULL)
        return di_expr_literal(arena, short_escapes[code], 2, out);
    static const char hex[] = "0123456789abcdef";
    const char text[] = {'\\', 'u', '0', '0', hex[code >> 4], hex[code & 15], 0};
    const di_expr *lower;
    DI_TRY(di_expr_literal(arena, text, 6, &lower));
    if ((code & 15) < 10) {
        *out = lower;
        return DI_OK;
    }
    const di_expr *prefix, *upper, *last;
    DI_TRY(di_expr_literal(arena, text, 5, &prefix));
    const uint32_t digit = (uint32_t)hex[code & 15];
    DI_TRY(di_expr_range(arena, digit - 32, digit - 32, &upper));
    DI_TRY(di_expr_range(arena, digit, digit, &last));
    DI_TRY(DI_EXPR_ALT_OF(arena, &last, last, upper));
    return DI_EXPR_SEQ_OF(arena, out, prefix, last);
}

static bool must_escape(uint32_t code)
{
    return code < 0x20 || code == '"' || code == '\\';
}

static di_status json_chars(di_arena *arena, di_charset chars, const di_expr **out)
{
    static const di_code_range plain_ranges[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, DI_CODE_LAST}};
    const di_expr *items[1 + 0x20 + 2];
    di_charset plain;
    size_t n = 0;
    DI_TRY(
        di_charset_intersect(arena, chars, (di_charset){.ranges = plain_ranges, .n = 3}, &plain));
    DI_TRY(di_expr_chars(arena, plain, &items[n++]));
    for (uint32_t code = 0; code <= '\\'; code++)
        if (must_escape(code) && di_charset_contains(chars, code))
            DI_TRY(escape_of(arena, code, &items[n++]));
    return di_expr_alt(arena, items, n, out);
}

static di_status json_list(di_arena *arena, const di_expr *expr, const di_expr **out)
{
    const di_expr **items;
    DI_TRY(DI_ARENA_NEW(arena, expr->list.n, &items));
    for (uint32_t i = 0; i < expr->list.n; i++)
        DI_TRY(di_expr_json_string(arena, expr->list.items[i], &items[i]));
    return list(arena, expr->kind, items, expr->list.n, out);
}

di_status di_expr_json_string(di_arena *arena, const di_expr *expr, const di_expr **out)
{
    const di_expr *body;
    switch (expr->kind) {
    case DI_EXPR_CHARS:
        return json_chars(arena, expr->chars, out);
    case DI_EXPR_SEQ:
    case DI_EXPR_ALT:
        return json_list(arena, expr, out);
    case DI_EXPR_REPEAT:
        DI_TRY(di_expr_json_string(arena, expr->repeat.body, &body));
        return di_expr_repeat(arena, body, expr->repeat.min, expr->repeat.max, out);
    case DI_EXPR_DFA: {
        di_expr_dfa dfa = expr->dfa;
        dfa.as_json = true;
        return di_expr_from_dfa(arena, dfa, out);
    }
    case DI_EXPR_RULE:
    case DI_EXPR_MEMBERS:
    case DI_EXPR_TOKEN:
        return di_fail(DI_ERR_UNSUPPORTED, "a rule inside a JSON string");
    case DI_EXPR_NOTHING:
    case DI_EXPR_EMPTY:
        break;
    }
    *out = expr;
    return DI_OK;
}

static di_status set_of(di_arena *arena, const di_code_range *ranges, size_t n, const di_expr **out)
{
    di_charset set;
    DI_TRY(di_charset_intersect(arena, (di_charset){.ranges = ranges, .n = (uint32_t)n},
                                di_charset_all(), &set));
    return di_expr_chars(arena, set, out);
}

di_status di_expr_json_any_char(di_arena *arena, const di_expr **out)
{
    static const di_code_range plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, DI_CODE_LAST}};
    static const di_code_range simple[] = {{'"', '"'}, {'/', '/'}, {'\\', '\\'}, {'b', 'b'},
                                           {'f', 'f'}, {'n', 'n'}, {'r', 'r'},   {'t', 't'}};
    static const di_code_range hex_digit[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    static const di_code_range not_d[] = {
        {'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}};
    static const di_code_range d[] = {{'D', 'D'}, {'d', 'd'}};
    static const di_code_range below_8[] = {{'0', '7'}};
    static const di_code_range eight_to_b[] = {{'8', '9'}, {'A', 'B'}, {'a', 'b'}};
    static const di_code_range c_to_f[] = {{'C', 'F'}, {'c', 'f'}};
    const di_expr *raw, *one, *hex, *first, *upper_d, *low, *high, *lower, *backslash, *u;
    DI_TRY(set_of(arena, plain, 3, &raw));
    DI_TRY(set_of(arena, simple, 8, &one));
    DI_TRY(set_of(arena, hex_digit, 3, &hex));
    DI_TRY(set_of(arena, not_d, 5, &first));
    DI_TRY(set_of(arena, d, 2, &upper_d));
    DI_TRY(set_of(arena, below_8, 1, &low));
    DI_TRY(set_of(arena, eight_to_b, 3, &high));
    DI_TRY(set_of(arena, c_to_f, 2, &lower));
    DI_TRY(di_expr_literal(arena, "\\", 1, &backslash));
    DI_TRY(di_expr_literal(arena, "u", 1, &u));
    const di_expr *basic, *below_surrogates, *pair, *escape;
    DI_TRY(DI_EXPR_SEQ_OF(arena, &basic, u, first, hex, hex, hex));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &below_surrogates, u, upper_d, low, hex, hex));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &pair, u, upper_d, high, hex, hex, backslash, u, upper_d, lower,
                          hex, hex));
    DI_TRY(DI_EXPR_ALT_OF(arena, &escape, one, basic, below_surrogates, pair));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &escape, backslash, escape));
    return DI_EXPR_ALT_OF(arena, out, raw, escape);
}
