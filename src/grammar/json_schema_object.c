/* Objects: declared members in their order, then others by what patterns their names match. */
#include <string.h>

#include "grammar/json_schema_impl.h"

typedef struct member {
    di_js_name name;
    bool is_required, is_evaluated;
    const di_js_fact *source; /* the fact that declared it first, */
    const di_sj_value *own;   /* and its schema there */
} member;

typedef struct object {
    const di_js_view *view;
    uint32_t min, max;
    bool is_closed; /* strict, and the schema is silent */
    bool has_order; /* some member has a place */
    bool has_required;
    member *members;
    uint32_t n_members, cap_members;
    uint32_t *slots; /* hash table: number of the member + 1 */
    uint32_t n_slots;
    di_js_pattern **patterns; /* of all patternProperties */
    uint32_t n_patterns;
    di_js_lits names; /* propertyNames */
    const di_sj_value *names_at, *patterns_at, *excluded;
} object;

static const di_sj_value *part(const di_js_fact *fact, const char *keyword)
{
    return di_sj_get(fact->value, keyword);
}

/* ---- names */

static uint32_t *slot_of(const object *o, di_js_name name)
{
    uint32_t i = (uint32_t)di_hash_bytes(name.text, name.len) & (o->n_slots - 1);
    for (; o->slots[i] != 0; i = (i + 1) & (o->n_slots - 1)) {
        const di_js_name other = o->members[o->slots[i] - 1].name;
        if (other.len == name.len && memcmp(other.text, name.text, name.len) == 0)
            break;
    }
    return &o->slots[i];
}

static member *member_of(object *o, di_js_name name)
{
    uint32_t *slot = slot_of(o, name);
    if (*slot == 0) {
        o->members[o->n_members] = (member){.name = name};
        *slot = ++o->n_members;
    }
    return &o->members[*slot - 1];
}

static di_status make_room(di_js *js, object *o)
{
    uint64_t n = 0;
    for (size_t i = 0; i < o->view->n_facts; i++) {
        const di_js_fact *fact = o->view->facts[i];
        const di_sj_value *properties =
            fact->kind == DI_JS_FACT_OBJECT ? part(fact, "properties") : NULL;
        n += fact->kind == DI_JS_FACT_REQUIRED || fact->kind == DI_JS_FACT_PROPERTY;
        n += properties != NULL ? properties->n : 0;
    }
    for (o->n_slots = 4; o->n_slots < 2 * n; o->n_slots *= 2)
        ;
    DI_TRY(DI_ARENA_ZNEW(&js->scratch, o->n_slots, &o->slots));
    return DI_ARENA_NEW(&js->scratch, n, &o->members);
}

static di_status add_declared(const di_js_fact *fact, object *o)
{
    const di_sj_value *properties = part(fact, "properties");
    if (properties == NULL)
        return DI_OK;
    if (properties->type != DI_SJ_OBJECT)
        return di_js_malformed(properties, "an object");
    for (uint32_t i = 0; i < properties->n; i++) {
        const di_sj_value *own = &properties->items[i];
        member *m = member_of(o, (di_js_name){own->key, own->key_len});
        o->has_order = true;
        m->is_evaluated |= fact->is_evaluating;
        if (m->source == NULL) {
            m->source = fact;
            m->own = own;
        }
    }
    return DI_OK;
}

/* ---- reading the facts */

static di_status add_patterns(di_js *js, const di_js_fact *fact, object *o)
{
    const di_sj_value *patterns = part(fact, "patternProperties");
    if (patterns == NULL)
        return DI_OK;
    if (patterns->type != DI_SJ_OBJECT)
        return di_js_malformed(patterns, "an object");
    o->patterns_at = patterns;
    for (uint32_t i = 0; i < patterns->n; i++) {
        enum { PATTERNS_MOST = 32 };
        di_js_pattern *pattern;
        uint32_t k = 0;
        DI_TRY(di_js_pattern_of(js, &patterns->items[i], true, &pattern));
        if (pattern->expr == NULL)
            continue;
        while (k < o->n_patterns && o->patterns[k] != pattern)
            k++;
        if (k < o->n_patterns)
            continue;
        if (k == PATTERNS_MOST)
            return di_js_refuse(js, patterns, "more than 32 patterns for one object");
        if (o->patterns == NULL)
            DI_TRY(DI_ARENA_NEW(&js->scratch, PATTERNS_MOST, &o->patterns));
        o->patterns[o->n_patterns++] = pattern;
    }
    return DI_OK;
}

static void add_exclusion(const di_js_fact *fact, object *o)
{
    const bool is_const = fact->kind == DI_JS_FACT_CONST;
    for (uint32_t i = 0; i < (is_const ? 1 : fact->value->n); i++) {
        const di_sj_value *value = is_const ? fact->value : &fact->value->items[i];
        if (value->type == DI_SJ_OBJECT && value->n > 0)
            o->excluded = fact->value;
        else if (value->type == DI_SJ_OBJECT && o->min == 0)
            o->min = 1;
    }
}

static di_status add_fact(di_js *js, const di_js_fact *fact, object *o)
{
    switch (fact->kind) {
    case DI_JS_FACT_MIN_PROPERTIES:
        o->min = fact->min > o->min ? fact->min : o->min;
        return DI_OK;
    case DI_JS_FACT_MAX_PROPERTIES:
        o->max = fact->max < o->max ? fact->max : o->max;
        return DI_OK;
    case DI_JS_FACT_NAMES:
        o->names_at = fact->value;
        return di_js_lits_add(js, &o->names, fact->lit);
    case DI_JS_FACT_OBJECT:
        DI_TRY(add_declared(fact, o));
        return add_patterns(js, fact, o);
    case DI_JS_FACT_CONST:
    case DI_JS_FACT_ENUM:
        if (fact->is_negative)
            add_exclusion(fact, o);
        return DI_OK;
    default:
        return DI_OK;
    }
}

/* Strict mode: the schema declares members and does not say what others may be. A call always
 * declares its parameters. */
static bool is_silent(const di_js_view *view)
{
    bool has_members = view->is_call;
    for (size_t i = 0; i < view->n_facts; i++) {
        const di_js_fact *fact = view->facts[i];
        if (fact->kind == DI_JS_FACT_REST_PROPERTIES)
            return false;
        if (fact->kind != DI_JS_FACT_OBJECT || !fact->is_evaluating)
            continue;
        if (part(fact, "additionalProperties") != NULL)
            return false;
        has_members |= part(fact, "properties") != NULL;
    }
    return has_members;
}

static di_status read_object(di_js *js, const di_js_view *view, object *o)
{
    *o = (object){.view = view, .max = DI_REPEAT_INF};
    DI_TRY(make_room(js, o));
    for (size_t i = 0; i < view->n_facts; i++)
        DI_TRY(add_fact(js, view->facts[i], o));
    for (size_t i = 0; i < view->n_facts; i++) {
        const di_js_fact *fact = view->facts[i];
        if (fact->kind != DI_JS_FACT_REQUIRED)
            continue;
        member_of(o, (di_js_name){fact->name, fact->name_len})->is_required = true;
        o->has_required = true;
        o->has_order |= !fact->is_anywhere;
    }
    for (size_t i = 0; i < view->n_facts; i++) {
        const di_js_fact *fact = view->facts[i];
        if (fact->kind == DI_JS_FACT_PROPERTY)
            member_of(o, (di_js_name){fact->name, fact->name_len});
    }
    o->is_closed = (js->options->strict || view->is_call) && is_silent(view);
    return DI_OK;
}

/* ---- goals of values */

/* The name of a member, or a set of patterns that a free name matches. */
typedef struct subject {
    const member *member; /* NULL: a free name */
    uint64_t matched;     /* patterns */
} subject;

static bool is_matched(const object *o, const di_js_pattern *pattern, uint64_t matched)
{
    for (uint32_t i = 0; i < o->n_patterns; i++)
        if (o->patterns[i] == pattern)
            return (matched >> i & 1) != 0;
    return false;
}

static const di_sj_value *own_schema(const di_js_fact *fact, const member *m)
{
    if (m == NULL)
        return NULL;
    if (m->source == fact)
        return m->own;
    const di_sj_value *properties = part(fact, "properties");
    return properties == NULL ? NULL : di_sj_member(properties, m->name.text, m->name.len);
}

/* What one schema says about a member; lits NULL: only whether it says something. */
static di_status add_clause(di_js *js, const object *o, const di_js_fact *fact, subject s,
                            di_js_lits *lits, bool *is_known)
{
    const di_sj_value *own = own_schema(fact, s.member);
    const di_sj_value *patterns = s.matched != 0 ? part(fact, "patternProperties") : NULL;
    const di_sj_value *others = part(fact, "additionalProperties");
    *is_known = own != NULL;
    if (own != NULL && lits != NULL)
        DI_TRY(di_js_lits_add(js, lits, di_js_lit_of(own)));
    for (uint32_t i = 0; patterns != NULL && i < patterns->n; i++) {
        di_js_pattern *pattern;
        DI_TRY(di_js_pattern_of(js, &patterns->items[i], true, &pattern));
        if (!is_matched(o, pattern, s.matched))
            continue;
        *is_known = true;
        if (lits != NULL)
            DI_TRY(di_js_lits_add(js, lits, di_js_lit_of(&patterns->items[i])));
    }
    if (!*is_known && others != NULL) {
        *is_known = true;
        if (lits != NULL)
            DI_TRY(di_js_lits_add(js, lits, di_js_lit_of(others)));
    }
    return DI_OK;
}

/* unevaluatedProperties, the fact number `end`. */
static di_status add_unevaluated(di_js *js, const object *o, size_t end, subject s,
                                 di_js_lits *lits)
{
    const di_js_view *view = o->view;
    for (size_t i = di_js_frame_of(view, end); i < end; i++) {
        const di_js_fact *fact = view->facts[i];
        bool is_known = fact->kind == DI_JS_FACT_REST_PROPERTIES;
        if (fact->kind == DI_JS_FACT_OBJECT && fact->is_evaluating)
            DI_TRY(add_clause(js, o, fact, s, NULL, &is_known));
        if (is_known)
            return DI_OK;
    }
    return di_js_lits_add(js, lits, di_js_lit_of(view->facts[end]->value));
}

static di_status lits_of(di_js *js, const object *o, subject s, di_js_lits *lits)
{
    bool is_evaluated = false;
    *lits = (di_js_lits){0};
    for (size_t i = 0; i < o->view->n_facts; i++) {
        const di_js_fact *fact = o->view->facts[i];
        bool is_known = false;
        if (fact->kind == DI_JS_FACT_OBJECT)
            DI_TRY(add_clause(js, o, fact, s, lits, &is_known));
        is_evaluated |= is_known && fact->is_evaluating;
        if (fact->kind == DI_JS_FACT_PROPERTY && s.member != NULL &&
            fact->name_len == s.member->name.len &&
            memcmp(fact->name, s.member->name.text, fact->name_len) == 0)
            DI_TRY(di_js_lits_add(js, lits, fact->lit));
        if (fact->kind == DI_JS_FACT_REST_PROPERTIES)
            DI_TRY(add_unevaluated(js, o, i, s, lits));
    }
    /* A parameter that is required is declared by that, unless strict. */
    const bool is_declared =
        o->view->is_call && !js->options->strict && s.member != NULL && s.member->is_required;
    if (o->is_closed && !is_evaluated && !is_declared)
        DI_TRY(di_js_lits_add(js, lits, DI_JS_FALSE));
    return DI_OK;
}

/* The patterns that a name matches. */
static di_status match_patterns(di_js *js, const object *o, di_js_name name, uint64_t *matched)
{
    *matched = 0;
    for (uint32_t i = 0; i < o->n_patterns; i++) {
        const di_dfa *dfa;
        DI_TRY(di_js_pattern_dfa(js, o->patterns[i], &dfa));
        if (di_dfa_matches(dfa, name.text, name.len))
            *matched |= UINT64_C(1) << i;
    }
    return DI_OK;
}

/* The literals of a member's value, DI_JS_FALSE among them if its name is forbidden. */
static di_status member_lits(di_js *js, const object *o, const member *m, di_js_lits *lits)
{
    subject s = {.member = m};
    DI_TRY(match_patterns(js, o, m->name, &s.matched));
    DI_TRY(lits_of(js, o, s, lits));
    for (size_t i = 0; i < o->names.n; i++) {
        di_js_verdict verdict;
        DI_TRY(di_js_check_name(js, m->name, o->names.items[i], &verdict));
        if (verdict == DI_JS_NO)
            DI_TRY(di_js_lits_add(js, lits, DI_JS_FALSE));
        if (verdict == DI_JS_UNKNOWN)
            DI_TRY(di_js_refuse(js, o->names_at,
                                "whether a declared name satisfies it is not "
                                "known"));
    }
    return DI_OK;
}

/* ---- free members */

/* Names that match the patterns in `matched` and no others: made from those of the patterns before
 * the last one. */
typedef struct name_class {
    const struct name_class *before; /* without the decision on pattern n - 1 */
    uint32_t n;
    uint64_t matched;
    const di_dfa *dfa; /* NULL: not made yet */
} name_class;

typedef struct free_members {
    const object *o;
    const di_expr *colon;
    const di_expr *parts[64];
    size_t n_parts;
} free_members;

static di_status declared_names(di_js *js, const object *o, di_js_name **names)
{
    DI_TRY(DI_ARENA_NEW(&js->scratch, o->n_members, names));
    for (uint32_t i = 0; i < o->n_members; i++)
        (*names)[i] = o->members[i].name;
    return DI_OK;
}

static di_status first_class(di_js *js, const object *o, const di_dfa **out)
{
    di_js_name *names;
    DI_TRY(declared_names(js, o, &names));
    if (o->names.n == 0)
        return di_js_all_but(js, names, o->n_members, out);
    DI_TRY(di_js_string_dfa(js, o->names.items, o->names.n, out));
    if (o->n_members == 0)
        return DI_OK;
    const di_dfa *less;
    DI_TRY(di_js_only(js, names, o->n_members, &less));
    return di_dfa_minus(js->arena, *out, less, js->limits.max_states, out);
}

static di_status class_dfa(di_js *js, const object *o, name_class *c, const di_dfa **out)
{
    if (c->dfa == NULL && c->n == 0)
        DI_TRY(first_class(js, o, &c->dfa));
    if (c->dfa == NULL) {
        const di_dfa *before, *pattern;
        DI_TRY(class_dfa(js, o, (name_class *)c->before, &before));
        DI_TRY(di_js_pattern_dfa(js, o->patterns[c->n - 1], &pattern));
        if (c->matched >> (c->n - 1) & 1)
            DI_TRY(di_dfa_intersect(js->arena, before, pattern, js->limits.max_states, &c->dfa));
        else
            DI_TRY(di_dfa_minus(js->arena, before, pattern, js->limits.max_states, &c->dfa));
    }
    *out = c->dfa;
    return DI_OK;
}

/* One pattern, and no declared name matches it: no automaton is needed. */
static di_status is_pattern_alone(di_js *js, const object *o, bool *out)
{
    *out = o->n_patterns == 1 && o->names.n == 0;
    for (uint32_t i = 0; i < o->n_members && *out; i++) {
        uint64_t matched;
        DI_TRY(match_patterns(js, o, o->members[i].name, &matched));
        *out = matched == 0;
    }
    return DI_OK;
}

static di_status class_key(di_js *js, const object *o, name_class *c, const di_expr **out)
{
    const di_dfa *dfa;
    const di_expr *expr;
    bool is_alone;
    if (o->n_patterns == 0 && o->names.n == 0 && o->n_members == 0)
        return di_js_any_string(js, out);
    DI_TRY(is_pattern_alone(js, o, &is_alone));
    if (is_alone && c->matched == 1) {
        DI_TRY(di_expr_json_string(js->arena, o->patterns[0]->expr, &expr));
        return di_js_quoted(js, expr, out);
    }
    if (o->n_patterns == 0 && o->names.n == 0) {
        di_js_name *names;
        DI_TRY(declared_names(js, o, &names));
        return di_js_other_key(js, names, o->n_members, out);
    }
    *out = di_expr_nothing();
    DI_TRY(class_dfa(js, o, c, &dfa));
    if (di_dfa_is_empty(dfa))
        return DI_OK;
    DI_TRY(di_js_spelled(js, dfa, &expr));
    return di_js_quoted(js, expr, out);
}

static di_status add_classes(di_js *js, free_members *f, name_class *c)
{
    const object *o = f->o;
    if (c->n < o->n_patterns) {
        name_class in = {.before = c, .n = c->n + 1, .matched = c->matched | UINT64_C(1) << c->n};
        name_class out = {.before = c, .n = c->n + 1, .matched = c->matched};
        const di_dfa *dfa;
        if (c->n > 3) { /* most sets of many patterns match nothing */
            DI_TRY(class_dfa(js, o, c, &dfa));
            if (di_dfa_is_empty(dfa))
                return DI_OK;
        }
        DI_TRY(add_classes(js, f, &in));
        return add_classes(js, f, &out);
    }
    di_js_lits lits;
    const di_expr *key, *value;
    DI_TRY(lits_of(js, o, (subject){.matched = c->matched}, &lits));
    if (di_js_has_false(js, &lits))
        return DI_OK;
    if (f->n_parts == 64)
        return di_fail(DI_ERR_UNSUPPORTED, "more than 64 kinds of names");
    if (o->view->is_call) {
        const di_dfa *names;
        DI_TRY(class_dfa(js, o, c, &names));
        DI_TRY(di_js_free_parameter(js, names, &lits, &key));
        f->parts[f->n_parts] = key;
        f->n_parts += key->kind != DI_EXPR_NOTHING;
        return DI_OK;
    }
    DI_TRY(class_key(js, o, c, &key));
    if (key->kind == DI_EXPR_NOTHING)
        return DI_OK;
    DI_TRY(di_js_emit(js, lits.items, lits.n, o->view->level + 1, &value));
    return DI_EXPR_SEQ_OF(js->arena, &f->parts[f->n_parts++], key, f->colon, value);
}

/* *is_left_out: what names may be cannot be enforced, and need not be (lenient). */
static di_status emit_classes(di_js *js, const object *o, free_members *f, bool *is_left_out)
{
    name_class all = {0};
    const di_status status = add_classes(js, f, &all);
    const di_sj_value *at = o->patterns_at != NULL ? o->patterns_at : o->names_at;
    *is_left_out = status == DI_ERR_UNSUPPORTED && !js->is_named && at != NULL;
    return *is_left_out ? di_js_refuse_failed(js, at, status) : status;
}

static di_status emit_free(di_js *js, const object *o, const di_expr **out)
{
    free_members f = {.o = o};
    bool is_left_out;
    DI_TRY(di_js_colon(js, &f.colon));
    DI_TRY(emit_classes(js, o, &f, &is_left_out));
    if (is_left_out) {
        const di_expr *key, *value;
        DI_TRY(di_js_any_string(js, &key));
        DI_TRY(di_js_any_value(js, o->view->level + 1, &value));
        return DI_EXPR_SEQ_OF(js->arena, out, key, f.colon, value);
    }
    return di_expr_alt(js->arena, f.parts, f.n_parts, out);
}

/* ---- the whole object */

static di_status emit_member(di_js *js, const object *o, const member *m, const di_expr **out)
{
    di_js_lits lits;
    const di_expr *key, *colon, *value;
    DI_TRY(member_lits(js, o, m, &lits));
    *out = di_expr_nothing();
    if (di_js_has_false(js, &lits))
        return DI_OK;
    if (o->view->is_call)
        return di_js_parameter(js, m->name, m->own, &lits, out);
    DI_BUF_AUTO text = {0};
    DI_TRY(di_sj_write_string(m->name.text, m->name.len, &text));
    DI_TRY(di_js_literal(js, di_buf_str(&text), text.len, &key));
    DI_TRY(di_js_colon(js, &colon));
    DI_TRY(di_js_emit(js, lits.items, lits.n, o->view->level + 1, &value));
    return DI_EXPR_SEQ_OF(js->arena, out, key, colon, value);
}

/* Those that can have a value; *is_possible false if a required one cannot. */
static di_status list_members(di_js *js, const object *o, di_expr_member *members, uint32_t *n,
                              bool *is_possible)
{
    *n = 0;
    *is_possible = true;
    for (uint32_t i = 0; i < o->n_members && *is_possible; i++) {
        const di_expr *text;
        DI_TRY(emit_member(js, o, &o->members[i], &text));
        if (text->kind != DI_EXPR_NOTHING)
            members[(*n)++] =
                (di_expr_member){.text = text, .is_required = o->members[i].is_required};
        else
            *is_possible = !o->members[i].is_required;
    }
    return DI_OK;
}

/* The reader of calls refuses a name that occurs twice: a free one of each kind, at most. */
static di_status emit_parameters(di_js *js, const object *o, const di_expr **out)
{
    free_members f = {.o = o};
    di_expr_members all = {.any_order = true, .min_n = o->min, .max_n = o->max};
    di_expr_member *members;
    bool is_possible, is_left_out;
    *out = di_expr_nothing();
    DI_TRY(emit_classes(js, o, &f, &is_left_out));
    DI_TRY(DI_ARENA_NEW(js->arena, o->n_members + f.n_parts, &members));
    DI_TRY(list_members(js, o, members, &all.n, &is_possible));
    if (!is_possible)
        return DI_OK;
    for (size_t i = 0; i < f.n_parts; i++)
        members[all.n++] = (di_expr_member){.text = f.parts[i]};
    all.members = members;
    return di_js_parameters(js, &all, (uint32_t)f.n_parts, o->min == 0 && !o->has_required, out);
}

static di_status emit_members(di_js *js, const object *o, const di_expr **out)
{
    di_expr_members all = {.any_order = js->options->any_order || !o->has_order,
                           .min_n = o->min > 0 ? o->min : 1,
                           .max_n = o->max};
    di_expr_member *members;
    const di_expr *others;
    bool is_possible;
    DI_TRY(DI_ARENA_NEW(js->arena, o->n_members, &members));
    *out = di_expr_nothing();
    DI_TRY(list_members(js, o, members, &all.n, &is_possible));
    if (!is_possible)
        return DI_OK;
    DI_TRY(emit_free(js, o, &others));
    all.members = members;
    all.others = others->kind == DI_EXPR_NOTHING ? NULL : others;
    DI_TRY(di_js_comma(js, o->view->level, &all.separator));
    const di_expr *items = di_expr_nothing();
    if (o->max > 0 && (all.others != NULL || (all.n > 0 && all.n >= all.min_n)))
        DI_TRY(di_expr_from_members(js->arena, &all, &items));
    const bool may_empty = o->min == 0 && !o->has_required;
    return di_js_bracketed(js, '{', items, may_empty, o->view->level, out);
}

di_status di_js_emit_object(di_js *js, const di_js_view *view, const di_expr **out)
{
    object o;
    DI_TRY(read_object(js, view, &o));
    *out = di_expr_nothing();
    if (o.min > o.max)
        return DI_OK;
    if (o.excluded != NULL)
        DI_TRY(di_js_refuse(js, o.excluded, "a certain object must not occur"));
    if (view->level > DI_JS_LEVELS_MOST) {
        for (uint32_t i = 0; i < o.n_members; i++)
            if (o.members[i].is_required)
                return DI_OK;
        return di_js_bracketed(js, '{', di_expr_nothing(), o.min == 0, view->level, out);
    }
    return view->is_call ? emit_parameters(js, &o, out) : emit_members(js, &o, out);
}

di_status di_js_object_is_empty(di_js *js, const di_js_view *view, bool *out)
{
    object o;
    DI_TRY(read_object(js, view, &o));
    *out = o.min > o.max;
    for (uint32_t i = 0; i < o.n_members && !*out; i++) {
        di_js_lits lits;
        if (!o.members[i].is_required)
            continue;
        DI_TRY(member_lits(js, &o, &o.members[i], &lits));
        *out = di_js_has_false(js, &lits);
        if (!*out)
            DI_TRY(di_js_is_empty(js, lits.items, lits.n, out));
    }
    return DI_OK;
}
