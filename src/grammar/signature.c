#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/token_static.h"

enum { MAX_STATES = 128, N_SLOTS = 2 * MAX_STATES, MAX_KEY_BYTES = 16384 };

typedef struct signature {
    const di_grammar *g;
    uint32_t base_rule; /* whose bounds do not matter: its counts are relative */
    uint32_t states[MAX_STATES];
    uint32_t n_states;
    uint16_t slots[N_SLOTS]; /* numbers + 1 by state, open addressing; 0: free */
    bool fits;
    di_buf key;
} signature;

/* The number of a state in the order of discovery. */
static uint32_t number(signature *s, uint32_t state)
{
    uint32_t at = state % N_SLOTS;
    for (; s->slots[at] != 0; at = (at + 1) % N_SLOTS)
        if (s->states[s->slots[at] - 1] == state)
            return s->slots[at] - 1u;
    if (s->n_states == MAX_STATES) {
        s->fits = false;
        return 0;
    }
    s->states[s->n_states] = state;
    s->slots[at] = (uint16_t)++s->n_states;
    return s->n_states - 1;
}

static di_status put(signature *s, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const uint32_t values[4] = {a, b, c, d};
    return di_buf_append(&s->key, values, sizeof values);
}

static di_status put_state(signature *s, uint32_t index)
{
    const di_state *state = &s->g->states[s->states[index]];
    const di_rule *rule = &s->g->rules[state->rule];
    const bool is_base = state->rule == s->base_rule;
    DI_TRY(put(s, state->n_bytes, state->n_others,
               (uint32_t)(state->is_final << 4 | rule->kind << 1 | is_base), state->fewest));
    DI_TRY(put(s, is_base && rule->is_loop ? 0 : rule->min,
               is_base && rule->is_loop ? DI_REPEAT_INF : rule->max,
               is_base ? (uint32_t)rule->is_called : 0, state->most));
    if (rule->kind == DI_REGISTER_SET)
        s->fits = false;
    for (uint32_t i = 0; i < state->n_bytes + state->n_others && s->fits; i++) {
        const di_edge *e = &s->g->edges[state->first_edge + i];
        uint32_t start = 0;
        if (e->kind == DI_EDGE_CALL)
            start = number(s, s->g->rules[e->rule].start) << 2 |
                    (uint32_t)(s->g->rules[e->rule].is_nullable << 1) | e->not_empty;
        const uint32_t bytes = (uint32_t)e->first << 8 | e->last;
        DI_TRY(put(s, (uint32_t)(e->kind << 8 | e->action), bytes, number(s, e->target), start));
    }
    if (s->key.len > MAX_KEY_BYTES)
        s->fits = false;
    return DI_OK;
}

static di_status put_all(signature *s, uint32_t state)
{
    number(s, state);
    for (uint32_t i = 0; i < s->n_states && s->fits; i++)
        DI_TRY(put_state(s, i));
    return DI_OK;
}

di_status di_state_signature(const di_grammar *grammar, uint32_t state, char **key, size_t *len)
{
    signature s = {.g = grammar, .base_rule = grammar->states[state].rule, .fits = true};
    const di_status status = put_all(&s, state);
    if (status != DI_OK || !s.fits) {
        di_buf_free(&s.key);
        *key = NULL;
        *len = 0;
        return status;
    }
    *key = s.key.data;
    *len = s.key.len;
    return DI_OK;
}
