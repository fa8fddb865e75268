#include <stdlib.h>
#include <string.h>

#include "grammar/dfa.h"

typedef struct {
    const di_dfa *dfa;
    di_dfa_distance *distances;
    uint32_t *first, *from; /* predecessors of a state: from[first[state]] to first[state + 1] */
    uint32_t *n_left;       /* edges not yet followed backwards */
    uint32_t *queue;
    uint64_t *spans; /* scratch for the counts of a state, one an edge */
} search;

static di_status search_create(di_arena *arena, const di_dfa *dfa, search *s)
{
    const size_t n = dfa->n_states;
    DI_TRY(DI_ARENA_ZNEW(arena, n + 2, &s->first));
    DI_TRY(DI_ARENA_NEW(arena, dfa->n_edges, &s->from));
    DI_TRY(DI_ARENA_NEW(arena, n, &s->n_left));
    DI_TRY(DI_ARENA_NEW(arena, n, &s->queue));
    DI_TRY(DI_ARENA_NEW(arena, (size_t)dfa->n_edges + 1, &s->spans));
    for (uint32_t i = 0; i < dfa->n_edges; i++)
        s->first[dfa->edges[i].target + 2]++;
    for (size_t i = 2; i <= n; i++)
        s->first[i] += s->first[i - 1];
    for (uint32_t state = 0; state < n; state++) {
        const di_dfa_edge *edges = dfa->edges + dfa->states[state].first_edge;
        for (uint32_t i = 0; i < dfa->states[state].n_edges; i++)
            s->from[s->first[edges[i].target + 1]++] = state;
    }
    return DI_OK;
}

/* Breadth first, backwards from the final states. */
static void find_shortest(search *s)
{
    uint32_t n_queue = 0;
    for (uint32_t state = 0; state < s->dfa->n_states; state++) {
        s->distances[state].shortest = DI_REPEAT_INF;
        if (s->dfa->states[state].is_final) {
            s->distances[state].shortest = 0;
            s->queue[n_queue++] = state;
        }
    }
    for (uint32_t i = 0; i < n_queue; i++) {
        const uint32_t state = s->queue[i];
        for (uint32_t k = s->first[state]; k < s->first[state + 1]; k++) {
            di_dfa_distance *before = &s->distances[s->from[k]];
            if (before->shortest != DI_REPEAT_INF)
                continue;
            before->shortest = s->distances[state].shortest + 1;
            s->queue[n_queue++] = s->from[k];
        }
    }
}

/* Backwards from the states without edges; those on a cycle, or before one, are never reached. */
static void find_longest(search *s)
{
    uint32_t n_queue = 0;
    for (uint32_t state = 0; state < s->dfa->n_states; state++) {
        s->n_left[state] = s->dfa->states[state].n_edges;
        s->distances[state].longest = s->n_left[state] == 0 ? 0 : DI_REPEAT_INF;
        if (s->n_left[state] == 0)
            s->queue[n_queue++] = state;
    }
    for (uint32_t i = 0; i < n_queue; i++) {
        const uint32_t state = s->queue[i];
        for (uint32_t k = s->first[state]; k < s->first[state + 1]; k++) {
            const uint32_t before = s->from[k];
            if (--s->n_left[before] > 0)
                continue;
            /* The last of its targets to be taken from the queue has the longest way. */
            s->distances[before].longest = s->distances[state].longest + 1;
            s->queue[n_queue++] = before;
        }
    }
}

static int by_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool is_sorted(const uint64_t *values, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (values[i - 1] > values[i])
            return false;
    return true;
}

/* Whether one more than the counts of the state's targets, and 0 if it is final, leave no gap.
 * If no state has a gap, every count between shortest and longest is possible from every state
 * (by induction over the count), and if one has, some count is impossible. */
static bool has_no_gap(search *s, uint32_t state)
{
    const di_dfa_state from = s->dfa->states[state];
    uint32_t n = 0;
    if (from.is_final)
        s->spans[n++] = 0;
    for (uint32_t i = from.first_edge; i < from.first_edge + from.n_edges; i++) {
        const di_dfa_distance to = s->distances[s->dfa->edges[i].target];
        const uint64_t longest = to.longest == DI_REPEAT_INF ? DI_REPEAT_INF : to.longest + 1;
        const uint64_t span = ((uint64_t)to.shortest + 1) << 32 | longest;
        if (n == 0 || s->spans[n - 1] != span)
            s->spans[n++] = span;
    }
    if (!is_sorted(s->spans, n))
        qsort(s->spans, n, sizeof *s->spans, by_u64);
    uint64_t end = n > 0 ? s->spans[0] & UINT32_MAX : 0;
    for (uint32_t i = 1; i < n; i++) {
        if (s->spans[i] >> 32 > end + 1)
            return false;
        const uint64_t last = s->spans[i] & UINT32_MAX;
        end = last > end ? last : end;
    }
    return true;
}

di_status di_dfa_distances(const di_dfa *dfa, di_dfa_distance *out, bool *has_all)
{
    di_arena scratch = {0};
    search s = {.dfa = dfa, .distances = out};
    const di_status status = search_create(&scratch, dfa, &s);
    if (status == DI_OK) {
        find_shortest(&s);
        find_longest(&s);
        *has_all = true;
        for (uint32_t state = 0; state < dfa->n_states && *has_all; state++)
            *has_all = has_no_gap(&s, state);
    }
    di_arena_free(&scratch);
    return status;
}
