/* One set: everything that the items entered lead to without another byte. Rules called at this
 * place get a stack node each; the nodes are finished when all callers are known. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/acceptor.h"

/* Nodes of this place, until they are interned: DI_NODE_IN_GROUP + number. */
#define IS_HERE(node) ((node) >= DI_NODE_IN_GROUP)

/* Items of one set beyond which a grammar counts as too ambiguous. */
enum { MAX_ITEMS = 200000 };

typedef struct here_entry {
    di_item item;
    uint32_t next; /* UINT32_MAX: last */
} here_entry;

typedef struct here_node {
    uint32_t rule;
    uint32_t first_entry;           /* of here_entry, as found */
    uint32_t first_final, n_finals; /* of `finals`, after returns through it are resolved */
    uint32_t id;                    /* when interned; UINT32_MAX before */
    uint32_t visit;
} here_node;

/* Quadruples seen at this place. */
typedef struct seen_slot {
    uint32_t stamp;
    uint32_t key[4];
} seen_slot;

struct di_closure_work {
    di_item *items;
    size_t n_items, cap_items;
    here_node *nodes;
    size_t n_nodes, cap_nodes;
    here_entry *entries;
    size_t n_entries, cap_entries;
    di_item *finals;
    size_t n_finals, cap_finals;
    uint32_t *stack;
    size_t cap_stack;
    uint32_t *order;
    size_t cap_order;
    di_node_entries *group;
    size_t cap_group;
    seen_slot *seen;
    size_t cap_seen, n_seen;
    uint32_t stamp, visit;
    uint32_t *node_of_rule, *stamp_of_rule; /* [n_rules] */
    bool accepts;
};

di_status di_closure_create(const di_grammar *grammar, di_closure_work **out)
{
    di_closure_work *w = calloc(1, sizeof *w);
    if (w == NULL)
        return di_fail_memory(sizeof *w, "a grammar's sets");
    w->cap_seen = 256;
    w->seen = calloc(w->cap_seen, sizeof *w->seen);
    w->node_of_rule = calloc(grammar->n_rules, sizeof *w->node_of_rule);
    w->stamp_of_rule = calloc(grammar->n_rules, sizeof *w->stamp_of_rule);
    if (w->seen == NULL || w->node_of_rule == NULL || w->stamp_of_rule == NULL) {
        di_closure_destroy(w);
        return di_fail_memory(grammar->n_rules * 8, "a grammar's sets");
    }
    *out = w;
    return DI_OK;
}

void di_closure_destroy(di_closure_work *w)
{
    if (w == NULL)
        return;
    free(w->items);
    free(w->nodes);
    free(w->entries);
    free(w->finals);
    free(w->stack);
    free(w->order);
    free(w->group);
    free(w->seen);
    free(w->node_of_rule);
    free(w->stamp_of_rule);
    free(w);
}

static seen_slot *seen_find(seen_slot *slots, size_t cap, uint32_t stamp, const uint32_t key[4])
{
    uint32_t hash =
        key[0] * 0x9E3779B1u ^ key[1] * 0x85EBCA77u ^ key[2] * 0xC2B2AE3Du ^ key[3] * 0x27D4EB2Fu;
    hash ^= hash >> 15;
    size_t at = hash & (cap - 1);
    while (slots[at].stamp == stamp && memcmp(slots[at].key, key, 16) != 0)
        at = (at + 1) & (cap - 1);
    return &slots[at];
}

static di_status seen_grow(di_closure_work *w)
{
    const size_t cap = 2 * w->cap_seen;
    seen_slot *slots = calloc(cap, sizeof *slots);
    if (slots == NULL)
        return di_fail_memory(cap * sizeof *slots, "a grammar's sets");
    for (size_t i = 0; i < w->cap_seen; i++)
        if (w->seen[i].stamp == w->stamp)
            *seen_find(slots, cap, w->stamp, w->seen[i].key) = w->seen[i];
    free(w->seen);
    w->seen = slots;
    w->cap_seen = cap;
    return DI_OK;
}

/* *is_new: it was not there before, and is now. */
static di_status seen_add(di_closure_work *w, uint32_t a, di_item item, bool *is_new)
{
    if (2 * w->n_seen >= w->cap_seen)
        DI_TRY(seen_grow(w));
    const uint32_t key[4] = {a, item.state, item.node, item.reg};
    seen_slot *slot = seen_find(w->seen, w->cap_seen, w->stamp, key);
    *is_new = slot->stamp != w->stamp;
    if (*is_new) {
        *slot = (seen_slot){.stamp = w->stamp, .key = {a, item.state, item.node, item.reg}};
        w->n_seen++;
    }
    return DI_OK;
}

void di_closure_begin(di_acceptor *a)
{
    di_closure_work *w = a->work;
    w->n_items = w->n_nodes = w->n_entries = w->n_finals = 0;
    w->n_seen = 0;
    w->accepts = false;
    if (++w->stamp == 0) { /* after 2^32 sets */
        memset(w->seen, 0, w->cap_seen * sizeof *w->seen);
        memset(w->stamp_of_rule, 0, a->grammar->n_rules * sizeof *w->stamp_of_rule);
        w->stamp = 1;
    }
}

/* Whether the count can still come out from a state. */
static bool count_fits(const di_acceptor *a, di_item item)
{
    const di_state *s = &a->grammar->states[item.state];
    const di_rule *r = &a->grammar->rules[s->rule];
    if (r->kind != DI_REGISTER_COUNT || item.node == DI_NODE_RELATIVE)
        return true;
    const bool below_max = r->max == DI_REPEAT_INF || (uint64_t)item.reg + s->fewest <= r->max;
    return below_max && (s->most == DI_REPEAT_INF || (uint64_t)item.reg + s->most >= r->min);
}

static di_status complete(di_acceptor *a, uint32_t node, uint32_t reg);

di_status di_closure_enter(di_acceptor *a, di_item item)
{
    di_closure_work *w = a->work;
    if (item.state == DI_STATE_ACCEPT) {
        w->accepts = true;
        return DI_OK;
    }
    bool is_new;
    if (item.state != DI_STATE_POP && !count_fits(a, item))
        return DI_OK;
    DI_TRY(seen_add(w, UINT32_MAX, item, &is_new));
    if (!is_new)
        return DI_OK;
    if (w->n_items >= MAX_ITEMS)
        return di_fail(DI_ERR_UNSUPPORTED,
                       "the grammar is too ambiguous: more than %d ways to read the text",
                       MAX_ITEMS);
    if (item.state != DI_STATE_POP && a->grammar->states[item.state].is_end)
        return complete(a, item.node, item.reg);
    DI_TRY(DI_GROW(&w->items, &w->cap_items, w->n_items + 1));
    w->items[w->n_items++] = item;
    return DI_OK;
}

/* A return to a node of this place is an empty text: the callers took it already (is_nullable). */
static di_status complete(di_acceptor *a, uint32_t node, uint32_t reg)
{
    if (IS_HERE(node))
        return DI_OK;
    const di_node n = a->nodes[node];
    for (uint32_t i = 0; i < n.n_entries; i++) {
        di_item entry = a->entries[n.first_entry + i];
        if (node == DI_NODE_RELATIVE)
            entry.reg = reg;
        DI_TRY(di_closure_enter(a, entry));
    }
    return DI_OK;
}

static bool may_complete(const di_acceptor *a, di_item item)
{
    const uint32_t rule = a->grammar->states[item.state].rule;
    const di_rule *r = &a->grammar->rules[rule];
    if (r->kind == DI_REGISTER_COUNT)
        return item.node == DI_NODE_RELATIVE || item.reg >= r->min;
    return r->kind == DI_REGISTER_NONE || di_member_complete(a, rule, item.reg);
}

/* Node of a rule called here, made with its first items when first called. */
static di_status here(di_acceptor *a, uint32_t rule, uint32_t *number)
{
    di_closure_work *w = a->work;
    if (w->stamp_of_rule[rule] == w->stamp) {
        *number = w->node_of_rule[rule];
        return DI_OK;
    }
    DI_TRY(DI_GROW(&w->nodes, &w->cap_nodes, w->n_nodes + 1));
    *number = (uint32_t)w->n_nodes++;
    w->nodes[*number] = (here_node){.rule = rule, .first_entry = UINT32_MAX, .id = UINT32_MAX};
    w->stamp_of_rule[rule] = w->stamp;
    w->node_of_rule[rule] = *number;
    return di_closure_enter(
        a, (di_item){.state = a->grammar->rules[rule].start, .node = DI_NODE_IN_GROUP + *number});
}

static di_status call(di_acceptor *a, di_item from, const di_edge *edge)
{
    di_closure_work *w = a->work;
    const di_item back = {edge->target, from.node, from.reg};
    if (!count_fits(a, back))
        return DI_OK;
    uint32_t number;
    bool is_new;
    DI_TRY(here(a, edge->rule, &number));
    DI_TRY(seen_add(w, number, back, &is_new));
    if (is_new) {
        DI_TRY(DI_GROW(&w->entries, &w->cap_entries, w->n_entries + 1));
        w->entries[w->n_entries] = (here_entry){back, w->nodes[number].first_entry};
        w->nodes[number].first_entry = (uint32_t)w->n_entries++;
    }
    if (a->grammar->rules[edge->rule].is_nullable && !edge->not_empty)
        return di_closure_enter(a, back);
    return DI_OK;
}

static di_status follow_epsilon(di_acceptor *a, di_item from, const di_edge *edge)
{
    const uint32_t rule = a->grammar->states[from.state].rule;
    const di_rule *r = &a->grammar->rules[rule];
    di_item to = {edge->target, from.node, from.reg};
    bool fits = true;
    switch ((di_edge_action)edge->action) {
    case DI_ACTION_NONE:
        break;
    case DI_ACTION_COUNT:
        if (from.node == DI_NODE_RELATIVE || r->max != DI_REPEAT_INF || from.reg < r->min)
            to.reg++;
        break;
    case DI_ACTION_MEMBER:
        DI_TRY(di_member_add(a, rule, from.reg, edge->rule, &fits, &to.reg));
        break;
    case DI_ACTION_OTHER:
        DI_TRY(di_member_add(a, rule, from.reg, r->n_members, &fits, &to.reg));
        break;
    case DI_ACTION_MORE:
        fits = di_member_more(a, rule, from.reg);
        break;
    }
    return fits ? di_closure_enter(a, to) : DI_OK;
}

static di_status expand(di_acceptor *a, di_item item)
{
    if (item.state == DI_STATE_POP)
        return DI_OK;
    const di_state *s = &a->grammar->states[item.state];
    if (s->is_final && may_complete(a, item))
        DI_TRY(complete(a, item.node, item.reg));
    const di_edge *edges = a->grammar->edges + s->first_edge + s->n_bytes;
    for (uint32_t i = 0; i < s->n_others; i++) {
        if (edges[i].kind == DI_EDGE_CALL)
            DI_TRY(call(a, item, &edges[i]));
        else
            DI_TRY(follow_epsilon(a, item, &edges[i]));
    }
    return DI_OK;
}

/* --- nodes: a return to a place that only returns goes straight on --- */

static bool only_returns(const di_acceptor *a, di_item entry)
{
    return entry.state < DI_STATE_POP && a->grammar->states[entry.state].is_end;
}

static di_status add_final(di_closure_work *w, di_item entry)
{
    DI_TRY(DI_GROW(&w->finals, &w->cap_finals, w->n_finals + 1));
    w->finals[w->n_finals++] = entry;
    return DI_OK;
}

/* Entries of one node of this place, through all nodes that only pass returns on. */
static di_status resolve(di_acceptor *a, uint32_t number)
{
    di_closure_work *w = a->work;
    const uint32_t visit = ++w->visit;
    size_t n_stack = 0;
    DI_TRY(DI_GROW(&w->stack, &w->cap_stack, w->n_nodes));
    w->nodes[number].first_final = (uint32_t)w->n_finals;
    w->nodes[number].visit = visit;
    w->stack[n_stack++] = number;
    while (n_stack > 0) {
        const here_node *node = &w->nodes[w->stack[--n_stack]];
        for (uint32_t i = node->first_entry; i != UINT32_MAX; i = w->entries[i].next) {
            const di_item entry = w->entries[i].item;
            if (!only_returns(a, entry)) {
                DI_TRY(add_final(w, entry));
            } else if (IS_HERE(entry.node)) {
                here_node *next = &w->nodes[entry.node - DI_NODE_IN_GROUP];
                if (next->visit != visit) {
                    next->visit = visit;
                    w->stack[n_stack++] = entry.node - DI_NODE_IN_GROUP;
                }
            } else {
                const di_node n = a->nodes[entry.node];
                for (uint32_t k = 0; k < n.n_entries; k++)
                    DI_TRY(add_final(w, a->entries[n.first_entry + k]));
            }
        }
    }
    w->nodes[number].n_finals = (uint32_t)w->n_finals - w->nodes[number].first_final;
    return DI_OK;
}

static uint32_t sort_unique(di_item *items, uint32_t n)
{
    if (n <= 1)
        return n;
    qsort(items, n, sizeof *items, di_item_compare);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < n; i++)
        if (di_item_compare(&items[i], &items[kept - 1]) != 0)
            items[kept++] = items[i];
    return kept;
}

/* Puts the ids of nodes that are known in the place of their numbers; true if all are. */
static bool put_ids(const di_closure_work *w, di_item *items, size_t n)
{
    bool all = true;
    for (size_t i = 0; i < n; i++) {
        if (!IS_HERE(items[i].node))
            continue;
        const uint32_t id = w->nodes[items[i].node - DI_NODE_IN_GROUP].id;
        if (id == UINT32_MAX)
            all = false;
        else
            items[i].node = id;
    }
    return all;
}

static di_status intern_one(di_acceptor *a, here_node *node)
{
    di_item *finals = a->work->finals + node->first_final;
    node->n_finals = sort_unique(finals, node->n_finals);
    return di_intern_nodes(a, &(di_node_entries){finals, node->n_finals}, 1, &node->id);
}

static int by_rule(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* What is left refers to itself: left recursion. All of it becomes one group, in the order of
 * rules. */
static di_status intern_group(di_acceptor *a)
{
    di_closure_work *w = a->work;
    uint32_t n = 0;
    DI_TRY(DI_GROW(&w->order, &w->cap_order, w->n_nodes));
    DI_TRY(DI_GROW(&w->group, &w->cap_group, w->n_nodes));
    for (size_t i = 0; i < w->n_nodes; i++)
        if (w->nodes[i].id == UINT32_MAX)
            w->order[n++] = w->nodes[i].rule;
    if (n == 0)
        return DI_OK;
    qsort(w->order, n, sizeof *w->order, by_rule);
    for (uint32_t k = 0; k < n; k++) /* visit: place in the group */
        w->nodes[w->node_of_rule[w->order[k]]].visit = k;
    for (uint32_t k = 0; k < n; k++) {
        here_node *node = &w->nodes[w->node_of_rule[w->order[k]]];
        di_item *finals = w->finals + node->first_final;
        for (uint32_t i = 0; i < node->n_finals; i++)
            if (IS_HERE(finals[i].node))
                finals[i].node =
                    DI_NODE_IN_GROUP + w->nodes[finals[i].node - DI_NODE_IN_GROUP].visit;
        node->n_finals = sort_unique(finals, node->n_finals);
        w->group[k] = (di_node_entries){finals, node->n_finals};
    }
    uint32_t first;
    DI_TRY(di_intern_nodes(a, w->group, n, &first));
    for (uint32_t k = 0; k < n; k++)
        w->nodes[w->node_of_rule[w->order[k]]].id = first + k;
    w->visit += n + 1;
    return DI_OK;
}

static di_status intern_nodes(di_acceptor *a)
{
    di_closure_work *w = a->work;
    for (uint32_t i = 0; i < w->n_nodes; i++)
        DI_TRY(resolve(a, i));
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = w->n_nodes; i-- > 0;) {
            here_node *node = &w->nodes[i];
            if (node->id == UINT32_MAX &&
                put_ids(w, w->finals + node->first_final, node->n_finals)) {
                DI_TRY(intern_one(a, node));
                changed = true;
            }
        }
    }
    return intern_group(a);
}

di_status di_closure_finish(di_acceptor *a, uint32_t *set)
{
    di_closure_work *w = a->work;
    for (size_t i = 0; i < w->n_items; i++)
        DI_TRY(expand(a, w->items[i]));
    DI_TRY(intern_nodes(a));
    uint32_t n = 0;
    for (size_t i = 0; i < w->n_items; i++)
        if (w->items[i].state == DI_STATE_POP || a->grammar->states[w->items[i].state].n_bytes > 0)
            w->items[n++] = w->items[i];
    put_ids(w, w->items, n);
    n = sort_unique(w->items, n);
    return di_intern_set(a, w->items, n, w->accepts, set);
}
