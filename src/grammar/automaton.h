/* The compiled form of a grammar: one automaton over bytes a rule, nondeterministic, with edges
 * that call other rules (recursive transition networks, Woods 1970). Repetitions that are worth it
 * are counted, not unrolled: a counted rule has one register, which edges change and finals ask.
 * Internal to the folder. */
#ifndef DI_GRAMMAR_AUTOMATON_H
#define DI_GRAMMAR_AUTOMATON_H

#include <stdatomic.h>

#include "grammar/grammar.h"

#define DI_NO_RULE UINT32_MAX

typedef enum di_edge_kind {
    DI_EDGE_BYTES,   /* one byte of first .. last */
    DI_EDGE_EPSILON, /* nothing; may change the register */
    DI_EDGE_CALL,    /* a text of `rule` */
} di_edge_kind;

/* What an epsilon edge does to the register, and when it may be taken. */
typedef enum di_edge_action {
    DI_ACTION_NONE,
    DI_ACTION_COUNT,  /* count one more */
    DI_ACTION_MEMBER, /* member `rule` of an object is written: only once, counts one */
    DI_ACTION_OTHER,  /* another member is written: counts one */
    DI_ACTION_MORE,   /* only if one more member can be written */
} di_edge_action;

typedef struct di_edge {
    uint32_t target;
    uint32_t rule; /* CALL: the rule; MEMBER: the member's number */
    uint8_t kind, action;
    uint8_t first, last;
    bool not_empty; /* CALL: the rule's empty text is not taken here */
} di_edge;

typedef struct di_state {
    uint32_t first_edge, n_bytes, n_others; /* byte edges first, then epsilon and call edges */
    uint32_t rule;
    bool is_final;
    bool is_end; /* final, without edges, in a rule without register: reaching it is returning */
    /* Counts still needed to a final state: the fewest, and the most (DI_REPEAT_INF: unbounded). */
    uint32_t fewest, most;
} di_state;

typedef enum di_register_kind {
    DI_REGISTER_NONE,
    DI_REGISTER_COUNT, /* the count; with max unbounded it stays at min once there */
    DI_REGISTER_SET,   /* which members are written, and how many in all */
} di_register_kind;

typedef struct di_rule {
    const char *name;
    uint32_t start;
    uint32_t min, max; /* of the count; 0, DI_REPEAT_INF without register */
    di_register_kind kind;
    bool is_loop;     /* counted, and from every state any number of counts can follow */
    bool is_nullable; /* has the empty text */
    bool is_productive;
    bool is_called;          /* some rule calls it: what follows a return matters */
    uint32_t n_members;      /* SET */
    const bool *is_required; /* SET: [n_members] */
    bool has_others;         /* SET */
} di_rule;

struct di_grammar {
    atomic_int n_refs;
    di_arena arena;
    di_state *states;
    di_edge *edges;
    di_rule *rules;
    uint32_t n_states, n_edges, n_rules;
    uint32_t root;
    /* Bytes that no edge tells apart share a class. */
    uint8_t byte_class[256];
    uint32_t n_classes;
};

/* While a grammar is built: growable, edges not yet sorted by state. */
typedef struct di_raw_edge {
    uint32_t from;
    di_edge edge;
} di_raw_edge;

/* A state that reads one byte of first .. last and goes on to `next`: the last ones made. */
typedef struct di_ending {
    uint32_t next, state;
    uint8_t first, last;
} di_ending;

enum { DI_ENDINGS = 64 };

typedef struct di_raw_grammar {
    di_state *states;
    di_raw_edge *edges;
    di_rule *rules;
    size_t n_states, n_edges, n_rules;
    size_t cap_states, cap_edges, cap_rules;
    uint32_t max_states;
    di_arena *arena;       /* the grammar's */
    const di_vocab *vocab; /* whose added tokens TOKEN expressions are; NULL: texts only */
    uint32_t escaped;      /* of the rule being lowered: see di_grammar_escape; 0: none */
    di_ending endings[DI_ENDINGS];
    uint32_t n_endings; /* all so far: a new one takes the place of the oldest */
} di_raw_grammar;

/* grammar/lower.c: adds the automaton of `expr` as that of `rule`; may add rules. */
DI_WARN_UNUSED di_status di_lower_rule(di_raw_grammar *raw, uint32_t rule, const di_expr *expr);
/* grammar/utf8_edges.c: edges from `from` to `to` that read one code point of the set; an added
 * token. */
DI_WARN_UNUSED di_status di_lower_chars(di_raw_grammar *raw, di_charset set, uint32_t from,
                                        uint32_t to);
DI_WARN_UNUSED di_status di_lower_token(di_raw_grammar *raw, const char *text, size_t len,
                                        uint32_t from, uint32_t to);
DI_WARN_UNUSED di_status di_raw_state(di_raw_grammar *raw, uint32_t rule, uint32_t *state);
DI_WARN_UNUSED di_status di_raw_edge_add(di_raw_grammar *raw, uint32_t from, di_edge edge);
DI_WARN_UNUSED di_status di_raw_rule(di_raw_grammar *raw, const char *name, uint32_t *rule);
/* grammar/analyze.c: sorts the edges into `grammar`, finds empty and dead rules, cuts what leads
 * nowhere. */
DI_WARN_UNUSED di_status di_grammar_analyze(di_raw_grammar *raw, di_grammar *grammar);

#endif
