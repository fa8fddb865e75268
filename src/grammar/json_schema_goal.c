/* From goals to expressions: each goal once, those that others refer to as rules. */
#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema_impl.h"

struct di_js_emission {
    const di_js_lit *lits;
    size_t n;
    uint32_t level, rule;
    bool is_begun, is_done;
    const di_expr *expr, *reference; /* to the rule */
};

/* ---- simple forms of a goal */

/* The one keyword of a schema that means something; UNKNOWN if there are none or several. */
static di_js_keyword only_keyword(const di_js *js, const di_sj_value *schema,
                                  const di_sj_value **at, uint32_t *n)
{
    di_js_keyword only = DI_JS_KEY_UNKNOWN;
    *n = 0;
    for (uint32_t i = 0; i < schema->n; i++) {
        const di_js_keyword keyword =
            di_js_keyword_of(schema->items[i].key, schema->items[i].key_len);
        if (keyword == DI_JS_KEY_UNKNOWN || keyword == DI_JS_KEY_NULLABLE ||
            keyword == DI_JS_KEY_THEN || keyword == DI_JS_KEY_ELSE || !di_js_knows(js, keyword))
            continue;
        if (keyword == DI_JS_KEY_REF && di_js_is_only_ref(js, schema)) {
            *at = &schema->items[i];
            *n = 1;
            return keyword;
        }
        only = keyword;
        *at = &schema->items[i];
        ++*n;
    }
    return *n == 1 ? only : DI_JS_KEY_UNKNOWN;
}

/* Adds a literal without the schemas that only name or join others. */
static di_status simplify(di_js *js, di_js_lit lit, di_js_lits *out, bool *is_referred,
                          uint32_t nest)
{
    if (lit == DI_JS_TRUE)
        return DI_OK;
    const di_sj_value *schema = lit == DI_JS_FALSE ? NULL : di_js_schema_of(js, lit);
    if (schema == NULL || (lit & 1) != 0 || nest > DI_JS_NEST_MOST)
        return di_js_lits_add(js, out, lit);
    if (schema->type == DI_SJ_FALSE)
        return di_js_lits_add(js, out, DI_JS_FALSE);
    const di_sj_value *at = NULL, *target;
    uint32_t n;
    if (schema->type == DI_SJ_TRUE)
        return DI_OK;
    if (schema->type != DI_SJ_OBJECT)
        return di_js_malformed(schema, "a schema: an object, true or false");
    const di_js_keyword keyword = only_keyword(js, schema, &at, &n);
    if (n == 0)
        return DI_OK;
    if (keyword == DI_JS_KEY_REF) {
        DI_TRY(di_js_resolve(js, at, &target));
        if (target == NULL)
            return DI_OK;
        *is_referred = true;
        if (target == schema)
            return di_js_malformed(at, "something else than itself");
        return simplify(js, di_js_lit_of(target), out, is_referred, nest + 1);
    }
    if (keyword != DI_JS_KEY_ALL_OF || at->type != DI_SJ_ARRAY || at->n == 0)
        return di_js_lits_add(js, out, lit);
    for (uint32_t i = 0; i < at->n; i++)
        DI_TRY(simplify(js, di_js_lit_of(&at->items[i]), out, is_referred, nest + 1));
    return DI_OK;
}

static bool has_false(const di_js_lits *lits)
{
    for (size_t i = 0; i < lits->n; i++)
        if (lits->items[i] == DI_JS_FALSE)
            return true;
    return false;
}

di_status di_js_simplify(di_js *js, const di_js_lit *lits, size_t n, di_js_lits *out,
                         bool *is_referred, bool *is_false)
{
    *out = (di_js_lits){0};
    *is_referred = false;
    for (size_t i = 0; i < n; i++)
        DI_TRY(simplify(js, lits[i], out, is_referred, 0));
    *is_false = has_false(out);
    return DI_OK;
}

/* ---- a shape */

di_status di_js_view_of(di_js *js, const di_js_lit *lits, size_t n, const di_js_shape *shape,
                        di_js_view *view)
{
    *view = (di_js_view){.lits = lits, .n_lits = n, .shape = shape};
    return di_js_facts(js, shape, &view->facts, &view->n_facts);
}

static bool is_excluded(const di_js_view *view, di_sj_type type)
{
    for (size_t i = 0; i < view->n_facts; i++) {
        const di_js_fact *fact = view->facts[i];
        if (fact->kind == DI_JS_FACT_CONST && fact->is_negative && fact->value->type == type)
            return true;
        if (fact->kind == DI_JS_FACT_ENUM && fact->is_negative)
            for (uint32_t k = 0; k < fact->value->n; k++)
                if (fact->value->items[k].type == type)
                    return true;
    }
    return false;
}

static di_status emit_word(di_js *js, const di_js_view *view, di_sj_type type, const char *text,
                           const di_expr **out)
{
    *out = di_expr_nothing();
    return is_excluded(view, type) ? DI_OK : di_js_literal(js, text, strlen(text), out);
}

di_status di_js_emit_shape(di_js *js, const di_js_view *view, const di_expr **out)
{
    const uint32_t types = view->shape->types;
    const di_expr *parts[8];
    size_t n = 0;
    bool is_finite;
    if (view->n_facts == 0 && types == DI_JS_ANY)
        return di_js_any_value(js, view->level, out);
    DI_TRY(di_js_emit_values(js, view, &is_finite, out));
    if (is_finite)
        return DI_OK;
    if (types & DI_JS_STRING)
        DI_TRY(di_js_emit_string(js, view, &parts[n++]));
    if (types & DI_JS_NUMBER)
        DI_TRY(di_js_emit_number(js, view, &parts[n++]));
    if (types & DI_JS_OBJECT)
        DI_TRY(di_js_emit_object(js, view, &parts[n++]));
    if (types & DI_JS_ARRAY)
        DI_TRY(di_js_emit_array(js, view, &parts[n++]));
    if (types & DI_JS_BOOL) {
        DI_TRY(emit_word(js, view, DI_SJ_TRUE, "true", &parts[n++]));
        DI_TRY(emit_word(js, view, DI_SJ_FALSE, "false", &parts[n++]));
    }
    if (types & DI_JS_NULL)
        DI_TRY(emit_word(js, view, DI_SJ_NULL, "null", &parts[n++]));
    return di_expr_alt(js->arena, parts, n, out);
}

/* ---- a goal */

static di_status emit_branches(di_js *js, const di_sj_value *at, uint32_t level,
                               const di_expr **out)
{
    const di_expr **parts;
    DI_TRY(DI_ARENA_NEW(&js->scratch, at->n, &parts));
    for (uint32_t i = 0; i < at->n; i++) {
        const di_js_lit lit = di_js_lit_of(&at->items[i]);
        DI_TRY(di_js_emit(js, &lit, 1, level, &parts[i]));
    }
    return di_expr_alt(js->arena, parts, at->n, out);
}

static di_status are_disjoint(di_js *js, const di_sj_value *at, bool *out)
{
    *out = true;
    for (uint32_t i = 0; i < at->n && *out; i++)
        for (uint32_t j = i + 1; j < at->n && *out; j++) {
            const di_js_lit both[] = {di_js_lit_of(&at->items[i]), di_js_lit_of(&at->items[j])};
            DI_TRY(di_js_are_apart(js, &at->items[i], &at->items[j], out));
            if (!*out)
                DI_TRY(di_js_is_empty(js, both, 2, out));
        }
    return DI_OK;
}

/* anyOf, and oneOf of disjoint branches, that stand alone: each branch is a goal of its own. */
static di_status emit_alone(di_js *js, di_js_emission *e, bool *is_alone)
{
    *is_alone = false;
    if (e->n != 1 || (e->lits[0] & 1) != 0)
        return DI_OK;
    const di_sj_value *at;
    uint32_t n;
    const di_js_keyword keyword = only_keyword(js, di_js_schema_of(js, e->lits[0]), &at, &n);
    if ((keyword != DI_JS_KEY_ANY_OF && keyword != DI_JS_KEY_ONE_OF) || at->type != DI_SJ_ARRAY ||
        at->n == 0)
        return DI_OK;
    *is_alone = true;
    if (keyword == DI_JS_KEY_ONE_OF)
        DI_TRY(are_disjoint(js, at, is_alone));
    return *is_alone ? emit_branches(js, at, e->level, &e->expr) : DI_OK;
}

static di_status build_expr(di_js *js, di_js_emission *e)
{
    bool is_alone;
    DI_TRY(emit_alone(js, e, &is_alone));
    if (!is_alone) {
        di_js_shapes shapes;
        const di_expr **parts;
        size_t n = 0;
        DI_TRY(di_js_expand(js, e->lits, e->n, &shapes));
        DI_TRY(DI_ARENA_NEW(&js->scratch, shapes.n, &parts));
        for (size_t i = 0; i < shapes.n; i++) {
            di_js_view view;
            DI_TRY(di_js_view_of(js, e->lits, e->n, &shapes.items[i], &view));
            view.level = e->level;
            DI_TRY(di_js_emit_shape(js, &view, &parts[n++]));
        }
        DI_TRY(di_expr_alt(js->arena, parts, n, &e->expr));
    }
    return DI_OK;
}

static di_status build(di_js *js, di_js_emission *e)
{
    e->is_begun = true;
    di_status status = build_expr(js, e);
    if (status == DI_ERR_UNSUPPORTED && !js->is_named) {
        status = di_js_refuse_failed(js, di_js_schema_of(js, e->lits[0]), status);
        if (status == DI_OK)
            status = di_js_any_value(js, e->level, &e->expr);
    }
    DI_TRY(status);
    e->is_done = true;
    if (e->rule != DI_JS_NO_RULE)
        di_js_rule_set(js, e->rule, e->expr);
    return DI_OK;
}

static di_status refer(di_js *js, di_js_emission *e, const di_expr **out)
{
    if (e->rule == DI_JS_NO_RULE) {
        DI_BUF_AUTO name = {0};
        DI_TRY(di_sj_pointer(di_js_schema_of(js, e->lits[0]), &name));
        DI_TRY(di_js_rule_new(js, di_buf_str(&name), &e->rule, &e->reference));
        if (e->is_done)
            di_js_rule_set(js, e->rule, e->expr);
    }
    *out = e->reference;
    return DI_OK;
}

static di_status find_emission(di_js *js, const di_js_lits *lits, uint32_t level,
                               di_js_emission **out)
{
    enum { PARTS_MOST = 100000 };
    di_js_lit *key;
    int64_t number;
    DI_TRY(DI_ARENA_NEW(&js->scratch, lits->n + 1, &key));
    memcpy(key, lits->items, lits->n * sizeof *key);
    key[lits->n] = level;
    const size_t n_bytes = (lits->n + 1) * sizeof *key;
    if (di_strmap_get(&js->goals, (const char *)key, n_bytes, &number)) {
        *out = js->emissions[number];
        return DI_OK;
    }
    DI_TRY(di_js_check_work(js));
    if (js->n_emissions >= PARTS_MOST)
        return di_fail(DI_ERR_UNSUPPORTED, "JSON schema: more than %d different parts", PARTS_MOST);
    DI_TRY(DI_ARENA_ZNEW(&js->scratch, 1, out));
    **out = (di_js_emission){.lits = key, .n = lits->n, .level = level, .rule = DI_JS_NO_RULE};
    DI_TRY(DI_GROW(&js->emissions, &js->cap_emissions, js->n_emissions + 1));
    js->emissions[js->n_emissions] = *out;
    return di_strmap_put(&js->goals, (const char *)key, n_bytes, (int64_t)js->n_emissions++, NULL);
}

di_status di_js_emit(di_js *js, const di_js_lit *lits, size_t n, uint32_t level,
                     const di_expr **out)
{
    di_js_lits simple;
    di_js_emission *e;
    bool is_referred, is_false;
    level = di_js_level(js, level);
    DI_TRY(di_js_simplify(js, lits, n, &simple, &is_referred, &is_false));
    *out = di_expr_nothing();
    if (is_false)
        return DI_OK;
    if (simple.n == 0)
        return di_js_any_value(js, level, out);
    DI_TRY(find_emission(js, &simple, level, &e));
    if (is_referred || simple.n > 1 || e->is_begun || js->depth >= js->limits.max_depth)
        return refer(js, e, out); /* built by di_js_emit_rest */
    js->depth++;
    const di_status status = build(js, e);
    js->depth--;
    *out = e->expr;
    return status;
}

di_status di_js_emit_rest(di_js *js)
{
    for (size_t i = 0; i < js->n_emissions; i++)
        if (!js->emissions[i]->is_begun)
            DI_TRY(build(js, js->emissions[i]));
    return DI_OK;
}

/* ---- types that are left */

/* The types of which a shape may have values. */
static di_status types_of_shape(di_js *js, const di_js_view *view, uint32_t *out)
{
    const uint32_t types = view->shape->types;
    const di_sj_value **values = NULL;
    bool is_finite, is_empty;
    size_t n;
    DI_TRY(di_js_shape_values(js, view, &is_finite, &values, &n));
    *out = is_finite ? 0 : types;
    for (size_t i = 0; is_finite && i < n; i++)
        *out |= di_js_type_of(values[i]);
    if (is_finite)
        return DI_OK;
    if ((types & DI_JS_NUMBER) != 0 && di_js_number_is_empty(view))
        *out &= ~(uint32_t)DI_JS_NUMBER;
    if (types & DI_JS_STRING) {
        DI_TRY(di_js_string_is_empty(js, view, &is_empty));
        *out &= is_empty ? ~(uint32_t)DI_JS_STRING : DI_JS_ANY;
    }
    if (types & DI_JS_ARRAY) {
        DI_TRY(di_js_array_is_empty(js, view, &is_empty));
        *out &= is_empty ? ~(uint32_t)DI_JS_ARRAY : DI_JS_ANY;
    }
    if (types & DI_JS_OBJECT) {
        DI_TRY(di_js_object_is_empty(js, view, &is_empty));
        *out &= is_empty ? ~(uint32_t)DI_JS_OBJECT : DI_JS_ANY;
    }
    return DI_OK;
}

/* What cannot be told counts as possible. */
static di_status find_types(di_js *js, const di_js_lits *lits, uint32_t types, uint32_t *out)
{
    di_js_shapes shapes;
    di_status status = di_js_expand(js, lits->items, lits->n, &shapes);
    if (status == DI_OK)
        di_js_restrict(&shapes, types);
    *out = 0;
    for (size_t i = 0; status == DI_OK && i < shapes.n && *out != types; i++) {
        di_js_view view;
        uint32_t more = 0;
        DI_TRY(di_js_view_of(js, lits->items, lits->n, &shapes.items[i], &view));
        status = types_of_shape(js, &view, &more);
        *out |= more;
    }
    if (status != DI_ERR_UNSUPPORTED)
        return status;
    js->is_named = false;
    *out = types;
    return DI_OK;
}

di_status di_js_types_left(di_js *js, const di_js_lit *lits, size_t n, uint32_t types,
                           uint32_t *out)
{
    enum { DEPTH_MOST = 6 };
    di_js_lits simple;
    bool is_referred, is_false;
    int64_t known;
    DI_TRY(di_js_simplify(js, lits, n, &simple, &is_referred, &is_false));
    *out = is_false ? 0 : types;
    if (*out == 0 || simple.n == 0 || js->empty_depth >= DEPTH_MOST)
        return DI_OK;
    di_js_lit *key;
    DI_TRY(DI_ARENA_NEW(&js->scratch, simple.n + 1, &key));
    memcpy(key, simple.items, simple.n * sizeof *key);
    key[simple.n] = types;
    const size_t n_bytes = (simple.n + 1) * sizeof *key;
    if (di_strmap_get(&js->empty_goals, (const char *)key, n_bytes, &known)) {
        *out = (uint32_t)known;
        return DI_OK;
    }
    /* Not empty as far as its own parts are concerned. */
    DI_TRY(di_strmap_put(&js->empty_goals, (const char *)key, n_bytes, types, NULL));
    js->empty_depth++;
    const di_status status = find_types(js, &simple, types, out);
    js->empty_depth--;
    DI_TRY(status);
    return di_strmap_put(&js->empty_goals, (const char *)key, n_bytes, *out, NULL);
}

di_status di_js_is_empty(di_js *js, const di_js_lit *lits, size_t n, bool *out)
{
    uint32_t types;
    DI_TRY(di_js_types_left(js, lits, n, DI_JS_ANY, &types));
    *out = types == 0;
    return DI_OK;
}
