#include "grammar/ebnf.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/ebnf_parts.h"
#include "text/utf8.h"

static di_status push(di_ebnf_parser *p, const di_expr *expr)
{
    DI_TRY(DI_GROW(&p->stack, &p->stack_cap, p->n_stack + 1));
    p->stack[p->n_stack++] = expr;
    return DI_OK;
}

/* --- names --- */

static di_status new_rule(di_ebnf_parser *p, const char *name, size_t at, size_t *index)
{
    DI_TRY(DI_GROW(&p->rules, &p->rules_cap, p->n_rules + 1));
    di_ebnf_rule rule = {.at = at};
    DI_TRY(di_grammar_rule(p->builder, name, &rule.rule));
    *index = p->n_rules;
    p->rules[p->n_rules++] = rule;
    return DI_OK;
}

static di_status find_rule(di_ebnf_parser *p, di_ebnf_name name, size_t *index)
{
    int64_t known;
    if (di_strmap_get(&p->names, p->text + name.at, name.len, &known)) {
        *index = (size_t)known;
        return DI_OK;
    }
    char *copy;
    DI_TRY(DI_ARENA_NEW(p->arena, name.len + 1, &copy));
    memcpy(copy, p->text + name.at, name.len);
    copy[name.len] = 0;
    DI_TRY(new_rule(p, copy, name.at, index));
    return di_strmap_put(&p->names, copy, name.len, (int64_t)*index, NULL);
}

static bool is_reserved(const di_ebnf_parser *p, di_ebnf_name name)
{
    return di_ebnf_name_is(p, name, "true") || di_ebnf_name_is(p, name, "false");
}

di_status di_ebnf_reference(di_ebnf_parser *p, di_ebnf_name name, const di_expr **out)
{
    size_t index;
    if (is_reserved(p, name))
        return di_ebnf_fail(p, DI_ERR_INPUT, name.at,
                            "found true or false, which cannot be the name of a rule");
    DI_TRY(find_rule(p, name, &index));
    return di_expr_rule(p->arena, p->rules[index].rule, out);
}

di_status di_ebnf_hidden_rule(di_ebnf_parser *p, const char *name, const di_expr *expr,
                              const di_expr **out)
{
    size_t index;
    DI_TRY(new_rule(p, name, p->at, &index));
    p->rules[index].expr = expr;
    return di_expr_rule(p->arena, p->rules[index].rule, out);
}

/* --- heads of rules --- */

typedef enum head_kind {
    NO_HEAD,
    HEAD,
    HEAD_WITH_OPTIONS,
} head_kind;

static bool starts_with(const di_ebnf_parser *p, const char *wanted)
{
    const size_t len = strlen(wanted);
    return p->len - p->at >= len && memcmp(p->text + p->at, wanted, len) == 0;
}

/* Whether `name ::=` stands here. */
static head_kind head_here(const di_ebnf_parser *parser)
{
    di_ebnf_parser p = *parser; /* only p.at changes */
    head_kind kind = HEAD;
    if (di_ebnf_take_name(&p).len == 0)
        return NO_HEAD;
    if (di_ebnf_take(&p, '[')) {
        kind = HEAD_WITH_OPTIONS;
        while (di_ebnf_peek(&p) >= 0 && di_ebnf_peek(&p) != '\n' && !di_ebnf_take(&p, ']'))
            p.at++;
    }
    di_ebnf_skip(&p);
    return starts_with(&p, "::=") ? kind : NO_HEAD;
}

static bool is_first_of_line(const di_ebnf_parser *p)
{
    size_t at = p->at;
    while (at > 0 && (p->text[at - 1] == ' ' || p->text[at - 1] == '\t'))
        at--;
    return at == 0 || p->text[at - 1] == '\n' || p->text[at - 1] == '\r';
}

/* --- bodies --- */

static di_status choice(di_ebnf_parser *p, const di_expr **out);

/* At `(`: through `)`. */
static di_status group(di_ebnf_parser *p, const di_expr **out)
{
    if (p->depth == p->max_depth)
        return di_ebnf_fail(p, DI_ERR_UNSUPPORTED, p->at, "groups are nested deeper than %u",
                            (unsigned)p->max_depth);
    p->depth++;
    p->at++;
    di_ebnf_skip(p);
    *out = di_expr_empty();
    if (di_ebnf_peek(p) != ')')
        DI_TRY(choice(p, out));
    if (!di_ebnf_take(p, ')'))
        return di_ebnf_unexpected(p, ") for the ( before");
    p->depth--;
    return DI_OK;
}

static di_status name_element(di_ebnf_parser *p, const di_expr **out)
{
    const di_ebnf_name name = di_ebnf_take_name(p);
    if (di_ebnf_is_macro(p, name)) {
        const size_t behind = p->at;
        di_ebnf_skip(p);
        if (di_ebnf_peek(p) == '(')
            return di_ebnf_macro(p, name, out);
        p->at = behind;
    }
    return di_ebnf_reference(p, name, out);
}

/* Without its repetition. */
static di_status element(di_ebnf_parser *p, const di_expr **out)
{
    di_ebnf_string string;
    di_charset set;
    switch (di_ebnf_peek(p)) {
    case '"':
        DI_TRY(di_ebnf_literal(p, &string));
        return di_ebnf_codes(p, string, out);
    case '[':
        p->at++;
        DI_TRY(di_ebnf_class(p, &set));
        return di_expr_chars(p->arena, set, out);
    case '(':
        return group(p, out);
    case '<':
    case '!':
        return di_ebnf_fail(p, DI_ERR_UNSUPPORTED, p->at,
                            "elements that are tokens (<...> and !<...>) are not supported");
    default:
        return name_element(p, out);
    }
}

/* At `{`: through `}`. */
static di_status counts(di_ebnf_parser *p, uint32_t *min, uint32_t *max)
{
    const size_t start = p->at++;
    di_ebnf_skip(p);
    DI_TRY(di_ebnf_number(p, "a count, as in {2}, {2,} or {2,3}", min));
    *max = *min;
    di_ebnf_skip(p);
    if (di_ebnf_take(p, ',')) {
        *max = DI_REPEAT_INF;
        di_ebnf_skip(p);
        if (di_ebnf_peek(p) != '}')
            DI_TRY(di_ebnf_number(p, "a count or }", max));
        di_ebnf_skip(p);
    }
    if (!di_ebnf_take(p, '}'))
        return di_ebnf_unexpected(p, "} after the counts");
    if (*min > *max)
        return di_ebnf_fail(p, DI_ERR_INPUT, start, "found the reversed counts {%u,%u}",
                            (unsigned)*min, (unsigned)*max);
    return DI_OK;
}

static bool is_operator(int c)
{
    return c == '*' || c == '+' || c == '?' || c == '{';
}

static di_status repetition(di_ebnf_parser *p, const di_expr **expr)
{
    const size_t behind = p->at;
    uint32_t min = 0, max = DI_REPEAT_INF;
    di_ebnf_skip(p);
    const int c = di_ebnf_peek(p);
    if (!is_operator(c)) {
        p->at = behind;
        return DI_OK;
    }
    if (c == '{') {
        DI_TRY(counts(p, &min, &max));
    } else {
        p->at++;
        min = c == '+';
        max = c == '?' ? 1 : DI_REPEAT_INF;
    }
    DI_TRY(di_expr_repeat(p->arena, *expr, min, max, expr));
    di_ebnf_skip(p);
    return is_operator(di_ebnf_peek(p))
               ? di_ebnf_unexpected(p, "one repetition at most; more of them need ( ) around")
               : DI_OK;
}

static bool starts_element(int c)
{
    return c == '"' || c == '[' || c == '(' || c == '<' || c == '!' || c == '_' || c == '-' ||
           c == '.' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* At `(=`, which ends a rule: a promise about what follows, that changes no text. */
static di_status lookahead(di_ebnf_parser *p)
{
    const di_expr *promised;
    if (p->depth > 0)
        return di_ebnf_fail(p, DI_ERR_INPUT, p->at,
                            "found (= in a group, wanted it at the end of a rule");
    p->at += 2;
    p->depth++;
    di_ebnf_skip(p);
    DI_TRY(choice(p, &promised));
    p->depth--;
    if (!di_ebnf_take(p, ')'))
        return di_ebnf_unexpected(p, ") for the (= before");
    di_ebnf_skip(p);
    if (p->at < p->len && head_here(p) == NO_HEAD)
        return di_ebnf_unexpected(p, "the end of the rule after (=...)");
    return DI_OK;
}

/* Elements up to `|`, `)`, the next rule or the end. */
static di_status sequence(di_ebnf_parser *p, const di_expr **out)
{
    const size_t base = p->n_stack;
    for (;;) {
        di_ebnf_skip(p);
        if (!starts_element(di_ebnf_peek(p)) || starts_with(p, "(="))
            break;
        if (head_here(p) != NO_HEAD) {
            if (is_first_of_line(p) && p->depth == 0)
                break;
            return di_ebnf_unexpected(p, p->depth ? ") before the next rule"
                                                  : "the name of a rule first on its line");
        }
        const di_expr *expr;
        DI_TRY(element(p, &expr));
        DI_TRY(repetition(p, &expr));
        DI_TRY(push(p, expr));
    }
    if (p->n_stack == base)
        return di_ebnf_unexpected(p, "an element; the empty text is \"\"");
    DI_TRY(di_expr_seq(p->arena, p->stack + base, p->n_stack - base, out));
    p->n_stack = base;
    return starts_with(p, "(=") ? lookahead(p) : DI_OK;
}

static di_status choice(di_ebnf_parser *p, const di_expr **out)
{
    const size_t base = p->n_stack;
    do {
        const di_expr *expr;
        DI_TRY(sequence(p, &expr));
        DI_TRY(push(p, expr));
    } while (di_ebnf_take(p, '|'));
    DI_TRY(di_expr_alt(p->arena, p->stack + base, p->n_stack - base, out));
    p->n_stack = base;
    return DI_OK;
}

/* --- rules --- */

static di_status rule_definition(di_ebnf_parser *p)
{
    const head_kind kind = head_here(p);
    const bool is_first = is_first_of_line(p);
    const di_ebnf_name name = di_ebnf_take_name(p);
    size_t index;
    if (name.len == 0)
        return di_ebnf_unexpected(p, "the name of a rule");
    if (kind == HEAD_WITH_OPTIONS)
        return di_ebnf_fail(p, DI_ERR_UNSUPPORTED, p->at, "options of rules are not supported");
    di_ebnf_skip(p);
    if (kind == NO_HEAD)
        return di_ebnf_unexpected(p, "::= after the name of a rule");
    if (!is_first)
        return di_ebnf_fail(p, DI_ERR_INPUT, name.at,
                            "found the name of a rule, wanted it first on its line");
    if (is_reserved(p, name))
        return di_ebnf_fail(p, DI_ERR_INPUT, name.at,
                            "found true or false, which cannot be the name of a rule");
    DI_TRY(find_rule(p, name, &index));
    if (p->rules[index].expr)
        return di_ebnf_fail(p, DI_ERR_INPUT, name.at, "found a second definition of rule \"%.*s\"",
                            (int)(name.len < 60 ? name.len : 60), p->text + name.at);
    p->at += strlen("::=");
    const di_expr *expr;
    DI_TRY(choice(p, &expr));
    p->rules[index].expr = expr;
    return DI_OK;
}

/* A rule that is used but not defined: GBNF's `.` is any code point, all others are errors. */
static di_status undefined(di_ebnf_parser *p, di_ebnf_rule *rule)
{
    di_ebnf_parser at_use = *p;
    at_use.at = rule->at;
    const di_ebnf_name name = di_ebnf_take_name(&at_use);
    if (di_ebnf_name_is(p, name, "."))
        return di_expr_chars(p->arena, di_charset_all(), &rule->expr);
    return di_ebnf_fail(p, DI_ERR_INPUT, rule->at, "found rule \"%.*s\", which is not defined",
                        (int)(name.len < 60 ? name.len : 60), p->text + name.at);
}

static di_status start(di_ebnf_parser *p, di_grammar_builder *builder, const char *text, size_t len)
{
    p->builder = builder;
    p->arena = di_grammar_builder_arena(builder);
    p->max_depth = di_grammar_builder_limits(builder).max_depth;
    p->text = text;
    p->len = len;
    const size_t valid = di_utf8_valid_prefix(text, len);
    return valid == len
               ? DI_OK
               : di_ebnf_fail(p, DI_ERR_INPUT, valid, "found the byte 0x%02x, wanted UTF-8",
                              (unsigned)(unsigned char)text[valid]);
}

di_status di_ebnf_rules(di_ebnf_parser *p, di_grammar_builder *builder, const char *text,
                        size_t len)
{
    DI_TRY(start(p, builder, text, len));
    di_ebnf_skip(p);
    do {
        DI_TRY(rule_definition(p));
    } while (p->at < p->len);
    for (size_t i = 0; i < p->n_rules; i++)
        if (!p->rules[i].expr)
            DI_TRY(undefined(p, &p->rules[i]));
    return DI_OK;
}

void di_ebnf_parser_free(di_ebnf_parser *p)
{
    free(p->rules);
    free(p->stack);
    di_strmap_free(&p->names);
    di_charset_builder_free(&p->set);
    *p = (di_ebnf_parser){0};
}

static di_status define(di_ebnf_parser *p, const char *root, uint32_t *root_rule)
{
    int64_t index;
    if (!di_strmap_get(&p->names, root, strlen(root), &index))
        return di_ebnf_fail(p, DI_ERR_INPUT, p->len, "found no rule \"%.60s\" to start with", root);
    for (size_t i = 0; i < p->n_rules; i++)
        DI_TRY(di_grammar_define(p->builder, p->rules[i].rule, p->rules[i].expr));
    *root_rule = p->rules[index].rule;
    return DI_OK;
}

di_status di_ebnf_parse(di_grammar_builder *builder, const char *text, size_t len, const char *root,
                        uint32_t *root_rule)
{
    di_ebnf_parser p = {0};
    di_status status = di_ebnf_rules(&p, builder, text, len);
    if (status == DI_OK)
        status = define(&p, root ? root : "root", root_rule);
    di_ebnf_parser_free(&p);
    return status;
}
