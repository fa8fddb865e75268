/* What does not satisfy a schema: one of its keywords must fail. */
#include <string.h>

#include "grammar/json_schema_impl.h"

typedef struct negation {
    di_js *js;
    const di_js_shapes *from;
    di_js_shapes *to;
} negation;

static di_status cannot(const di_sj_value *at)
{
    DI_BUF_AUTO pointer = {0};
    DI_TRY(di_sj_pointer(at, &pointer));
    return di_fail(DI_ERR_UNSUPPORTED, "%s cannot be negated", di_buf_str(&pointer));
}

/* The shapes restricted to `types`, to which more facts are added. */
static di_status start(const negation * not, uint32_t types, di_js_shapes *branch)
{
    DI_TRY(di_js_shapes_copy(not ->js, not ->from, branch));
    di_js_restrict(branch, types);
    return DI_OK;
}

static di_status finish(const negation * not, const di_js_shapes *branch)
{
    return di_js_shapes_append(not ->js, not ->to, branch);
}

static di_status with_fact(const negation * not, uint32_t types, di_js_fact fact)
{
    di_js_shapes branch;
    DI_TRY(start(not, types, &branch));
    DI_TRY(di_js_add_fact(not ->js, &branch, fact));
    return finish(not, &branch);
}

static di_status with_literal(const negation * not, di_js_lit lit)
{
    di_js_shapes branch;
    DI_TRY(start(not, DI_JS_ANY, &branch));
    DI_TRY(di_js_apply(not ->js, lit, &branch));
    return finish(not, &branch);
}

static di_js_lit negated(const di_sj_value *schema)
{
    return di_js_negate(di_js_lit_of(schema));
}

static di_status negate_type(const negation * not, const di_sj_value *at)
{
    uint32_t types;
    di_js_shapes branch;
    DI_TRY(di_js_types(at, &types));
    const di_sj_value *nullable = di_sj_get(at->parent, "nullable");
    if (nullable != NULL && nullable->type == DI_SJ_TRUE)
        types |= DI_JS_NULL;
    DI_TRY(start(not, DI_JS_ANY & ~types, &branch));
    return finish(not, &branch);
}

static di_status negate_bound(const negation * not, const di_sj_value *at, di_js_keyword keyword)
{
    const bool is_least = keyword == DI_JS_KEY_MINIMUM || keyword == DI_JS_KEY_EXCLUSIVE_MINIMUM;
    if (at->type == DI_SJ_TRUE || at->type == DI_SJ_FALSE)
        return DI_OK;
    if (at->type != DI_SJ_NUMBER)
        return di_js_malformed(at, "a number");
    return with_fact(not, DI_JS_NUMBER,
                     (di_js_fact){.kind = is_least ? DI_JS_FACT_MAXIMUM : DI_JS_FACT_MINIMUM,
                                  .value = at,
                                  .is_exclusive = !di_js_is_exclusive(at, keyword)});
}

static di_status negate_least(const negation * not, const di_sj_value *at, uint32_t types,
                              di_js_fact_kind most)
{
    uint32_t count;
    DI_TRY(di_js_count(at, &count));
    if (count == 0)
        return DI_OK;
    return with_fact(not, types,
                     (di_js_fact){.kind = most, .value = at, .min = count - 1, .max = count - 1});
}

static di_status negate_most(const negation * not, const di_sj_value *at, uint32_t types,
                             di_js_fact_kind least)
{
    uint32_t count;
    DI_TRY(di_js_count(at, &count));
    return with_fact(not, types,
                     (di_js_fact){.kind = least, .value = at, .min = count + 1, .max = count + 1});
}

static di_status negate_text(const negation * not, const di_sj_value *at, di_js_fact_kind kind)
{
    if (at->type != DI_SJ_STRING)
        return di_js_malformed(at, "a string");
    if (kind == DI_JS_FACT_FORMAT) {
        di_js_pattern *format;
        DI_TRY(di_js_format_of(not ->js, at, &format));
        if (format->expr == NULL)
            return DI_OK; /* always holds */
    }
    return with_fact(not, DI_JS_STRING,
                     (di_js_fact){.kind = kind, .value = at, .is_negative = true});
}

static di_status negate_required(const negation * not, const di_sj_value *at)
{
    if (at->type != DI_SJ_ARRAY)
        return di_js_malformed(at, "an array of names");
    for (uint32_t i = 0; i < at->n; i++) {
        if (at->items[i].type != DI_SJ_STRING)
            return di_js_malformed(&at->items[i], "a name");
        di_js_shapes branch;
        DI_TRY(start(not, DI_JS_OBJECT, &branch));
        DI_TRY(di_js_forbid(not ->js, &branch, (di_js_name){at->items[i].text, at->items[i].len}));
        DI_TRY(finish(not, &branch));
    }
    return DI_OK;
}

static di_status with_property(const negation * not, di_js_name name, di_js_lit lit)
{
    di_js_shapes branch;
    if (lit == DI_JS_FALSE)
        return DI_OK;
    DI_TRY(start(not, DI_JS_OBJECT, &branch));
    DI_TRY(di_js_require(not ->js, &branch, name));
    DI_TRY(di_js_add_fact(
        not ->js, &branch,
        (di_js_fact){
            .kind = DI_JS_FACT_PROPERTY, .lit = lit, .name = name.text, .name_len = name.len}));
    return finish(not, &branch);
}

/* True for `true` and {}. */
static bool is_anything(const di_sj_value *schema)
{
    return schema->type == DI_SJ_TRUE || (schema->type == DI_SJ_OBJECT && schema->n == 0);
}

static di_js_lit negated_part(const di_sj_value *schema)
{
    if (is_anything(schema))
        return DI_JS_FALSE;
    return schema->type == DI_SJ_FALSE ? DI_JS_TRUE : negated(schema);
}

static di_status negate_properties(const negation * not, const di_sj_value *at)
{
    if (at->type != DI_SJ_OBJECT)
        return di_js_malformed(at, "an object");
    for (uint32_t i = 0; i < at->n; i++)
        DI_TRY(with_property(not, (di_js_name){at->items[i].key, at->items[i].key_len},
                             negated_part(&at->items[i])));
    return DI_OK;
}

/* Some name fails: only if the failing ones can be listed. */
static di_status negate_names(const negation * not, const di_sj_value *at)
{
    const di_js_lit lit = negated_part(at);
    if (lit == DI_JS_FALSE)
        return DI_OK;
    if (lit == DI_JS_TRUE)
        return with_fact(not, DI_JS_OBJECT,
                         (di_js_fact){.kind = DI_JS_FACT_MIN_PROPERTIES, .min = 1, .max = 1});
    bool is_finite;
    const di_sj_value **values;
    size_t n;
    DI_TRY(di_js_list_values(not ->js, &lit, 1, &is_finite, &values, &n));
    if (!is_finite)
        return cannot(at);
    for (size_t i = 0; i < n; i++) {
        if (values[i]->type != DI_SJ_STRING)
            continue;
        di_js_shapes branch;
        DI_TRY(start(not, DI_JS_OBJECT, &branch));
        DI_TRY(di_js_require(not ->js, &branch, (di_js_name){values[i]->text, values[i]->len}));
        DI_TRY(finish(not, &branch));
    }
    return DI_OK;
}

static di_status negate_item(const negation * not, const di_sj_value *schema, uint32_t index)
{
    const di_js_lit lit = negated_part(schema);
    if (lit == DI_JS_FALSE)
        return DI_OK;
    di_js_shapes branch;
    DI_TRY(start(not, DI_JS_ARRAY, &branch));
    DI_TRY(di_js_add_fact(
        not ->js, &branch,
        (di_js_fact){.kind = DI_JS_FACT_MIN_ITEMS, .min = index + 1, .max = index + 1}));
    DI_TRY(di_js_add_fact(not ->js, &branch,
                          (di_js_fact){.kind = DI_JS_FACT_ITEM, .lit = lit, .min = index}));
    return finish(not, &branch);
}

/* An item behind the first `skip` fails. */
static di_status negate_rest(const negation * not, const di_sj_value *schema, uint32_t skip)
{
    const di_js_lit lit = negated_part(schema);
    if (lit == DI_JS_FALSE)
        return DI_OK;
    if (lit == DI_JS_TRUE)
        return with_fact(
            not, DI_JS_ARRAY,
            (di_js_fact){.kind = DI_JS_FACT_MIN_ITEMS, .min = skip + 1, .max = skip + 1});
    if (skip > 0)
        return cannot(schema);
    return with_fact(not, DI_JS_ARRAY,
                     (di_js_fact){.kind = DI_JS_FACT_CONTAINS,
                                  .value = schema,
                                  .lit = lit,
                                  .min = 1,
                                  .max = DI_REPEAT_INF});
}

static di_status negate_items(const negation * not, const di_sj_value *schema)
{
    const di_sj_value *items = di_sj_get(schema, "items");
    const di_sj_value *prefix = di_sj_get(schema, "prefixItems");
    const di_sj_value *rest = items;
    if (prefix == NULL && items != NULL && items->type == DI_SJ_ARRAY) {
        prefix = items;
        rest = di_sj_get(schema, "additionalItems");
    }
    for (uint32_t i = 0; prefix != NULL && i < prefix->n; i++)
        DI_TRY(negate_item(not, &prefix->items[i], i));
    return rest == NULL ? DI_OK : negate_rest(not, rest, prefix != NULL ? prefix->n : 0);
}

static di_status negate_contains(const negation * not, const di_sj_value *at)
{
    uint32_t min, max;
    DI_TRY(di_js_contains_counts(not ->js, at, &min, &max));
    di_js_fact fact = {.kind = DI_JS_FACT_CONTAINS, .value = at, .lit = di_js_lit_of(at)};
    if (min > 0) {
        fact.max = min - 1;
        DI_TRY(with_fact(not, DI_JS_ARRAY, fact));
    }
    if (max == DI_REPEAT_INF)
        return DI_OK;
    fact.min = max + 1;
    fact.max = DI_REPEAT_INF;
    return with_fact(not, DI_JS_ARRAY, fact);
}

static di_status negate_any_of(const negation * not, const di_sj_value *at)
{
    di_js_shapes branch;
    if (at->type != DI_SJ_ARRAY || at->n == 0)
        return di_js_malformed(at, "a list of schemas");
    DI_TRY(start(not, DI_JS_ANY, &branch));
    for (uint32_t i = 0; i < at->n && branch.n > 0; i++)
        DI_TRY(di_js_apply(not ->js, negated(&at->items[i]), &branch));
    return finish(not, &branch);
}

static di_status negate_all_of(const negation * not, const di_sj_value *at)
{
    if (at->type != DI_SJ_ARRAY)
        return di_js_malformed(at, "a list of schemas");
    for (uint32_t i = 0; i < at->n; i++)
        DI_TRY(with_literal(not, negated(&at->items[i])));
    return DI_OK;
}

/* None of them, or two of them. */
static di_status negate_one_of(const negation * not, const di_sj_value *at)
{
    DI_TRY(negate_any_of(not, at));
    for (uint32_t i = 0; i < at->n; i++)
        for (uint32_t j = i + 1; j < at->n; j++) {
            di_js_shapes branch;
            DI_TRY(start(not, DI_JS_ANY, &branch));
            DI_TRY(di_js_apply(not ->js, di_js_lit_of(&at->items[i]), &branch));
            DI_TRY(di_js_apply(not ->js, di_js_lit_of(&at->items[j]), &branch));
            DI_TRY(finish(not, &branch));
        }
    return DI_OK;
}

static di_status negate_if(const negation * not, const di_sj_value *at)
{
    const di_sj_value *then = di_sj_get(at->parent, "then"), *other = di_sj_get(at->parent, "else");
    di_js_shapes branch;
    if (then != NULL) {
        DI_TRY(start(not, DI_JS_ANY, &branch));
        DI_TRY(di_js_apply(not ->js, di_js_lit_of(at), &branch));
        DI_TRY(di_js_apply(not ->js, negated(then), &branch));
        DI_TRY(finish(not, &branch));
    }
    if (other != NULL) {
        DI_TRY(start(not, DI_JS_ANY, &branch));
        DI_TRY(di_js_apply(not ->js, negated(at), &branch));
        DI_TRY(di_js_apply(not ->js, negated(other), &branch));
        DI_TRY(finish(not, &branch));
    }
    return DI_OK;
}

static di_status negate_dependency(const negation * not, const di_sj_value *at)
{
    const bool is_list = at->type == DI_SJ_ARRAY;
    for (uint32_t i = 0; i < (is_list ? at->n : 1); i++) {
        di_js_shapes branch;
        DI_TRY(start(not, DI_JS_OBJECT, &branch));
        DI_TRY(di_js_require(not ->js, &branch, (di_js_name){at->key, at->key_len}));
        if (!is_list)
            DI_TRY(di_js_apply(not ->js, negated_part(at), &branch));
        else if (at->items[i].type != DI_SJ_STRING)
            return di_js_malformed(&at->items[i], "a name");
        else
            DI_TRY(
                di_js_forbid(not ->js, &branch, (di_js_name){at->items[i].text, at->items[i].len}));
        DI_TRY(finish(not, &branch));
    }
    return DI_OK;
}

static di_status negate_dependencies(const negation * not, const di_sj_value *at)
{
    if (at->type != DI_SJ_OBJECT)
        return di_js_malformed(at, "an object");
    for (uint32_t i = 0; i < at->n; i++)
        DI_TRY(negate_dependency(not, &at->items[i]));
    return DI_OK;
}

/* Patterns of names fail only where some name is written: not expressible beside other members. */
static di_status negate_patterns(const di_sj_value *at)
{
    if (at->type != DI_SJ_OBJECT)
        return di_js_malformed(at, "an object");
    for (uint32_t i = 0; i < at->n; i++)
        if (!is_anything(&at->items[i]))
            return cannot(at);
    return DI_OK;
}

static di_status negate_ref(const negation * not, const di_sj_value *at)
{
    const di_sj_value *target;
    DI_TRY(di_js_resolve(not ->js, at, &target));
    return target == NULL ? DI_OK : with_literal(not, negated(target));
}

static di_status negate_number(const negation * not, const di_sj_value *at, di_js_keyword keyword)
{
    if (keyword != DI_JS_KEY_MULTIPLE_OF)
        return negate_bound(not, at, keyword);
    if (at->type != DI_SJ_NUMBER || di_sj_number_compare(at->text, "0") <= 0)
        return di_js_malformed(at, "a number above 0");
    return with_fact(not, DI_JS_NUMBER,
                     (di_js_fact){.kind = DI_JS_FACT_MULTIPLE, .value = at, .is_negative = true});
}

static di_status negate_value_keyword(const negation * not, const di_sj_value *at,
                                      di_js_keyword keyword)
{
    switch (keyword) {
    case DI_JS_KEY_TYPE:
        return negate_type(not, at);
    case DI_JS_KEY_ENUM:
        if (at->type != DI_SJ_ARRAY)
            return di_js_malformed(at, "an array");
        return with_fact(not, DI_JS_ANY,
                         (di_js_fact){.kind = DI_JS_FACT_ENUM, .value = at, .is_negative = true});
    case DI_JS_KEY_CONST:
        return with_fact(not, DI_JS_ANY,
                         (di_js_fact){.kind = DI_JS_FACT_CONST, .value = at, .is_negative = true});
    case DI_JS_KEY_MINIMUM:
    case DI_JS_KEY_EXCLUSIVE_MINIMUM:
    case DI_JS_KEY_MAXIMUM:
    case DI_JS_KEY_EXCLUSIVE_MAXIMUM:
    case DI_JS_KEY_MULTIPLE_OF:
        return negate_number(not, at, keyword);
    case DI_JS_KEY_MIN_LENGTH:
        return negate_least(not, at, DI_JS_STRING, DI_JS_FACT_MAX_LENGTH);
    case DI_JS_KEY_MAX_LENGTH:
        return negate_most(not, at, DI_JS_STRING, DI_JS_FACT_MIN_LENGTH);
    case DI_JS_KEY_MIN_ITEMS:
        return negate_least(not, at, DI_JS_ARRAY, DI_JS_FACT_MAX_ITEMS);
    case DI_JS_KEY_MAX_ITEMS:
        return negate_most(not, at, DI_JS_ARRAY, DI_JS_FACT_MIN_ITEMS);
    case DI_JS_KEY_MIN_PROPERTIES:
        return negate_least(not, at, DI_JS_OBJECT, DI_JS_FACT_MAX_PROPERTIES);
    case DI_JS_KEY_MAX_PROPERTIES:
        return negate_most(not, at, DI_JS_OBJECT, DI_JS_FACT_MIN_PROPERTIES);
    case DI_JS_KEY_PATTERN:
        return negate_text(not, at, DI_JS_FACT_PATTERN);
    case DI_JS_KEY_FORMAT:
        return negate_text(not, at, DI_JS_FACT_FORMAT);
    case DI_JS_KEY_UNIQUE_ITEMS:
        return at->type == DI_SJ_TRUE ? cannot(at) : DI_OK;
    case DI_JS_KEY_REQUIRED:
        return negate_required(not, at);
    default:
        return DI_OK;
    }
}

/* The types that a keyword says something about. */
static uint32_t types_about(di_js_keyword keyword)
{
    switch (keyword) {
    case DI_JS_KEY_PROPERTIES:
    case DI_JS_KEY_PATTERN_PROPERTIES:
    case DI_JS_KEY_ADDITIONAL_PROPERTIES:
    case DI_JS_KEY_PROPERTY_NAMES:
    case DI_JS_KEY_UNEVALUATED_PROPERTIES:
    case DI_JS_KEY_DEPENDENT_REQUIRED:
    case DI_JS_KEY_DEPENDENT_SCHEMAS:
    case DI_JS_KEY_DEPENDENCIES:
        return DI_JS_OBJECT;
    case DI_JS_KEY_PREFIX_ITEMS:
    case DI_JS_KEY_ITEMS:
    case DI_JS_KEY_CONTAINS:
    case DI_JS_KEY_UNIQUE_ITEMS:
    case DI_JS_KEY_UNEVALUATED_ITEMS:
        return DI_JS_ARRAY;
    default:
        return DI_JS_ANY;
    }
}

static bool has_type(const di_js_shapes *shapes, uint32_t types)
{
    for (size_t i = 0; i < shapes->n; i++)
        if (shapes->items[i].types & types)
            return true;
    return false;
}

static di_status negate_schema_keyword(const negation * not, const di_sj_value *at,
                                       di_js_keyword keyword)
{
    const di_sj_value *schema = at->parent;
    switch (keyword) {
    case DI_JS_KEY_PROPERTIES:
        return negate_properties(not, at);
    case DI_JS_KEY_PATTERN_PROPERTIES:
        return negate_patterns(at);
    case DI_JS_KEY_ADDITIONAL_PROPERTIES:
    case DI_JS_KEY_UNEVALUATED_ITEMS:
    case DI_JS_KEY_UNEVALUATED_PROPERTIES:
        return is_anything(at) ? DI_OK : cannot(at);
    case DI_JS_KEY_PROPERTY_NAMES:
        return negate_names(not, at);
    case DI_JS_KEY_PREFIX_ITEMS:
        return negate_items(not, schema);
    case DI_JS_KEY_ITEMS:
        return di_sj_get(schema, "prefixItems") != NULL ? DI_OK : negate_items(not, schema);
    case DI_JS_KEY_CONTAINS:
        return negate_contains(not, at);
    case DI_JS_KEY_REF:
    case DI_JS_KEY_DYNAMIC_REF:
    case DI_JS_KEY_RECURSIVE_REF:
        return negate_ref(not, at);
    case DI_JS_KEY_ALL_OF:
        return negate_all_of(not, at);
    case DI_JS_KEY_ANY_OF:
        return negate_any_of(not, at);
    case DI_JS_KEY_ONE_OF:
        return negate_one_of(not, at);
    case DI_JS_KEY_NOT:
        return with_literal(not, di_js_lit_of(at));
    case DI_JS_KEY_IF:
        return negate_if(not, at);
    case DI_JS_KEY_DEPENDENT_REQUIRED:
    case DI_JS_KEY_DEPENDENT_SCHEMAS:
    case DI_JS_KEY_DEPENDENCIES:
        return negate_dependencies(not, at);
    default:
        return negate_value_keyword(not, at, keyword);
    }
}

di_status di_js_apply_negation(di_js *js, const di_sj_value *schema, di_js_shapes *shapes)
{
    if (schema->type == DI_SJ_TRUE)
        shapes->n = 0;
    if (schema->type == DI_SJ_TRUE || schema->type == DI_SJ_FALSE)
        return DI_OK;
    if (schema->type != DI_SJ_OBJECT)
        return di_js_malformed(schema, "a schema: an object, true or false");
    di_js_shapes result = {0};
    const negation not = {.js = js, .from = shapes, .to = &result};
    const bool is_only_ref = di_js_is_only_ref(js, schema);
    for (uint32_t i = 0; i < schema->n; i++) {
        const di_sj_value *at = &schema->items[i];
        const di_js_keyword keyword = di_js_keyword_of(at->key, at->key_len);
        if (keyword == DI_JS_KEY_UNKNOWN || (is_only_ref && keyword != DI_JS_KEY_REF) ||
            !di_js_knows(js, keyword) || !has_type(shapes, types_about(keyword)))
            continue;
        DI_TRY(negate_schema_keyword(&not, at, keyword));
    }
    *shapes = result;
    return DI_OK;
}
