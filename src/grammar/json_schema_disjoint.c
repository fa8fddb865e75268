/* Schemas that have no value in common, seen at a glance: other types, or other values of a
 * property that both require. What is not seen here is looked for in the shapes of both. */
#include "grammar/json_schema_impl.h"

/* What a schema that only refers stands for. */
static di_status target_of(di_js *js, const di_sj_value *schema, const di_sj_value **out)
{
    enum { STEPS_MOST = 8 };
    *out = schema;
    for (int i = 0; i < STEPS_MOST; i++) {
        const di_sj_value *ref = di_sj_get(*out, "$ref");
        if (ref == NULL || ((*out)->n > 1 && !di_js_is_only_ref(js, *out)))
            return DI_OK;
        const di_sj_value *target;
        DI_TRY(di_js_resolve(js, ref, &target));
        if (target == NULL)
            return DI_OK;
        *out = target;
    }
    return DI_OK;
}

/* The list of values that a schema allows at most: *n of them, from *values on. */
static bool listed_values(const di_js *js, const di_sj_value *schema, const di_sj_value **values,
                          uint32_t *n)
{
    if (di_js_is_only_ref(js, schema))
        return false;
    const di_sj_value *one = di_js_knows(js, DI_JS_KEY_CONST) ? di_sj_get(schema, "const") : NULL;
    const di_sj_value *list = di_sj_get(schema, "enum");
    *values = one != NULL ? one : list != NULL ? list->items : NULL;
    *n = one != NULL ? 1 : list != NULL ? list->n : 0;
    return one != NULL || (list != NULL && list->type == DI_SJ_ARRAY);
}

static bool are_other_values(const di_js *js, const di_sj_value *a, const di_sj_value *b)
{
    const di_sj_value *x, *y;
    uint32_t n_x, n_y;
    if (!listed_values(js, a, &x, &n_x) || !listed_values(js, b, &y, &n_y) || n_x * n_y > 256)
        return false;
    for (uint32_t i = 0; i < n_x; i++)
        for (uint32_t k = 0; k < n_y; k++)
            if (di_sj_equal(&x[i], &y[k]))
                return false;
    return true;
}

static bool requires(const di_sj_value *required, const di_sj_value *name)
{
    for (uint32_t i = 0; required != NULL && i < required->n; i++)
        if (di_sj_equal(&required->items[i], name))
            return true;
    return false;
}

static bool are_tagged(const di_js *js, const di_sj_value *a, const di_sj_value *b)
{
    const di_sj_value *required = di_sj_get(a, "required"),
                      *properties = di_sj_get(a, "properties");
    const di_sj_value *others = di_sj_get(b, "properties");
    if (required == NULL || required->type != DI_SJ_ARRAY || properties == NULL || others == NULL)
        return false;
    for (uint32_t i = 0; i < required->n; i++) {
        const di_sj_value *name = &required->items[i];
        if (name->type != DI_SJ_STRING)
            continue;
        const di_sj_value *x = di_sj_member(properties, name->text, name->len);
        const di_sj_value *y = di_sj_member(others, name->text, name->len);
        if (x != NULL && y != NULL && are_other_values(js, x, y) &&
            requires(di_sj_get(b, "required"), name))
            return true;
    }
    return false;
}

/* The types that the schema names; all if it names none. */
static di_status types_of(const di_sj_value *schema, uint32_t *out)
{
    const di_sj_value *type = di_sj_get(schema, "type"), *nullable = di_sj_get(schema, "nullable");
    *out = DI_JS_ANY;
    if (type != NULL)
        DI_TRY(di_js_types(type, out));
    if (nullable != NULL && nullable->type == DI_SJ_TRUE)
        *out |= DI_JS_NULL;
    return DI_OK;
}

di_status di_js_are_apart(di_js *js, const di_sj_value *a, const di_sj_value *b, bool *out)
{
    uint32_t x, y;
    *out = false;
    DI_TRY(target_of(js, a, &a));
    DI_TRY(target_of(js, b, &b));
    if (di_js_is_only_ref(js, a) || di_js_is_only_ref(js, b))
        return DI_OK;
    DI_TRY(types_of(a, &x));
    DI_TRY(types_of(b, &y));
    *out = (x & y) == 0 || are_other_values(js, a, b) ||
           ((x & y) == DI_JS_OBJECT && are_tagged(js, a, b));
    return DI_OK;
}
