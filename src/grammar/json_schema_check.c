/* Does a value satisfy a schema? For the values of enum and const, which are few and known. */
#include <string.h>

#include "grammar/json_schema_impl.h"

uint32_t di_js_type_of(const di_sj_value *value)
{
    switch (value->type) {
    case DI_SJ_NULL:
        return DI_JS_NULL;
    case DI_SJ_FALSE:
    case DI_SJ_TRUE:
        return DI_JS_BOOL;
    case DI_SJ_NUMBER:
        return di_sj_number_is_integer(value->text) ? DI_JS_INTEGER : DI_JS_FRACTION;
    case DI_SJ_STRING:
        return DI_JS_STRING;
    case DI_SJ_ARRAY:
        return DI_JS_ARRAY;
    case DI_SJ_OBJECT:
        break;
    }
    return DI_JS_OBJECT;
}

static di_js_verdict yes_if(bool condition)
{
    return condition ? DI_JS_YES : DI_JS_NO;
}

static di_js_verdict opposite(di_js_verdict verdict)
{
    return verdict == DI_JS_UNKNOWN ? verdict : yes_if(verdict == DI_JS_NO);
}

static di_js_verdict both(di_js_verdict a, di_js_verdict b)
{
    if (a == DI_JS_NO || b == DI_JS_NO)
        return DI_JS_NO;
    return a == DI_JS_YES && b == DI_JS_YES ? DI_JS_YES : DI_JS_UNKNOWN;
}

static uint32_t count_characters(const di_sj_value *value)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < value->len; i++)
        n += ((unsigned char)value->text[i] & 0xC0) != 0x80;
    return n;
}

static di_status check_part(di_js *js, const di_sj_value *value, const di_sj_value *schema,
                            di_js_verdict *all)
{
    di_js_verdict verdict;
    if (*all == DI_JS_NO)
        return DI_OK;
    DI_TRY(di_js_check(js, value, di_js_lit_of(schema), &verdict));
    *all = both(*all, verdict);
    return DI_OK;
}

static di_status check_text(di_js *js, const di_sj_value *value, const di_sj_value *at,
                            bool is_format, di_js_verdict *out)
{
    di_js_pattern *pattern;
    const di_dfa *dfa;
    if (value->type != DI_SJ_STRING)
        return DI_OK;
    if (is_format)
        DI_TRY(di_js_format_of(js, at, &pattern));
    else
        DI_TRY(di_js_pattern_of(js, at, false, &pattern));
    if (pattern->expr == NULL)
        return DI_OK;
    DI_TRY(di_js_pattern_dfa(js, pattern, &dfa));
    *out = yes_if(di_dfa_matches(dfa, value->text, value->len) &&
                  (!is_format || count_characters(value) <= pattern->max));
    return DI_OK;
}

static di_status check_number(const di_sj_value *value, const di_sj_value *at,
                              di_js_keyword keyword, di_js_verdict *out)
{
    bool known = true;
    if (value->type != DI_SJ_NUMBER || at->type == DI_SJ_TRUE || at->type == DI_SJ_FALSE)
        return DI_OK;
    if (at->type != DI_SJ_NUMBER)
        return di_js_malformed(at, "a number");
    const bool is_least = keyword == DI_JS_KEY_MINIMUM || keyword == DI_JS_KEY_EXCLUSIVE_MINIMUM;
    const int order = di_sj_number_compare(value->text, at->text);
    if (keyword == DI_JS_KEY_MULTIPLE_OF)
        *out = yes_if(di_sj_number_is_multiple(value->text, at->text, &known));
    else
        *out = yes_if((is_least ? order > 0 : order < 0) ||
                      (order == 0 && !di_js_is_exclusive(at, keyword)));
    if (!known)
        *out = DI_JS_UNKNOWN;
    return DI_OK;
}

static di_status check_count(const di_sj_value *value, const di_sj_value *at, di_js_keyword keyword,
                             di_js_verdict *out)
{
    uint32_t count;
    DI_TRY(di_js_count(at, &count));
    switch (keyword) {
    case DI_JS_KEY_MIN_LENGTH:
        *out = yes_if(value->type != DI_SJ_STRING || count_characters(value) >= count);
        break;
    case DI_JS_KEY_MAX_LENGTH:
        *out = yes_if(value->type != DI_SJ_STRING || count_characters(value) <= count);
        break;
    case DI_JS_KEY_MIN_ITEMS:
        *out = yes_if(value->type != DI_SJ_ARRAY || value->n >= count);
        break;
    case DI_JS_KEY_MAX_ITEMS:
        *out = yes_if(value->type != DI_SJ_ARRAY || value->n <= count);
        break;
    case DI_JS_KEY_MIN_PROPERTIES:
        *out = yes_if(value->type != DI_SJ_OBJECT || value->n >= count);
        break;
    default:
        *out = yes_if(value->type != DI_SJ_OBJECT || value->n <= count);
        break;
    }
    return DI_OK;
}

static di_js_verdict check_required(const di_sj_value *value, const di_sj_value *at)
{
    for (uint32_t i = 0; at->type == DI_SJ_ARRAY && i < at->n; i++)
        if (di_sj_member(value, at->items[i].text, at->items[i].len) == NULL)
            return DI_JS_NO;
    return DI_JS_YES;
}

static bool is_unique(const di_sj_value *value)
{
    for (uint32_t i = 0; i < value->n; i++)
        for (uint32_t j = i + 1; j < value->n; j++)
            if (di_sj_equal(&value->items[i], &value->items[j]))
                return false;
    return true;
}

/* properties, patternProperties and additionalProperties of one schema. */
static di_status check_members(di_js *js, const di_sj_value *value, const di_sj_value *schema,
                               di_js_verdict *out)
{
    const di_sj_value *properties = di_sj_get(schema, "properties");
    const di_sj_value *patterns = di_sj_get(schema, "patternProperties");
    const di_sj_value *others = di_sj_get(schema, "additionalProperties");
    for (uint32_t i = 0; i < value->n; i++) {
        const di_sj_value *item = &value->items[i];
        const di_sj_value *own =
            properties != NULL ? di_sj_member(properties, item->key, item->key_len) : NULL;
        bool is_known = own != NULL;
        if (own != NULL)
            DI_TRY(check_part(js, item, own, out));
        for (uint32_t k = 0; patterns != NULL && k < patterns->n; k++) {
            di_js_pattern *pattern;
            const di_dfa *dfa;
            DI_TRY(di_js_pattern_of(js, &patterns->items[k], true, &pattern));
            if (pattern->expr == NULL)
                continue;
            DI_TRY(di_js_pattern_dfa(js, pattern, &dfa));
            if (!di_dfa_matches(dfa, item->key, item->key_len))
                continue;
            is_known = true;
            DI_TRY(check_part(js, item, &patterns->items[k], out));
        }
        if (!is_known && others != NULL)
            DI_TRY(check_part(js, item, others, out));
    }
    return DI_OK;
}

static di_status check_items(di_js *js, const di_sj_value *value, const di_sj_value *schema,
                             di_js_verdict *out)
{
    const di_sj_value *items = di_sj_get(schema, "items");
    const di_sj_value *prefix = js->draft >= 2020 ? di_sj_get(schema, "prefixItems") : NULL;
    const di_sj_value *rest = items;
    if (prefix == NULL && items != NULL && items->type == DI_SJ_ARRAY) {
        prefix = items;
        rest = di_sj_get(schema, "additionalItems");
    }
    for (uint32_t i = 0; i < value->n; i++) {
        const di_sj_value *own = prefix != NULL && i < prefix->n ? &prefix->items[i] : rest;
        if (own != NULL)
            DI_TRY(check_part(js, &value->items[i], own, out));
    }
    return DI_OK;
}

static di_status check_contains(di_js *js, const di_sj_value *value, const di_sj_value *at,
                                di_js_verdict *out)
{
    uint32_t min, max, n = 0, n_unknown = 0;
    DI_TRY(di_js_contains_counts(js, at, &min, &max));
    for (uint32_t i = 0; i < value->n; i++) {
        di_js_verdict verdict;
        DI_TRY(di_js_check(js, &value->items[i], di_js_lit_of(at), &verdict));
        n += verdict == DI_JS_YES;
        n_unknown += verdict == DI_JS_UNKNOWN;
    }
    if (n + n_unknown < min || n > max)
        *out = DI_JS_NO;
    else
        *out = n >= min && n + n_unknown <= max ? DI_JS_YES : DI_JS_UNKNOWN;
    return DI_OK;
}

static di_status check_names(di_js *js, const di_sj_value *value, const di_sj_value *at,
                             di_js_verdict *out)
{
    for (uint32_t i = 0; i < value->n && *out != DI_JS_NO; i++) {
        di_js_verdict verdict;
        DI_TRY(di_js_check_name(js, (di_js_name){value->items[i].key, value->items[i].key_len},
                                di_js_lit_of(at), &verdict));
        *out = both(*out, verdict);
    }
    return DI_OK;
}

static di_status check_any_of(di_js *js, const di_sj_value *value, const di_sj_value *at,
                              bool is_one, di_js_verdict *out)
{
    uint32_t n = 0, n_unknown = 0;
    for (uint32_t i = 0; i < at->n; i++) {
        di_js_verdict verdict;
        DI_TRY(di_js_check(js, value, di_js_lit_of(&at->items[i]), &verdict));
        n += verdict == DI_JS_YES;
        n_unknown += verdict == DI_JS_UNKNOWN;
    }
    if (is_one)
        *out = n > 1 || (n == 0 && n_unknown == 0) ? DI_JS_NO
               : n_unknown > 0                     ? DI_JS_UNKNOWN
                                                   : DI_JS_YES;
    else
        *out = n > 0 ? DI_JS_YES : n_unknown > 0 ? DI_JS_UNKNOWN : DI_JS_NO;
    return DI_OK;
}

static di_status check_if(di_js *js, const di_sj_value *value, const di_sj_value *at,
                          di_js_verdict *out)
{
    const di_sj_value *then = di_sj_get(at->parent, "then"), *other = di_sj_get(at->parent, "else");
    di_js_verdict condition, yes = DI_JS_YES, no = DI_JS_YES;
    DI_TRY(di_js_check(js, value, di_js_lit_of(at), &condition));
    if (then != NULL)
        DI_TRY(di_js_check(js, value, di_js_lit_of(then), &yes));
    if (other != NULL)
        DI_TRY(di_js_check(js, value, di_js_lit_of(other), &no));
    if (condition == DI_JS_UNKNOWN)
        *out = yes == no ? yes : DI_JS_UNKNOWN;
    else
        *out = condition == DI_JS_YES ? yes : no;
    return DI_OK;
}

static di_status check_dependencies(di_js *js, const di_sj_value *value, const di_sj_value *at,
                                    di_js_verdict *out)
{
    for (uint32_t i = 0; i < at->n; i++) {
        const di_sj_value *rule = &at->items[i];
        if (di_sj_member(value, rule->key, rule->key_len) == NULL)
            continue;
        if (rule->type == DI_SJ_ARRAY)
            *out = both(*out, check_required(value, rule));
        else
            DI_TRY(check_part(js, value, rule, out));
    }
    return DI_OK;
}

static di_status check_value_keyword(di_js *js, const di_sj_value *value, const di_sj_value *at,
                                     di_js_keyword keyword, di_js_verdict *out)
{
    uint32_t types;
    switch (keyword) {
    case DI_JS_KEY_TYPE:
        DI_TRY(di_js_types(at, &types));
        *out = yes_if((types & di_js_type_of(value)) != 0);
        return DI_OK;
    case DI_JS_KEY_ENUM:
        *out = DI_JS_NO;
        for (uint32_t i = 0; i < at->n && *out == DI_JS_NO; i++)
            *out = yes_if(di_sj_equal(value, &at->items[i]));
        return DI_OK;
    case DI_JS_KEY_CONST:
        *out = yes_if(di_sj_equal(value, at));
        return DI_OK;
    case DI_JS_KEY_MINIMUM:
    case DI_JS_KEY_MAXIMUM:
    case DI_JS_KEY_EXCLUSIVE_MINIMUM:
    case DI_JS_KEY_EXCLUSIVE_MAXIMUM:
    case DI_JS_KEY_MULTIPLE_OF:
        return check_number(value, at, keyword, out);
    case DI_JS_KEY_MIN_LENGTH:
    case DI_JS_KEY_MAX_LENGTH:
    case DI_JS_KEY_MIN_ITEMS:
    case DI_JS_KEY_MAX_ITEMS:
    case DI_JS_KEY_MIN_PROPERTIES:
    case DI_JS_KEY_MAX_PROPERTIES:
        return check_count(value, at, keyword, out);
    case DI_JS_KEY_PATTERN:
    case DI_JS_KEY_FORMAT:
        return check_text(js, value, at, keyword == DI_JS_KEY_FORMAT, out);
    case DI_JS_KEY_UNIQUE_ITEMS:
        *out = yes_if(at->type != DI_SJ_TRUE || value->type != DI_SJ_ARRAY || is_unique(value));
        return DI_OK;
    case DI_JS_KEY_REQUIRED:
        *out = value->type == DI_SJ_OBJECT ? check_required(value, at) : DI_JS_YES;
        return DI_OK;
    default:
        return DI_OK;
    }
}

/* Keywords about the parts of a value; each group of them once. */
static di_status check_part_keyword(di_js *js, const di_sj_value *value, const di_sj_value *at,
                                    di_js_keyword keyword, di_js_verdict *out)
{
    const bool is_object = value->type == DI_SJ_OBJECT, is_array = value->type == DI_SJ_ARRAY;
    switch (keyword) {
    case DI_JS_KEY_PROPERTIES:
    case DI_JS_KEY_PATTERN_PROPERTIES:
    case DI_JS_KEY_ADDITIONAL_PROPERTIES:
        return is_object ? check_members(js, value, at->parent, out) : DI_OK;
    case DI_JS_KEY_PROPERTY_NAMES:
        return is_object ? check_names(js, value, at, out) : DI_OK;
    case DI_JS_KEY_ITEMS:
    case DI_JS_KEY_PREFIX_ITEMS:
        return is_array ? check_items(js, value, at->parent, out) : DI_OK;
    case DI_JS_KEY_CONTAINS:
        return is_array ? check_contains(js, value, at, out) : DI_OK;
    case DI_JS_KEY_UNEVALUATED_ITEMS:
        if (is_array && value->n > 0 && at->type != DI_SJ_TRUE)
            *out = DI_JS_UNKNOWN;
        return DI_OK;
    case DI_JS_KEY_UNEVALUATED_PROPERTIES:
        if (is_object && value->n > 0 && at->type != DI_SJ_TRUE)
            *out = DI_JS_UNKNOWN;
        return DI_OK;
    case DI_JS_KEY_DEPENDENT_REQUIRED:
    case DI_JS_KEY_DEPENDENT_SCHEMAS:
    case DI_JS_KEY_DEPENDENCIES:
        return is_object ? check_dependencies(js, value, at, out) : DI_OK;
    default:
        return check_value_keyword(js, value, at, keyword, out);
    }
}

static di_status check_keyword(di_js *js, const di_sj_value *value, const di_sj_value *at,
                               di_js_keyword keyword, di_js_verdict *out)
{
    const di_sj_value *target;
    switch (keyword) {
    case DI_JS_KEY_REF:
    case DI_JS_KEY_DYNAMIC_REF:
    case DI_JS_KEY_RECURSIVE_REF:
        DI_TRY(di_js_resolve(js, at, &target));
        return target == NULL ? DI_OK : check_part(js, value, target, out);
    case DI_JS_KEY_ALL_OF:
        for (uint32_t i = 0; i < at->n; i++)
            DI_TRY(check_part(js, value, &at->items[i], out));
        return DI_OK;
    case DI_JS_KEY_ANY_OF:
    case DI_JS_KEY_ONE_OF:
        return check_any_of(js, value, at, keyword == DI_JS_KEY_ONE_OF, out);
    case DI_JS_KEY_NOT:
        DI_TRY(di_js_check(js, value, di_js_lit_of(at), out));
        *out = opposite(*out);
        return DI_OK;
    case DI_JS_KEY_IF:
        return check_if(js, value, at, out);
    default:
        return check_part_keyword(js, value, at, keyword, out);
    }
}

static di_status check_schema(di_js *js, const di_sj_value *value, const di_sj_value *schema,
                              di_js_verdict *out)
{
    const bool is_only_ref = di_js_is_only_ref(js, schema);
    *out = DI_JS_YES;
    if (schema->type == DI_SJ_TRUE || schema->type == DI_SJ_FALSE) {
        *out = yes_if(schema->type == DI_SJ_TRUE);
        return DI_OK;
    }
    if (schema->type != DI_SJ_OBJECT)
        return di_js_malformed(schema, "a schema: an object, true or false");
    for (uint32_t i = 0; i < schema->n && *out != DI_JS_NO; i++) {
        const di_sj_value *at = &schema->items[i];
        const di_js_keyword keyword = di_js_keyword_of(at->key, at->key_len);
        if (keyword == DI_JS_KEY_UNKNOWN || (is_only_ref && keyword != DI_JS_KEY_REF) ||
            !di_js_knows(js, keyword))
            continue;
        di_js_verdict verdict = DI_JS_YES;
        DI_TRY(check_keyword(js, value, at, keyword, &verdict));
        if (verdict == DI_JS_NO && keyword == DI_JS_KEY_TYPE && value->type == DI_SJ_NULL) {
            const di_sj_value *nullable = di_sj_get(schema, "nullable");
            if (nullable != NULL && nullable->type == DI_SJ_TRUE)
                verdict = DI_JS_YES;
        }
        *out = both(*out, verdict);
    }
    return DI_OK;
}

di_status di_js_check(di_js *js, const di_sj_value *value, di_js_lit lit, di_js_verdict *out)
{
    *out = yes_if(lit == DI_JS_TRUE);
    if (lit == DI_JS_TRUE || lit == DI_JS_FALSE)
        return DI_OK;
    if (js->nest >= DI_JS_NEST_MOST)
        return di_fail(DI_ERR_UNSUPPORTED, "more than %d schemas within one another",
                       DI_JS_NEST_MOST);
    js->nest++;
    const di_status status = check_schema(js, value, di_js_schema_of(js, lit), out);
    js->nest--;
    if ((lit & 1) != 0)
        *out = opposite(*out);
    return status;
}

di_status di_js_check_all(di_js *js, const di_sj_value *value, const di_js_lit *lits, size_t n,
                          di_js_verdict *out)
{
    *out = DI_JS_YES;
    for (size_t i = 0; i < n && *out != DI_JS_NO; i++) {
        di_js_verdict verdict;
        DI_TRY(di_js_check(js, value, lits[i], &verdict));
        *out = both(*out, verdict);
    }
    return DI_OK;
}

di_status di_js_check_name(di_js *js, di_js_name name, di_js_lit lit, di_js_verdict *out)
{
    const di_sj_value value = {.type = DI_SJ_STRING, .text = name.text, .len = name.len};
    return di_js_check(js, &value, lit, out);
}
