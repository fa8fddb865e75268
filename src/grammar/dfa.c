/* Products, bounds and questions. */
#include "grammar/dfa.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/dfa_builder.h"
#include "grammar/tuples.h"
#include "text/utf8.h"

#define DEAD UINT32_MAX /* of two automata in step: this one has rejected the text */

/* Which pairs of states are kept, and which are final, by what the two automata say. */
typedef struct {
    bool a_only, b_only; /* kept: one of both is dead */
    bool (*is_final)(bool a, bool b);
} product_rule;

static bool both(bool a, bool b)
{
    return a && b;
}

static bool either(bool a, bool b)
{
    return a || b;
}

static bool first_only(bool a, bool b)
{
    return a && !b;
}

typedef struct {
    const di_dfa *a, *b;
    product_rule rule;
    di_tuples pairs;
    di_dfa_builder builder;
} product;

/* The edges of a state; none of a dead one. */
typedef struct {
    const di_dfa_edge *at, *end;
} edge_list;

static edge_list edges_of(const di_dfa *dfa, uint32_t state)
{
    if (state == DEAD)
        return (edge_list){0};
    const di_dfa_edge *edges = dfa->edges + dfa->states[state].first_edge;
    return (edge_list){edges, edges + dfa->states[state].n_edges};
}

static bool is_final(const di_dfa *dfa, uint32_t state)
{
    return state != DEAD && dfa->states[state].is_final;
}

static di_status add_pair(product *p, uint32_t a, uint32_t b, uint32_t *number)
{
    DI_TRY(di_tuples_intern(&p->pairs, (const uint32_t[]){a, b}, 2, number));
    return di_dfa_check_states(p->pairs.n, p->builder.max_states);
}

/* Where the list leads from `code` on, and in *last how far that holds. */
static uint32_t target_at(edge_list list, uint32_t code, uint32_t *last)
{
    if (list.at == list.end)
        return DEAD;
    const uint32_t until = list.at->first <= code ? list.at->last : list.at->first - 1;
    if (until < *last)
        *last = until;
    return list.at->first <= code ? list.at->target : DEAD;
}

static di_status add_pair_edges(product *p, edge_list a, edge_list b)
{
    for (uint32_t code = 0; a.at < a.end || b.at < b.end;) {
        uint32_t last = DI_CODE_LAST, number;
        const uint32_t to_a = target_at(a, code, &last);
        const uint32_t to_b = target_at(b, code, &last);
        if ((to_a != DEAD || p->rule.b_only) && (to_b != DEAD || p->rule.a_only) &&
            (to_a != DEAD || to_b != DEAD)) {
            DI_TRY(add_pair(p, to_a, to_b, &number));
            DI_TRY(di_dfa_builder_edge(&p->builder, code, last, number));
        }
        if (a.at < a.end && a.at->last == last)
            a.at++;
        if (b.at < b.end && b.at->last == last)
            b.at++;
        code = last + 1;
    }
    return DI_OK;
}

static di_status build_product(product *p)
{
    uint32_t number;
    DI_TRY(add_pair(p, p->a->n_states > 0 ? 0 : DEAD, p->b->n_states > 0 ? 0 : DEAD, &number));
    for (; number < p->pairs.n; number++) {
        const uint32_t *pair = di_tuples_values(&p->pairs, number);
        const uint32_t a = pair[0], b = pair[1];
        DI_TRY(di_dfa_builder_state(&p->builder,
                                    p->rule.is_final(is_final(p->a, a), is_final(p->b, b))));
        DI_TRY(add_pair_edges(p, edges_of(p->a, a), edges_of(p->b, b)));
    }
    return DI_OK;
}

static di_status make_product(di_arena *arena, const di_dfa *a, const di_dfa *b, product_rule rule,
                              uint32_t max_states, const di_dfa **out)
{
    product p = {.a = a, .b = b, .rule = rule, .builder = {.max_states = max_states}};
    di_status status = build_product(&p);
    if (status == DI_OK)
        status = di_dfa_builder_finish(&p.builder, arena, out);
    di_tuples_free(&p.pairs);
    di_dfa_builder_free(&p.builder);
    return status;
}

di_status di_dfa_intersect(di_arena *arena, const di_dfa *a, const di_dfa *b, uint32_t max_states,
                           const di_dfa **out)
{
    return make_product(arena, a, b, (product_rule){false, false, both}, max_states, out);
}

di_status di_dfa_union(di_arena *arena, const di_dfa *a, const di_dfa *b, uint32_t max_states,
                       const di_dfa **out)
{
    return make_product(arena, a, b, (product_rule){true, true, either}, max_states, out);
}

di_status di_dfa_minus(di_arena *arena, const di_dfa *a, const di_dfa *b, uint32_t max_states,
                       const di_dfa **out)
{
    return make_product(arena, a, b, (product_rule){true, false, first_only}, max_states, out);
}

di_status di_dfa_complement(di_arena *arena, const di_dfa *a, uint32_t max_states,
                            const di_dfa **out)
{
    static const di_dfa_state state = {.n_edges = 2, .is_final = true};
    static const di_dfa_edge edges[] = {{0, 0xD7FF, 0}, {0xE000, DI_CODE_LAST, 0}};
    static const di_dfa all = {.states = &state, .edges = edges, .n_states = 1, .n_edges = 2};
    return di_dfa_minus(arena, &all, a, max_states, out);
}

/* Texts of min to max code points; max + 1 states, or min + 1 if max is DI_REPEAT_INF. */
static di_status length_dfa(di_arena *arena, uint32_t min, uint32_t max, uint32_t max_states,
                            di_dfa *out)
{
    const bool is_open = max == DI_REPEAT_INF;
    const uint32_t top = is_open ? min : max;
    di_dfa_state *states;
    di_dfa_edge *edges;
    DI_TRY(di_dfa_check_states((size_t)top + 1, max_states));
    DI_TRY(DI_ARENA_NEW(arena, (size_t)top + 1, &states));
    DI_TRY(DI_ARENA_NEW(arena, 2 * ((size_t)top + 1), &edges));
    for (uint32_t i = 0; i <= top; i++) {
        const uint32_t target = i < top ? i + 1 : top;
        states[i] = (di_dfa_state){
            .first_edge = 2 * i, .n_edges = i < top || is_open ? 2 : 0, .is_final = i >= min};
        edges[2 * i] = (di_dfa_edge){0, 0xD7FF, target};
        edges[2 * i + 1] = (di_dfa_edge){0xE000, DI_CODE_LAST, target};
    }
    *out =
        (di_dfa){.states = states, .edges = edges, .n_states = top + 1, .n_edges = 2 * (top + 1)};
    return DI_OK;
}

static di_status bound(di_arena *arena, di_arena *scratch, const di_dfa *a, uint32_t range[2],
                       uint32_t max_states, const di_dfa **out)
{
    di_dfa_distance *distances;
    bool has_all;
    di_dfa length;
    DI_TRY(DI_ARENA_NEW(scratch, a->n_states, &distances));
    DI_TRY(di_dfa_distances(a, distances, &has_all));
    if (a->n_states > 0 && range[0] <= distances[0].shortest)
        range[0] = 0;
    if (a->n_states > 0 && range[1] >= distances[0].longest)
        range[1] = DI_REPEAT_INF;
    const bool is_empty = a->n_states == 0 || range[0] > range[1] ||
                          range[1] < distances[0].shortest || range[0] > distances[0].longest;
    if (is_empty)
        range[0] = range[1] = 0;
    DI_TRY(length_dfa(scratch, range[0], range[1], max_states, &length));
    if (is_empty)
        length.n_states = 0;
    return di_dfa_intersect(arena, a, &length, max_states, out);
}

di_status di_dfa_bound_length(di_arena *arena, const di_dfa *a, uint32_t min, uint32_t max,
                              uint32_t max_states, const di_dfa **out)
{
    di_arena scratch = {0};
    const di_status status = bound(arena, &scratch, a, (uint32_t[2]){min, max}, max_states, out);
    di_arena_free(&scratch);
    return status;
}

bool di_dfa_is_empty(const di_dfa *dfa)
{
    return dfa->n_states == 0;
}

/* Minimal automata of one language have the same numbers: see di_dfa_builder_finish. */
bool di_dfa_equal(const di_dfa *a, const di_dfa *b)
{
    if (a->n_states != b->n_states || a->n_edges != b->n_edges)
        return false;
    for (uint32_t i = 0; i < a->n_states; i++)
        if (a->states[i].is_final != b->states[i].is_final ||
            a->states[i].n_edges != b->states[i].n_edges)
            return false;
    return a->n_edges == 0 || memcmp(a->edges, b->edges, a->n_edges * sizeof *a->edges) == 0;
}

static uint32_t step(const di_dfa *dfa, uint32_t state, uint32_t code)
{
    const di_dfa_edge *edges = dfa->edges + dfa->states[state].first_edge;
    uint32_t low = 0, high = dfa->states[state].n_edges;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (edges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < dfa->states[state].n_edges && edges[low].first <= code ? edges[low].target : DEAD;
}

bool di_dfa_matches(const di_dfa *dfa, const char *text, size_t len)
{
    uint32_t state = dfa->n_states > 0 ? 0 : DEAD;
    for (size_t at = 0; at < len && state != DEAD;) {
        uint32_t code;
        const size_t n = di_utf8_decode(text + at, len - at, &code);
        if (n == 0)
            return false;
        state = step(dfa, state, code);
        at += n;
    }
    return is_final(dfa, state);
}
