/* Arrays: the goals of their items, and how many there are. json_schema_counted.c does contains
 * and uniqueItems. */
#include <string.h>

#include "grammar/json_schema_array.h"

/* The keywords about items of one schema. */
typedef struct item_keywords {
    const di_sj_value *prefix, *rest; /* NULL: silent */
} item_keywords;

static item_keywords keywords_of(const di_js *js, const di_sj_value *schema)
{
    item_keywords k = {.rest = di_sj_get(schema, "items")};
    if (js->draft >= 2020)
        k.prefix = di_sj_get(schema, "prefixItems");
    if (k.prefix == NULL && k.rest != NULL && k.rest->type == DI_SJ_ARRAY) {
        k.prefix = k.rest;
        k.rest = di_sj_get(schema, "additionalItems");
    }
    return k;
}

/* A schema that the document does not hold: anyOf of some that it does. */
static di_status make_any_of(di_js *js, const di_sj_value *const *schemas, uint32_t n,
                             di_js_lit *out)
{
    DI_BUF_AUTO key = {0};
    int64_t id;
    for (uint32_t i = 0; i < n; i++)
        DI_TRY(di_buf_append(&key, &schemas[i]->id, sizeof schemas[i]->id));
    if (di_strmap_get(&js->made, di_buf_str(&key), key.len, &id)) {
        *out = 2 * (di_js_lit)id;
        return DI_OK;
    }
    di_sj_value *schema, *list;
    DI_TRY(DI_ARENA_ZNEW(&js->scratch, 1, &schema));
    DI_TRY(DI_ARENA_ZNEW(&js->scratch, 1, &list));
    *schema = (di_sj_value){.type = DI_SJ_OBJECT, .n = 1, .items = list};
    *list =
        (di_sj_value){.type = DI_SJ_ARRAY, .n = n, .key = "anyOf", .key_len = 5, .parent = schema};
    schema->parent = schemas[n - 1]->parent;
    schema->key = schemas[n - 1]->key;
    schema->key_len = schemas[n - 1]->key_len;
    DI_TRY(DI_ARENA_NEW(&js->scratch, n, &list->items));
    for (uint32_t i = 0; i < n; i++)
        list->items[i] = *schemas[i];
    di_sj_document *d = &js->document;
    di_sj_value **values;
    DI_TRY(DI_ARENA_NEW(&js->scratch, d->n_values + 1, &values));
    memcpy(values, d->values, d->n_values * sizeof(di_sj_value *));
    d->values = values;
    schema->id = d->n_values;
    values[d->n_values++] = schema;
    *out = di_js_lit_of(schema);
    return di_strmap_put(&js->made, di_buf_str(&key), key.len, schema->id, NULL);
}

/* Where the schema begins whose unevaluatedItems (or ...Properties) is fact `end`. */
size_t di_js_frame_of(const di_js_view *view, size_t end)
{
    const di_sj_value *schema = view->facts[end]->value->parent;
    size_t i = end;
    while (i > 0 && !(view->facts[i]->kind == DI_JS_FACT_FRAME && view->facts[i]->value == schema))
        i--;
    return i;
}

/* unevaluatedItems, fact number `end`, for the item at an index. */
static di_status add_unevaluated(di_js *js, const di_js_view *view, size_t end, uint32_t index,
                                 di_js_lits *lits)
{
    const di_sj_value *at = view->facts[end]->value;
    const di_sj_value *schemas[16];
    uint32_t n = 0;
    if (at->type == DI_SJ_TRUE)
        return DI_OK;
    for (size_t i = di_js_frame_of(view, end); i < end; i++) {
        const di_js_fact *fact = view->facts[i];
        if (fact->kind == DI_JS_FACT_REST_ITEMS)
            return DI_OK;
        if (fact->kind == DI_JS_FACT_ARRAY && fact->is_evaluating) {
            const item_keywords k = keywords_of(js, fact->value);
            if (k.rest != NULL || (k.prefix != NULL && index < k.prefix->n))
                return DI_OK;
        }
        if (fact->kind == DI_JS_FACT_CONTAINS && fact->is_evaluating && js->draft >= 2020) {
            if (n == 15)
                return di_fail(DI_ERR_UNSUPPORTED, "more than 15 contains");
            schemas[n++] = fact->value;
        }
    }
    schemas[n++] = at;
    di_js_lit lit = di_js_lit_of(at);
    if (n > 1)
        DI_TRY(make_any_of(js, schemas, n, &lit));
    return di_js_lits_add(js, lits, lit);
}

/* Items behind the prefix, where nothing is said about them: not in strict mode. */
static bool is_closed_at(const di_js *js, const di_js_view *view, uint32_t index)
{
    bool has_prefix = false;
    for (size_t i = 0; i < view->n_facts; i++) {
        const di_js_fact *fact = view->facts[i];
        if (fact->kind == DI_JS_FACT_REST_ITEMS)
            return false;
        if (fact->kind != DI_JS_FACT_ARRAY || !fact->is_evaluating)
            continue;
        const item_keywords k = keywords_of(js, fact->value);
        if (k.rest != NULL || (k.prefix != NULL && index < k.prefix->n))
            return false;
        has_prefix |= k.prefix != NULL;
    }
    return has_prefix;
}

di_status di_js_item_lits(di_js *js, const di_js_view *view, uint32_t index, di_js_lits *lits)
{
    *lits = (di_js_lits){0};
    for (size_t i = 0; i < view->n_facts; i++) {
        const di_js_fact *fact = view->facts[i];
        const di_sj_value *own = NULL;
        if (fact->kind == DI_JS_FACT_ARRAY) {
            const item_keywords k = keywords_of(js, fact->value);
            own = k.prefix != NULL && index < k.prefix->n ? &k.prefix->items[index] : k.rest;
        }
        if (own != NULL)
            DI_TRY(di_js_lits_add(js, lits, di_js_lit_of(own)));
        if (fact->kind == DI_JS_FACT_ITEMS || (fact->kind == DI_JS_FACT_ITEM && fact->min == index))
            DI_TRY(di_js_lits_add(js, lits, fact->lit));
        if (fact->kind == DI_JS_FACT_REST_ITEMS)
            DI_TRY(add_unevaluated(js, view, i, index, lits));
    }
    if (js->options->strict && is_closed_at(js, view, index))
        DI_TRY(di_js_lits_add(js, lits, DI_JS_FALSE));
    return DI_OK;
}

/* contains true is a number of items; contains false is nothing or no array at all. */
static di_status add_contains(di_js *js, const di_js_fact *fact, di_js_array *a)
{
    bool is_none = fact->lit == DI_JS_FALSE, is_all = fact->lit == DI_JS_TRUE;
    if (!is_none && !is_all) {
        const di_sj_value *schema = di_js_schema_of(js, fact->lit);
        const bool is_negated = (fact->lit & 1) != 0;
        const bool is_true =
            schema->type == DI_SJ_TRUE || (schema->type == DI_SJ_OBJECT && schema->n == 0);
        is_all = is_negated ? schema->type == DI_SJ_FALSE : is_true;
        is_none = is_negated ? is_true : schema->type == DI_SJ_FALSE;
    }
    if (is_all) {
        a->min = fact->min > a->min ? fact->min : a->min;
        a->max = fact->max < a->max ? fact->max : a->max;
    } else if (is_none) {
        if (fact->min > 0)
            a->max = 0, a->min = 1;
    } else if (fact->min > 0 || fact->max < DI_REPEAT_INF) {
        a->contains[a->n_contains++] = fact;
    }
    return DI_OK;
}

di_status di_js_array_of(di_js *js, const di_js_view *view, di_js_array *a)
{
    *a = (di_js_array){.max = DI_REPEAT_INF, .view = view};
    DI_TRY(DI_ARENA_NEW(&js->scratch, view->n_facts, &a->contains));
    for (size_t i = 0; i < view->n_facts; i++) {
        const di_js_fact *fact = view->facts[i];
        if (fact->kind == DI_JS_FACT_MIN_ITEMS && fact->min > a->min)
            a->min = fact->min;
        if (fact->kind == DI_JS_FACT_MAX_ITEMS && fact->max < a->max)
            a->max = fact->max;
        if (fact->kind == DI_JS_FACT_ITEM && fact->min >= a->n_special)
            a->n_special = fact->min + 1;
        if (fact->kind == DI_JS_FACT_ARRAY) {
            const item_keywords k = keywords_of(js, fact->value);
            if (k.prefix != NULL && k.prefix->type != DI_SJ_ARRAY)
                return di_js_malformed(k.prefix, "a list of schemas");
            if (k.prefix != NULL && k.prefix->n > a->n_special)
                a->n_special = k.prefix->n;
        }
        if (fact->kind == DI_JS_FACT_CONTAINS)
            DI_TRY(add_contains(js, fact, a));
        if (fact->kind == DI_JS_FACT_UNIQUE)
            a->unique = fact->value;
        if (fact->kind == DI_JS_FACT_CONST && fact->is_negative && fact->value->type == DI_SJ_ARRAY)
            a->excluded = fact->value;
        for (uint32_t k = 0;
             fact->kind == DI_JS_FACT_ENUM && fact->is_negative && k < fact->value->n; k++)
            if (fact->value->items[k].type == DI_SJ_ARRAY)
                a->excluded = &fact->value->items[k];
    }
    return DI_OK;
}

/* Negated enum and const: the empty array is a matter of length, others would have to be told
 * apart item by item. */
static di_status leave_out(di_js *js, const di_js_view *view, di_js_array *a)
{
    for (size_t i = 0; i < view->n_facts && a->excluded != NULL; i++) {
        const di_js_fact *fact = view->facts[i];
        const bool is_const = fact->kind == DI_JS_FACT_CONST;
        if (!fact->is_negative || (!is_const && fact->kind != DI_JS_FACT_ENUM))
            continue;
        for (uint32_t k = 0; k < (is_const ? 1 : fact->value->n); k++) {
            const di_sj_value *value = is_const ? fact->value : &fact->value->items[k];
            if (value->type != DI_SJ_ARRAY)
                continue;
            if (value->n == 0)
                a->min = a->min > 0 ? a->min : 1;
            else if (value->n >= a->min && value->n <= a->max)
                DI_TRY(di_js_refuse(js, fact->value, "a certain array must not occur"));
        }
    }
    return DI_OK;
}

/* A chain of optional items as rules of so many: deep expressions are hard on whoever walks them.
 */
enum { CHAIN = 32 };

static di_status prefix_chain(di_js *js, const di_js_array *a, const di_expr *comma,
                              const di_expr *tail, const di_expr **out)
{
    const uint32_t level = a->view->level + 1;
    const uint32_t n = a->n_special < a->max ? a->n_special : a->max;
    for (uint32_t i = n; i-- > 0;) {
        di_js_lits lits;
        const di_expr *item;
        DI_TRY(di_js_item_lits(js, a->view, i, &lits));
        DI_TRY(di_js_emit(js, lits.items, lits.n, level, &item));
        if (i > 0)
            DI_TRY(DI_EXPR_SEQ_OF(js->arena, &tail, comma, item, tail));
        else
            DI_TRY(DI_EXPR_SEQ_OF(js->arena, &tail, item, tail));
        if (i > 0 && i >= a->min)
            DI_TRY(di_expr_repeat(js->arena, tail, 0, 1, &tail));
        if (i > 0 && i % CHAIN == 0) {
            const di_expr *body = tail;
            uint32_t rule;
            DI_TRY(di_js_rule_new(js, "items", &rule, &tail));
            di_js_rule_set(js, rule, body);
        }
    }
    *out = tail;
    return DI_OK;
}

static di_status plain_items(di_js *js, const di_js_array *a, const di_expr **out)
{
    const di_expr *comma, *item = di_expr_nothing(), *rest;
    DI_TRY(di_js_comma(js, a->view->level, &comma));
    if (a->max > a->n_special) {
        di_js_lits lits;
        DI_TRY(di_js_item_lits(js, a->view, a->n_special, &lits));
        DI_TRY(di_js_emit(js, lits.items, lits.n, a->view->level + 1, &item));
        DI_TRY(di_js_share(js, "item", item, &item));
    }
    DI_TRY(DI_EXPR_SEQ_OF(js->arena, &rest, comma, item));
    const uint32_t done = a->n_special > 0 ? a->n_special : 1;
    const uint32_t min = a->min > done ? a->min - done : 0;
    const uint32_t max = a->max == DI_REPEAT_INF ? DI_REPEAT_INF
                         : a->max > done         ? a->max - done
                                                 : 0;
    DI_TRY(di_expr_repeat(js->arena, rest, min, max, &rest));
    if (a->n_special > 0)
        return prefix_chain(js, a, comma, rest, out);
    return DI_EXPR_SEQ_OF(js->arena, out, item, rest);
}

di_status di_js_emit_plain(di_js *js, const di_js_array *a, const di_expr **out)
{
    const di_expr *items = di_expr_nothing();
    if (a->max > 0)
        DI_TRY(plain_items(js, a, &items));
    return di_js_bracketed(js, '[', items, a->min == 0, a->view->level, out);
}

di_status di_js_emit_array(di_js *js, const di_js_view *view, const di_expr **out)
{
    di_js_array a;
    DI_TRY(di_js_array_of(js, view, &a));
    DI_TRY(leave_out(js, view, &a));
    *out = di_expr_nothing();
    if (a.min > a.max)
        return DI_OK;
    if (view->level > DI_JS_LEVELS_MOST) {
        if (a.min > 0)
            return DI_OK;
        a.max = 0;
    }
    if (a.unique != NULL && a.max > 1)
        return di_js_emit_unique(js, &a, out);
    if (a.n_contains > 0)
        return di_js_emit_counted(js, &a, out);
    return di_js_emit_plain(js, &a, out);
}

di_status di_js_array_is_empty(di_js *js, const di_js_view *view, bool *out)
{
    enum { ITEMS_MOST = 16 };
    di_js_array a;
    DI_TRY(di_js_array_of(js, view, &a));
    *out = a.min > a.max;
    for (uint32_t i = 0; i < a.min && i < ITEMS_MOST && !*out; i++) {
        di_js_lits lits;
        DI_TRY(di_js_item_lits(js, view, i, &lits));
        DI_TRY(di_js_is_empty(js, lits.items, lits.n, out));
    }
    return DI_OK;
}
