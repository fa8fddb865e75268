/* Expressions to automata over bytes (Thompson's construction, without the epsilon edges that
 * sequences and alternatives do not need). */
#include "grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/dfa.h"

/* A counted body of at most this many nodes in all is unrolled: a register costs more. */
enum { UNROLL_NODES = 32 };

typedef struct lowering {
    di_raw_grammar *raw;
    uint32_t rule;
} lowering;

static di_status lower(lowering *l, const di_expr *expr, uint32_t from, uint32_t to);
static bool is_counted(const di_expr *expr);
static di_status lower_with_tail(lowering *l, const di_expr *expr, const di_expr *tail,
                                 uint32_t from, uint32_t to);

static di_status new_state(lowering *l, uint32_t *state)
{
    return di_raw_state(l->raw, l->rule, state);
}

static di_status add_epsilon(lowering *l, uint32_t from, uint32_t to)
{
    return di_raw_edge_add(l->raw, from, (di_edge){.kind = DI_EDGE_EPSILON, .target = to});
}

static di_status add_action(lowering *l, uint32_t from, uint32_t to, di_edge_action action,
                            uint32_t member)
{
    return di_raw_edge_add(
        l->raw, from,
        (di_edge){
            .kind = DI_EDGE_EPSILON, .action = (uint8_t)action, .rule = member, .target = to});
}

static di_status add_call(lowering *l, uint32_t from, uint32_t to, uint32_t rule, bool not_empty)
{
    return di_raw_edge_add(
        l->raw, from,
        (di_edge){.kind = DI_EDGE_CALL, .rule = rule, .target = to, .not_empty = not_empty});
}

/* Nodes of an expression, counting no further than `limit`. */
static uint32_t n_nodes(const di_expr *expr, uint32_t limit)
{
    uint32_t n = 1;
    switch (expr->kind) {
    case DI_EXPR_CHARS:
        return expr->chars.n;
    case DI_EXPR_SEQ:
    case DI_EXPR_ALT:
        for (uint32_t i = 0; i < expr->list.n && n <= limit; i++)
            n += n_nodes(expr->list.items[i], limit);
        return n;
    case DI_EXPR_REPEAT: {
        const uint32_t times =
            expr->repeat.max == DI_REPEAT_INF ? expr->repeat.min + 1 : expr->repeat.max;
        const uint64_t total = (uint64_t)n_nodes(expr->repeat.body, limit) * times + 1;
        return total > limit ? limit + 1 : (uint32_t)total;
    }
    case DI_EXPR_DFA:
    case DI_EXPR_MEMBERS:
        return limit + 1;
    default:
        return n;
    }
}

/* Whether the empty text matches; a rule might. */
static bool may_be_empty(const di_expr *expr)
{
    switch (expr->kind) {
    case DI_EXPR_NOTHING:
    case DI_EXPR_CHARS:
    case DI_EXPR_TOKEN:
        return false;
    case DI_EXPR_SEQ:
        for (uint32_t i = 0; i < expr->list.n; i++)
            if (!may_be_empty(expr->list.items[i]))
                return false;
        return true;
    case DI_EXPR_ALT:
        for (uint32_t i = 0; i < expr->list.n; i++)
            if (may_be_empty(expr->list.items[i]))
                return true;
        return false;
    case DI_EXPR_REPEAT:
        return expr->repeat.min == 0 || may_be_empty(expr->repeat.body);
    case DI_EXPR_DFA:
        return expr->dfa.min_len == 0 && expr->dfa.dfa->n_states > 0 &&
               expr->dfa.dfa->states[0].is_final;
    default:
        return true;
    }
}

/* --- alternatives: those that begin with the same code point share it --- */

static const di_expr *first_of(const di_expr *expr)
{
    return expr->kind == DI_EXPR_SEQ ? expr->list.items[0] : expr;
}

/* The single code point expr begins with; DI_CODE_LAST + 1 if it does not begin with one. */
static uint32_t leading_code(const di_expr *expr)
{
    const di_expr *first = first_of(expr);
    const bool is_one = first->kind == DI_EXPR_CHARS && first->chars.n == 1 &&
                        first->chars.ranges[0].first == first->chars.ranges[0].last;
    return is_one ? first->chars.ranges[0].first : DI_CODE_LAST + 1;
}

typedef struct branch {
    const di_expr *expr;
    uint32_t code;
    uint32_t order; /* keeps the sort stable, and with it the automaton the same everywhere */
} branch;

static int by_code(const void *a, const void *b)
{
    const branch *x = a, *y = b;
    if (x->code != y->code)
        return x->code < y->code ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static di_status rest_of(lowering *l, const di_expr *expr, const di_expr **out)
{
    if (expr->kind != DI_EXPR_SEQ) {
        *out = di_expr_empty();
        return DI_OK;
    }
    if (expr->list.n == 2) {
        *out = expr->list.items[1];
        return DI_OK;
    }
    di_expr *rest;
    DI_TRY(DI_ARENA_NEW(l->raw->arena, 1, &rest));
    *rest = (di_expr){.kind = DI_EXPR_SEQ,
                      .list = {.items = expr->list.items + 1, .n = expr->list.n - 1}};
    *out = rest;
    return DI_OK;
}

/* n alternatives with the same leading code point. */
static di_status lower_shared(lowering *l, const branch *branches, uint32_t n, uint32_t from,
                              uint32_t to)
{
    const di_expr **rests;
    const di_expr *alternatives;
    uint32_t middle;
    DI_TRY(DI_ARENA_NEW(l->raw->arena, n, &rests));
    for (uint32_t i = 0; i < n; i++)
        DI_TRY(rest_of(l, branches[i].expr, &rests[i]));
    DI_TRY(new_state(l, &middle));
    DI_TRY(lower(l, first_of(branches[0].expr), from, middle));
    DI_TRY(di_expr_alt(l->raw->arena, rests, n, &alternatives));
    return lower(l, alternatives, middle, to);
}

static di_status lower_branches(lowering *l, const branch *branches, uint32_t n, uint32_t from,
                                uint32_t to)
{
    for (uint32_t i = 0; i < n;) {
        uint32_t end = i + 1;
        while (end < n && branches[i].code <= DI_CODE_LAST &&
               branches[end].code == branches[i].code)
            end++;
        if (end - i == 1)
            DI_TRY(lower(l, branches[i].expr, from, to));
        else
            DI_TRY(lower_shared(l, branches + i, end - i, from, to));
        i = end;
    }
    return DI_OK;
}

static di_status lower_alt(lowering *l, const di_expr *expr, uint32_t from, uint32_t to)
{
    branch *branches = malloc(expr->list.n * sizeof *branches);
    if (branches == NULL)
        return di_fail_memory(expr->list.n * sizeof *branches, "the alternatives of a grammar");
    for (uint32_t i = 0; i < expr->list.n; i++)
        branches[i] = (branch){expr->list.items[i], leading_code(expr->list.items[i]), i};
    qsort(branches, expr->list.n, sizeof *branches, by_code);
    const di_status status = lower_branches(l, branches, expr->list.n, from, to);
    free(branches);
    return status;
}

/* --- sequences and repetitions --- */

/* A single ASCII character: one byte. */
static bool is_byte(const di_expr *expr)
{
    return expr->kind == DI_EXPR_CHARS && expr->chars.n == 1 &&
           expr->chars.ranges[0].first == expr->chars.ranges[0].last &&
           expr->chars.ranges[0].first < 0x80;
}

/* A byte that must follow a counted rule (the quote that ends a string) belongs into it: a rule
 * that could end after every token would leave all masks to its callers. */
static di_status lower_seq(lowering *l, const di_expr *const *items, uint32_t n, uint32_t from,
                           uint32_t to)
{
    for (uint32_t i = 0; i < n; i++) {
        const bool has_tail = i + 1 < n && is_byte(items[i + 1]) && is_counted(items[i]);
        uint32_t next = to;
        if (i + 1 + has_tail < n)
            DI_TRY(new_state(l, &next));
        if (has_tail)
            DI_TRY(lower_with_tail(l, items[i], items[i + 1], from, next));
        else
            DI_TRY(lower(l, items[i], from, next));
        from = next;
        i += has_tail;
    }
    return DI_OK;
}

/* A rule of its own for an expression, called from `from` to `to`. */
static di_status lower_call(lowering *l, const di_expr *expr, uint32_t from, uint32_t to,
                            bool not_empty)
{
    uint32_t rule = expr->rule;
    if (expr->kind != DI_EXPR_RULE) {
        DI_TRY(di_raw_rule(l->raw, NULL, &rule));
        DI_TRY(di_lower_rule(l->raw, rule, expr));
    }
    return add_call(l, from, to, rule, not_empty);
}

static di_status lower_star(lowering *l, const di_expr *body, uint32_t from, uint32_t to)
{
    uint32_t loop;
    DI_TRY(new_state(l, &loop));
    DI_TRY(add_epsilon(l, from, loop));
    DI_TRY(lower(l, body, loop, loop));
    return add_epsilon(l, loop, to);
}

static di_status unroll(lowering *l, const di_expr *expr, uint32_t from, uint32_t to)
{
    const uint32_t max = expr->repeat.max;
    const uint32_t n = max == DI_REPEAT_INF ? expr->repeat.min : max;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t next;
        if (i >= expr->repeat.min)
            DI_TRY(add_epsilon(l, from, to));
        DI_TRY(new_state(l, &next));
        DI_TRY(lower(l, expr->repeat.body, from, next));
        from = next;
    }
    return max == DI_REPEAT_INF ? lower_star(l, expr->repeat.body, from, to)
                                : add_epsilon(l, from, to);
}

/* Starts a rule with a register; l becomes the lowering of its automaton. */
static di_status counted_rule(lowering *l, uint32_t min, uint32_t max, lowering *inner)
{
    *inner = (lowering){.raw = l->raw};
    DI_TRY(di_raw_rule(l->raw, NULL, &inner->rule));
    di_rule *rule = &l->raw->rules[inner->rule];
    rule->kind = DI_REGISTER_COUNT;
    rule->min = min;
    rule->max = max;
    return DI_OK;
}

/* Ends a rule at a state, or after the tail that follows it (NULL: none). */
static di_status end_rule(lowering *l, const di_expr *tail, uint32_t state)
{
    uint32_t end = state;
    if (tail != NULL) {
        DI_TRY(new_state(l, &end));
        DI_TRY(lower(l, tail, state, end));
    }
    l->raw->states[end].is_final = true;
    return DI_OK;
}

static di_status lower_counted(lowering *l, const di_expr *expr, const di_expr *tail, uint32_t from,
                               uint32_t to)
{
    const di_expr *body = expr->repeat.body;
    lowering inner;
    uint32_t loop, after;
    DI_TRY(counted_rule(l, expr->repeat.min, expr->repeat.max, &inner));
    DI_TRY(new_state(&inner, &loop));
    DI_TRY(new_state(&inner, &after));
    l->raw->rules[inner.rule].start = loop;
    DI_TRY(end_rule(&inner, tail, loop));
    if (may_be_empty(body))
        DI_TRY(lower_call(&inner, body, loop, after, true));
    else
        DI_TRY(lower(&inner, body, loop, after));
    DI_TRY(add_action(&inner, after, loop, DI_ACTION_COUNT, 0));
    return add_call(l, from, to, inner.rule, false);
}

/* Whether a repetition gets a rule with a register. */
static bool is_counted_repeat(const di_expr *expr)
{
    const uint32_t min = expr->repeat.min, max = expr->repeat.max;
    return !(min == 0 && (max == DI_REPEAT_INF || max == 1)) &&
           !(min == 1 && max == DI_REPEAT_INF) && n_nodes(expr, UNROLL_NODES) > UNROLL_NODES;
}

static bool is_counted(const di_expr *expr)
{
    if (expr->kind == DI_EXPR_DFA)
        return expr->dfa.min_len > 0 || expr->dfa.max_len != DI_REPEAT_INF;
    return expr->kind == DI_EXPR_REPEAT && is_counted_repeat(expr);
}

static di_status lower_repeat(lowering *l, const di_expr *expr, uint32_t from, uint32_t to)
{
    const uint32_t min = expr->repeat.min, max = expr->repeat.max;
    if (min == 0 && max == DI_REPEAT_INF)
        return lower_star(l, expr->repeat.body, from, to);
    if (min == 0 && max == 1) {
        DI_TRY(add_epsilon(l, from, to));
        return lower(l, expr->repeat.body, from, to);
    }
    return is_counted_repeat(expr) ? lower_counted(l, expr, NULL, from, to)
                                   : unroll(l, expr, from, to);
}

/* --- deterministic automata --- */

/* states[i] for each state of the automaton; with counts, arrivals[i] counts and goes on to
 * states[i]. */
static di_status lower_dfa_states(lowering *l, const di_expr_dfa *dfa, bool counts,
                                  uint32_t *states, uint32_t *arrivals)
{
    for (uint32_t i = 0; i < dfa->dfa->n_states; i++) {
        DI_TRY(new_state(l, &states[i]));
        arrivals[i] = states[i];
        if (!counts)
            continue;
        DI_TRY(new_state(l, &arrivals[i]));
        DI_TRY(add_action(l, arrivals[i], states[i], DI_ACTION_COUNT, 0));
    }
    return DI_OK;
}

/* Edges of one state, those to the same target as one set. */
static di_status lower_dfa_state(lowering *l, const di_expr_dfa *dfa, uint32_t state, uint32_t from,
                                 const uint32_t *arrivals)
{
    di_arena *arena = l->raw->arena;
    const di_dfa_state *s = &dfa->dfa->states[state];
    const di_dfa_edge *edges = dfa->dfa->edges + s->first_edge;
    for (uint32_t i = 0; i < s->n_edges; i++) {
        uint32_t before = 0;
        while (before < i && edges[before].target != edges[i].target)
            before++;
        if (before < i)
            continue; /* went with the first edge of its target */
        di_code_range *ranges;
        uint32_t n = 0;
        const di_expr *expr;
        DI_TRY(DI_ARENA_NEW(arena, s->n_edges - i, &ranges));
        for (uint32_t j = i; j < s->n_edges; j++)
            if (edges[j].target == edges[i].target)
                ranges[n++] = (di_code_range){edges[j].first, edges[j].last};
        di_charset set;
        DI_TRY(di_charset_intersect(arena, (di_charset){ranges, n}, di_charset_all(), &set));
        DI_TRY(di_expr_chars(arena, set, &expr));
        if (dfa->as_json)
            DI_TRY(di_expr_json_string(arena, expr, &expr));
        DI_TRY(lower(l, expr, from, arrivals[edges[i].target]));
    }
    return DI_OK;
}

/* A tail (NULL: none) follows each final state at once: no state between can count no more. */
static di_status lower_dfa_between(lowering *l, const di_expr_dfa *dfa, bool counts,
                                   const di_expr *tail, uint32_t from, uint32_t to)
{
    uint32_t *states, *arrivals;
    DI_TRY(DI_ARENA_NEW(l->raw->arena, dfa->dfa->n_states, &states));
    DI_TRY(DI_ARENA_NEW(l->raw->arena, dfa->dfa->n_states, &arrivals));
    DI_TRY(lower_dfa_states(l, dfa, counts, states, arrivals));
    DI_TRY(add_epsilon(l, from, states[0]));
    for (uint32_t i = 0; i < dfa->dfa->n_states; i++) {
        DI_TRY(lower_dfa_state(l, dfa, i, states[i], arrivals));
        if (dfa->dfa->states[i].is_final)
            DI_TRY(lower(l, tail != NULL ? tail : di_expr_empty(), states[i], to));
    }
    return DI_OK;
}

static di_status lower_counted_dfa(lowering *l, const di_expr_dfa *dfa, const di_expr *tail,
                                   uint32_t from, uint32_t to)
{
    lowering inner;
    uint32_t start, end;
    DI_TRY(counted_rule(l, dfa->min_len, dfa->max_len, &inner));
    DI_TRY(new_state(&inner, &start));
    DI_TRY(new_state(&inner, &end));
    l->raw->rules[inner.rule].start = start;
    l->raw->states[end].is_final = true;
    DI_TRY(lower_dfa_between(&inner, dfa, true, tail, start, end));
    return add_call(l, from, to, inner.rule, false);
}

static di_status lower_with_tail(lowering *l, const di_expr *expr, const di_expr *tail,
                                 uint32_t from, uint32_t to)
{
    return expr->kind == DI_EXPR_DFA ? lower_counted_dfa(l, &expr->dfa, tail, from, to)
                                     : lower_counted(l, expr, tail, from, to);
}

/* --- members of objects --- */

/* In the given order. choose[i]: a member from i on must follow; written[i]: members before i are
 * done. */
static di_status lower_in_order(lowering *l, const di_expr_members *m, bool counts, uint32_t start)
{
    uint32_t end, choose, separator;
    DI_TRY(new_state(l, &end));
    DI_TRY(new_state(l, &choose)); /* not the start, which may be the end too */
    DI_TRY(add_epsilon(l, start, choose));
    l->raw->states[end].is_final = true;
    DI_TRY(di_raw_rule(l->raw, NULL, &separator));
    DI_TRY(di_lower_rule(l->raw, separator, m->separator));
    const di_edge_action count = counts ? DI_ACTION_COUNT : DI_ACTION_NONE;
    uint32_t last_required = 0; /* one past it */
    for (uint32_t i = 0; i < m->n; i++)
        if (m->members[i].is_required)
            last_required = i + 1;
    if (last_required == 0)
        DI_TRY(add_epsilon(l, start, end));
    for (uint32_t i = 0; i <= m->n; i++) {
        const di_expr *text = i < m->n ? m->members[i].text : m->others;
        if (text == NULL)
            break;
        uint32_t written, counted, next_choose = choose;
        DI_TRY(new_state(l, &written));
        DI_TRY(new_state(l, &counted));
        DI_TRY(lower_call(l, text, choose, written, false));
        DI_TRY(add_action(l, written, counted, count, 0));
        if (i < m->n)
            DI_TRY(new_state(l, &next_choose));
        DI_TRY(add_call(l, counted, next_choose, separator, false));
        if (i + 1 >= last_required)
            DI_TRY(add_epsilon(l, counted, end));
        if (i < m->n && !m->members[i].is_required)
            DI_TRY(add_epsilon(l, choose, next_choose));
        choose = next_choose;
    }
    return DI_OK;
}

static di_status lower_any_order(lowering *l, const di_expr_members *m, uint32_t start)
{
    uint32_t end, choose, written, more;
    DI_TRY(new_state(l, &end));
    DI_TRY(new_state(l, &choose));
    DI_TRY(new_state(l, &written));
    DI_TRY(new_state(l, &more));
    l->raw->states[end].is_final = true;
    DI_TRY(add_epsilon(l, start, end));
    DI_TRY(add_epsilon(l, start, choose));
    DI_TRY(add_epsilon(l, written, end));
    DI_TRY(add_action(l, written, more, DI_ACTION_MORE, 0));
    DI_TRY(lower(l, m->separator, more, choose));
    for (uint32_t i = 0; i <= m->n; i++) {
        const di_expr *text = i < m->n ? m->members[i].text : m->others;
        if (text == NULL)
            break;
        uint32_t chosen;
        DI_TRY(new_state(l, &chosen));
        DI_TRY(add_action(l, choose, chosen, i < m->n ? DI_ACTION_MEMBER : DI_ACTION_OTHER, i));
        DI_TRY(lower_call(l, text, chosen, written, false));
    }
    return DI_OK;
}

static di_status set_members(lowering *l, const di_expr_members *m)
{
    bool *required;
    DI_TRY(DI_ARENA_NEW(l->raw->arena, m->n, &required));
    for (uint32_t i = 0; i < m->n; i++)
        required[i] = m->members[i].is_required;
    di_rule *rule = &l->raw->rules[l->rule];
    rule->kind = DI_REGISTER_SET;
    rule->n_members = m->n;
    rule->is_required = required;
    rule->has_others = m->others != NULL;
    return DI_OK;
}

static di_status lower_members(lowering *l, const di_expr_members *m, uint32_t from, uint32_t to)
{
    uint32_t n_required = 0, start;
    for (uint32_t i = 0; i < m->n; i++)
        n_required += m->members[i].is_required;
    const bool counts = m->min_n > n_required || m->max_n != DI_REPEAT_INF;
    lowering inner;
    DI_TRY(counted_rule(l, m->min_n, m->max_n, &inner));
    DI_TRY(new_state(&inner, &start));
    l->raw->rules[inner.rule].start = start;
    if (m->any_order) {
        DI_TRY(set_members(&inner, m));
        DI_TRY(lower_any_order(&inner, m, start));
    } else {
        if (!counts)
            l->raw->rules[inner.rule].kind = DI_REGISTER_NONE;
        DI_TRY(lower_in_order(&inner, m, counts, start));
    }
    return add_call(l, from, to, inner.rule, false);
}

static di_status lower(lowering *l, const di_expr *expr, uint32_t from, uint32_t to)
{
    switch (expr->kind) {
    case DI_EXPR_NOTHING:
        return DI_OK;
    case DI_EXPR_EMPTY:
        return add_epsilon(l, from, to);
    case DI_EXPR_CHARS:
        return di_lower_chars(l->raw, expr->chars, from, to);
    case DI_EXPR_SEQ:
        return lower_seq(l, expr->list.items, expr->list.n, from, to);
    case DI_EXPR_ALT:
        return lower_alt(l, expr, from, to);
    case DI_EXPR_REPEAT:
        return lower_repeat(l, expr, from, to);
    case DI_EXPR_RULE:
        return add_call(l, from, to, expr->rule, false);
    case DI_EXPR_DFA:
        return is_counted(expr) ? lower_counted_dfa(l, &expr->dfa, NULL, from, to)
                                : lower_dfa_between(l, &expr->dfa, false, NULL, from, to);
    case DI_EXPR_MEMBERS:
        return lower_members(l, &expr->members, from, to);
    case DI_EXPR_TOKEN:
        return di_lower_token(l->raw, expr->token.text, expr->token.len, from, to);
    }
    return DI_OK;
}

static bool is_star(const di_expr *expr)
{
    return expr->kind == DI_EXPR_REPEAT && expr->repeat.min == 0 &&
           expr->repeat.max == DI_REPEAT_INF;
}

/* A rule that begins with a loop loops at its start: one state, not two that do the same. */
static di_status lower_body(lowering *l, const di_expr *expr, uint32_t start, uint32_t end)
{
    if (is_star(expr)) {
        DI_TRY(lower(l, expr->repeat.body, start, start));
        return add_epsilon(l, start, end);
    }
    if (expr->kind == DI_EXPR_SEQ && is_star(expr->list.items[0])) {
        DI_TRY(lower(l, expr->list.items[0]->repeat.body, start, start));
        return lower_seq(l, expr->list.items + 1, expr->list.n - 1, start, end);
    }
    return lower(l, expr, start, end);
}

di_status di_lower_rule(di_raw_grammar *raw, uint32_t rule, const di_expr *expr)
{
    lowering l = {.raw = raw, .rule = rule};
    uint32_t start, end;
    DI_TRY(new_state(&l, &start));
    DI_TRY(new_state(&l, &end));
    raw->states[end].is_final = true;
    raw->rules[rule].start = start;
    return lower_body(&l, expr, start, end);
}
