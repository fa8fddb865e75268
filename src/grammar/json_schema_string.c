/* Strings: lengths, patterns, formats, texts that must not be. */
#include <string.h>

#include "grammar/json_format.h"
#include "grammar/json_schema_impl.h"
#include "grammar/regex.h"

/* ---- patterns and formats, each made once */

static di_status new_pattern(di_js *js, const di_sj_value *value, const char *key, size_t len,
                             di_js_pattern **out)
{
    DI_TRY(DI_ARENA_ZNEW(&js->scratch, 1, out));
    (*out)->value = value;
    DI_TRY(DI_GROW(&js->pattern_items, &js->cap_patterns, js->n_patterns + 1));
    js->pattern_items[js->n_patterns] = *out;
    return di_strmap_put(&js->patterns, key, len, (int64_t)js->n_patterns++, NULL);
}

static di_status find_pattern(di_js *js, char kind, const char *text, size_t len, di_buf *key,
                              di_js_pattern **out)
{
    int64_t number;
    DI_TRY(di_buf_append(key, &kind, 1));
    DI_TRY(di_buf_append(key, text, len));
    *out = NULL;
    if (di_strmap_get(&js->patterns, di_buf_str(key), key->len, &number))
        *out = js->pattern_items[number];
    return DI_OK;
}

di_status di_js_pattern_of(di_js *js, const di_sj_value *value, bool is_key, di_js_pattern **out)
{
    const char *text = is_key ? value->key : value->text;
    const size_t len = is_key ? value->key_len : value->len;
    DI_BUF_AUTO key = {0};
    if (!is_key && value->type != DI_SJ_STRING)
        return di_js_malformed(value, "a string");
    DI_TRY(find_pattern(js, 'p', text, len, &key, out));
    if (*out != NULL)
        return DI_OK;
    const di_regex_options options = {
        .mode = DI_REGEX_SEARCH, .max_depth = js->limits.max_depth, .dot_is_no_newline = true};
    const di_expr *expr = NULL;
    const di_status status = di_regex_parse(js->arena, text, len, &options, &expr);
    if (status != DI_OK) {
        DI_TRY(di_js_refuse_failed(js, is_key ? value->parent : value, status));
        expr = NULL;
    }
    DI_TRY(new_pattern(js, value, di_buf_str(&key), key.len, out));
    (*out)->expr = expr;
    return DI_OK;
}

/* Formats of the specification that json_format.h does not know; others are annotations. */
static bool is_beyond(const di_sj_value *value)
{
    static const char *const names[] = {"regex", "idn-email", "idn-hostname", "iri",
                                        "iri-reference"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (di_sj_is_text(value, names[i]))
            return true;
    return false;
}

di_status di_js_format_of(di_js *js, const di_sj_value *value, di_js_pattern **out)
{
    DI_BUF_AUTO key = {0};
    if (value->type != DI_SJ_STRING)
        return di_js_malformed(value, "a string");
    DI_TRY(find_pattern(js, 'f', value->text, value->len, &key, out));
    if (*out != NULL)
        return DI_OK;
    bool is_known = false;
    const di_expr *expr = NULL;
    if (is_beyond(value))
        DI_TRY(di_js_refuse(js, value, "this format is no regular language here"));
    DI_TRY(di_json_format_expr(js->arena, value->text, &is_known, &expr));
    DI_TRY(new_pattern(js, value, di_buf_str(&key), key.len, out));
    (*out)->expr = is_known ? expr : NULL;
    (*out)->max = di_json_format_max_len(value->text);
    return DI_OK;
}

di_status di_js_pattern_dfa(di_js *js, di_js_pattern *pattern, const di_dfa **out)
{
    if (pattern->dfa == NULL)
        DI_TRY(di_dfa_from_expr(js->arena, pattern->expr, js->limits.max_states, &pattern->dfa));
    *out = pattern->dfa;
    return DI_OK;
}

/* ---- the facts of a shape */

typedef struct string_facts {
    uint32_t min, max;
    di_js_pattern **have, **have_not; /* patterns and formats */
    di_js_name *not_texts;
    size_t n_have, n_have_not, n_not_texts;
    const di_sj_value *at; /* a keyword, for errors */
    bool is_raw;           /* no text with the mark of the chat format */
} string_facts;

static di_status collect_pattern(di_js *js, const di_js_fact *fact, string_facts *f)
{
    di_js_pattern *pattern;
    if (fact->kind == DI_JS_FACT_FORMAT)
        DI_TRY(di_js_format_of(js, fact->value, &pattern));
    else
        DI_TRY(di_js_pattern_of(js, fact->value, false, &pattern));
    if (pattern->expr == NULL)
        return DI_OK;
    di_js_pattern **list = fact->is_negative ? f->have_not : f->have;
    size_t *n = fact->is_negative ? &f->n_have_not : &f->n_have;
    for (size_t i = 0; i < *n; i++)
        if (list[i] == pattern)
            return DI_OK;
    list[(*n)++] = pattern;
    f->at = fact->value;
    if (fact->kind != DI_JS_FACT_FORMAT || pattern->max == DI_REPEAT_INF)
        return DI_OK;
    if (fact->is_negative)
        return di_fail(DI_ERR_UNSUPPORTED, "%s cannot be negated", fact->value->text);
    f->max = pattern->max < f->max ? pattern->max : f->max;
    return DI_OK;
}

static void collect_texts(const di_js_fact *fact, string_facts *f)
{
    const bool is_const = fact->kind == DI_JS_FACT_CONST;
    for (uint32_t i = 0; i < (is_const ? 1 : fact->value->n); i++) {
        const di_sj_value *value = is_const ? fact->value : &fact->value->items[i];
        if (value->type != DI_SJ_STRING)
            continue;
        f->not_texts[f->n_not_texts++] = (di_js_name){value->text, value->len};
        f->at = fact->value;
    }
}

static di_status collect(di_js *js, const di_js_view *view, string_facts *f)
{
    size_t n_texts = 0;
    *f = (string_facts){.max = DI_REPEAT_INF};
    for (size_t i = 0; i < view->n_facts; i++)
        if (view->facts[i]->is_negative)
            n_texts += view->facts[i]->value->n + 1;
    DI_TRY(DI_ARENA_NEW(&js->scratch, view->n_facts, &f->have));
    DI_TRY(DI_ARENA_NEW(&js->scratch, view->n_facts, &f->have_not));
    DI_TRY(DI_ARENA_NEW(&js->scratch, n_texts, &f->not_texts));
    for (size_t i = 0; i < view->n_facts; i++) {
        const di_js_fact *fact = view->facts[i];
        if (fact->kind == DI_JS_FACT_MIN_LENGTH && fact->min > f->min)
            f->min = fact->min;
        if (fact->kind == DI_JS_FACT_MAX_LENGTH && fact->max < f->max)
            f->max = fact->max;
        if (fact->kind == DI_JS_FACT_PATTERN || fact->kind == DI_JS_FACT_FORMAT)
            DI_TRY(collect_pattern(js, fact, f));
        if ((fact->kind == DI_JS_FACT_CONST || fact->kind == DI_JS_FACT_ENUM) && fact->is_negative)
            collect_texts(fact, f);
    }
    return DI_OK;
}

/* All patterns together, without lengths. */
static di_status patterns_dfa(di_js *js, const string_facts *f, const di_dfa **out)
{
    const uint32_t most = js->limits.max_states;
    const di_dfa *more;
    if (f->n_have == 0) {
        DI_TRY(di_js_all_but(js, f->not_texts, f->n_not_texts, out));
    } else {
        DI_TRY(di_js_pattern_dfa(js, f->have[0], out));
        if (f->n_not_texts > 0) {
            DI_TRY(di_js_only(js, f->not_texts, f->n_not_texts, &more));
            DI_TRY(di_dfa_minus(js->arena, *out, more, most, out));
        }
    }
    for (size_t i = 1; i < f->n_have; i++) {
        DI_TRY(di_js_pattern_dfa(js, f->have[i], &more));
        DI_TRY(di_dfa_intersect(js->arena, *out, more, most, out));
    }
    for (size_t i = 0; i < f->n_have_not; i++) {
        DI_TRY(di_js_pattern_dfa(js, f->have_not[i], &more));
        DI_TRY(di_dfa_minus(js->arena, *out, more, most, out));
    }
    if (f->is_raw) {
        DI_TRY(di_js_unmarked(js, false, &more));
        DI_TRY(di_dfa_intersect(js->arena, *out, more, most, out));
    }
    return DI_OK;
}

/* Drops the bounds that every text keeps anyway; false if no text can. */
static bool trim_bounds(di_dfa_distance all, uint32_t *min, uint32_t *max)
{
    if (all.shortest > *max || (all.longest < *min && all.longest != DI_REPEAT_INF))
        return false;
    if (*min <= all.shortest)
        *min = 0;
    if (*max >= all.longest)
        *max = DI_REPEAT_INF;
    return true;
}

/* The automaton and the bounds it leaves to counting. */
static di_status counted_dfa(di_js *js, const string_facts *f, di_expr_dfa *out)
{
    DI_TRY(patterns_dfa(js, f, &out->dfa));
    out->min_len = f->min;
    out->max_len = f->max;
    if (di_dfa_is_empty(out->dfa) || (f->min == 0 && f->max == DI_REPEAT_INF))
        return DI_OK;
    di_dfa_distance *distances;
    bool has_all;
    DI_TRY(DI_ARENA_NEW(&js->scratch, out->dfa->n_states, &distances));
    DI_TRY(di_dfa_distances(out->dfa, distances, &has_all));
    if (!trim_bounds(distances[0], &out->min_len, &out->max_len))
        return di_js_only(js, NULL, 0, &out->dfa);
    /* One bound alone: whether it can still be kept is a matter of the nearest or farthest end. */
    if (has_all || out->min_len == 0 || out->max_len == DI_REPEAT_INF)
        return DI_OK;
    DI_TRY(di_dfa_bound_length(js->arena, out->dfa, out->min_len, out->max_len,
                               js->limits.max_states, &out->dfa));
    out->min_len = 0;
    out->max_len = DI_REPEAT_INF;
    return DI_OK;
}

/* Code points of the shortest and the longest text of an expression. */
static di_dfa_distance expr_lengths(const di_expr *expr)
{
    di_dfa_distance all = {0, 0}, one;
    switch (expr->kind) {
    case DI_EXPR_CHARS:
        return (di_dfa_distance){1, 1};
    case DI_EXPR_SEQ:
        for (uint32_t i = 0; i < expr->list.n; i++) {
            one = expr_lengths(expr->list.items[i]);
            all.shortest += one.shortest;
            all.longest =
                one.longest > UINT32_MAX - all.longest ? DI_REPEAT_INF : all.longest + one.longest;
        }
        return all;
    case DI_EXPR_ALT:
        all = (di_dfa_distance){DI_REPEAT_INF, 0};
        for (uint32_t i = 0; i < expr->list.n; i++) {
            one = expr_lengths(expr->list.items[i]);
            all.shortest = one.shortest < all.shortest ? one.shortest : all.shortest;
            all.longest = one.longest > all.longest ? one.longest : all.longest;
        }
        return all;
    case DI_EXPR_REPEAT:
        one = expr_lengths(expr->repeat.body);
        all.shortest = one.shortest * expr->repeat.min;
        all.longest = DI_REPEAT_INF;
        if (expr->repeat.max == 0 || one.longest < UINT32_MAX / expr->repeat.max)
            all.longest =
                expr->repeat.max == DI_REPEAT_INF ? DI_REPEAT_INF : one.longest * expr->repeat.max;
        return all;
    case DI_EXPR_NOTHING:
    case DI_EXPR_EMPTY:
        return all;
    default:
        return (di_dfa_distance){0, DI_REPEAT_INF};
    }
}

/* One pattern or format, and nothing else but lengths. */
static bool is_alone(const string_facts *f)
{
    return f->n_have == 1 && f->n_have_not == 0 && f->n_not_texts == 0;
}

static di_status make_patterns(di_js *js, const string_facts *f, const di_expr **out)
{
    uint32_t min = f->min, max = f->max;
    *out = di_expr_nothing();
    if (is_alone(f)) {
        const di_expr *expr = f->have[0]->expr;
        if (!trim_bounds(expr_lengths(expr), &min, &max))
            return DI_OK;
        if (min == 0 && max == DI_REPEAT_INF) {
            DI_TRY(di_expr_json_string(js->arena, expr, &expr));
            return di_js_quoted(js, expr, out);
        }
    }
    di_expr_dfa dfa = {.as_json = true};
    DI_TRY(counted_dfa(js, f, &dfa));
    if (di_dfa_is_empty(dfa.dfa))
        return DI_OK;
    const di_expr *expr;
    if (dfa.min_len == 0 && dfa.max_len == DI_REPEAT_INF)
        DI_TRY(di_js_spelled(js, dfa.dfa, &expr));
    else
        DI_TRY(di_expr_from_dfa(js->arena, dfa, &expr));
    return di_js_quoted(js, expr, out);
}

/* What tells strings apart but for texts that must not be. */
static di_status facts_key(const string_facts *f, di_buf *key)
{
    const uint64_t numbers[] = {f->is_raw ? 'r' : 's', f->min, f->max, f->n_have};
    DI_TRY(di_buf_append(key, numbers, sizeof numbers));
    DI_TRY(di_buf_append(key, f->have, f->n_have * sizeof(di_js_pattern *)));
    return di_buf_append(key, f->have_not, f->n_have_not * sizeof(di_js_pattern *));
}

/* The same patterns and lengths are one rule. */
static di_status emit_patterns(di_js *js, const string_facts *f, const di_expr **out)
{
    DI_BUF_AUTO key = {0};
    if (f->n_not_texts > 0)
        return make_patterns(js, f, out);
    DI_TRY(facts_key(f, &key));
    *out = di_js_known(js, &key);
    if (*out != NULL)
        return DI_OK;
    DI_TRY(make_patterns(js, f, out));
    DI_TRY(di_js_share(js, "string", *out, out));
    return di_js_keep(js, &key, *out);
}

static di_status emit_lengths(di_js *js, const string_facts *f, const di_expr **out)
{
    const di_expr *expr;
    if (f->min == 0 && f->max == DI_REPEAT_INF)
        return di_js_any_string(js, out);
    DI_TRY(di_js_any_char(js, &expr));
    DI_TRY(di_expr_repeat(js->arena, expr, f->min, f->max, &expr));
    return di_js_quoted(js, expr, out);
}

di_status di_js_emit_string(di_js *js, const di_js_view *view, const di_expr **out)
{
    string_facts f;
    DI_TRY(collect(js, view, &f));
    *out = di_expr_nothing();
    if (f.min > f.max)
        return DI_OK;
    if (f.n_have + f.n_have_not + f.n_not_texts == 0)
        return emit_lengths(js, &f, out);
    const di_status status = emit_patterns(js, &f, out);
    if (status == DI_OK)
        return DI_OK;
    DI_TRY(di_js_refuse_failed(js, f.at, status));
    return emit_lengths(js, &f, out);
}

di_status di_js_string_is_empty(di_js *js, const di_js_view *view, bool *out)
{
    string_facts f;
    const di_dfa *dfa;
    DI_TRY(collect(js, view, &f));
    *out = f.min > f.max;
    if (*out || f.n_have == 0 || f.n_have + f.n_have_not + f.n_not_texts < 2)
        return DI_OK;
    DI_TRY(patterns_dfa(js, &f, &dfa));
    *out = di_dfa_is_empty(dfa);
    return DI_OK;
}

/* ---- strings as they are: arguments of calls, each with its closing tag */

/* Whether the mark may occur, at a glance. */
static bool may_have_mark(const di_expr *expr)
{
    switch (expr->kind) {
    case DI_EXPR_CHARS:
        return di_charset_contains(expr->chars, DI_JS_MARK);
    case DI_EXPR_SEQ:
    case DI_EXPR_ALT:
        for (uint32_t i = 0; i < expr->list.n; i++)
            if (may_have_mark(expr->list.items[i]))
                return true;
        return false;
    case DI_EXPR_REPEAT:
        return may_have_mark(expr->repeat.body);
    default:
        return expr->kind != DI_EXPR_EMPTY && expr->kind != DI_EXPR_NOTHING;
    }
}

/* Without bounds one automaton reads text and tag as far as they could be mistaken for each other:
 * inside a text it is in one state, which masks are made for once. */
static di_status raw_lengths(di_js *js, const string_facts *f, const di_expr **out)
{
    const bool is_free = f->min == 0 && f->max == DI_REPEAT_INF;
    const di_expr *tag;
    di_expr_dfa dfa = {.min_len = f->min, .max_len = f->max};
    DI_TRY(di_js_unmarked(js, is_free, &dfa.dfa));
    DI_TRY(di_expr_from_dfa(js->arena, dfa, out));
    DI_TRY(di_js_closing_tag(js, is_free, &tag));
    return DI_EXPR_SEQ_OF(js->arena, out, *out, tag);
}

static di_status raw_patterns(di_js *js, const string_facts *f, const di_expr **out)
{
    uint32_t min = f->min, max = f->max;
    const di_expr *expr, *tag;
    *out = di_expr_nothing();
    DI_TRY(di_js_closing_tag(js, false, &tag));
    if (is_alone(f)) {
        expr = f->have[0]->expr;
        if (!trim_bounds(expr_lengths(expr), &min, &max))
            return DI_OK;
        if (min == 0 && max == DI_REPEAT_INF && !may_have_mark(expr))
            return DI_EXPR_SEQ_OF(js->arena, out, expr, tag);
    }
    di_expr_dfa dfa = {0};
    DI_TRY(counted_dfa(js, f, &dfa));
    DI_TRY(di_expr_from_dfa(js->arena, dfa, &expr));
    return DI_EXPR_SEQ_OF(js->arena, out, expr, tag);
}

di_status di_js_emit_raw_string(di_js *js, const di_js_view *view, const di_expr **out)
{
    DI_BUF_AUTO key = {0};
    string_facts f;
    di_status status = DI_OK;
    DI_TRY(collect(js, view, &f));
    f.is_raw = true;
    *out = di_expr_nothing();
    if (f.min > f.max)
        return DI_OK;
    DI_TRY(facts_key(&f, &key));
    const di_expr *known = f.n_not_texts > 0 ? NULL : di_js_known(js, &key);
    if (known != NULL) {
        *out = known;
        return DI_OK;
    }
    if (f.n_have + f.n_have_not + f.n_not_texts > 0) {
        status = raw_patterns(js, &f, out);
        if (status != DI_OK)
            DI_TRY(di_js_refuse_failed(js, f.at, status));
    }
    if (f.n_have + f.n_have_not + f.n_not_texts == 0 || status != DI_OK)
        DI_TRY(raw_lengths(js, &f, out));
    if ((*out)->kind == DI_EXPR_NOTHING)
        return DI_OK;
    DI_TRY(di_js_share_raw(js, "text", *out, out));
    return f.n_not_texts > 0 ? DI_OK : di_js_keep(js, &key, *out);
}

/* ---- texts of goals, for names of members */

static di_status shape_dfa(di_js *js, const di_js_view *view, const di_dfa **out)
{
    const di_sj_value **values = NULL;
    bool is_finite;
    size_t n;
    DI_TRY(di_js_shape_values(js, view, &is_finite, &values, &n));
    if (is_finite) {
        di_js_name *names;
        size_t n_names = 0;
        DI_TRY(DI_ARENA_NEW(&js->scratch, n, &names));
        for (size_t i = 0; i < n; i++)
            if (values[i]->type == DI_SJ_STRING)
                names[n_names++] = (di_js_name){values[i]->text, values[i]->len};
        return di_js_only(js, names, n_names, out);
    }
    string_facts f;
    DI_TRY(collect(js, view, &f));
    if (f.min > f.max)
        return di_js_only(js, NULL, 0, out);
    DI_TRY(patterns_dfa(js, &f, out));
    if (di_dfa_is_empty(*out) || (f.min == 0 && f.max == DI_REPEAT_INF))
        return DI_OK;
    return di_dfa_bound_length(js->arena, *out, f.min, f.max, js->limits.max_states, out);
}

di_status di_js_string_dfa(di_js *js, const di_js_lit *lits, size_t n, const di_dfa **dfa)
{
    di_js_shapes shapes;
    DI_TRY(di_js_expand(js, lits, n, &shapes));
    di_js_restrict(&shapes, DI_JS_STRING);
    *dfa = NULL;
    for (size_t i = 0; i < shapes.n; i++) {
        di_js_view view = {.lits = lits, .n_lits = n, .shape = &shapes.items[i]};
        const di_dfa *more;
        DI_TRY(di_js_facts(js, view.shape, &view.facts, &view.n_facts));
        DI_TRY(shape_dfa(js, &view, &more));
        if (*dfa == NULL)
            *dfa = more;
        else
            DI_TRY(di_dfa_union(js->arena, *dfa, more, js->limits.max_states, dfa));
    }
    return *dfa == NULL ? di_js_only(js, NULL, 0, dfa) : DI_OK;
}
