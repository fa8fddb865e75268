/* From literals to shapes: what the keywords of a schema say about a value. */
#include "grammar/json_schema_impl.h"

typedef struct di_js_applying {
    di_js_lit lit;
    const struct di_js_applying *outer;
} di_js_applying;

/* ---- assertions */

static di_status type_of_name(const di_sj_value *at, uint32_t *types)
{
    static const struct {
        const char *name;
        uint32_t types;
    } names[] = {
        {"string", DI_JS_STRING}, {"object", DI_JS_OBJECT},   {"array", DI_JS_ARRAY},
        {"number", DI_JS_NUMBER}, {"integer", DI_JS_INTEGER}, {"boolean", DI_JS_BOOL},
        {"null", DI_JS_NULL},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (di_sj_is_text(at, names[i].name)) {
            *types |= names[i].types;
            return DI_OK;
        }
    return di_js_malformed(at, "the name of a type");
}

di_status di_js_types(const di_sj_value *at, uint32_t *types)
{
    *types = 0;
    if (at->type == DI_SJ_STRING)
        return type_of_name(at, types);
    if (at->type != DI_SJ_ARRAY)
        return di_js_malformed(at, "the name of a type or a list of them");
    for (uint32_t i = 0; i < at->n; i++)
        DI_TRY(type_of_name(&at->items[i], types));
    return DI_OK;
}

static di_status apply_type(const di_sj_value *at, di_js_shapes *shapes)
{
    uint32_t types;
    DI_TRY(di_js_types(at, &types));
    const di_sj_value *nullable = di_sj_get(at->parent, "nullable");
    if (nullable != NULL && nullable->type == DI_SJ_TRUE)
        types |= DI_JS_NULL;
    di_js_restrict(shapes, types);
    return DI_OK;
}

static di_status apply_enum(di_js *js, const di_sj_value *at, di_js_shapes *shapes)
{
    if (at->type != DI_SJ_ARRAY)
        return di_js_malformed(at, "an array");
    uint32_t types = 0;
    for (uint32_t i = 0; i < at->n; i++)
        types |= di_js_type_of(&at->items[i]);
    di_js_restrict(shapes, types);
    return di_js_add_fact(js, shapes, (di_js_fact){.kind = DI_JS_FACT_ENUM, .value = at});
}

static di_status apply_bound(di_js *js, const di_sj_value *at, di_js_keyword keyword,
                             di_js_shapes *shapes)
{
    const bool is_least = keyword == DI_JS_KEY_MINIMUM || keyword == DI_JS_KEY_EXCLUSIVE_MINIMUM;
    const bool is_flag =
        keyword == DI_JS_KEY_EXCLUSIVE_MINIMUM || keyword == DI_JS_KEY_EXCLUSIVE_MAXIMUM;
    if (is_flag && (at->type == DI_SJ_TRUE || at->type == DI_SJ_FALSE))
        return DI_OK; /* draft 4: read with the bound */
    if (at->type != DI_SJ_NUMBER)
        return di_js_malformed(at, "a number");
    return di_js_add_fact(js, shapes,
                          (di_js_fact){.kind = is_least ? DI_JS_FACT_MINIMUM : DI_JS_FACT_MAXIMUM,
                                       .value = at,
                                       .is_exclusive = di_js_is_exclusive(at, keyword)});
}

static di_status apply_count(di_js *js, const di_sj_value *at, di_js_fact_kind kind,
                             di_js_shapes *shapes)
{
    uint32_t count;
    DI_TRY(di_js_count(at, &count));
    return di_js_add_fact(js, shapes,
                          (di_js_fact){.kind = kind, .value = at, .min = count, .max = count});
}

static di_status apply_required(di_js *js, const di_sj_value *at, di_js_shapes *shapes)
{
    if (at->type != DI_SJ_ARRAY)
        return di_js_malformed(at, "an array of names");
    for (uint32_t i = 0; i < at->n; i++) {
        const di_sj_value *name = &at->items[i];
        if (name->type != DI_SJ_STRING)
            return di_js_malformed(name, "a name");
        DI_TRY(di_js_add_fact(js, shapes,
                              (di_js_fact){.kind = DI_JS_FACT_REQUIRED,
                                           .value = name,
                                           .name = name->text,
                                           .name_len = name->len}));
    }
    return DI_OK;
}

static di_status apply_text(di_js *js, const di_sj_value *at, di_js_fact_kind kind,
                            di_js_shapes *shapes)
{
    if (at->type != DI_SJ_STRING)
        return di_js_malformed(at, "a string");
    return di_js_add_fact(js, shapes, (di_js_fact){.kind = kind, .value = at});
}

static di_status apply_multiple(di_js *js, const di_sj_value *at, di_js_shapes *shapes)
{
    if (at->type != DI_SJ_NUMBER || di_sj_number_compare(at->text, "0") <= 0)
        return di_js_malformed(at, "a number above 0");
    return di_js_add_fact(js, shapes, (di_js_fact){.kind = DI_JS_FACT_MULTIPLE, .value = at});
}

static di_status apply_assertion(di_js *js, const di_sj_value *at, di_js_keyword keyword,
                                 di_js_shapes *shapes)
{
    switch (keyword) {
    case DI_JS_KEY_TYPE:
        return apply_type(at, shapes);
    case DI_JS_KEY_ENUM:
        return apply_enum(js, at, shapes);
    case DI_JS_KEY_CONST:
        di_js_restrict(shapes, di_js_type_of(at));
        return di_js_add_fact(js, shapes, (di_js_fact){.kind = DI_JS_FACT_CONST, .value = at});
    case DI_JS_KEY_MINIMUM:
    case DI_JS_KEY_MAXIMUM:
    case DI_JS_KEY_EXCLUSIVE_MINIMUM:
    case DI_JS_KEY_EXCLUSIVE_MAXIMUM:
        return apply_bound(js, at, keyword, shapes);
    case DI_JS_KEY_MULTIPLE_OF:
        return apply_multiple(js, at, shapes);
    case DI_JS_KEY_MIN_LENGTH:
        return apply_count(js, at, DI_JS_FACT_MIN_LENGTH, shapes);
    case DI_JS_KEY_MAX_LENGTH:
        return apply_count(js, at, DI_JS_FACT_MAX_LENGTH, shapes);
    case DI_JS_KEY_MIN_ITEMS:
        return apply_count(js, at, DI_JS_FACT_MIN_ITEMS, shapes);
    case DI_JS_KEY_MAX_ITEMS:
        return apply_count(js, at, DI_JS_FACT_MAX_ITEMS, shapes);
    case DI_JS_KEY_MIN_PROPERTIES:
        return apply_count(js, at, DI_JS_FACT_MIN_PROPERTIES, shapes);
    case DI_JS_KEY_MAX_PROPERTIES:
        return apply_count(js, at, DI_JS_FACT_MAX_PROPERTIES, shapes);
    case DI_JS_KEY_PATTERN:
        return apply_text(js, at, DI_JS_FACT_PATTERN, shapes);
    case DI_JS_KEY_FORMAT:
        return apply_text(js, at, DI_JS_FACT_FORMAT, shapes);
    case DI_JS_KEY_UNIQUE_ITEMS:
        if (at->type != DI_SJ_TRUE && at->type != DI_SJ_FALSE)
            return di_js_malformed(at, "true or false");
        if (at->type == DI_SJ_FALSE)
            return DI_OK;
        return di_js_add_fact(js, shapes, (di_js_fact){.kind = DI_JS_FACT_UNIQUE, .value = at});
    case DI_JS_KEY_REQUIRED:
        return apply_required(js, at, shapes);
    default:
        return DI_OK;
    }
}

/* ---- schemas for parts */

static di_status apply_parts(di_js *js, const di_sj_value *at, di_js_fact_kind kind,
                             di_js_shapes *shapes)
{
    return di_js_add_fact(
        js, shapes,
        (di_js_fact){.kind = kind, .value = at->parent, .is_evaluating = !js->is_under_not});
}

static bool has(const di_sj_value *schema, const char *keyword)
{
    return di_sj_get(schema, keyword) != NULL;
}

static di_status apply_contains(di_js *js, const di_sj_value *at, di_js_shapes *shapes)
{
    uint32_t min, max;
    DI_TRY(di_js_contains_counts(js, at, &min, &max));
    return di_js_add_fact(js, shapes,
                          (di_js_fact){.kind = DI_JS_FACT_CONTAINS,
                                       .value = at,
                                       .lit = di_js_lit_of(at),
                                       .min = min,
                                       .max = max,
                                       .is_evaluating = !js->is_under_not});
}

static di_status apply_part(di_js *js, const di_sj_value *at, di_js_keyword keyword,
                            di_js_shapes *shapes)
{
    const di_sj_value *schema = at->parent;
    switch (keyword) {
    case DI_JS_KEY_PROPERTIES:
        return apply_parts(js, at, DI_JS_FACT_OBJECT, shapes);
    case DI_JS_KEY_PATTERN_PROPERTIES:
        return has(schema, "properties") ? DI_OK : apply_parts(js, at, DI_JS_FACT_OBJECT, shapes);
    case DI_JS_KEY_ADDITIONAL_PROPERTIES:
        return has(schema, "properties") || has(schema, "patternProperties")
                   ? DI_OK
                   : apply_parts(js, at, DI_JS_FACT_OBJECT, shapes);
    case DI_JS_KEY_PREFIX_ITEMS:
        return apply_parts(js, at, DI_JS_FACT_ARRAY, shapes);
    case DI_JS_KEY_ITEMS:
        return has(schema, "prefixItems") ? DI_OK : apply_parts(js, at, DI_JS_FACT_ARRAY, shapes);
    case DI_JS_KEY_CONTAINS:
        return apply_contains(js, at, shapes);
    case DI_JS_KEY_PROPERTY_NAMES:
        return di_js_add_fact(
            js, shapes,
            (di_js_fact){.kind = DI_JS_FACT_NAMES, .value = at, .lit = di_js_lit_of(at)});
    default:
        return DI_OK;
    }
}

/* ---- schemas for the value itself */

static di_status check_list(const di_sj_value *at)
{
    return at->type == DI_SJ_ARRAY && at->n > 0 ? DI_OK : di_js_malformed(at, "a list of schemas");
}

/* Facts of the literals of `at` chosen by the bits of `chosen`, on a copy of the shapes. */
static di_status fork_on(di_js *js, const di_sj_value *at, uint64_t chosen,
                         const di_js_shapes *shapes, di_js_shapes *result)
{
    di_js_shapes branch;
    DI_TRY(di_js_shapes_copy(js, shapes, &branch));
    for (uint32_t i = 0; i < at->n && branch.n > 0; i++)
        if (chosen >> i & 1)
            DI_TRY(di_js_apply(js, di_js_lit_of(&at->items[i]), &branch));
    return di_js_shapes_append(js, result, &branch);
}

static di_status apply_any_of(di_js *js, const di_sj_value *at, di_js_shapes *shapes)
{
    enum { SUBSETS_MOST = 5 };
    di_js_shapes result = {0};
    DI_TRY(check_list(at));
    if (js->n_frames == 0) {
        for (uint32_t i = 0; i < at->n; i++) {
            di_js_shapes branch;
            DI_TRY(di_js_shapes_copy(js, shapes, &branch));
            DI_TRY(di_js_apply(js, di_js_lit_of(&at->items[i]), &branch));
            DI_TRY(di_js_shapes_append(js, &result, &branch));
        }
    } else {
        /* Every branch that holds evaluates properties and items: all sets of branches. */
        if (at->n > SUBSETS_MOST)
            return di_fail(DI_ERR_UNSUPPORTED,
                           "more than %d branches beside unevaluated items or "
                           "properties",
                           SUBSETS_MOST);
        for (uint64_t chosen = 1; chosen < UINT64_C(1) << at->n; chosen++)
            DI_TRY(fork_on(js, at, chosen, shapes, &result));
    }
    *shapes = result;
    return DI_OK;
}

static uint32_t types_of(const di_js_shapes *shapes)
{
    uint32_t types = 0;
    for (size_t i = 0; i < shapes->n; i++)
        types |= shapes->items[i].types;
    return types;
}

/* Takes out of a branch what satisfies another one as well, which only values of `types` do. oneOf
 * without what cannot be negated is anyOf, if lenient. */
static di_status exclude(di_js *js, const di_sj_value *other, uint32_t types, di_js_shapes *branch)
{
    di_js_shapes overlap;
    DI_TRY(di_js_shapes_copy(js, branch, &overlap));
    di_js_restrict(&overlap, types);
    const di_status status = di_js_apply(js, di_js_negate(di_js_lit_of(other)), &overlap);
    if (status == DI_ERR_UNSUPPORTED && !js->is_under_not && js->options->lenient)
        return di_js_refuse_failed(js, other->parent, status);
    DI_TRY(status);
    di_js_restrict(branch, ~types);
    return di_js_shapes_append(js, branch, &overlap);
}

static di_status apply_one_of(di_js *js, const di_sj_value *at, di_js_shapes *shapes)
{
    di_js_shapes result = {0};
    DI_TRY(check_list(at));
    const uint32_t types = types_of(shapes);
    for (uint32_t i = 0; i < at->n; i++) {
        di_js_shapes branch;
        DI_TRY(di_js_shapes_copy(js, shapes, &branch));
        DI_TRY(di_js_apply(js, di_js_lit_of(&at->items[i]), &branch));
        for (uint32_t j = 0; j < at->n && branch.n > 0; j++) {
            const di_js_lit both[] = {di_js_lit_of(&at->items[i < j ? i : j]),
                                      di_js_lit_of(&at->items[i < j ? j : i])};
            uint32_t overlap = 0;
            bool are_apart = i == j;
            if (i != j)
                DI_TRY(di_js_are_apart(js, &at->items[i], &at->items[j], &are_apart));
            if (!are_apart)
                DI_TRY(di_js_types_left(js, both, 2, types, &overlap));
            if (overlap != 0)
                DI_TRY(exclude(js, &at->items[j], overlap, &branch));
        }
        DI_TRY(di_js_shapes_append(js, &result, &branch));
    }
    *shapes = result;
    return DI_OK;
}

static di_status apply_if(di_js *js, const di_sj_value *at, di_js_shapes *shapes)
{
    const di_sj_value *then = di_sj_get(at->parent, "then"), *other = di_sj_get(at->parent, "else");
    if (then == NULL && other == NULL && js->n_frames == 0)
        return DI_OK;
    di_js_shapes yes, no;
    DI_TRY(di_js_shapes_copy(js, shapes, &yes));
    DI_TRY(di_js_shapes_copy(js, shapes, &no));
    DI_TRY(di_js_apply(js, di_js_lit_of(at), &yes));
    if (then != NULL)
        DI_TRY(di_js_apply(js, di_js_lit_of(then), &yes));
    DI_TRY(di_js_apply(js, di_js_negate(di_js_lit_of(at)), &no));
    if (other != NULL)
        DI_TRY(di_js_apply(js, di_js_lit_of(other), &no));
    *shapes = (di_js_shapes){0};
    DI_TRY(di_js_shapes_append(js, shapes, &yes));
    return di_js_shapes_append(js, shapes, &no);
}

/* One member of dependentRequired, dependentSchemas or dependencies. */
static di_status apply_dependency(di_js *js, const di_sj_value *at, di_js_shapes *shapes)
{
    if (at->type == DI_SJ_TRUE || (at->type == DI_SJ_ARRAY && at->n == 0))
        return DI_OK;
    const di_js_name name = {at->key, at->key_len};
    di_js_shapes with;
    DI_TRY(di_js_shapes_copy(js, shapes, &with));
    DI_TRY(di_js_forbid(js, shapes, name));
    di_js_restrict(&with, DI_JS_OBJECT);
    DI_TRY(di_js_require(js, &with, name));
    if (at->type != DI_SJ_ARRAY)
        DI_TRY(di_js_apply(js, di_js_lit_of(at), &with));
    for (uint32_t i = 0; at->type == DI_SJ_ARRAY && i < at->n; i++) {
        if (at->items[i].type != DI_SJ_STRING)
            return di_js_malformed(&at->items[i], "a name");
        DI_TRY(di_js_require(js, &with, (di_js_name){at->items[i].text, at->items[i].len}));
    }
    return di_js_shapes_append(js, shapes, &with);
}

static di_status apply_dependencies(di_js *js, const di_sj_value *at, di_js_shapes *shapes)
{
    if (at->type != DI_SJ_OBJECT)
        return di_js_malformed(at, "an object");
    for (uint32_t i = 0; i < at->n; i++)
        DI_TRY(apply_dependency(js, &at->items[i], shapes));
    return DI_OK;
}

static di_status apply_in_place(di_js *js, const di_sj_value *at, di_js_keyword keyword,
                                di_js_shapes *shapes)
{
    const di_sj_value *target;
    switch (keyword) {
    case DI_JS_KEY_REF:
    case DI_JS_KEY_DYNAMIC_REF:
    case DI_JS_KEY_RECURSIVE_REF:
        DI_TRY(di_js_resolve(js, at, &target));
        return target == NULL ? DI_OK : di_js_apply(js, di_js_lit_of(target), shapes);
    case DI_JS_KEY_ALL_OF:
        DI_TRY(check_list(at));
        for (uint32_t i = 0; i < at->n; i++)
            DI_TRY(di_js_apply(js, di_js_lit_of(&at->items[i]), shapes));
        return DI_OK;
    case DI_JS_KEY_ANY_OF:
        return apply_any_of(js, at, shapes);
    case DI_JS_KEY_ONE_OF:
        return apply_one_of(js, at, shapes);
    case DI_JS_KEY_NOT:
        return di_js_apply(js, di_js_negate(di_js_lit_of(at)), shapes);
    case DI_JS_KEY_IF:
        return apply_if(js, at, shapes);
    case DI_JS_KEY_DEPENDENT_REQUIRED:
    case DI_JS_KEY_DEPENDENT_SCHEMAS:
    case DI_JS_KEY_DEPENDENCIES:
        return apply_dependencies(js, at, shapes);
    default:
        return apply_part(js, at, keyword, shapes);
    }
}

/* Every shape has a list of values: they are tested against the whole goal. */
static bool are_listed(const di_js_shapes *shapes)
{
    for (size_t i = 0; i < shapes->n; i++) {
        const di_js_fact *fact = shapes->items[i].last;
        while (fact != NULL && ((fact->kind != DI_JS_FACT_CONST && fact->kind != DI_JS_FACT_ENUM) ||
                                fact->is_negative))
            fact = fact->before;
        if (fact == NULL)
            return false;
    }
    return true;
}

/* What cannot be said is refused in the name of the innermost keyword that is not negated. */
static di_status apply_or_refuse(di_js *js, const di_sj_value *at, di_js_keyword keyword,
                                 di_js_shapes *shapes)
{
    di_js_shapes before;
    DI_TRY(di_js_shapes_copy(js, shapes, &before));
    di_status status = apply_in_place(js, at, keyword, shapes);
    if (status != DI_ERR_UNSUPPORTED || js->is_under_not || js->is_named)
        return status;
    status = are_listed(&before) ? DI_OK : di_js_refuse_failed(js, at, status);
    if (status == DI_OK)
        *shapes = before;
    return status;
}

bool di_js_knows(const di_js *js, di_js_keyword keyword)
{
    switch (keyword) {
    case DI_JS_KEY_CONST:
    case DI_JS_KEY_CONTAINS:
    case DI_JS_KEY_PROPERTY_NAMES:
        return js->draft >= 6;
    case DI_JS_KEY_IF:
        return js->draft >= 7;
    case DI_JS_KEY_RECURSIVE_REF:
    case DI_JS_KEY_DEPENDENT_REQUIRED:
    case DI_JS_KEY_DEPENDENT_SCHEMAS:
    case DI_JS_KEY_UNEVALUATED_ITEMS:
    case DI_JS_KEY_UNEVALUATED_PROPERTIES:
        return js->draft >= 2019;
    case DI_JS_KEY_DYNAMIC_REF:
    case DI_JS_KEY_PREFIX_ITEMS:
        return js->draft >= 2020;
    default:
        return true;
    }
}

/* Assertions first, since they drop shapes; then what declares members, in the order of the schema;
 * then what only restricts them. */
static int pass_of(di_js_keyword keyword)
{
    switch (keyword) {
    case DI_JS_KEY_NOT:
    case DI_JS_KEY_IF:
    case DI_JS_KEY_DEPENDENT_REQUIRED:
    case DI_JS_KEY_DEPENDENT_SCHEMAS:
    case DI_JS_KEY_DEPENDENCIES:
        return 2;
    default:
        return keyword > DI_JS_KEY_REQUIRED;
    }
}

static di_status apply_keywords(di_js *js, const di_sj_value *schema, di_js_shapes *shapes)
{
    const bool is_only_ref = di_js_is_only_ref(js, schema);
    const di_sj_value *rest[2] = {0};
    for (int pass = 0; pass < 3; pass++)
        for (uint32_t i = 0; i < schema->n && shapes->n > 0; i++) {
            const di_sj_value *at = &schema->items[i];
            const di_js_keyword keyword = di_js_keyword_of(at->key, at->key_len);
            if (keyword == DI_JS_KEY_UNKNOWN || (is_only_ref && keyword != DI_JS_KEY_REF) ||
                !di_js_knows(js, keyword))
                continue;
            if (keyword == DI_JS_KEY_UNEVALUATED_ITEMS ||
                keyword == DI_JS_KEY_UNEVALUATED_PROPERTIES) {
                rest[keyword == DI_JS_KEY_UNEVALUATED_PROPERTIES] = at;
                continue;
            }
            if (pass_of(keyword) != pass)
                continue;
            if (pass == 0)
                DI_TRY(apply_assertion(js, at, keyword, shapes));
            else
                DI_TRY(apply_or_refuse(js, at, keyword, shapes));
        }
    if (rest[0] != NULL)
        DI_TRY(di_js_add_fact(js, shapes,
                              (di_js_fact){.kind = DI_JS_FACT_REST_ITEMS, .value = rest[0]}));
    if (rest[1] != NULL)
        DI_TRY(di_js_add_fact(js, shapes,
                              (di_js_fact){.kind = DI_JS_FACT_REST_PROPERTIES, .value = rest[1]}));
    return DI_OK;
}

static di_status apply_schema(di_js *js, const di_sj_value *schema, di_js_shapes *shapes)
{
    if (schema->type == DI_SJ_TRUE)
        return DI_OK;
    if (schema->type == DI_SJ_FALSE) {
        shapes->n = 0;
        return DI_OK;
    }
    if (schema->type != DI_SJ_OBJECT)
        return di_js_malformed(schema, "a schema: an object, true or false");
    const bool is_frame = js->draft >= 2019 &&
                          (has(schema, "unevaluatedItems") || has(schema, "unevaluatedProperties"));
    if (!is_frame)
        return apply_keywords(js, schema, shapes);
    DI_TRY(di_js_add_fact(js, shapes, (di_js_fact){.kind = DI_JS_FACT_FRAME, .value = schema}));
    js->n_frames++;
    const di_status status = apply_keywords(js, schema, shapes);
    js->n_frames--;
    return status;
}

static di_status apply_literal(di_js *js, di_js_lit lit, di_js_shapes *shapes)
{
    const di_sj_value *schema = di_js_schema_of(js, lit);
    if ((lit & 1) == 0)
        return apply_schema(js, schema, shapes);
    const bool was_under_not = js->is_under_not;
    js->is_under_not = true;
    const di_status status = di_js_apply_negation(js, schema, shapes);
    js->is_under_not = was_under_not;
    return status;
}

di_status di_js_apply(di_js *js, di_js_lit lit, di_js_shapes *shapes)
{
    if (lit == DI_JS_FALSE)
        shapes->n = 0;
    if (lit == DI_JS_FALSE || lit == DI_JS_TRUE)
        return DI_OK;
    const di_js_applying here = {.lit = lit, .outer = js->applying};
    for (const di_js_applying *outer = js->applying; outer != NULL; outer = outer->outer)
        if (outer->lit == lit)
            return di_js_malformed(di_js_schema_of(js, lit),
                                   "one that does not refer to itself for the same value");
    if (js->nest >= DI_JS_NEST_MOST)
        return di_fail(DI_ERR_UNSUPPORTED, "more than %d schemas within one another",
                       DI_JS_NEST_MOST);
    js->nest++;
    js->applying = &here;
    const di_status status = apply_literal(js, lit, shapes);
    js->applying = here.outer;
    js->nest--;
    return status;
}

di_status di_js_expand(di_js *js, const di_js_lit *lits, size_t n, di_js_shapes *out)
{
    di_js_shape any = {.types = DI_JS_ANY};
    const struct di_js_applying *outer = js->applying;
    const uint32_t n_frames = js->n_frames;
    const bool is_under_not = js->is_under_not;
    js->applying = NULL;
    js->n_frames = 0;
    js->is_under_not = false;
    *out = (di_js_shapes){0};
    di_status status = di_js_shapes_append(js, out, &(di_js_shapes){.items = &any, .n = 1});
    for (size_t i = 0; i < n && status == DI_OK && out->n > 0; i++)
        status = di_js_apply(js, lits[i], out);
    js->applying = outer;
    js->n_frames = n_frames;
    js->is_under_not = is_under_not;
    return status;
}
