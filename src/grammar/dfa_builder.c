#include "grammar/dfa_builder.h"

#include <stdlib.h>

#include "base/buf.h"

/* Edges are bounded with the states, so that wide classes of characters cannot take all memory. */
enum { EDGES_PER_STATE = 16, FREE_EDGES = 1 << 16 };

di_status di_dfa_check_states(size_t n_states, uint32_t max_states)
{
    const uint32_t limit = di_dfa_limit(max_states);
    if (n_states <= limit)
        return DI_OK;
    return di_fail(DI_ERR_UNSUPPORTED, "a deterministic automaton of more than %u states", limit);
}

di_status di_dfa_builder_state(di_dfa_builder *builder, bool is_final)
{
    DI_TRY(di_dfa_check_states(builder->n_states + 1, builder->max_states));
    DI_TRY(DI_GROW(&builder->states, &builder->cap_states, builder->n_states + 1));
    builder->states[builder->n_states++] =
        (di_dfa_state){.first_edge = (uint32_t)builder->n_edges, .is_final = is_final};
    return DI_OK;
}

di_status di_dfa_builder_edge(di_dfa_builder *builder, uint32_t first, uint32_t last,
                              uint32_t target)
{
    di_dfa_state *state = &builder->states[builder->n_states - 1];
    if (state->n_edges > 0) {
        di_dfa_edge *former = &builder->edges[builder->n_edges - 1];
        if (former->target == target && former->last + 1 == first) {
            former->last = last;
            return DI_OK;
        }
    }
    const size_t limit = (size_t)di_dfa_limit(builder->max_states) * EDGES_PER_STATE + FREE_EDGES;
    if (builder->n_edges >= limit)
        return di_fail(DI_ERR_UNSUPPORTED, "a deterministic automaton of more than %zu edges",
                       builder->n_edges);
    DI_TRY(DI_GROW(&builder->edges, &builder->cap_edges, builder->n_edges + 1));
    builder->edges[builder->n_edges++] = (di_dfa_edge){first, last, target};
    state->n_edges++;
    return DI_OK;
}

void di_dfa_builder_free(di_dfa_builder *builder)
{
    free(builder->states);
    free(builder->edges);
    *builder = (di_dfa_builder){0};
}
