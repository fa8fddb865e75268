/* What a grammar's automata can do: which rules have texts at all, which have the empty text, how
 * many counts are still needed from a state. Edges into dead ends are cut here, so that a matcher
 * that can go on can always come to an end. All by worklists: linear in the number of edges. */
#include "grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Edge numbers grouped by a key: those of key k are list[first[k]] .. list[first[k + 1] - 1]. */
typedef struct edge_index {
    uint32_t *first, *list;
} edge_index;

#define UNKNOWN (DI_REPEAT_INF - 1)

typedef struct analysis {
    di_raw_grammar *raw;
    di_grammar *grammar;
    edge_index by_target, by_rule, by_source;
    uint32_t *queue;
    uint32_t n_queue;
    bool *is_live;  /* [n_states]: reaches a final state */
    bool *is_dead;  /* [n_rules]: counts can never come out */
    bool *without;  /* [n_states]: reached from the rule's start without a byte */
    uint32_t *most; /* [n_states], UNKNOWN: not set */
    di_edge *edges; /* of the result */
    size_t cap_edges;
} analysis;

static uint32_t key_target(const di_raw_edge *e)
{
    return e->edge.target;
}

static uint32_t key_source(const di_raw_edge *e)
{
    return e->from;
}

/* Edges that are no calls go to one more, last key. */
static uint32_t key_rule(const di_raw_edge *e)
{
    return e->edge.kind == DI_EDGE_CALL ? e->edge.rule : DI_NO_RULE;
}

static di_status index_edges(const di_raw_grammar *raw, size_t n_keys,
                             uint32_t (*key)(const di_raw_edge *), edge_index *out)
{
    out->first = calloc(n_keys + 3, sizeof *out->first);
    out->list = malloc((raw->n_edges + 1) * sizeof *out->list);
    if (out->first == NULL || out->list == NULL)
        return di_fail_memory((raw->n_edges + n_keys) * sizeof(uint32_t), "a grammar's edges");
    uint32_t *next = out->first + 1; /* becomes first after the second pass */
    for (size_t i = 0; i < raw->n_edges; i++) {
        const uint32_t k = key(&raw->edges[i]);
        next[(k == DI_NO_RULE ? n_keys : k) + 1]++;
    }
    for (size_t k = 0; k <= n_keys; k++)
        next[k + 1] += next[k];
    for (size_t i = 0; i < raw->n_edges; i++) {
        const uint32_t k = key(&raw->edges[i]);
        out->list[next[k == DI_NO_RULE ? n_keys : k]++] = (uint32_t)i;
    }
    return DI_OK;
}

static void free_analysis(analysis *a)
{
    edge_index *all[] = {&a->by_target, &a->by_rule, &a->by_source};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]->first);
        free(all[i]->list);
    }
    free(a->queue);
    free(a->is_live);
    free(a->is_dead);
    free(a->without);
    free(a->most);
    free(a->edges);
}

static di_status prepare(analysis *a)
{
    const di_raw_grammar *raw = a->raw;
    DI_TRY(index_edges(raw, raw->n_states, key_target, &a->by_target));
    DI_TRY(index_edges(raw, raw->n_states, key_source, &a->by_source));
    DI_TRY(index_edges(raw, raw->n_rules, key_rule, &a->by_rule));
    a->queue = malloc((raw->n_states + raw->n_rules + 1) * sizeof *a->queue);
    a->is_live = calloc(raw->n_states + 1, sizeof *a->is_live);
    a->is_dead = calloc(raw->n_rules + 1, sizeof *a->is_dead);
    a->without = calloc(raw->n_states + 1, sizeof *a->without);
    a->most = malloc((raw->n_states + 1) * sizeof *a->most);
    if (a->queue == NULL || a->is_live == NULL || a->is_dead == NULL || a->without == NULL ||
        a->most == NULL)
        return di_fail_memory(raw->n_states * 16, "a grammar's analysis");
    return DI_OK;
}

/* --- which states reach a final one --- */

static void make_live(analysis *a, uint32_t state)
{
    if (!a->is_live[state]) {
        a->is_live[state] = true;
        a->queue[a->n_queue++] = state;
    }
}

/* Rules stand in the queue after the states' numbers. */
static void make_productive(analysis *a, uint32_t rule)
{
    if (a->raw->rules[rule].is_productive || a->is_dead[rule])
        return;
    a->raw->rules[rule].is_productive = true;
    a->queue[a->n_queue++] = (uint32_t)a->raw->n_states + rule;
}

/* An edge that can be taken, to a live state. */
static void follow_back(analysis *a, const di_raw_edge *e)
{
    const uint32_t rule = a->raw->states[e->from].rule;
    make_live(a, e->from);
    /* The way out of a repetition with a least number is no text of it yet. */
    const bool leaves = a->raw->rules[rule].kind == DI_REGISTER_COUNT &&
                        a->raw->rules[rule].min > 0 && e->edge.kind == DI_EDGE_BYTES &&
                        a->raw->states[e->edge.target].is_final;
    if (a->raw->rules[rule].start == e->from && !leaves)
        make_productive(a, rule);
}

static void spread_productive(analysis *a, uint32_t rule)
{
    const di_raw_grammar *raw = a->raw;
    for (uint32_t i = a->by_rule.first[rule]; i < a->by_rule.first[rule + 1]; i++) {
        const di_raw_edge *e = &raw->edges[a->by_rule.list[i]];
        if (a->is_live[e->edge.target])
            follow_back(a, e);
    }
}

static void spread_live(analysis *a, uint32_t state)
{
    const di_raw_grammar *raw = a->raw;
    for (uint32_t i = a->by_target.first[state]; i < a->by_target.first[state + 1]; i++) {
        const di_raw_edge *e = &raw->edges[a->by_target.list[i]];
        if (e->edge.kind != DI_EDGE_CALL || raw->rules[e->edge.rule].is_productive)
            follow_back(a, e);
    }
    /* Where a repetition with a least number begins is no end yet. */
    const di_rule *rule = &raw->rules[raw->states[state].rule];
    if (rule->start == state && raw->states[state].is_final &&
        (rule->kind != DI_REGISTER_COUNT || rule->min == 0))
        make_productive(a, raw->states[state].rule);
}

static void find_live(analysis *a)
{
    const di_raw_grammar *raw = a->raw;
    memset(a->is_live, 0, raw->n_states * sizeof *a->is_live);
    a->n_queue = 0;
    for (size_t i = 0; i < raw->n_rules; i++)
        raw->rules[i].is_productive = false;
    for (uint32_t i = 0; i < raw->n_states; i++)
        if (raw->states[i].is_final)
            make_live(a, i);
    for (uint32_t i = 0; i < a->n_queue; i++)
        if (a->queue[i] < raw->n_states)
            spread_live(a, a->queue[i]);
        else
            spread_productive(a, a->queue[i] - (uint32_t)raw->n_states);
}

static bool is_kept(const analysis *a, const di_raw_edge *e)
{
    return a->is_live[e->edge.target] &&
           (e->edge.kind != DI_EDGE_CALL || a->raw->rules[e->edge.rule].is_productive);
}

/* --- counts --- */

static uint32_t weight(const di_edge *edge)
{
    return edge->kind == DI_EDGE_EPSILON && edge->action == DI_ACTION_COUNT;
}

static bool has_count(const analysis *a, uint32_t state)
{
    return a->raw->rules[a->raw->states[state].rule].kind == DI_REGISTER_COUNT;
}

typedef struct count_work {
    uint32_t *ring; /* [n_states], each state in it at most once */
    bool *in_ring;
    size_t head, n, cap;
} count_work;

static void push_work(count_work *w, uint32_t state)
{
    if (w->in_ring[state])
        return;
    w->in_ring[state] = true;
    w->ring[(w->head + w->n++) % w->cap] = state;
}

/* A longer way than there are counting edges in the rule goes around a loop. */
static void relax(analysis *a, count_work *w, const uint32_t *n_counts, uint32_t state)
{
    di_raw_grammar *raw = a->raw;
    const uint32_t fewest = raw->states[state].fewest, most = a->most[state];
    for (uint32_t i = a->by_target.first[state]; i < a->by_target.first[state + 1]; i++) {
        const di_raw_edge *e = &raw->edges[a->by_target.list[i]];
        if (!is_kept(a, e))
            continue;
        di_state *from = &raw->states[e->from];
        const uint32_t few = fewest + weight(&e->edge);
        uint32_t many = most == DI_REPEAT_INF ? most : most + weight(&e->edge);
        if (many != DI_REPEAT_INF && many > n_counts[from->rule])
            many = DI_REPEAT_INF;
        const bool is_less = few < from->fewest;
        const bool is_more = a->most[e->from] == UNKNOWN ||
                             (a->most[e->from] != DI_REPEAT_INF && many > a->most[e->from]);
        if (is_less)
            from->fewest = few;
        if (is_more)
            a->most[e->from] = many;
        if (is_less || is_more)
            push_work(w, e->from);
    }
}

static di_status find_counts(analysis *a)
{
    di_raw_grammar *raw = a->raw;
    uint32_t *n_counts = calloc(raw->n_rules + 1, sizeof *n_counts);
    count_work w = {.cap = raw->n_states + 1};
    w.ring = malloc(w.cap * sizeof *w.ring);
    w.in_ring = calloc(w.cap, sizeof *w.in_ring);
    if (n_counts == NULL || w.ring == NULL || w.in_ring == NULL) {
        free(n_counts);
        free(w.ring);
        free(w.in_ring);
        return di_fail_memory(w.cap * 8, "a grammar's counts");
    }
    for (size_t i = 0; i < raw->n_edges; i++)
        if (weight(&raw->edges[i].edge))
            n_counts[raw->states[raw->edges[i].from].rule]++;
    for (uint32_t i = 0; i < raw->n_states; i++) {
        raw->states[i].fewest = UNKNOWN;
        a->most[i] = UNKNOWN;
        if (raw->states[i].is_final && has_count(a, i)) {
            raw->states[i].fewest = a->most[i] = 0;
            push_work(&w, i);
        }
    }
    while (w.n > 0) {
        const uint32_t state = w.ring[w.head];
        w.head = (w.head + 1) % w.cap;
        w.n--;
        w.in_ring[state] = false;
        relax(a, &w, n_counts, state);
    }
    free(n_counts);
    free(w.ring);
    free(w.in_ring);
    return DI_OK;
}

static bool counts_fit(const analysis *a, const di_rule *rule)
{
    if (rule->kind == DI_REGISTER_SET) {
        uint32_t n_required = 0;
        for (uint32_t i = 0; i < rule->n_members; i++)
            n_required += rule->is_required[i];
        return n_required <= rule->max && (rule->has_others || rule->min <= rule->n_members);
    }
    if (rule->kind == DI_REGISTER_NONE)
        return true;
    const di_state *start = &a->raw->states[rule->start];
    return start->fewest <= rule->max && a->most[rule->start] >= rule->min;
}

/* Rules whose counts cannot come out have no text; without them others may have none. */
static di_status find_productive(analysis *a)
{
    const di_raw_grammar *raw = a->raw;
    for (bool changed = true; changed;) {
        changed = false;
        find_live(a);
        DI_TRY(find_counts(a));
        for (size_t i = 0; i < raw->n_rules; i++) {
            if (raw->rules[i].is_productive && !counts_fit(a, &raw->rules[i])) {
                a->is_dead[i] = true;
                changed = true;
            }
        }
    }
    return DI_OK;
}

static void set_loops(analysis *a)
{
    di_raw_grammar *raw = a->raw;
    for (size_t i = 0; i < raw->n_rules; i++)
        raw->rules[i].is_loop = raw->rules[i].kind == DI_REGISTER_COUNT;
    for (uint32_t i = 0; i < raw->n_states; i++) {
        di_state *s = &raw->states[i];
        if (!has_count(a, i) || s->fewest == UNKNOWN)
            s->fewest = 0, s->most = DI_REPEAT_INF;
        else
            s->most = a->most[i];
        const bool ends = s->is_final && a->by_source.first[i] == a->by_source.first[i + 1];
        if (s->most != DI_REPEAT_INF && a->is_live[i] && !ends)
            raw->rules[s->rule].is_loop = false;
    }
}

/* --- which rules have the empty text --- */

static void reach(analysis *a, uint32_t state)
{
    if (!a->without[state]) {
        a->without[state] = true;
        a->queue[a->n_queue++] = state;
    }
}

/* A repetition of what may be empty has no least number; its start is looked at once more. */
static void drop_minimum(analysis *a, di_rule *rule)
{
    if (rule->min == 0)
        return;
    rule->min = 0;
    if (a->without[rule->start])
        a->queue[a->n_queue++] = rule->start;
}

static void make_nullable(analysis *a, uint32_t rule)
{
    di_raw_grammar *raw = a->raw;
    if (raw->rules[rule].is_nullable)
        return;
    raw->rules[rule].is_nullable = true;
    for (uint32_t i = a->by_rule.first[rule]; i < a->by_rule.first[rule + 1]; i++) {
        const di_raw_edge *e = &raw->edges[a->by_rule.list[i]];
        di_rule *caller = &raw->rules[raw->states[e->from].rule];
        if (e->edge.not_empty && caller->kind == DI_REGISTER_COUNT)
            drop_minimum(a, caller);
        else if (!e->edge.not_empty && a->without[e->from] && is_kept(a, e))
            reach(a, e->edge.target);
    }
}

static bool has_empty_text(const di_rule *rule)
{
    for (uint32_t i = 0; i < rule->n_members; i++)
        if (rule->is_required[i])
            return false;
    return rule->min == 0;
}

static void spread_without(analysis *a, uint32_t state)
{
    di_raw_grammar *raw = a->raw;
    const uint32_t rule = raw->states[state].rule;
    if (raw->states[state].is_final && has_empty_text(&raw->rules[rule]))
        make_nullable(a, rule);
    for (uint32_t i = a->by_source.first[state]; i < a->by_source.first[state + 1]; i++) {
        const di_raw_edge *e = &raw->edges[a->by_source.list[i]];
        if (!is_kept(a, e) || e->edge.kind == DI_EDGE_BYTES)
            continue;
        if (e->edge.kind == DI_EDGE_EPSILON ||
            (!e->edge.not_empty && raw->rules[e->edge.rule].is_nullable))
            reach(a, e->edge.target);
    }
}

static void find_nullable(analysis *a)
{
    a->n_queue = 0;
    for (size_t i = 0; i < a->raw->n_rules; i++)
        if (a->raw->rules[i].is_productive)
            reach(a, a->raw->rules[i].start);
    for (uint32_t i = 0; i < a->n_queue; i++)
        spread_without(a, a->queue[i]);
}

/* --- the result: without epsilon edges where that costs little --- */

/* States reached from one by plain epsilon edges, itself first. */
typedef struct closure {
    uint32_t states[16];
    uint32_t n;
    bool is_final;
} closure;

enum { MAX_CLOSURE_EDGES = 256 };

static bool is_plain(const di_edge *e)
{
    return e->kind == DI_EDGE_EPSILON && e->action == DI_ACTION_NONE;
}

static bool add_closed(closure *c, uint32_t state)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->states[i] == state)
            return true;
    if (c->n == sizeof c->states / sizeof *c->states)
        return false;
    c->states[c->n++] = state;
    return true;
}

/* False if it is too large to take its edges over. */
static bool close_state(const analysis *a, uint32_t state, closure *c)
{
    uint32_t n_edges = 0;
    *c = (closure){.states = {state}, .n = 1};
    for (uint32_t i = 0; i < c->n; i++) {
        const uint32_t s = c->states[i];
        c->is_final |= a->raw->states[s].is_final;
        for (uint32_t k = a->by_source.first[s]; k < a->by_source.first[s + 1]; k++) {
            const di_raw_edge *e = &a->raw->edges[a->by_source.list[k]];
            if (!is_kept(a, e))
                continue;
            if (is_plain(&e->edge) && !add_closed(c, e->edge.target))
                return false;
            n_edges++;
        }
    }
    return c->n == 1 || n_edges <= MAX_CLOSURE_EDGES;
}

static di_status take_edges(analysis *a, const closure *c, bool drop_plain, bool bytes)
{
    di_grammar *g = a->grammar;
    for (uint32_t i = 0; i < c->n; i++) {
        const uint32_t s = c->states[i];
        for (uint32_t k = a->by_source.first[s]; k < a->by_source.first[s + 1]; k++) {
            const di_raw_edge *e = &a->raw->edges[a->by_source.list[k]];
            if (!is_kept(a, e) || (e->edge.kind == DI_EDGE_BYTES) != bytes ||
                (drop_plain && is_plain(&e->edge)))
                continue;
            DI_TRY(DI_GROW(&a->edges, &a->cap_edges, (size_t)g->n_edges + 1));
            a->edges[g->n_edges++] = e->edge;
        }
    }
    return DI_OK;
}

static di_status take_state(analysis *a, uint32_t state)
{
    di_grammar *g = a->grammar;
    di_state *s = &g->states[state];
    closure c;
    const bool is_small = close_state(a, state, &c);
    if (!is_small)
        c = (closure){.states = {state}, .n = 1, .is_final = s->is_final};
    s->is_final = c.is_final;
    s->first_edge = g->n_edges;
    DI_TRY(take_edges(a, &c, is_small, true));
    s->n_bytes = g->n_edges - s->first_edge;
    DI_TRY(take_edges(a, &c, is_small, false));
    s->n_others = g->n_edges - s->first_edge - s->n_bytes;
    s->is_end = s->is_final && s->n_bytes + s->n_others == 0 &&
                a->raw->rules[s->rule].kind == DI_REGISTER_NONE;
    return DI_OK;
}

static di_status take_states(analysis *a)
{
    const di_raw_grammar *raw = a->raw;
    di_grammar *g = a->grammar;
    g->n_states = (uint32_t)raw->n_states;
    g->n_edges = 0;
    DI_TRY(DI_ARENA_NEW(&g->arena, raw->n_states, &g->states));
    memcpy(g->states, raw->states, raw->n_states * sizeof *g->states);
    for (uint32_t i = 0; i < g->n_states; i++)
        if (a->is_live[i])
            DI_TRY(take_state(a, i));
    DI_TRY(DI_ARENA_NEW(&g->arena, g->n_edges, &g->edges));
    if (g->n_edges > 0)
        memcpy(g->edges, a->edges, g->n_edges * sizeof *g->edges);
    return DI_OK;
}

static void set_called(di_grammar *g)
{
    for (uint32_t i = 0; i < g->n_edges; i++)
        if (g->edges[i].kind == DI_EDGE_CALL)
            g->rules[g->edges[i].rule].is_called = true;
}

static void set_classes(di_grammar *g)
{
    bool starts[257] = {false};
    for (uint32_t i = 0; i < g->n_edges; i++) {
        if (g->edges[i].kind == DI_EDGE_BYTES) {
            starts[g->edges[i].first] = true;
            starts[g->edges[i].last + 1] = true;
        }
    }
    uint32_t class = 0;
    for (int byte = 0; byte < 256; byte++) {
        if (byte > 0 && starts[byte])
            class ++;
        g->byte_class[byte] = (uint8_t) class;
    }
    g->n_classes = class + 1;
}

static di_status run(analysis *a)
{
    di_raw_grammar *raw = a->raw;
    di_grammar *g = a->grammar;
    DI_TRY(prepare(a));
    DI_TRY(find_productive(a));
    set_loops(a);
    find_nullable(a);
    DI_TRY(take_states(a));
    set_classes(g);
    DI_TRY(DI_ARENA_NEW(&g->arena, raw->n_rules, &g->rules));
    memcpy(g->rules, raw->rules, raw->n_rules * sizeof *g->rules);
    g->n_rules = (uint32_t)raw->n_rules;
    set_called(g);
    return DI_OK;
}

di_status di_grammar_analyze(di_raw_grammar *raw, di_grammar *grammar)
{
    analysis a = {.raw = raw, .grammar = grammar};
    const di_status status = run(&a);
    free_analysis(&a);
    return status;
}
