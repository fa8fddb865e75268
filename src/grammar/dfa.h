/* Deterministic automata over code points, for what a nondeterministic one cannot say: both of two
 * patterns at once, a pattern with a length, everything but some names. Partial: a code point
 * without an edge is rejected. Immutable once made; the memory belongs to the arena given. */
#ifndef DI_GRAMMAR_DFA_H
#define DI_GRAMMAR_DFA_H

#include "grammar/expr.h"

typedef struct di_dfa_edge {
    uint32_t first, last; /* code points, both included */
    uint32_t target;
} di_dfa_edge;

typedef struct di_dfa_state {
    uint32_t first_edge, n_edges; /* ascending, not overlapping */
    bool is_final;
} di_dfa_state;

struct di_dfa {
    const di_dfa_state *states; /* [n_states]; the first is the start. n_states = 0: no text */
    const di_dfa_edge *edges;
    uint32_t n_states, n_edges;
};

/* However many are allowed: what takes about a second to make. */
#define DI_DFA_MOST_STATES (1u << 18)

/* All results are trimmed (every state is reachable and reaches a final one) and minimal.
 * max_states, or DI_DFA_MOST_STATES if that is less, bounds every intermediate automaton, and the
 * work with it: DI_ERR_UNSUPPORTED beyond it. */

/* expr must not contain DI_EXPR_RULE, MEMBERS or TOKEN (DI_ERR_INPUT). DI_EXPR_DFA is allowed if
 * it is neither JSON-spelled nor counted. */
DI_WARN_UNUSED di_status di_dfa_from_expr(di_arena *arena, const di_expr *expr, uint32_t max_states,
                                          const di_dfa **out);
DI_WARN_UNUSED di_status di_dfa_intersect(di_arena *arena, const di_dfa *a, const di_dfa *b,
                                          uint32_t max_states, const di_dfa **out);
DI_WARN_UNUSED di_status di_dfa_union(di_arena *arena, const di_dfa *a, const di_dfa *b,
                                      uint32_t max_states, const di_dfa **out);
/* a and not b. */
DI_WARN_UNUSED di_status di_dfa_minus(di_arena *arena, const di_dfa *a, const di_dfa *b,
                                      uint32_t max_states, const di_dfa **out);
/* Every text that is not one of a's. */
DI_WARN_UNUSED di_status di_dfa_complement(di_arena *arena, const di_dfa *a, uint32_t max_states,
                                           const di_dfa **out);
/* Only texts of min to max code points (max DI_REPEAT_INF: no bound); by unrolling. */
DI_WARN_UNUSED di_status di_dfa_bound_length(di_arena *arena, const di_dfa *a, uint32_t min,
                                             uint32_t max, uint32_t max_states, const di_dfa **out);

bool di_dfa_is_empty(const di_dfa *dfa);
/* Same language: both are minimal, so a walk in step decides. */
bool di_dfa_equal(const di_dfa *a, const di_dfa *b);
bool di_dfa_matches(const di_dfa *dfa, const char *text, size_t len); /* whole UTF-8 text */

/* Code points still needed from a state to a final one: the shortest way and the longest
 * (DI_REPEAT_INF: unbounded). `has_all` is false if some count in between is impossible. */
typedef struct di_dfa_distance {
    uint32_t shortest, longest;
} di_dfa_distance;
DI_WARN_UNUSED di_status di_dfa_distances(const di_dfa *dfa, di_dfa_distance *out /* [n_states] */,
                                          bool *has_all);

#endif
