/* Rules of the grammar: strings, numbers, any value; whitespace and layout. */
#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema_impl.h"
#include "text/utf8.h"

typedef struct rule_body {
    uint32_t rule;
    const di_expr *expr;
    bool has_text; /* derives some text */
    bool is_raw;   /* no JSON */
} rule_body;

struct di_js_rules {
    rule_body *bodies; /* [n], in the order of creation */
    size_t n, cap;
    const di_expr *chars[128];      /* literals of one code point */
    const di_expr *json_chars[128]; /* the same as they stand in a JSON string */
    const di_expr *space, *any_char, *any_string, *number, *integer, *colon;
    const di_expr *rest, *not_ascii_rest;
    const di_expr *any_value[DI_JS_LEVELS_MOST + 2];
};

di_status di_js_rules_create(di_js *js)
{
    return DI_ARENA_ZNEW(&js->scratch, 1, &js->rules);
}

void di_js_rules_free(di_js *js)
{
    if (js->rules != NULL)
        free(js->rules->bodies);
}

di_status di_js_rule_new(di_js *js, const char *name, uint32_t *rule, const di_expr **out)
{
    di_js_rules *r = js->rules;
    uint32_t number;
    DI_TRY(di_grammar_rule(js->builder, name, &number));
    DI_TRY(di_expr_rule(js->arena, number, out));
    DI_TRY(DI_GROW(&r->bodies, &r->cap, r->n + 1));
    r->bodies[r->n++] = (rule_body){.rule = number, .expr = di_expr_nothing()};
    *rule = number;
    return DI_OK;
}

static rule_body *body_of(const di_js_rules *r, uint32_t rule)
{
    size_t low = 0, high = r->n; /* numbers ascend */
    while (low + 1 < high) {
        const size_t middle = (low + high) / 2;
        if (r->bodies[middle].rule <= rule)
            low = middle;
        else
            high = middle;
    }
    return &r->bodies[low];
}

void di_js_rule_set(di_js *js, uint32_t rule, const di_expr *expr)
{
    body_of(js->rules, rule)->expr = expr;
}

/* ---- rules without a text */

static bool has_text(const di_js_rules *r, const di_expr *expr);

static bool members_have_text(const di_js_rules *r, const di_expr_members *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        const bool is_possible = has_text(r, m->members[i].text);
        if (!is_possible && m->members[i].is_required)
            return false;
        n += is_possible;
    }
    return n >= m->min_n || (m->others != NULL && has_text(r, m->others));
}

static bool has_text(const di_js_rules *r, const di_expr *expr)
{
    switch (expr->kind) {
    case DI_EXPR_NOTHING:
        return false;
    case DI_EXPR_SEQ:
        for (uint32_t i = 0; i < expr->list.n; i++)
            if (!has_text(r, expr->list.items[i]))
                return false;
        return true;
    case DI_EXPR_ALT:
        for (uint32_t i = 0; i < expr->list.n; i++)
            if (has_text(r, expr->list.items[i]))
                return true;
        return false;
    case DI_EXPR_REPEAT:
        return expr->repeat.min == 0 || has_text(r, expr->repeat.body);
    case DI_EXPR_RULE:
        return body_of(r, expr->rule)->has_text;
    case DI_EXPR_MEMBERS:
        return members_have_text(r, &expr->members);
    case DI_EXPR_EMPTY:
    case DI_EXPR_CHARS:
    case DI_EXPR_DFA:
    case DI_EXPR_TOKEN:
        break;
    }
    return true;
}

static di_status without_dead(di_js *js, const di_expr *expr, const di_expr **out);

static di_status list_without_dead(di_js *js, const di_expr *expr, const di_expr **out)
{
    const di_expr **items;
    bool is_same = true;
    DI_TRY(DI_ARENA_NEW(&js->scratch, expr->list.n, &items));
    for (uint32_t i = 0; i < expr->list.n; i++) {
        DI_TRY(without_dead(js, expr->list.items[i], &items[i]));
        is_same &= items[i] == expr->list.items[i];
    }
    *out = expr;
    if (is_same)
        return DI_OK;
    return expr->kind == DI_EXPR_SEQ ? di_expr_seq(js->arena, items, expr->list.n, out)
                                     : di_expr_alt(js->arena, items, expr->list.n, out);
}

static di_status members_without_dead(di_js *js, const di_expr *expr, const di_expr **out)
{
    di_expr_members m = expr->members;
    if (!members_have_text(js->rules, &m)) {
        *out = di_expr_nothing();
        return DI_OK;
    }
    di_expr_member *members;
    uint32_t n = 0;
    DI_TRY(DI_ARENA_NEW(js->arena, m.n, &members));
    for (uint32_t i = 0; i < m.n; i++) {
        members[n] = m.members[i];
        DI_TRY(without_dead(js, m.members[i].text, &members[n].text));
        n += members[n].text->kind != DI_EXPR_NOTHING;
    }
    m.members = members;
    m.n = n;
    if (m.others != NULL) {
        DI_TRY(without_dead(js, m.others, &m.others));
        if (m.others->kind == DI_EXPR_NOTHING)
            m.others = NULL;
    }
    return di_expr_from_members(js->arena, &m, out);
}

static di_status without_dead(di_js *js, const di_expr *expr, const di_expr **out)
{
    const di_expr *body;
    *out = expr;
    switch (expr->kind) {
    case DI_EXPR_SEQ:
    case DI_EXPR_ALT:
        return list_without_dead(js, expr, out);
    case DI_EXPR_REPEAT:
        DI_TRY(without_dead(js, expr->repeat.body, &body));
        if (body == expr->repeat.body)
            return DI_OK;
        return di_expr_repeat(js->arena, body, expr->repeat.min, expr->repeat.max, out);
    case DI_EXPR_RULE:
        if (!body_of(js->rules, expr->rule)->has_text)
            *out = di_expr_nothing();
        return DI_OK;
    case DI_EXPR_MEMBERS:
        return members_without_dead(js, expr, out);
    default:
        return DI_OK;
    }
}

/* Least fixed point; false if every rule has a text. */
static bool find_dead(di_js_rules *r)
{
    size_t n_live = 0;
    for (bool is_changed = true; is_changed;) {
        is_changed = false;
        for (size_t i = r->n; i-- > 0;) /* what was made last is used by what came before */
            if (!r->bodies[i].has_text && has_text(r, r->bodies[i].expr)) {
                r->bodies[i].has_text = is_changed = true;
                n_live++;
            }
    }
    return n_live < r->n;
}

di_status di_js_rules_define(di_js *js, const di_expr *root, uint32_t *root_rule)
{
    di_js_rules *r = js->rules;
    const di_expr *unused;
    uint32_t rule;
    DI_TRY(di_js_rule_new(js, "root", &rule, &unused));
    di_js_rule_set(js, rule, root);
    body_of(r, rule)->is_raw = true;
    const bool has_dead = find_dead(r);
    if (!body_of(r, rule)->has_text)
        return di_fail(DI_ERR_INPUT, "JSON schema: nothing satisfies it");
    for (size_t i = 0; i < r->n; i++) {
        const di_expr *expr = r->bodies[i].expr;
        if (has_dead)
            DI_TRY(without_dead(js, expr, &expr));
        DI_TRY(di_grammar_define(js->builder, r->bodies[i].rule, expr));
        if (js->options->is_call && !r->bodies[i].is_raw)
            di_grammar_escape(js->builder, r->bodies[i].rule, DI_JS_MARK);
    }
    *root_rule = rule;
    return DI_OK;
}

/* ---- characters and words */

di_status di_js_literal(di_js *js, const char *text, size_t len, const di_expr **out)
{
    const di_expr **items;
    size_t n = 0;
    DI_TRY(DI_ARENA_NEW(&js->scratch, len, &items));
    for (size_t at = 0; at < len;) {
        uint32_t code;
        const size_t n_bytes = di_utf8_decode(text + at, len - at, &code);
        if (n_bytes == 0)
            return di_fail(DI_ERR_INPUT, "JSON schema: text that is not UTF-8");
        if (code < 128 && js->rules->chars[code] != NULL) {
            items[n] = js->rules->chars[code];
        } else {
            DI_TRY(di_expr_range(js->arena, code, code, &items[n]));
            if (code < 128)
                js->rules->chars[code] = items[n];
        }
        n++;
        at += n_bytes;
    }
    return di_expr_seq(js->arena, items, n, out);
}

di_status di_js_json_char(di_js *js, uint32_t code, const di_expr **out)
{
    const bool is_ascii = code < 128;
    if (is_ascii && js->rules->json_chars[code] != NULL) {
        *out = js->rules->json_chars[code];
        return DI_OK;
    }
    DI_TRY(di_expr_range(js->arena, code, code, out));
    if (is_ascii) {
        DI_TRY(di_expr_json_string(js->arena, *out, out));
        js->rules->json_chars[code] = *out;
    }
    return DI_OK;
}

static di_status word(di_js *js, const char *text, const di_expr **out)
{
    return di_js_literal(js, text, strlen(text), out);
}

/* A rule of its own for what stands in many places: made once. */
static di_status once(di_js *js, const char *name, const di_expr *expr, const di_expr **out)
{
    uint32_t rule;
    DI_TRY(di_js_rule_new(js, name, &rule, out));
    di_js_rule_set(js, rule, expr);
    return DI_OK;
}

/* Its automaton ends with the quote: equal contents have equal token masks, whatever follows. */
di_status di_js_quoted(di_js *js, const di_expr *content, const di_expr **out)
{
    const di_expr *quote;
    DI_TRY(word(js, "\"", &quote));
    DI_TRY(DI_EXPR_SEQ_OF(js->arena, out, quote, content, quote));
    return (*out)->kind == DI_EXPR_NOTHING ? DI_OK : once(js, "string", *out, out);
}

const di_expr *di_js_known(const di_js *js, const di_buf *key)
{
    int64_t number;
    return di_strmap_get(&js->known, di_buf_str(key), key->len, &number) ? js->known_items[number]
                                                                         : NULL;
}

di_status di_js_keep(di_js *js, const di_buf *key, const di_expr *expr)
{
    DI_TRY(DI_GROW(&js->known_items, &js->cap_known, js->n_known + 1));
    js->known_items[js->n_known] = expr;
    return di_strmap_put(&js->known, di_buf_str(key), key->len, (int64_t)js->n_known++, NULL);
}

di_status di_js_share(di_js *js, const char *name, const di_expr *expr, const di_expr **out)
{
    *out = expr;
    if (expr->kind == DI_EXPR_RULE || expr->kind == DI_EXPR_CHARS || expr->kind == DI_EXPR_EMPTY ||
        expr->kind == DI_EXPR_NOTHING)
        return DI_OK;
    return once(js, name, expr, out);
}

di_status di_js_share_raw(di_js *js, const char *name, const di_expr *expr, const di_expr **out)
{
    DI_TRY(once(js, name, expr, out));
    body_of(js->rules, (*out)->rule)->is_raw = true;
    return DI_OK;
}

/* With the closing quote: a rule that could end anywhere else would leave all masks to its callers.
 */
static di_status rest_after(di_js *js, const di_expr *first, const char *name, const di_expr **out)
{
    const di_expr *expr, *quote;
    DI_TRY(word(js, "\"", &quote));
    DI_TRY(di_js_any_char(js, &expr));
    DI_TRY(di_expr_repeat(js->arena, expr, 0, DI_REPEAT_INF, &expr));
    DI_TRY(DI_EXPR_SEQ_OF(js->arena, &expr, first, expr, quote));
    return once(js, name, expr, out);
}

di_status di_js_rest_of_string(di_js *js, const di_expr **out)
{
    di_js_rules *r = js->rules;
    if (r->rest == NULL)
        DI_TRY(rest_after(js, di_expr_empty(), "rest of a string", &r->rest));
    *out = r->rest;
    return DI_OK;
}

di_status di_js_not_ascii_rest(di_js *js, const di_expr **out)
{
    static const di_code_range ranges[] = {
        {0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x80, DI_CODE_LAST}};
    di_js_rules *r = js->rules;
    if (r->not_ascii_rest == NULL) {
        di_charset set;
        const di_expr *expr;
        DI_TRY(di_charset_intersect(js->arena, (di_charset){.ranges = ranges, .n = 4},
                                    di_charset_all(), &set));
        DI_TRY(di_expr_chars(js->arena, set, &expr));
        DI_TRY(di_expr_json_string(js->arena, expr, &expr));
        DI_TRY(
            rest_after(js, expr, "rest of a string from a special character", &r->not_ascii_rest));
    }
    *out = r->not_ascii_rest;
    return DI_OK;
}

di_status di_js_any_char(di_js *js, const di_expr **out)
{
    di_js_rules *r = js->rules;
    if (r->any_char == NULL)
        DI_TRY(di_expr_json_any_char(js->arena, &r->any_char));
    *out = r->any_char;
    return DI_OK;
}

di_status di_js_any_string(di_js *js, const di_expr **out)
{
    di_js_rules *r = js->rules;
    const di_expr *expr;
    if (r->any_string == NULL) {
        DI_TRY(di_js_any_char(js, &expr));
        DI_TRY(di_expr_repeat(js->arena, expr, 0, DI_REPEAT_INF, &expr));
        DI_TRY(di_js_quoted(js, expr, &r->any_string));
    }
    *out = r->any_string;
    return DI_OK;
}

static di_status optional(di_js *js, const di_expr *expr, const di_expr **out)
{
    return di_expr_repeat(js->arena, expr, 0, 1, out);
}

static di_status make_integer(di_js *js, bool may_minus_zero, const di_expr **out)
{
    di_arena *arena = js->arena;
    const di_expr *minus, *zero, *first, *digit, *digits, *above;
    DI_TRY(word(js, "-", &minus));
    DI_TRY(word(js, "0", &zero));
    DI_TRY(di_expr_range(arena, '1', '9', &first));
    DI_TRY(di_expr_range(arena, '0', '9', &digit));
    DI_TRY(di_expr_repeat(arena, digit, 0, DI_REPEAT_INF, &digits));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &above, first, digits));
    DI_TRY(optional(js, minus, &minus));
    if (may_minus_zero) {
        DI_TRY(DI_EXPR_ALT_OF(arena, &above, zero, above));
        return DI_EXPR_SEQ_OF(arena, out, minus, above);
    }
    DI_TRY(DI_EXPR_SEQ_OF(arena, &above, minus, above));
    return DI_EXPR_ALT_OF(arena, out, zero, above);
}

static di_status make_number(di_js *js, const di_expr **out)
{
    di_arena *arena = js->arena;
    const di_expr *whole, *point, *digits, *e, *upper_e, *sign, *minus;
    DI_TRY(make_integer(js, true, &whole));
    DI_TRY(di_expr_range(arena, '0', '9', &digits));
    DI_TRY(di_expr_repeat(arena, digits, 1, DI_REPEAT_INF, &digits));
    DI_TRY(word(js, ".", &point));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &point, point, digits));
    DI_TRY(optional(js, point, &point));
    DI_TRY(word(js, "e", &e));
    DI_TRY(word(js, "E", &upper_e));
    DI_TRY(word(js, "+", &sign));
    DI_TRY(word(js, "-", &minus));
    DI_TRY(DI_EXPR_ALT_OF(arena, &e, e, upper_e));
    DI_TRY(DI_EXPR_ALT_OF(arena, &sign, sign, minus));
    DI_TRY(optional(js, sign, &sign));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &e, e, sign, digits));
    DI_TRY(optional(js, e, &e));
    return DI_EXPR_SEQ_OF(arena, out, whole, point, e);
}

di_status di_js_any_number(di_js *js, bool is_integer, const di_expr **out)
{
    const di_expr **made = is_integer ? &js->rules->integer : &js->rules->number;
    const di_expr *expr;
    if (*made == NULL) {
        if (is_integer)
            DI_TRY(make_integer(js, false, &expr));
        else
            DI_TRY(make_number(js, &expr));
        DI_TRY(once(js, is_integer ? "integer" : "number", expr, made));
    }
    *out = *made;
    return DI_OK;
}

/* ---- layout */

uint32_t di_js_level(const di_js *js, uint32_t level)
{
    const di_json_schema_options *o = js->options;
    return o->fixed_layout && o->indent >= 0 ? level : 0;
}

/* A run of whitespace in the free layout. */
static di_status space_of(di_js *js, const di_expr **out)
{
    di_js_rules *r = js->rules;
    if (r->space == NULL) {
        const int most = js->options->max_whitespace;
        const di_expr *blank, *newline, *tab;
        DI_TRY(word(js, " ", &blank));
        DI_TRY(word(js, "\n", &newline));
        DI_TRY(word(js, "\t", &tab));
        DI_TRY(DI_EXPR_ALT_OF(js->arena, &blank, blank, newline, tab));
        DI_TRY(di_expr_repeat(js->arena, blank, 0,
                              most == DI_WHITESPACE_UNBOUNDED ? DI_REPEAT_INF : (uint32_t)most,
                              &blank));
        r->space = blank;
        if (blank->kind != DI_EXPR_EMPTY)
            DI_TRY(once(js, "whitespace", blank, &r->space));
    }
    *out = r->space;
    return DI_OK;
}

/* A line break and the indentation of a level; nothing on one line. */
static di_status line_of(di_js *js, uint32_t level, const di_expr **out)
{
    const int indent = js->options->indent;
    *out = di_expr_empty();
    if (indent < 0)
        return DI_OK;
    const di_expr *line, *blank;
    DI_TRY(word(js, "\n", &line));
    DI_TRY(word(js, " ", &blank));
    DI_TRY(di_expr_repeat(js->arena, blank, (uint32_t)indent * level, (uint32_t)indent * level,
                          &blank));
    return DI_EXPR_SEQ_OF(js->arena, out, line, blank);
}

di_status di_js_comma(di_js *js, uint32_t level, const di_expr **out)
{
    const di_json_schema_options *o = js->options;
    const bool is_one_line = o->fixed_layout && o->indent < 0;
    const di_expr *comma, *space;
    DI_TRY(word(js,
                o->item_separator != NULL ? o->item_separator
                : is_one_line             ? ", "
                                          : ",",
                &comma));
    if (!o->fixed_layout) {
        DI_TRY(space_of(js, &space));
        return DI_EXPR_SEQ_OF(js->arena, out, space, comma, space);
    }
    DI_TRY(line_of(js, level + 1, &space));
    return DI_EXPR_SEQ_OF(js->arena, out, comma, space);
}

di_status di_js_colon(di_js *js, const di_expr **out)
{
    const di_json_schema_options *o = js->options;
    if (js->rules->colon == NULL) {
        const di_expr *colon, *space = di_expr_empty();
        DI_TRY(word(js,
                    o->key_separator != NULL ? o->key_separator
                    : o->fixed_layout        ? ": "
                                             : ":",
                    &colon));
        if (!o->fixed_layout)
            DI_TRY(space_of(js, &space));
        DI_TRY(DI_EXPR_SEQ_OF(js->arena, &js->rules->colon, space, colon, space));
    }
    *out = js->rules->colon;
    return DI_OK;
}

di_status di_js_bracketed(di_js *js, char open, const di_expr *items, bool may_empty,
                          uint32_t level, const di_expr **out)
{
    const char texts[] = {open, open == '[' ? ']' : '}'};
    const di_expr *left, *right, *before = di_expr_empty(), *first, *last;
    DI_TRY(di_js_literal(js, &texts[0], 1, &left));
    DI_TRY(di_js_literal(js, &texts[1], 1, &right));
    if (!js->options->fixed_layout) {
        DI_TRY(space_of(js, &before));
        first = di_expr_empty();
        last = before;
    } else {
        DI_TRY(line_of(js, level + 1, &first));
        DI_TRY(line_of(js, level, &last));
    }
    if (items->kind == DI_EXPR_NOTHING || items->kind == DI_EXPR_EMPTY) {
        *out = di_expr_nothing();
        return may_empty ? DI_EXPR_SEQ_OF(js->arena, out, left, before, right) : DI_OK;
    }
    DI_TRY(DI_EXPR_SEQ_OF(js->arena, &items, first, items, last));
    if (may_empty)
        DI_TRY(optional(js, items, &items));
    return DI_EXPR_SEQ_OF(js->arena, out, left, before, items, right);
}

/* ---- any value */

static di_status any_containers(di_js *js, uint32_t level, const di_expr *value,
                                const di_expr **array, const di_expr **object)
{
    di_arena *arena = js->arena;
    const di_expr *comma, *colon, *key, *member, *rest;
    DI_TRY(di_js_comma(js, level, &comma));
    DI_TRY(di_js_colon(js, &colon));
    DI_TRY(di_js_any_string(js, &key));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &rest, comma, value));
    DI_TRY(di_expr_repeat(arena, rest, 0, DI_REPEAT_INF, &rest));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &rest, value, rest));
    DI_TRY(di_js_bracketed(js, '[', rest, true, level, array));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &member, key, colon, value));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &rest, comma, member));
    DI_TRY(di_expr_repeat(arena, rest, 0, DI_REPEAT_INF, &rest));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &rest, member, rest));
    return di_js_bracketed(js, '{', rest, true, level, object);
}

di_status di_js_any_value(di_js *js, uint32_t level, const di_expr **out)
{
    di_js_rules *r = js->rules;
    level = di_js_level(js, level);
    const uint32_t slot = level > DI_JS_LEVELS_MOST ? DI_JS_LEVELS_MOST + 1 : level;
    *out = r->any_value[slot];
    if (*out != NULL)
        return DI_OK;
    const di_expr *null, *yes, *no, *number, *string, *expr, *inner;
    const di_expr *array = di_expr_nothing(), *object = di_expr_nothing();
    uint32_t rule;
    DI_TRY(di_js_rule_new(js, "value", &rule, &r->any_value[slot]));
    DI_TRY(word(js, "null", &null));
    DI_TRY(word(js, "true", &yes));
    DI_TRY(word(js, "false", &no));
    DI_TRY(di_js_any_number(js, false, &number));
    DI_TRY(di_js_any_string(js, &string));
    if (level <= DI_JS_LEVELS_MOST) {
        DI_TRY(di_js_any_value(js, level + 1, &inner));
        DI_TRY(any_containers(js, level, inner, &array, &object));
    }
    DI_TRY(DI_EXPR_ALT_OF(js->arena, &expr, string, number, object, array, yes, no, null));
    di_js_rule_set(js, rule, expr);
    *out = r->any_value[slot];
    return DI_OK;
}
