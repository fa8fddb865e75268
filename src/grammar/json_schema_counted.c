/* Arrays that contain some items so many times, and arrays without an item twice. */
#include <string.h>

#include "grammar/json_schema_array.h"

enum { STATES_MOST = 4096 };

/* What is left to write, by how much was written: [index][state], made on demand. */
typedef struct table {
    di_js *js;
    const di_js_array *a;
    const di_expr *comma;
    uint32_t n_indices, n_states;
    const di_expr **cells;
} table;

/* ---- contains */

/* Counts of matches so far, each up to its cap, in one number. */
typedef struct counter {
    uint32_t n, caps[3];
} counter;

static uint32_t count_in(const counter *c, uint32_t state, uint32_t which)
{
    for (uint32_t i = 0; i < which; i++)
        state /= c->caps[i] + 1;
    return state % (c->caps[which] + 1);
}

/* Adds one to the counts in `matched`; false if a count would pass its maximum. */
static bool advance(const counter *c, const di_js_array *a, uint32_t matched, uint32_t *state)
{
    uint32_t next = 0, scale = 1;
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t count = count_in(c, *state, i);
        if (matched >> i & 1) {
            if (count == a->contains[i]->max)
                return false;
            count += count < c->caps[i];
        }
        next += count * scale;
        scale *= c->caps[i] + 1;
    }
    *state = next;
    return true;
}

static bool may_end(const counter *c, const di_js_array *a, uint32_t state)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (count_in(c, state, i) < a->contains[i]->min)
            return false;
    return true;
}

/* An item that matches the contains in `matched`; where there is a maximum, and no others. */
static di_status class_item(di_js *js, const di_js_array *a, uint32_t index, uint32_t matched,
                            const di_expr **out)
{
    di_js_lits lits;
    DI_TRY(di_js_item_lits(js, a->view, index, &lits));
    for (uint32_t i = 0; i < a->n_contains; i++) {
        const di_js_fact *fact = a->contains[i];
        if (matched >> i & 1)
            DI_TRY(di_js_lits_add(js, &lits, fact->lit));
        else if (fact->max != DI_REPEAT_INF)
            DI_TRY(di_js_lits_add(js, &lits, di_js_negate(fact->lit)));
    }
    return di_js_emit(js, lits.items, lits.n, a->view->level + 1, out);
}

static di_status rest_of(table *t, const counter *c, uint32_t index, uint32_t state,
                         const di_expr **out);

/* From a state at an index: the end, or an item and what follows it. Items that change nothing are
 * repeated in the last index. */
static di_status make_rest(table *t, const counter *c, uint32_t index, uint32_t state,
                           const di_expr **out)
{
    di_js *js = t->js;
    const bool is_last = index + 1 == t->n_indices;
    const bool is_full = t->a->max != DI_REPEAT_INF && index >= t->a->max;
    const di_expr *parts[10], *loops[9];
    size_t n = 0, n_loops = 0;
    if (index >= t->a->min && may_end(c, t->a, state))
        parts[n++] = di_expr_empty();
    for (uint32_t matched = 0; matched < 1u << c->n && !is_full; matched++) {
        const di_expr *item, *rest;
        uint32_t next = state;
        if (!advance(c, t->a, matched, &next))
            continue;
        DI_TRY(class_item(js, t->a, index, matched, &item));
        if (index > 0)
            DI_TRY(DI_EXPR_SEQ_OF(js->arena, &item, t->comma, item));
        if (is_last && next == state) {
            loops[n_loops++] = item;
            continue;
        }
        DI_TRY(rest_of(t, c, is_last ? index : index + 1, next, &rest));
        DI_TRY(DI_EXPR_SEQ_OF(js->arena, &parts[n++], item, rest));
    }
    DI_TRY(di_expr_alt(js->arena, parts, n, out));
    const di_expr *loop;
    DI_TRY(di_expr_alt(js->arena, loops, n_loops, &loop));
    DI_TRY(di_expr_repeat(js->arena, loop, 0, DI_REPEAT_INF, &loop));
    return DI_EXPR_SEQ_OF(js->arena, out, loop, *out);
}

static di_status rest_of(table *t, const counter *c, uint32_t index, uint32_t state,
                         const di_expr **out)
{
    const di_expr **cell = &t->cells[(size_t)index * t->n_states + state];
    uint32_t rule;
    if (*cell == NULL) {
        const di_expr *expr;
        DI_TRY(di_js_rule_new(t->js, "items", &rule, cell));
        DI_TRY(make_rest(t, c, index, state, &expr));
        di_js_rule_set(t->js, rule, expr);
    }
    *out = *cell;
    return DI_OK;
}

static di_status plan_counter(const di_js_array *a, counter *c, table *t)
{
    *c = (counter){.n = (uint32_t)a->n_contains};
    if (a->n_contains > 3)
        return di_fail(DI_ERR_UNSUPPORTED, "%zu of them for one array", a->n_contains);
    uint64_t n_states = 1;
    for (uint32_t i = 0; i < c->n; i++) {
        const di_js_fact *fact = a->contains[i];
        c->caps[i] = fact->max != DI_REPEAT_INF ? fact->max : fact->min;
        if (c->caps[i] >= STATES_MOST)
            return di_fail(DI_ERR_UNSUPPORTED, "%u items are too many to count", c->caps[i]);
        n_states *= c->caps[i] + 1;
    }
    uint64_t n_indices = a->max != DI_REPEAT_INF ? (uint64_t)a->max + 1 : (uint64_t)a->min + 1;
    if (a->max == DI_REPEAT_INF && n_indices < (uint64_t)a->n_special + 1)
        n_indices = (uint64_t)a->n_special + 1;
    if (n_indices < 2)
        n_indices = 2; /* the first item has no comma */
    if (n_states * n_indices > STATES_MOST || n_indices > 512)
        return di_fail(DI_ERR_UNSUPPORTED, "too many items to count");
    t->n_states = (uint32_t)n_states;
    t->n_indices = (uint32_t)n_indices;
    return DI_OK;
}

static di_status emit_contains(di_js *js, const di_js_array *a, const di_expr **out)
{
    table t = {.js = js, .a = a};
    counter c;
    const di_expr *items = di_expr_nothing();
    DI_TRY(plan_counter(a, &c, &t));
    DI_TRY(di_js_comma(js, a->view->level, &t.comma));
    DI_TRY(DI_ARENA_ZNEW(&js->scratch, (size_t)t.n_indices * t.n_states, &t.cells));
    const bool may_empty = a->min == 0 && may_end(&c, a, 0);
    di_js_array at_least_one = *a;
    at_least_one.min = a->min > 0 ? a->min : 1;
    t.a = &at_least_one;
    if (a->max > 0)
        DI_TRY(make_rest(&t, &c, 0, 0, &items));
    return di_js_bracketed(js, '[', items, may_empty, a->view->level, out);
}

di_status di_js_emit_counted(di_js *js, const di_js_array *a, const di_expr **out)
{
    const di_status status = emit_contains(js, a, out);
    if (status != DI_ERR_UNSUPPORTED || js->is_named)
        return status;
    DI_TRY(di_js_refuse_failed(js, a->contains[0]->value, status));
    di_js_array plain = *a;
    plain.n_contains = 0;
    return di_js_emit_plain(js, &plain, out);
}

/* ---- uniqueItems: the items must be few known values */

typedef struct choice {
    const di_sj_value *values[24];
    const di_expr *texts[24];
    uint32_t n;
    uint32_t *allowed; /* [indices]: bits of the values that may stand there */
    uint32_t n_indices;
} choice;

static di_status add_choice(di_js *js, choice *c, const di_sj_value *value, uint32_t index)
{
    uint32_t i = 0;
    while (i < c->n && !di_sj_equal(c->values[i], value))
        i++;
    if (i == c->n) {
        DI_BUF_AUTO text = {0};
        if (c->n == 24)
            return di_fail(DI_ERR_UNSUPPORTED, "the items have more than 24 different values");
        DI_TRY(di_sj_write(value, &text));
        DI_TRY(di_js_literal(js, di_buf_str(&text), text.len, &c->texts[i]));
        c->values[c->n++] = value;
    }
    c->allowed[index] |= 1u << i;
    return DI_OK;
}

static di_status list_choices(di_js *js, const di_js_array *a, choice *c)
{
    c->n_indices = a->n_special + 1;
    if (c->n_indices > 64)
        return di_fail(DI_ERR_UNSUPPORTED, "more than 64 different items");
    DI_TRY(DI_ARENA_ZNEW(&js->scratch, c->n_indices, &c->allowed));
    for (uint32_t index = 0; index < c->n_indices && index < a->max; index++) {
        di_js_lits lits;
        const di_sj_value **values;
        bool is_finite;
        size_t n;
        DI_TRY(di_js_item_lits(js, a->view, index, &lits));
        DI_TRY(di_js_list_values(js, lits.items, lits.n, &is_finite, &values, &n));
        if (!is_finite)
            return di_fail(DI_ERR_UNSUPPORTED, "the items are not a few known values");
        for (size_t i = 0; i < n; i++)
            DI_TRY(add_choice(js, c, values[i], index));
    }
    return DI_OK;
}

typedef struct subsets {
    di_js *js;
    const di_js_array *a;
    const choice *c;
    const di_expr *comma;
    di_strmap rules; /* set of values -> number of the expression */
    const di_expr **exprs;
    uint32_t n;
} subsets;

/* What may follow when the values of `used` are written. */
static di_status after(subsets *s, uint32_t used, const di_expr **out)
{
    di_js *js = s->js;
    const uint32_t index = (uint32_t)__builtin_popcount(used);
    const uint32_t allowed =
        s->c->allowed[index < s->c->n_indices ? index : s->c->n_indices - 1] & ~used;
    int64_t number;
    if (di_strmap_get(&s->rules, (const char *)&used, sizeof used, &number)) {
        *out = s->exprs[number];
        return DI_OK;
    }
    if (s->n == STATES_MOST)
        return di_fail(DI_ERR_UNSUPPORTED, "more than %d sets of items", STATES_MOST);
    uint32_t rule, n = 0;
    const di_expr *parts[25], *expr, *self;
    DI_TRY(di_js_rule_new(js, "items", &rule, &self));
    s->exprs[s->n] = self;
    DI_TRY(di_strmap_put(&s->rules, (const char *)&used, sizeof used, s->n++, NULL));
    if (index >= s->a->min && index > 0)
        parts[n++] = di_expr_empty();
    for (uint32_t i = 0; i < s->c->n && index < s->a->max; i++) {
        const di_expr *rest;
        if ((allowed >> i & 1) == 0)
            continue;
        DI_TRY(after(s, used | 1u << i, &rest));
        DI_TRY(DI_EXPR_SEQ_OF(js->arena, &parts[n++], index > 0 ? s->comma : di_expr_empty(),
                              s->c->texts[i], rest));
    }
    DI_TRY(di_expr_alt(js->arena, parts, n, &expr));
    di_js_rule_set(js, rule, expr);
    *out = self;
    return DI_OK;
}

static di_status emit_subsets(di_js *js, const di_js_array *a, const di_expr **out)
{
    choice c = {0};
    const di_expr *items;
    if (a->n_contains > 0)
        return di_fail(DI_ERR_UNSUPPORTED, "contains stands beside it");
    DI_TRY(list_choices(js, a, &c));
    subsets s = {.js = js, .a = a, .c = &c};
    DI_TRY(di_js_comma(js, a->view->level, &s.comma));
    DI_TRY(DI_ARENA_NEW(&js->scratch, STATES_MOST, &s.exprs));
    const di_status status = after(&s, 0, &items);
    di_strmap_free(&s.rules);
    DI_TRY(status);
    return di_js_bracketed(js, '[', items, a->min == 0, a->view->level, out);
}

di_status di_js_emit_unique(di_js *js, const di_js_array *a, const di_expr **out)
{
    const di_status status = emit_subsets(js, a, out);
    if (status != DI_ERR_UNSUPPORTED || js->is_named)
        return status;
    DI_TRY(di_js_refuse_failed(js, a->unique, status));
    di_js_array plain = *a;
    plain.unique = NULL;
    return plain.n_contains > 0 ? di_js_emit_counted(js, &plain, out)
                                : di_js_emit_plain(js, &plain, out);
}
