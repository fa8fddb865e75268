/* An automaton of texts as one of the same texts as JSON spells them. Escapes that lead to the same
 * states share their way, so that a state costs one more edge and not one for each escape. */
#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema_impl.h"

enum { N_ESCAPED = 34, NO_STATE = -1 };

/* Where each code point that must be escaped leads: U+0000 to U+001F, `"`, `\`. */
typedef struct targets {
    int64_t of[N_ESCAPED];
} targets;

typedef struct speller {
    di_dfa_state *states;
    size_t n_states, cap_states;
    di_dfa_edge *edges;
    size_t n_edges, cap_edges;
    di_strmap ways; /* targets -> state behind the backslash */
} speller;

static uint32_t escaped_code(uint32_t i)
{
    return i < 0x20 ? i : i == 0x20 ? '"' : '\\';
}

static di_status edge(speller *s, uint32_t first, uint32_t last, int64_t target)
{
    if (target == NO_STATE || first > last)
        return DI_OK;
    DI_TRY(DI_GROW(&s->edges, &s->cap_edges, s->n_edges + 1));
    s->edges[s->n_edges++] = (di_dfa_edge){first, last, (uint32_t)target};
    return DI_OK;
}

/* A state whose edges are all those since first_edge. */
static di_status state_of(speller *s, size_t first_edge, int64_t *out)
{
    *out = NO_STATE;
    if (first_edge == s->n_edges)
        return DI_OK;
    DI_TRY(DI_GROW(&s->states, &s->cap_states, s->n_states + 1));
    s->states[s->n_states] = (di_dfa_state){.first_edge = (uint32_t)first_edge,
                                            .n_edges = (uint32_t)(s->n_edges - first_edge)};
    *out = (int64_t)s->n_states++;
    return DI_OK;
}

/* The last digit of \u00hX, for code points from 16 * h. */
static di_status last_digit(speller *s, const targets *t, uint32_t base, int64_t *out)
{
    static const char digits[] = "0123456789ABCDEFabcdef";
    const size_t first = s->n_edges;
    for (uint32_t i = 0; i < sizeof digits - 1; i++) {
        const uint32_t code = base + (i < 16 ? i : i - 6);
        if (strchr("\b\f\n\r\t", (int)code) == NULL || code == 0)
            DI_TRY(edge(s, (uint32_t)digits[i], (uint32_t)digits[i], t->of[code]));
    }
    return state_of(s, first, out);
}

static di_status one_edge(speller *s, char c, int64_t target, int64_t *out)
{
    const size_t first = s->n_edges;
    DI_TRY(edge(s, (uint32_t)c, (uint32_t)c, target));
    return state_of(s, first, out);
}

static di_status make_way(speller *s, const targets *t, int64_t *out)
{
    int64_t low, high, u;
    DI_TRY(last_digit(s, t, 0x00, &low));
    DI_TRY(last_digit(s, t, 0x10, &high));
    size_t first = s->n_edges;
    DI_TRY(edge(s, '0', '0', low));
    DI_TRY(edge(s, '1', '1', high));
    DI_TRY(state_of(s, first, &u));
    DI_TRY(one_edge(s, '0', u, &u));
    DI_TRY(one_edge(s, '0', u, &u));
    first = s->n_edges;
    DI_TRY(edge(s, '"', '"', t->of[0x20]));
    DI_TRY(edge(s, '\\', '\\', t->of[0x21]));
    DI_TRY(edge(s, 'b', 'b', t->of['\b']));
    DI_TRY(edge(s, 'f', 'f', t->of['\f']));
    DI_TRY(edge(s, 'n', 'n', t->of['\n']));
    DI_TRY(edge(s, 'r', 'r', t->of['\r']));
    DI_TRY(edge(s, 't', 't', t->of['\t']));
    DI_TRY(edge(s, 'u', 'u', u));
    return state_of(s, first, out);
}

static di_status way_of(speller *s, const targets *t, int64_t *out)
{
    if (di_strmap_get(&s->ways, (const char *)t, sizeof *t, out))
        return DI_OK;
    DI_TRY(make_way(s, t, out));
    return di_strmap_put(&s->ways, (const char *)t, sizeof *t, *out, NULL);
}

static void read_targets(const di_dfa *dfa, const di_dfa_state *state, targets *t)
{
    const di_dfa_edge *edges = dfa->edges + state->first_edge;
    for (uint32_t i = 0; i < N_ESCAPED; i++)
        t->of[i] = NO_STATE;
    for (uint32_t k = 0; k < state->n_edges && edges[k].first <= '\\'; k++)
        for (uint32_t i = 0; i < N_ESCAPED; i++)
            if (escaped_code(i) >= edges[k].first && escaped_code(i) <= edges[k].last)
                t->of[i] = edges[k].target;
}

static di_status spell_state(speller *s, const di_dfa *dfa, uint32_t number)
{
    static const di_code_range plain[] = {{' ', '!'}, {'#', '['}, {']', DI_CODE_LAST}};
    const di_dfa_state *state = &dfa->states[number];
    targets t;
    int64_t way;
    read_targets(dfa, state, &t);
    DI_TRY(way_of(s, &t, &way));
    const size_t first = s->n_edges;
    for (uint32_t r = 0; r < 3; r++) {
        for (uint32_t k = 0; k < state->n_edges; k++) {
            const di_dfa_edge e = dfa->edges[state->first_edge + k];
            DI_TRY(edge(s, e.first > plain[r].first ? e.first : plain[r].first,
                        e.last < plain[r].last ? e.last : plain[r].last, e.target));
        }
        if (r == 1)
            DI_TRY(edge(s, '\\', '\\', way));
    }
    s->states[number] = (di_dfa_state){.first_edge = (uint32_t)first,
                                       .n_edges = (uint32_t)(s->n_edges - first),
                                       .is_final = state->is_final};
    return DI_OK;
}

static di_status spell(di_js *js, speller *s, const di_dfa *dfa, const di_dfa **out)
{
    DI_TRY(DI_GROW(&s->states, &s->cap_states, dfa->n_states));
    s->n_states = dfa->n_states;
    for (uint32_t i = 0; i < dfa->n_states; i++)
        DI_TRY(spell_state(s, dfa, i));
    di_dfa *spelled;
    di_dfa_state *states;
    di_dfa_edge *edges;
    DI_TRY(DI_ARENA_NEW(js->arena, 1, &spelled));
    DI_TRY(DI_ARENA_NEW(js->arena, s->n_states, &states));
    DI_TRY(DI_ARENA_NEW(js->arena, s->n_edges, &edges));
    memcpy(states, s->states, s->n_states * sizeof *states);
    if (s->n_edges > 0)
        memcpy(edges, s->edges, s->n_edges * sizeof *edges);
    *spelled = (di_dfa){.states = states,
                        .edges = edges,
                        .n_states = (uint32_t)s->n_states,
                        .n_edges = (uint32_t)s->n_edges};
    *out = spelled;
    return DI_OK;
}

di_status di_js_spelled(di_js *js, const di_dfa *dfa, const di_expr **out)
{
    speller s = {0};
    const di_status status = spell(js, &s, dfa, &dfa);
    free(s.states);
    free(s.edges);
    di_strmap_free(&s.ways);
    DI_TRY(status);
    return di_expr_from_dfa(js->arena, (di_expr_dfa){.dfa = dfa, .max_len = DI_REPEAT_INF}, out);
}
