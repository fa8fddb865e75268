/* Values that can be listed (enum, const), and numbers. */
#include <string.h>

#include "grammar/json_number.h"
#include "grammar/json_schema_impl.h"
#include "grammar/regex.h"

/* ---- lists of values */

static uint32_t list_length(const di_js_fact *fact)
{
    return fact->kind == DI_JS_FACT_CONST ? 1 : fact->value->n;
}

static const di_sj_value *list_item(const di_js_fact *fact, uint32_t i)
{
    return fact->kind == DI_JS_FACT_CONST ? fact->value : &fact->value->items[i];
}

static bool is_list(const di_js_fact *fact)
{
    return (fact->kind == DI_JS_FACT_CONST || fact->kind == DI_JS_FACT_ENUM) && !fact->is_negative;
}

/* The goal is one schema that says nothing but types and this list. */
static bool is_plain(const di_js *js, const di_js_view *view, const di_js_fact *list)
{
    if (view->n_lits != 1 || view->n_facts != 1 || (view->lits[0] & 1) != 0)
        return false;
    return list->value->parent == di_js_schema_of(js, view->lits[0]);
}

di_status di_js_shape_values(di_js *js, const di_js_view *view, bool *is_finite,
                             const di_sj_value ***values, size_t *n_values)
{
    const di_js_fact *list = NULL;
    for (size_t i = 0; i < view->n_facts; i++)
        if (is_list(view->facts[i]) &&
            (list == NULL || list_length(view->facts[i]) < list_length(list)))
            list = view->facts[i];
    *is_finite = list != NULL;
    *n_values = 0;
    if (list == NULL)
        return DI_OK;
    DI_TRY(DI_ARENA_NEW(&js->scratch, list_length(list), values));
    const bool is_certain = is_plain(js, view, list);
    for (uint32_t i = 0; i < list_length(list); i++) {
        const di_sj_value *value = list_item(list, i);
        di_js_verdict verdict = DI_JS_YES;
        if ((di_js_type_of(value) & view->shape->types) == 0)
            continue;
        if (!is_certain)
            DI_TRY(di_js_check_all(js, value, view->lits, view->n_lits, &verdict));
        if (verdict == DI_JS_UNKNOWN)
            DI_TRY(di_js_refuse(js, list->value,
                                "whether its values satisfy the keywords beside it is not known"));
        if (verdict != DI_JS_NO)
            (*values)[(*n_values)++] = value;
    }
    return DI_OK;
}

static di_status word_values(di_js *js, uint32_t types, const di_js_lit *lits, size_t n,
                             const di_sj_value ***values, size_t *n_values)
{
    static const di_sj_value words[] = {
        {.type = DI_SJ_NULL}, {.type = DI_SJ_FALSE}, {.type = DI_SJ_TRUE}};
    DI_TRY(DI_ARENA_NEW(&js->scratch, 3, values));
    *n_values = 0;
    for (size_t i = 0; i < 3; i++) {
        di_js_verdict verdict;
        if ((types & di_js_type_of(&words[i])) == 0)
            continue;
        DI_TRY(di_js_check_all(js, &words[i], lits, n, &verdict));
        if (verdict == DI_JS_YES)
            (*values)[(*n_values)++] = &words[i];
    }
    return DI_OK;
}

static bool is_listed(const di_sj_value *const *values, size_t n, const di_sj_value *value)
{
    for (size_t i = 0; i < n; i++)
        if (di_sj_equal(values[i], value))
            return true;
    return false;
}

di_status di_js_list_values(di_js *js, const di_js_lit *lits, size_t n, bool *is_finite,
                            const di_sj_value ***values, size_t *n_values)
{
    enum { VALUES_MOST = 256 };
    di_js_shapes shapes;
    *n_values = 0;
    DI_TRY(di_js_expand(js, lits, n, &shapes));
    DI_TRY(DI_ARENA_NEW(&js->scratch, VALUES_MOST, values));
    *is_finite = true;
    for (size_t i = 0; i < shapes.n; i++) {
        di_js_view view = {.lits = lits, .n_lits = n, .shape = &shapes.items[i]};
        const di_sj_value **more = NULL;
        size_t n_more = 0;
        DI_TRY(di_js_facts(js, view.shape, &view.facts, &view.n_facts));
        DI_TRY(di_js_shape_values(js, &view, is_finite, &more, &n_more));
        if (!*is_finite && (view.shape->types & ~(uint32_t)(DI_JS_NULL | DI_JS_BOOL)) == 0) {
            *is_finite = true;
            DI_TRY(word_values(js, view.shape->types, lits, n, &more, &n_more));
        }
        for (size_t k = 0; k < n_more && *is_finite; k++) {
            if (is_listed(*values, *n_values, more[k]))
                continue;
            if (*n_values == VALUES_MOST)
                *is_finite = false;
            else
                (*values)[(*n_values)++] = more[k];
        }
        if (!*is_finite)
            return DI_OK;
    }
    return DI_OK;
}

di_status di_js_emit_values(di_js *js, const di_js_view *view, bool *is_finite, const di_expr **out)
{
    const di_sj_value **values = NULL;
    const di_expr **parts;
    size_t n;
    DI_TRY(di_js_shape_values(js, view, is_finite, &values, &n));
    if (!*is_finite)
        return DI_OK;
    DI_TRY(DI_ARENA_NEW(&js->scratch, 2 * n, &parts));
    size_t n_parts = 0;
    DI_BUF_AUTO text = {0};
    for (size_t i = 0; i < n; i++) {
        const di_sj_value *value = values[i];
        di_buf_clear(&text);
        DI_TRY(di_sj_write(value, &text));
        DI_TRY(di_js_literal(js, di_buf_str(&text), text.len, &parts[n_parts++]));
        if (value->type == DI_SJ_NUMBER && strcmp(value->text, di_buf_str(&text)) != 0)
            DI_TRY(di_js_literal(js, value->text, value->len, &parts[n_parts++]));
    }
    return di_expr_alt(js->arena, parts, n_parts, out);
}

/* ---- numbers */

typedef struct number_facts {
    di_json_number bounds;
    const di_sj_value *min_at, *max_at, *at; /* keywords, for errors */
    const char **multiples;
    const di_sj_value **not_multiples;
    const di_sj_value **not_values;
    size_t n_multiples, n_not_multiples, n_not_values;
} number_facts;

static void tighten(number_facts *f, const di_js_fact *fact)
{
    const bool is_least = fact->kind == DI_JS_FACT_MINIMUM;
    const char **bound = is_least ? &f->bounds.min : &f->bounds.max;
    bool *is_exclusive = is_least ? &f->bounds.min_exclusive : &f->bounds.max_exclusive;
    const int order = *bound == NULL ? 0 : di_sj_number_compare(fact->value->text, *bound);
    if (*bound == NULL || (is_least ? order > 0 : order < 0)) {
        *bound = fact->value->text;
        *is_exclusive = fact->is_exclusive;
    } else if (order == 0) {
        *is_exclusive |= fact->is_exclusive;
    }
    f->at = fact->value;
}

static di_status collect_numbers(di_js *js, const di_js_view *view, number_facts *f)
{
    size_t n_values = 0;
    *f = (number_facts){.bounds.is_integer = (view->shape->types & DI_JS_FRACTION) == 0};
    for (size_t i = 0; i < view->n_facts; i++)
        if (view->facts[i]->is_negative)
            n_values += view->facts[i]->value->n + 1;
    DI_TRY(DI_ARENA_NEW(&js->scratch, view->n_facts, &f->multiples));
    DI_TRY(DI_ARENA_NEW(&js->scratch, view->n_facts, &f->not_multiples));
    DI_TRY(DI_ARENA_NEW(&js->scratch, n_values, &f->not_values));
    for (size_t i = 0; i < view->n_facts; i++) {
        const di_js_fact *fact = view->facts[i];
        if (fact->kind == DI_JS_FACT_MINIMUM || fact->kind == DI_JS_FACT_MAXIMUM)
            tighten(f, fact);
        if (fact->kind == DI_JS_FACT_MULTIPLE && fact->is_negative)
            f->not_multiples[f->n_not_multiples++] = fact->value;
        if (fact->kind == DI_JS_FACT_MULTIPLE && !fact->is_negative) {
            f->multiples[f->n_multiples++] = fact->value->text;
            f->at = fact->value;
        }
        if ((fact->kind == DI_JS_FACT_CONST || fact->kind == DI_JS_FACT_ENUM) && fact->is_negative)
            for (uint32_t k = 0; k < list_length(fact); k++)
                if (list_item(fact, k)->type == DI_SJ_NUMBER)
                    f->not_values[f->n_not_values++] = list_item(fact, k);
    }
    f->bounds.multiples = f->multiples;
    f->bounds.n_multiples = (uint32_t)f->n_multiples;
    return DI_OK;
}

static bool is_contradiction(const di_json_number *b)
{
    if (b->min == NULL || b->max == NULL)
        return false;
    const int order = di_sj_number_compare(b->min, b->max);
    return order > 0 || (order == 0 && (b->min_exclusive || b->max_exclusive));
}

bool di_js_number_is_empty(const di_js_view *view)
{
    number_facts f = {0};
    for (size_t i = 0; i < view->n_facts; i++)
        if (view->facts[i]->kind == DI_JS_FACT_MINIMUM ||
            view->facts[i]->kind == DI_JS_FACT_MAXIMUM)
            tighten(&f, view->facts[i]);
    return is_contradiction(&f.bounds);
}

static di_status dfa_of_regex(di_js *js, const char *pattern, const di_dfa **out)
{
    const di_regex_options options = {.mode = DI_REGEX_FULL};
    const di_expr *expr;
    DI_TRY(di_regex_parse(js->arena, pattern, strlen(pattern), &options, &expr));
    return di_dfa_from_expr(js->arena, expr, js->limits.max_states, out);
}

static di_status keep_matches(di_js *js, const char *pattern, const di_dfa **dfa)
{
    const di_dfa *more;
    DI_TRY(dfa_of_regex(js, pattern, &more));
    return di_dfa_intersect(js->arena, *dfa, more, js->limits.max_states, dfa);
}

static di_status drop_matches(di_js *js, const char *pattern, const di_dfa **dfa)
{
    const di_dfa *less;
    DI_TRY(dfa_of_regex(js, pattern, &less));
    return di_dfa_minus(js->arena, *dfa, less, js->limits.max_states, dfa);
}

/* Every spelling of a number without an exponent. */
static di_status drop_number(di_js *js, const di_sj_value *value, const di_dfa **dfa)
{
    DI_BUF_AUTO text = {0};
    DI_BUF_AUTO pattern = {0};
    DI_TRY(di_sj_number_write(value->text, &text));
    const char *digits = di_buf_str(&text);
    if (strchr(digits, 'e') != NULL)
        return di_fail(DI_ERR_UNSUPPORTED, "a number with an exponent that must not occur");
    if (strcmp(digits, "0") == 0)
        DI_TRY(di_buf_puts(&pattern, "-?"));
    for (const char *p = digits; *p != 0; p++)
        DI_TRY(di_buf_printf(&pattern, *p == '.' ? "\\%c" : "%c", *p));
    DI_TRY(di_buf_puts(&pattern, strchr(digits, '.') != NULL ? "0*" : "(\\.0+)?"));
    return drop_matches(js, di_buf_str(&pattern), dfa);
}

/* What only an automaton can say; numbers are then written without an exponent. */
static di_status restrict_numbers(di_js *js, const number_facts *f, uint32_t types,
                                  const di_expr *expr, const di_expr **out)
{
    const di_dfa *dfa;
    DI_TRY(di_dfa_from_expr(js->arena, expr, js->limits.max_states, &dfa));
    DI_TRY(keep_matches(js, "-?[0-9]+(\\.[0-9]+)?", &dfa));
    if ((types & DI_JS_INTEGER) == 0)
        DI_TRY(keep_matches(js, "-?[0-9]+\\.[0-9]*[1-9][0-9]*", &dfa));
    for (size_t i = 0; i < f->n_not_multiples; i++) {
        const char *divisor = f->not_multiples[i]->text;
        const di_json_number number = {
            .is_integer = f->bounds.is_integer, .multiples = &divisor, .n_multiples = 1};
        const di_dfa *less;
        DI_TRY(di_json_number_expr(js->arena, &number, js->limits.max_states, &expr));
        DI_TRY(di_dfa_from_expr(js->arena, expr, js->limits.max_states, &less));
        DI_TRY(di_dfa_minus(js->arena, dfa, less, js->limits.max_states, &dfa));
    }
    for (size_t i = 0; i < f->n_not_values; i++)
        DI_TRY(drop_number(js, f->not_values[i], &dfa));
    *out = di_expr_nothing();
    if (di_dfa_is_empty(dfa))
        return DI_OK;
    return di_expr_from_dfa(js->arena,
                            (di_expr_dfa){.dfa = dfa, .min_len = 0, .max_len = DI_REPEAT_INF}, out);
}

static di_status number_expr(di_js *js, const number_facts *f, uint32_t types, const di_expr **out)
{
    const bool is_plain =
        f->bounds.min == NULL && f->bounds.max == NULL && f->bounds.n_multiples == 0;
    if (is_plain && (types & DI_JS_INTEGER) != 0 && f->n_not_multiples == 0 && f->n_not_values == 0)
        return di_js_any_number(js, f->bounds.is_integer, out);
    DI_TRY(di_json_number_expr(js->arena, &f->bounds, js->limits.max_states, out));
    if ((types & DI_JS_INTEGER) != 0 && f->n_not_multiples == 0 && f->n_not_values == 0)
        return DI_OK;
    return restrict_numbers(js, f, types, *out, out);
}

di_status di_js_emit_number(di_js *js, const di_js_view *view, const di_expr **out)
{
    number_facts f;
    DI_TRY(collect_numbers(js, view, &f));
    *out = di_expr_nothing();
    if (is_contradiction(&f.bounds))
        return DI_OK;
    di_status status = number_expr(js, &f, view->shape->types, out);
    const di_sj_value *at = f.at;
    if (f.n_not_values > 0)
        at = f.not_values[0];
    if (f.n_not_multiples > 0)
        at = f.not_multiples[0];
    if (status == DI_OK || at == NULL)
        return status;
    DI_TRY(di_js_refuse_failed(js, at, status));
    return di_js_any_number(js, f.bounds.is_integer, out);
}
