/* Macros of EBNF: their arguments, and what Regex and Substring stand for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/ebnf_parts.h"
#include "grammar/regex.h"

typedef enum value_kind {
    VALUE_STRING,
    VALUE_NUMBER,
    VALUE_BOOL,
    VALUE_NAME,
    VALUE_TUPLE,
} value_kind;

typedef struct value value;
struct value {
    value_kind kind;
    size_t at;
    union {
        di_ebnf_string string;
        bool is_true;
        di_ebnf_name name;
        struct {
            value *items;
            size_t n;
        } tuple;
    };
};

/* Arguments by position; the named ones behind them, each with its name. */
typedef struct arguments {
    value *values; /* owned */
    di_ebnf_name *names;
    size_t n, n_positional, values_cap, names_cap;
} arguments;

static di_status wanted_at(const di_ebnf_parser *p, size_t at, const char *wanted)
{
    di_ebnf_parser there = *p;
    there.at = at;
    return di_ebnf_unexpected(&there, wanted);
}

static di_status tuple(di_ebnf_parser *p, uint32_t depth, value *out);

static di_status parse_value(di_ebnf_parser *p, uint32_t depth, value *out)
{
    const int c = di_ebnf_peek(p);
    uint32_t number;
    *out = (value){.at = p->at};
    if (c == '"') {
        out->kind = VALUE_STRING;
        return di_ebnf_literal(p, &out->string);
    }
    if (c == '(')
        return tuple(p, depth, out);
    if (c >= '0' && c <= '9') {
        out->kind = VALUE_NUMBER;
        return di_ebnf_number(p, "a number", &number);
    }
    out->kind = VALUE_NAME;
    out->name = di_ebnf_take_name(p);
    if (out->name.len == 0)
        return di_ebnf_unexpected(p, "a string, a number, true, false, the name of a rule or (");
    const bool is_true = di_ebnf_name_is(p, out->name, "true");
    if (is_true || di_ebnf_name_is(p, out->name, "false")) {
        out->kind = VALUE_BOOL;
        out->is_true = is_true;
    }
    return DI_OK;
}

/* At `,` or `)`: true in *is_last after the latter. */
static di_status next_value(di_ebnf_parser *p, bool *is_last)
{
    di_ebnf_skip(p);
    *is_last = di_ebnf_take(p, ')');
    if (*is_last)
        return DI_OK;
    if (!di_ebnf_take(p, ','))
        return di_ebnf_unexpected(p, ", or )");
    di_ebnf_skip(p);
    *is_last = di_ebnf_take(p, ')');
    return DI_OK;
}

/* At `(`. */
static di_status tuple(di_ebnf_parser *p, uint32_t depth, value *out)
{
    enum { MAX_TUPLES = 3 };
    *out = (value){.kind = VALUE_TUPLE, .at = p->at};
    if (depth == MAX_TUPLES)
        return di_ebnf_unexpected(p, "no more than 3 tuples in each other");
    p->at++;
    di_ebnf_skip(p);
    size_t cap = 0;
    for (bool is_last = di_ebnf_take(p, ')'); !is_last;) {
        if (out->tuple.n == cap) {
            value *more;
            cap = 2 * cap + 2;
            DI_TRY(DI_ARENA_NEW(p->arena, cap, &more));
            if (out->tuple.n > 0)
                memcpy(more, out->tuple.items, out->tuple.n * sizeof *more);
            out->tuple.items = more;
        }
        DI_TRY(parse_value(p, depth + 1, &out->tuple.items[out->tuple.n++]));
        DI_TRY(next_value(p, &is_last));
    }
    return DI_OK;
}

static di_status argument(di_ebnf_parser *p, arguments *args)
{
    const size_t at = p->at;
    di_ebnf_name name = di_ebnf_take_name(p);
    di_ebnf_skip(p);
    if (name.len > 0 && di_ebnf_take(p, '=')) {
        di_ebnf_skip(p);
    } else {
        p->at = at;
        name.len = 0;
        if (args->n > args->n_positional)
            return di_ebnf_unexpected(p, "NAME=VALUE, as the arguments before");
    }
    DI_TRY(DI_GROW(&args->values, &args->values_cap, args->n + 1));
    DI_TRY(DI_GROW(&args->names, &args->names_cap, args->n + 1));
    for (size_t i = args->n_positional; i < args->n; i++)
        if (args->names[i].len == name.len &&
            memcmp(p->text + args->names[i].at, p->text + name.at, name.len) == 0)
            return di_ebnf_fail(p, DI_ERR_INPUT, name.at, "found the same argument twice");
    DI_TRY(parse_value(p, 0, &args->values[args->n]));
    args->names[args->n++] = name;
    args->n_positional += name.len == 0;
    return DI_OK;
}

/* At `(`. */
static di_status parse_arguments(di_ebnf_parser *p, arguments *args)
{
    p->at++;
    di_ebnf_skip(p);
    for (bool is_last = di_ebnf_take(p, ')'); !is_last;) {
        DI_TRY(argument(p, args));
        DI_TRY(next_value(p, &is_last));
    }
    return DI_OK;
}

/* A macro's parameter. */
typedef struct parameter {
    const char *name;
    value_kind kind;
    const char *wanted; /* what it must be */
    const value *value; /* found, or NULL */
} parameter;

static di_status bind(const di_ebnf_parser *p, const value *v, parameter *to)
{
    if (v->kind != to->kind)
        return wanted_at(p, v->at, to->wanted);
    to->value = v;
    return DI_OK;
}

static di_status bind_named(const di_ebnf_parser *p, const arguments *args, parameter *params,
                            size_t n_params)
{
    for (size_t i = args->n_positional; i < args->n; i++) {
        size_t j = 0;
        while (j < n_params && !di_ebnf_name_is(p, args->names[i], params[j].name))
            j++;
        if (j == n_params)
            return di_ebnf_fail(p, DI_ERR_INPUT, args->names[i].at,
                                "found \"%.*s\", which is no argument of this macro",
                                (int)(args->names[i].len < 60 ? args->names[i].len : 60),
                                p->text + args->names[i].at);
        if (params[j].value)
            return di_ebnf_fail(p, DI_ERR_INPUT, args->names[i].at,
                                "found the same argument twice");
        DI_TRY(bind(p, &args->values[i], &params[j]));
    }
    return DI_OK;
}

/* --- TagDispatch --- */

static di_status tag_of(di_ebnf_parser *p, const value *v, di_ebnf_tag *out)
{
    if (v->kind != VALUE_TUPLE || v->tuple.n != 2 || v->tuple.items[0].kind != VALUE_STRING ||
        v->tuple.items[1].kind != VALUE_NAME)
        return wanted_at(p, v->at, "a pair (\"tag\", rule)");
    out->tag = v->tuple.items[0].string;
    if (out->tag.n == 0)
        return wanted_at(p, out->tag.at, "a tag that is not empty");
    return di_ebnf_reference(p, v->tuple.items[1].name, &out->rule);
}

static di_status excludes_of(di_ebnf_parser *p, const value *v, di_ebnf_string *out)
{
    for (size_t i = 0; i < v->tuple.n; i++) {
        const value *item = &v->tuple.items[i];
        if (item->kind != VALUE_STRING || item->string.n == 0)
            return wanted_at(p, item->at, "a string that is not empty");
        out[i] = item->string;
    }
    return DI_OK;
}

static di_status tag_dispatch(di_ebnf_parser *p, di_ebnf_name name, const arguments *args,
                              const di_expr **out)
{
    parameter params[] = {
        {.name = "loop_after_dispatch", .kind = VALUE_BOOL, .wanted = "true or false"},
        {.name = "excludes",
         .kind = VALUE_TUPLE,
         .wanted = "a tuple of strings, as (\"a\", \"b\")"},
    };
    di_ebnf_tag *tags;
    di_ebnf_string *excludes;
    DI_TRY(bind_named(p, args, params, 2));
    if (args->n_positional == 0)
        return wanted_at(p, name.at, "one pair (\"tag\", rule) or more in TagDispatch");
    DI_TRY(DI_ARENA_NEW(p->arena, args->n_positional, &tags));
    for (size_t i = 0; i < args->n_positional; i++)
        DI_TRY(tag_of(p, &args->values[i], &tags[i]));
    const value *tuple_value = params[1].value;
    const size_t n_excludes = tuple_value ? tuple_value->tuple.n : 0;
    DI_TRY(DI_ARENA_NEW(p->arena, n_excludes, &excludes));
    if (tuple_value)
        DI_TRY(excludes_of(p, tuple_value, excludes));
    return di_ebnf_dispatch(p, tags, args->n_positional, excludes, n_excludes,
                            !params[0].value || params[0].value->is_true, out);
}

/* --- Regex --- */

/* A string as UTF-8. */
static di_status utf8_of(di_arena *arena, di_ebnf_string string, char **out, size_t *len)
{
    char *text;
    size_t n = 0;
    DI_TRY(DI_ARENA_NEW(arena, 4 * string.n, &text));
    for (size_t i = 0; i < string.n; i++) {
        const uint32_t c = string.code[i];
        const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        static const unsigned char first[] = {0, 0xC0, 0xE0, 0xF0};
        text[n++] = (char)(first[more] | (c >> (6 * more)));
        for (int j = more - 1; j >= 0; j--)
            text[n++] = (char)(0x80 | (c >> (6 * j) & 0x3F));
    }
    *out = text;
    *len = n;
    return DI_OK;
}

/* Without the characters that a JSON string cannot contain as they are. */
static di_status json_safe(di_arena *arena, const di_expr *expr, const di_expr **out)
{
    static const di_code_range plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, DI_CODE_LAST}};
    const di_expr **items, *body;
    di_charset set;
    *out = expr;
    switch (expr->kind) {
    case DI_EXPR_CHARS:
        DI_TRY(
            di_charset_intersect(arena, expr->chars, (di_charset){.ranges = plain, .n = 3}, &set));
        return di_expr_chars(arena, set, out);
    case DI_EXPR_SEQ:
    case DI_EXPR_ALT:
        DI_TRY(DI_ARENA_NEW(arena, expr->list.n, &items));
        for (uint32_t i = 0; i < expr->list.n; i++)
            DI_TRY(json_safe(arena, expr->list.items[i], &items[i]));
        return expr->kind == DI_EXPR_SEQ ? di_expr_seq(arena, items, expr->list.n, out)
                                         : di_expr_alt(arena, items, expr->list.n, out);
    case DI_EXPR_REPEAT:
        DI_TRY(json_safe(arena, expr->repeat.body, &body));
        return di_expr_repeat(arena, body, expr->repeat.min, expr->repeat.max, out);
    default: /* a pattern has no other */
        return DI_OK;
    }
}

static di_status regex_flags(const di_ebnf_parser *p, di_ebnf_string flags,
                             di_regex_options *options)
{
    bool has_s = false;
    for (size_t i = 0; i < flags.n; i++) {
        if (flags.code[i] != 'i' && flags.code[i] != 's' && flags.code[i] != 'u')
            return wanted_at(p, flags.at, "only the flags i, s and u");
        options->ignore_case |= flags.code[i] == 'i';
        has_s |= flags.code[i] == 's';
    }
    options->dot_is_no_newline = flags.n > 0 && !has_s;
    return DI_OK;
}

static di_status regex(di_ebnf_parser *p, di_ebnf_name name, const arguments *args,
                       const di_expr **out)
{
    parameter params[] = {
        {.name = "pattern", .kind = VALUE_STRING, .wanted = "a regular expression in quotes"},
        {.name = "json_string", .kind = VALUE_BOOL, .wanted = "true or false"},
        {.name = "flags", .kind = VALUE_STRING, .wanted = "flags in quotes"},
    };
    if (args->n_positional > 3)
        return wanted_at(p, args->values[3].at, "no more than 3 arguments");
    for (size_t i = 0; i < args->n_positional; i++)
        DI_TRY(bind(p, &args->values[i], &params[i]));
    DI_TRY(bind_named(p, args, params, 3));
    if (!params[0].value)
        return wanted_at(p, name.at, "a regular expression in quotes in Regex");
    di_regex_options options = {.mode = DI_REGEX_FULL, .max_depth = p->max_depth};
    if (params[2].value)
        DI_TRY(regex_flags(p, params[2].value->string, &options));
    char *pattern;
    size_t len;
    DI_TRY(utf8_of(p->arena, params[0].value->string, &pattern, &len));
    const di_status status = di_regex_parse(p->arena, pattern, len, &options, out);
    if (status != DI_OK) {
        char message[256];
        snprintf(message, sizeof message, "%s", di_last_error());
        return di_ebnf_fail(p, status, params[0].value->at, "%s", message);
    }
    return params[1].value && params[1].value->is_true ? json_safe(p->arena, *out, out) : DI_OK;
}

/* --- Substring --- */

/* Any run of neighbouring chunks, the empty run too. Rule i: a run that begins with chunk i. */
static di_status substring(di_ebnf_parser *p, di_ebnf_name name, const arguments *args,
                           const di_expr **out)
{
    const di_expr **runs, *rest = di_expr_empty();
    const size_t n = args->n;
    if (n == 0)
        return wanted_at(p, name.at, "one string or more in Substring");
    DI_TRY(DI_ARENA_NEW(p->arena, n + 1, &runs));
    for (size_t i = n; i-- > 0;) {
        if (i >= args->n_positional || args->values[i].kind != VALUE_STRING)
            return wanted_at(p, args->values[i].at, "a string");
        const di_expr *chunk;
        DI_TRY(di_ebnf_codes(p, args->values[i].string, &chunk));
        DI_TRY(DI_EXPR_SEQ_OF(p->arena, &chunk, chunk, rest));
        DI_TRY(di_ebnf_hidden_rule(p, "Substring", chunk, &runs[i]));
        DI_TRY(di_expr_repeat(p->arena, runs[i], 0, 1, &rest));
    }
    runs[n] = di_expr_empty();
    DI_TRY(di_expr_alt(p->arena, runs, n, out));
    return di_expr_repeat(p->arena, *out, 0, 1, out);
}

static const struct macro {
    const char *name;
    di_status (*expand)(di_ebnf_parser *, di_ebnf_name, const arguments *, const di_expr **);
} macros[] = {
    {"TagDispatch", tag_dispatch}, {"Regex", regex},
    {"Substring", substring},      {"Token", NULL},
    {"ExcludeToken", NULL},        {"TokenTagDispatch", NULL},
};

static const struct macro *find_macro(const di_ebnf_parser *p, di_ebnf_name name)
{
    for (size_t i = 0; i < sizeof macros / sizeof *macros; i++)
        if (di_ebnf_name_is(p, name, macros[i].name))
            return &macros[i];
    return NULL;
}

bool di_ebnf_is_macro(const di_ebnf_parser *p, di_ebnf_name name)
{
    return find_macro(p, name) != NULL;
}

di_status di_ebnf_macro(di_ebnf_parser *p, di_ebnf_name name, const di_expr **out)
{
    const struct macro *macro = find_macro(p, name);
    if (!macro->expand)
        return di_ebnf_fail(p, DI_ERR_UNSUPPORTED, name.at,
                            "the macro %s, of tokens and not of text, is not supported",
                            macro->name);
    arguments args = {0};
    di_status status = parse_arguments(p, &args);
    if (status == DI_OK)
        status = macro->expand(p, name, &args, out);
    free(args.values);
    free(args.names);
    return status;
}
