/* Deterministic automata state by state: for constructions that know their states in order. */
#ifndef DI_GRAMMAR_DFA_BUILDER_H
#define DI_GRAMMAR_DFA_BUILDER_H

#include "grammar/dfa.h"

/* Zero-initialise but for max_states; free with di_dfa_builder_free. */
typedef struct di_dfa_builder {
    uint32_t max_states;
    di_dfa_state *states;
    di_dfa_edge *edges;
    size_t n_states, cap_states, n_edges, cap_edges;
} di_dfa_builder;

/* The next state, to which the edges that follow belong; state 0 is the start. */
DI_WARN_UNUSED di_status di_dfa_builder_state(di_dfa_builder *builder, bool is_final);
/* In ascending order of code points, no surrogates; `target` may be a state that follows later. */
DI_WARN_UNUSED di_status di_dfa_builder_edge(di_dfa_builder *builder, uint32_t first, uint32_t last,
                                             uint32_t target);
/* The trimmed, minimal automaton, its states numbered in the order of a breadth-first walk along
 * ascending edges: automata of one language are equal, number by number. The builder stays as it
 * is. */
DI_WARN_UNUSED di_status di_dfa_builder_finish(const di_dfa_builder *builder, di_arena *arena,
                                               const di_dfa **out);
void di_dfa_builder_free(di_dfa_builder *builder);

static inline uint32_t di_dfa_limit(uint32_t max_states)
{
    return max_states < DI_DFA_MOST_STATES ? max_states : DI_DFA_MOST_STATES;
}

/* DI_ERR_UNSUPPORTED if there are more than di_dfa_limit(max_states) states. */
DI_WARN_UNUSED di_status di_dfa_check_states(size_t n_states, uint32_t max_states);

#endif
