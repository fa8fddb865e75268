/* Trimming and minimization. States are split into blocks by their signatures: the runs of code
 * points that lead into one block. Only states whose targets changed their block are looked at
 * again, and of a split block the largest part keeps its number, so a state changes its block at
 * most log2(n) times. */
#include <string.h>

#include "grammar/dfa_builder.h"

#define UNSET UINT32_MAX

typedef struct {
    uint32_t *first; /* [n_states + 1] */
    uint32_t *from;  /* [n_edges] */
} predecessors;

static di_status find_predecessors(di_arena *arena, const di_dfa *dfa, predecessors *out)
{
    DI_TRY(DI_ARENA_ZNEW(arena, (size_t)dfa->n_states + 2, &out->first));
    DI_TRY(DI_ARENA_NEW(arena, dfa->n_edges, &out->from));
    for (uint32_t i = 0; i < dfa->n_edges; i++)
        out->first[dfa->edges[i].target + 2]++;
    for (uint32_t i = 2; i <= dfa->n_states; i++)
        out->first[i] += out->first[i - 1];
    for (uint32_t state = 0; state < dfa->n_states; state++) {
        const di_dfa_edge *edges =
            dfa->n_edges == 0 ? NULL : dfa->edges + dfa->states[state].first_edge;
        for (uint32_t i = 0; i < dfa->states[state].n_edges; i++)
            out->from[out->first[edges[i].target + 1]++] = state;
    }
    return DI_OK;
}

/* number[state]: UNSET if no final state can be reached, else its number among the others. */
static di_status number_alive(di_arena *arena, const di_dfa *dfa, uint32_t *number)
{
    predecessors before;
    uint32_t *stack, n = 0;
    DI_TRY(find_predecessors(arena, dfa, &before));
    DI_TRY(DI_ARENA_NEW(arena, dfa->n_states, &stack));
    for (uint32_t state = 0; state < dfa->n_states; state++) {
        number[state] = dfa->states[state].is_final ? 0 : UNSET;
        if (dfa->states[state].is_final)
            stack[n++] = state;
    }
    while (n > 0) {
        const uint32_t state = stack[--n];
        for (uint32_t i = before.first[state]; i < before.first[state + 1]; i++) {
            if (number[before.from[i]] != UNSET)
                continue;
            number[before.from[i]] = 0;
            stack[n++] = before.from[i];
        }
    }
    for (uint32_t state = 0; state < dfa->n_states; state++)
        if (number[state] != UNSET)
            number[state] = n++;
    return DI_OK;
}

/* Only states that reach a final one, only edges between them. */
static di_status trim(di_arena *arena, const di_dfa *dfa, di_dfa *out)
{
    uint32_t *number;
    di_dfa_state *states;
    di_dfa_edge *edges;
    DI_TRY(DI_ARENA_NEW(arena, dfa->n_states, &number));
    DI_TRY(DI_ARENA_NEW(arena, dfa->n_states, &states));
    DI_TRY(DI_ARENA_NEW(arena, dfa->n_edges, &edges));
    DI_TRY(number_alive(arena, dfa, number));
    *out = (di_dfa){.states = states, .edges = edges};
    if (dfa->n_states == 0 || number[0] == UNSET)
        return DI_OK;
    for (uint32_t state = 0; state < dfa->n_states; state++) {
        if (number[state] == UNSET)
            continue;
        const di_dfa_state old = dfa->states[state];
        di_dfa_state *copy = &states[out->n_states++];
        *copy = (di_dfa_state){.first_edge = out->n_edges, .is_final = old.is_final};
        for (uint32_t i = old.first_edge; i < old.first_edge + old.n_edges; i++) {
            const di_dfa_edge edge = dfa->edges[i];
            if (number[edge.target] != UNSET)
                edges[out->n_edges++] = (di_dfa_edge){edge.first, edge.last, number[edge.target]};
        }
        copy->n_edges = out->n_edges - copy->first_edge;
    }
    return DI_OK;
}

typedef struct {
    uint32_t first, end; /* in `members` */
    uint32_t n_marked;   /* the first ones: to be looked at again */
} block;

typedef struct {
    uint32_t sample, n; /* a state with this signature, how many have it */
    uint64_t hash;
    uint32_t start; /* where the next one goes */
} group;

typedef struct {
    const di_dfa *dfa;
    predecessors before;
    uint32_t *members, *place; /* [n]: by block; where a state is in it */
    uint32_t *block_of;        /* [n] */
    block *blocks;             /* [n] */
    uint32_t n_blocks;
    uint32_t *stack, n_stack; /* blocks with marked states */
    group *groups;            /* scratch, [n + 1] */
    uint32_t *group_of, *moved, *slots;
} partition;

/* The next run of touching edges of a state that lead into one block; false after the last. */
static bool next_run(const partition *p, uint32_t state, uint32_t *at, di_dfa_edge *run)
{
    const di_dfa_state s = p->dfa->states[state];
    const di_dfa_edge *edges = p->dfa->edges + s.first_edge;
    uint32_t i = *at;
    if (i == s.n_edges)
        return false;
    *run = (di_dfa_edge){edges[i].first, edges[i].last, p->block_of[edges[i].target]};
    for (i++; i < s.n_edges && edges[i].first == run->last + 1 &&
              p->block_of[edges[i].target] == run->target;
         i++)
        run->last = edges[i].last;
    *at = i;
    return true;
}

static uint64_t signature(const partition *p, uint32_t state)
{
    uint64_t hash = 0x9E3779B97F4A7C15u;
    uint32_t at = 0;
    di_dfa_edge run;
    while (next_run(p, state, &at, &run)) {
        hash = (hash ^ ((uint64_t)run.first << 32 | run.last)) * 0xFF51AFD7ED558CCDu;
        hash = ((hash ^ hash >> 33) + run.target) * 0xC4CEB9FE1A85EC53u;
        hash ^= hash >> 29;
    }
    return hash;
}

static bool has_same_runs(const partition *p, uint32_t a, uint32_t b)
{
    uint32_t at_a = 0, at_b = 0;
    for (;;) {
        di_dfa_edge run_a, run_b;
        const bool more = next_run(p, a, &at_a, &run_a);
        if (more != next_run(p, b, &at_b, &run_b))
            return false;
        if (!more)
            return true;
        if (run_a.first != run_b.first || run_a.last != run_b.last || run_a.target != run_b.target)
            return false;
    }
}

static void mark(partition *p, uint32_t state)
{
    block *b = &p->blocks[p->block_of[state]];
    const uint32_t to = b->first + b->n_marked;
    if (p->place[state] < to)
        return;
    if (b->n_marked++ == 0)
        p->stack[p->n_stack++] = p->block_of[state];
    const uint32_t other = p->members[to];
    p->members[p->place[state]] = other;
    p->place[other] = p->place[state];
    p->members[to] = state;
    p->place[state] = to;
}

/* The group with the signature of `state`, a new one if there is none. slots: [mask + 1]. */
static uint32_t find_group(partition *p, uint32_t state, uint32_t mask, uint32_t *n_groups)
{
    const uint64_t hash = signature(p, state);
    uint32_t at = (uint32_t)hash & mask;
    for (; p->slots[at] != UNSET; at = (at + 1) & mask) {
        const group *g = &p->groups[p->slots[at]];
        if (g->hash == hash && has_same_runs(p, g->sample, state))
            return p->slots[at];
    }
    p->slots[at] = *n_groups;
    p->groups[*n_groups] = (group){.sample = state, .hash = hash};
    return (*n_groups)++;
}

/* Groups the marked states of a block by signature. Group 0 is that of the unmarked ones, if there
 * are any. */
static uint32_t group_marked(partition *p, const block *b)
{
    const uint32_t n_rest = b->end - b->first - b->n_marked;
    uint32_t n_groups = 0, mask = 3;
    while (mask / 2 < b->n_marked)
        mask = mask * 2 + 1;
    memset(p->slots, 0xFF, ((size_t)mask + 1) * sizeof *p->slots);
    if (n_rest > 0)
        p->groups[find_group(p, p->members[b->first + b->n_marked], mask, &n_groups)].n = n_rest;
    for (uint32_t i = 0; i < b->n_marked; i++) {
        p->group_of[i] = find_group(p, p->members[b->first + i], mask, &n_groups);
        p->groups[p->group_of[i]].n++;
    }
    return n_groups;
}

/* Sorts the marked members by group, group 0 last: it goes on with the unmarked ones. */
static void sort_marked(partition *p, const block *b, uint32_t n_groups)
{
    uint32_t at = b->first;
    for (uint32_t g = n_groups - 1; g > 0; g--) {
        p->groups[g].start = at;
        at += p->groups[g].n;
    }
    p->groups[0].start = at;
    memcpy(p->moved, p->members + b->first, b->n_marked * sizeof *p->moved);
    for (uint32_t i = 0; i < b->n_marked; i++) {
        const uint32_t to = p->groups[p->group_of[i]].start++;
        p->members[to] = p->moved[i];
        p->place[p->moved[i]] = to;
    }
}

static void split(partition *p, uint32_t number)
{
    block *b = &p->blocks[number];
    const uint32_t n_groups = group_marked(p, b);
    const block old = *b;
    b->n_marked = 0;
    if (n_groups == 1)
        return;
    sort_marked(p, &old, n_groups);
    uint32_t largest = 0, n_moved = 0, at = old.first;
    for (uint32_t g = 1; g < n_groups; g++)
        if (p->groups[g].n > p->groups[largest].n)
            largest = g;
    for (uint32_t i = n_groups; i-- > 0;) {
        const block part = {.first = at, .end = at + p->groups[i].n};
        at = part.end;
        if (i == largest) {
            *b = part;
            continue;
        }
        for (uint32_t k = part.first; k < part.end; k++) {
            p->block_of[p->members[k]] = p->n_blocks;
            p->moved[n_moved++] = p->members[k];
        }
        p->blocks[p->n_blocks++] = part;
    }
    for (uint32_t i = 0; i < n_moved; i++) {
        const uint32_t state = p->moved[i];
        for (uint32_t k = p->before.first[state]; k < p->before.first[state + 1]; k++)
            mark(p, p->before.from[k]);
    }
}

static di_status partition_create(di_arena *arena, const di_dfa *dfa, partition *p)
{
    const size_t n = dfa->n_states;
    *p = (partition){.dfa = dfa};
    DI_TRY(find_predecessors(arena, dfa, &p->before));
    DI_TRY(DI_ARENA_NEW(arena, n, &p->members));
    DI_TRY(DI_ARENA_NEW(arena, n, &p->place));
    DI_TRY(DI_ARENA_NEW(arena, n, &p->block_of));
    DI_TRY(DI_ARENA_NEW(arena, n + 1, &p->blocks));
    DI_TRY(DI_ARENA_NEW(arena, n + 1, &p->stack));
    DI_TRY(DI_ARENA_NEW(arena, n + 1, &p->groups));
    DI_TRY(DI_ARENA_NEW(arena, n, &p->group_of));
    DI_TRY(DI_ARENA_NEW(arena, n, &p->moved));
    return DI_ARENA_NEW(arena, 4 * n + 4, &p->slots);
}

/* Final and other states apart, and all of them marked. */
static void partition_start(partition *p)
{
    const uint32_t n = p->dfa->n_states;
    uint32_t at = 0;
    for (uint32_t is_final = 0; is_final < 2; is_final++) {
        const uint32_t first = at;
        for (uint32_t state = 0; state < n; state++) {
            if (p->dfa->states[state].is_final != (is_final == 1))
                continue;
            p->members[at] = state;
            p->place[state] = at++;
            p->block_of[state] = p->n_blocks;
        }
        if (at == first)
            continue;
        p->stack[p->n_stack++] = p->n_blocks;
        p->blocks[p->n_blocks++] = (block){.first = first, .end = at, .n_marked = at - first};
    }
}

/* One state a block, from that of state 0 on. */
static di_status emit(const partition *p, di_arena *scratch, di_arena *arena, di_dfa *out)
{
    uint32_t *number, *queue, n_queue = 0;
    di_dfa_state *states;
    di_dfa_edge *edges, *copy;
    DI_TRY(DI_ARENA_NEW(scratch, p->n_blocks, &number));
    DI_TRY(DI_ARENA_NEW(scratch, p->n_blocks, &queue));
    DI_TRY(DI_ARENA_NEW(scratch, p->dfa->n_edges, &edges));
    DI_TRY(DI_ARENA_NEW(arena, p->n_blocks, &states));
    memset(number, 0xFF, p->n_blocks * sizeof *number);
    *out = (di_dfa){.states = states};
    number[p->block_of[0]] = 0;
    queue[n_queue++] = p->block_of[0];
    for (; out->n_states < n_queue; out->n_states++) {
        const uint32_t sample = p->members[p->blocks[queue[out->n_states]].first];
        di_dfa_state *state = &states[out->n_states];
        *state =
            (di_dfa_state){.first_edge = out->n_edges, .is_final = p->dfa->states[sample].is_final};
        uint32_t at = 0;
        for (di_dfa_edge run; next_run(p, sample, &at, &run);) {
            if (number[run.target] == UNSET) {
                number[run.target] = n_queue;
                queue[n_queue++] = run.target;
            }
            edges[out->n_edges++] = (di_dfa_edge){run.first, run.last, number[run.target]};
        }
        state->n_edges = out->n_edges - state->first_edge;
    }
    DI_TRY(DI_ARENA_NEW(arena, out->n_edges, &copy));
    if (out->n_edges > 0)
        memcpy(copy, edges, out->n_edges * sizeof *copy);
    out->edges = copy;
    return DI_OK;
}

static di_status minimize(const di_dfa *raw, di_arena *scratch, di_arena *arena, di_dfa *out)
{
    di_dfa dfa;
    partition p;
    *out = (di_dfa){0};
    DI_TRY(trim(scratch, raw, &dfa));
    if (dfa.n_states == 0)
        return DI_OK;
    DI_TRY(partition_create(scratch, &dfa, &p));
    partition_start(&p);
    while (p.n_stack > 0)
        split(&p, p.stack[--p.n_stack]);
    return emit(&p, scratch, arena, out);
}

di_status di_dfa_builder_finish(const di_dfa_builder *builder, di_arena *arena, const di_dfa **out)
{
    const di_dfa raw = {.states = builder->states,
                        .edges = builder->edges,
                        .n_states = (uint32_t)builder->n_states,
                        .n_edges = (uint32_t)builder->n_edges};
    di_arena scratch = {0};
    di_dfa *dfa;
    DI_TRY(DI_ARENA_NEW(arena, 1, &dfa));
    const di_status status = minimize(&raw, &scratch, arena, dfa);
    di_arena_free(&scratch);
    if (status == DI_OK)
        *out = dfa;
    return status;
}
