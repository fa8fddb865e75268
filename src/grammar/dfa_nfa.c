/* From expressions to automata: a nondeterministic automaton with empty edges (Thompson), then its
 * sets of states, each with the code points of its own members only. */
#include <stdlib.h>

#include "grammar/dfa_builder.h"
#include "grammar/tuples.h"

/* For each state that is allowed: states of the nondeterministic automaton, members of the sets,
 * and steps of work (some nanoseconds each). */
enum {
    NFA_PER_STATE = 4,
    MEMBERS_PER_STATE = 16,
    FREE_MEMBERS = 1 << 16,
    WORK_PER_STATE = 512,
    FREE_WORK = 1 << 22,
    LOOKUP_WORK = 16,
    SORT_WORK = 8, /* an item */
    STATE_WORK = 256
};

/* State 0 is the only final one. A state has ranges that lead to `next`, or the edges of a state
 * of an automaton that starts at `next`; and empty edges. */
typedef struct {
    const di_code_range *ranges;
    const di_dfa_edge *edges;
    uint32_t n, next;
    uint32_t first_empty, n_empty;
} nfa_state;

typedef struct {
    nfa_state *states;
    uint32_t *empty; /* targets of the empty edges */
    size_t n, cap, n_empty, cap_empty, limit;
} nfa;

static di_status add_state(nfa *a, nfa_state state, uint32_t *out)
{
    if (a->n >= a->limit)
        return di_fail(DI_ERR_UNSUPPORTED,
                       "an expression of more than %zu states, repetitions "
                       "written out",
                       a->limit);
    DI_TRY(DI_GROW(&a->states, &a->cap, a->n + 1));
    a->states[a->n] = state;
    *out = (uint32_t)a->n++;
    return DI_OK;
}

/* A state with room for n empty edges. */
static di_status add_fork(nfa *a, uint32_t n, uint32_t *out)
{
    DI_TRY(DI_GROW(&a->empty, &a->cap_empty, a->n_empty + n));
    DI_TRY(add_state(a, (nfa_state){.first_empty = (uint32_t)a->n_empty, .n_empty = n}, out));
    for (uint32_t i = 0; i < n; i++)
        a->empty[a->n_empty++] = 0;
    return DI_OK;
}

static void set_empty(nfa *a, uint32_t state, uint32_t i, uint32_t target)
{
    a->empty[a->states[state].first_empty + i] = target;
}

static di_status build(nfa *a, const di_expr *expr, uint32_t next, uint32_t *entry);

static di_status build_repeat(nfa *a, const di_expr *expr, uint32_t next, uint32_t *entry)
{
    const uint32_t min = expr->repeat.min, max = expr->repeat.max;
    uint32_t at = next, n_last = min;
    if (max == DI_REPEAT_INF) {
        uint32_t loop, body;
        DI_TRY(add_fork(a, 2, &loop));
        DI_TRY(build(a, expr->repeat.body, loop, &body));
        set_empty(a, loop, 0, body);
        set_empty(a, loop, 1, next);
        at = min > 0 ? body : loop;
        n_last = min > 0 ? min - 1 : 0;
    }
    for (uint32_t i = min; i < max && max != DI_REPEAT_INF; i++) {
        uint32_t fork, body;
        DI_TRY(build(a, expr->repeat.body, at, &body));
        DI_TRY(add_fork(a, 2, &fork));
        set_empty(a, fork, 0, body);
        set_empty(a, fork, 1, next);
        at = fork;
    }
    for (uint32_t i = 0; i < n_last; i++)
        DI_TRY(build(a, expr->repeat.body, at, &at));
    *entry = at;
    return DI_OK;
}

static di_status build_alt(nfa *a, const di_expr *expr, uint32_t next, uint32_t *entry)
{
    DI_TRY(add_fork(a, expr->list.n, entry));
    for (uint32_t i = 0; i < expr->list.n; i++) {
        uint32_t item;
        DI_TRY(build(a, expr->list.items[i], next, &item));
        set_empty(a, *entry, i, item);
    }
    return DI_OK;
}

static di_status build_dfa(nfa *a, const di_dfa *dfa, uint32_t next, uint32_t *entry)
{
    const uint32_t base = (uint32_t)a->n;
    for (uint32_t i = 0; i < dfa->n_states; i++) {
        const di_dfa_state *state = &dfa->states[i];
        uint32_t number;
        DI_TRY(add_fork(a, state->is_final ? 1 : 0, &number));
        if (state->is_final)
            set_empty(a, number, 0, next);
        a->states[number].edges = dfa->edges + state->first_edge;
        a->states[number].n = state->n_edges;
        a->states[number].next = base;
    }
    if (dfa->n_states == 0)
        return add_fork(a, 0, entry);
    *entry = base;
    return DI_OK;
}

/* *entry: where texts of expr begin that go on at `next`. */
static di_status build(nfa *a, const di_expr *expr, uint32_t next, uint32_t *entry)
{
    switch (expr->kind) {
    case DI_EXPR_NOTHING:
        return add_fork(a, 0, entry);
    case DI_EXPR_CHARS:
        return add_state(
            a, (nfa_state){.ranges = expr->chars.ranges, .n = expr->chars.n, .next = next}, entry);
    case DI_EXPR_SEQ:
        *entry = next;
        for (uint32_t i = expr->list.n; i-- > 0;)
            DI_TRY(build(a, expr->list.items[i], *entry, entry));
        return DI_OK;
    case DI_EXPR_ALT:
        return build_alt(a, expr, next, entry);
    case DI_EXPR_REPEAT:
        return build_repeat(a, expr, next, entry);
    case DI_EXPR_DFA:
        return build_dfa(a, expr->dfa.dfa, next, entry);
    case DI_EXPR_EMPTY:
    case DI_EXPR_RULE:
    case DI_EXPR_MEMBERS:
    case DI_EXPR_TOKEN:
        break;
    }
    *entry = next;
    return DI_OK;
}

/* Adds the number of states that `build` would make, and work of at least one a node, to *total;
 * stops beyond the limit. */
static di_status count_states(const di_expr *expr, uint64_t limit, uint64_t *total)
{
    uint64_t body = 0, copies;
    *total += 1;
    if (*total > limit)
        return DI_OK;
    switch (expr->kind) {
    case DI_EXPR_SEQ:
    case DI_EXPR_ALT:
        for (uint32_t i = 0; i < expr->list.n && *total <= limit; i++)
            DI_TRY(count_states(expr->list.items[i], limit, total));
        return DI_OK;
    case DI_EXPR_REPEAT:
        DI_TRY(count_states(expr->repeat.body, limit, &body));
        copies =
            expr->repeat.max != DI_REPEAT_INF ? expr->repeat.max : (uint64_t)expr->repeat.min + 1;
        *total += copies > limit || body > limit ? limit + 1 : copies * (body + 1);
        return DI_OK;
    case DI_EXPR_DFA:
        if (expr->dfa.as_json || expr->dfa.min_len > 0 || expr->dfa.max_len != DI_REPEAT_INF)
            return di_fail(DI_ERR_INPUT, "an automaton with a count or in JSON's spelling inside "
                                         "an expression, wanted a plain one");
        *total += expr->dfa.dfa->n_states;
        return DI_OK;
    case DI_EXPR_RULE:
    case DI_EXPR_MEMBERS:
    case DI_EXPR_TOKEN:
        return di_fail(DI_ERR_INPUT, "%s inside an expression, wanted characters only",
                       expr->kind == DI_EXPR_RULE      ? "a rule"
                       : expr->kind == DI_EXPR_MEMBERS ? "members"
                                                       : "a token");
    case DI_EXPR_NOTHING:
    case DI_EXPR_EMPTY:
    case DI_EXPR_CHARS:
        break;
    }
    return DI_OK;
}

/* The sets of states. `kernels` are sets as edges reach them, `sets` what empty edges make of
 * them (only states with edges of their own, and the final one); each set is a state. */
typedef struct {
    const nfa *nfa;
    di_tuples kernels, sets;
    uint32_t *set_of; /* [kernels.n] */
    size_t cap_set_of;
    uint32_t *stamp, now; /* [nfa.n]: reached by the current closure */
    uint32_t *stack;
    uint32_t *active, *merged; /* [nfa.n]: targets of the ranges around a code point, sorted */
    uint64_t *events;          /* where ranges begin and end: code << 33 | target << 1 | begins */
    size_t n_events, cap_events;
    di_dfa_builder builder;
    size_t max_members, work, max_work;
} subsets;

/* Both lists are mostly short and mostly sorted, and sorted once a state: Shell's way. */
static const size_t gaps[] = {3548, 1577, 701, 301, 132, 57, 23, 10, 4, 1};
enum { N_GAPS = sizeof gaps / sizeof gaps[0] };

static void sort_members(uint32_t *members, size_t n)
{
    for (size_t g = 0; g < N_GAPS; g++) {
        for (size_t i = gaps[g]; i < n; i++) {
            const uint32_t x = members[i];
            size_t k = i;
            for (; k >= gaps[g] && members[k - gaps[g]] > x; k -= gaps[g])
                members[k] = members[k - gaps[g]];
            members[k] = x;
        }
    }
}

static void sort_events(uint64_t *events, size_t n)
{
    for (size_t g = 0; g < N_GAPS; g++) {
        for (size_t i = gaps[g]; i < n; i++) {
            const uint64_t x = events[i];
            size_t k = i;
            for (; k >= gaps[g] && events[k - gaps[g]] > x; k -= gaps[g])
                events[k] = events[k - gaps[g]];
            events[k] = x;
        }
    }
}

/* Counts work, the same on every machine. */
static di_status spend(subsets *s, size_t work)
{
    s->work += work;
    if (s->work <= s->max_work)
        return DI_OK;
    return di_fail(DI_ERR_UNSUPPORTED,
                   "a deterministic automaton of %zu states and more, after "
                   "%zu steps of work",
                   s->sets.n, s->max_work);
}

/* What empty edges reach from the states given, as a set. */
static di_status close_kernel(subsets *s, const uint32_t *kernel, uint32_t n_kernel, uint32_t *set)
{
    const nfa *a = s->nfa;
    uint32_t n_stack = 0, n_out = 0;
    uint32_t *const out = s->stack + a->n; /* the stack and the set share [2 * n] */
    s->now++;
    for (uint32_t i = 0; i < n_kernel; i++) {
        s->stamp[kernel[i]] = s->now;
        s->stack[n_stack++] = kernel[i];
    }
    while (n_stack > 0) {
        const uint32_t state = s->stack[--n_stack];
        const nfa_state *from = &a->states[state];
        s->work += 1 + from->n_empty;
        if (from->n > 0 || state == 0)
            out[n_out++] = state;
        for (uint32_t i = 0; i < from->n_empty; i++) {
            const uint32_t to = a->empty[from->first_empty + i];
            if (s->stamp[to] == s->now)
                continue;
            s->stamp[to] = s->now;
            s->stack[n_stack++] = to;
        }
    }
    s->work += (size_t)n_out * SORT_WORK;
    sort_members(out, n_out);
    return di_tuples_intern(&s->sets, out, n_out, set);
}

static di_status set_of_kernel(subsets *s, const uint32_t *kernel, uint32_t n, uint32_t *set)
{
    const size_t n_before = s->kernels.n;
    uint32_t number;
    DI_TRY(di_tuples_intern(&s->kernels, kernel, n, &number));
    if (number < n_before) {
        *set = s->set_of[number];
        return DI_OK;
    }
    DI_TRY(DI_GROW(&s->set_of, &s->cap_set_of, n_before + 1));
    DI_TRY(close_kernel(s, kernel, n, set));
    s->set_of[number] = *set;
    DI_TRY(di_dfa_check_states(s->sets.n, s->builder.max_states));
    if (s->sets.n_values + s->kernels.n_values > s->max_members)
        return di_fail(DI_ERR_UNSUPPORTED,
                       "a deterministic automaton whose states stand for more than %zu of the "
                       "expression",
                       s->max_members);
    return DI_OK;
}

static di_status add_event(subsets *s, uint32_t first, uint32_t last, uint32_t target)
{
    DI_TRY(DI_GROW(&s->events, &s->cap_events, s->n_events + 2));
    s->events[s->n_events++] = (uint64_t)first << 33 | (uint64_t)target << 1 | 1;
    s->events[s->n_events++] = (uint64_t)(last + 1) << 33 | (uint64_t)target << 1;
    return DI_OK;
}

static di_status gather_events(subsets *s, uint32_t set)
{
    s->n_events = 0;
    const di_tuple members = s->sets.items[set];
    for (uint32_t i = 0; i < members.n; i++) {
        const nfa_state *from = &s->nfa->states[s->sets.values[members.first + i]];
        for (uint32_t k = 0; k < from->n; k++) {
            if (from->ranges != NULL)
                DI_TRY(add_event(s, from->ranges[k].first, from->ranges[k].last, from->next));
            else
                DI_TRY(add_event(s, from->edges[k].first, from->edges[k].last,
                                 from->next + from->edges[k].target));
        }
    }
    sort_events(s->events, s->n_events);
    return spend(s, s->n_events * SORT_WORK);
}

/* Applies the n events of one code point, which are sorted by target, to the active targets.
 * Returns their new number; a target has one entry a range. */
static uint32_t change_active(subsets *s, uint32_t n_active, const uint64_t *events, size_t n)
{
    uint32_t i = 0, n_merged = 0;
    for (size_t k = 0; k < n; k++) {
        const uint32_t target = (uint32_t)(events[k] >> 1);
        while (i < n_active && s->active[i] < target)
            s->merged[n_merged++] = s->active[i++];
        if ((events[k] & 1) != 0)
            s->merged[n_merged++] = target;
        else /* ends come before beginnings, so the entry is still ahead */
            i++;
    }
    while (i < n_active)
        s->merged[n_merged++] = s->active[i++];
    uint32_t *const former = s->active;
    s->active = s->merged;
    s->merged = former;
    return n_merged;
}

/* `active` without repetitions, in the scratch of `merged`. */
static uint32_t distinct(const subsets *s, uint32_t n_active)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_active; i++)
        if (i == 0 || s->active[i] != s->active[i - 1])
            s->merged[n++] = s->active[i];
    return n;
}

/* The only member of a set with edges of its own; NULL if there are more, or none. */
static const nfa_state *only_member(const subsets *s, uint32_t set)
{
    const di_tuple members = s->sets.items[set];
    const nfa_state *only = NULL;
    for (uint32_t i = 0; i < members.n; i++) {
        const nfa_state *member = &s->nfa->states[s->sets.values[members.first + i]];
        if (member->n > 0 && only != NULL)
            return NULL;
        if (member->n > 0)
            only = member;
    }
    return only;
}

static di_status copy_edges(subsets *s, const nfa_state *from)
{
    for (uint32_t i = 0; i < from->n; i++) {
        di_dfa_edge edge = {.target = from->next};
        if (from->ranges != NULL) {
            edge.first = from->ranges[i].first;
            edge.last = from->ranges[i].last;
        } else {
            edge = from->edges[i];
            edge.target += from->next;
        }
        uint32_t target;
        DI_TRY(set_of_kernel(s, &edge.target, 1, &target));
        DI_TRY(di_dfa_builder_edge(&s->builder, edge.first, edge.last, target));
    }
    return DI_OK;
}

static di_status add_edges(subsets *s, uint32_t set)
{
    uint32_t n_active = 0;
    const nfa_state *only = only_member(s, set);
    if (only != NULL)
        return copy_edges(s, only);
    DI_TRY(gather_events(s, set));
    for (size_t i = 0; i < s->n_events;) {
        const uint64_t code = s->events[i] >> 33;
        size_t n = 1;
        while (i + n < s->n_events && s->events[i + n] >> 33 == code)
            n++;
        DI_TRY(spend(s, n + 2 * (size_t)n_active + LOOKUP_WORK));
        n_active = change_active(s, n_active, s->events + i, n);
        i += n;
        if (n_active == 0)
            continue;
        uint32_t target;
        DI_TRY(set_of_kernel(s, s->merged, distinct(s, n_active), &target));
        DI_TRY(di_dfa_builder_edge(&s->builder, (uint32_t)code, (uint32_t)(s->events[i] >> 33) - 1,
                                   target));
    }
    return DI_OK;
}

static di_status determinize(subsets *s, uint32_t entry)
{
    const size_t n = s->nfa->n;
    uint32_t set;
    s->stamp = calloc(n, sizeof *s->stamp);
    s->stack = calloc(2 * n, sizeof *s->stack);
    s->active = calloc(n, sizeof *s->active);
    s->merged = calloc(n, sizeof *s->merged);
    if (s->stamp == NULL || s->stack == NULL || s->active == NULL || s->merged == NULL)
        return di_fail_memory(5 * n * sizeof *s->stamp, "sets of states");
    DI_TRY(set_of_kernel(s, &entry, 1, &set));
    for (; set < s->sets.n; set++) {
        const di_tuple members = s->sets.items[set];
        DI_TRY(
            di_dfa_builder_state(&s->builder, members.n > 0 && s->sets.values[members.first] == 0));
        DI_TRY(add_edges(s, set));
    }
    return DI_OK;
}

static void subsets_free(subsets *s)
{
    di_tuples_free(&s->kernels);
    di_tuples_free(&s->sets);
    di_dfa_builder_free(&s->builder);
    free(s->set_of);
    free(s->stamp);
    free(s->stack);
    free(s->active);
    free(s->merged);
    free(s->events);
}

static di_status from_nfa(di_arena *arena, const nfa *a, uint32_t entry, uint32_t max_states,
                          const di_dfa **out)
{
    const size_t limit = di_dfa_limit(max_states);
    subsets s = {.nfa = a,
                 .builder = {.max_states = max_states},
                 .max_members = limit * MEMBERS_PER_STATE + FREE_MEMBERS,
                 .max_work = limit * WORK_PER_STATE + FREE_WORK};
    di_status status = determinize(&s, entry);
    if (status == DI_OK)
        status = di_dfa_builder_finish(&s.builder, arena, out);
    subsets_free(&s);
    return status;
}

di_status di_dfa_from_expr(di_arena *arena, const di_expr *expr, uint32_t max_states,
                           const di_dfa **out)
{
    nfa a = {.limit = (size_t)di_dfa_limit(max_states) * NFA_PER_STATE + 1};
    uint64_t total = 1;
    uint32_t entry, final;
    DI_TRY(count_states(expr, a.limit, &total));
    if (total > a.limit)
        return di_fail(DI_ERR_UNSUPPORTED,
                       "an expression of more than %zu states, repetitions "
                       "written out",
                       a.limit);
    di_status status = add_fork(&a, 0, &final);
    if (status == DI_OK)
        status = build(&a, expr, final, &entry);
    if (status == DI_OK)
        status = from_nfa(arena, &a, entry, max_states, out);
    free(a.states);
    free(a.empty);
    return status;
}
