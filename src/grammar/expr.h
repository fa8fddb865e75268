/* Expressions of context-free grammars over code points: what the regex, JSON schema and EBNF
 * front ends produce and grammar/lower.c turns into automata over bytes. Nodes are immutable,
 * may be shared, and belong to an arena. */
#ifndef DI_GRAMMAR_EXPR_H
#define DI_GRAMMAR_EXPR_H

#include "grammar/charset.h"

#define DI_REPEAT_INF UINT32_MAX

typedef struct di_expr di_expr;
typedef struct di_dfa di_dfa;

typedef enum di_expr_kind {
    DI_EXPR_NOTHING, /* no text at all */
    DI_EXPR_EMPTY,   /* the empty text */
    DI_EXPR_CHARS,   /* one code point of a set */
    DI_EXPR_SEQ,
    DI_EXPR_ALT,
    DI_EXPR_REPEAT,
    DI_EXPR_RULE, /* a rule of the grammar, by number */
    DI_EXPR_DFA,
    DI_EXPR_MEMBERS, /* members of an object */
    DI_EXPR_TOKEN,   /* an added token of the vocabulary, by its text */
} di_expr_kind;

/* Texts of an automaton. as_json: each code point is spelled as inside a JSON string (see
 * di_expr_json_string). min_len and max_len bound the code points of the text (an escape counts as
 * one); only counts between the automaton's shortest and longest way are asked for, see
 * di_dfa_distances: has_all must hold. */
typedef struct di_expr_dfa {
    const di_dfa *dfa;
    bool as_json;
    uint32_t min_len, max_len; /* 0, DI_REPEAT_INF: no bound */
} di_expr_dfa;

/* member 1 of a list: `text` is the whole member, key and value. */
typedef struct di_expr_member {
    const di_expr *text;
    bool is_required;
} di_expr_member;

/* Members with `separator` between two of them: each of `members` at most once, the required ones
 * always, in the given order (or in any order), and texts of `others` (NULL: none) any number of
 * times: after the members, or anywhere if any_order. min_n to max_n in all. Written members must
 * be distinguishable: no text of one member may be a text of another or of `others`. */
typedef struct di_expr_members {
    const di_expr_member *members; /* [n] */
    uint32_t n;
    bool any_order;
    const di_expr *others;
    const di_expr *separator;
    uint32_t min_n, max_n;
} di_expr_members;

struct di_expr {
    di_expr_kind kind;
    union {
        di_charset chars;
        struct {
            const di_expr *const *items;
            uint32_t n;
        } list; /* SEQ, ALT */
        struct {
            const di_expr *body;
            uint32_t min, max; /* max DI_REPEAT_INF: no bound */
        } repeat;
        uint32_t rule;
        di_expr_dfa dfa;
        di_expr_members members;
        struct {
            const char *text;
            size_t len;
        } token;
    };
};

const di_expr *di_expr_nothing(void); /* static */
const di_expr *di_expr_empty(void);   /* static */
DI_WARN_UNUSED di_status di_expr_chars(di_arena *arena, di_charset chars, const di_expr **out);
DI_WARN_UNUSED di_status di_expr_range(di_arena *arena, uint32_t first, uint32_t last,
                                       const di_expr **out);
/* UTF-8 text, one CHARS node a code point; DI_ERR_INPUT if it is not UTF-8. */
DI_WARN_UNUSED di_status di_expr_literal(di_arena *arena, const char *text, size_t len,
                                         const di_expr **out);
/* The items are copied, flattened one level and simplified (NOTHING in a SEQ, EMPTY in a SEQ,
 * NOTHING in an ALT, lists of one). */
DI_WARN_UNUSED di_status di_expr_seq(di_arena *arena, const di_expr *const *items, size_t n,
                                     const di_expr **out);
DI_WARN_UNUSED di_status di_expr_alt(di_arena *arena, const di_expr *const *items, size_t n,
                                     const di_expr **out);
DI_WARN_UNUSED di_status di_expr_repeat(di_arena *arena, const di_expr *body, uint32_t min,
                                        uint32_t max, const di_expr **out);
DI_WARN_UNUSED di_status di_expr_rule(di_arena *arena, uint32_t rule, const di_expr **out);
DI_WARN_UNUSED di_status di_expr_from_dfa(di_arena *arena, di_expr_dfa dfa, const di_expr **out);
DI_WARN_UNUSED di_status di_expr_from_members(di_arena *arena, const di_expr_members *members,
                                              const di_expr **out);

/* A token that the vocabulary adds to those of its texts, such as a mark of the chat format: only
 * this token goes there, not others that spell its text, and it goes nowhere else. Without a
 * vocabulary, or if it has no such token: its text, which is UTF-8 and not empty; copied. */
DI_WARN_UNUSED di_status di_expr_token(di_arena *arena, const char *text, size_t len,
                                       const di_expr **out);

/* DI_EXPR_SEQ of the arguments: DI_EXPR_SEQ_OF(arena, &out, a, b, c). The same for ALT. */
#define DI_EXPR_SEQ_OF(arena, out, ...)                                                            \
    di_expr_seq((arena), (const di_expr *const[]){__VA_ARGS__},                                    \
                sizeof((const di_expr *const[]){__VA_ARGS__}) / sizeof(const di_expr *), (out))
#define DI_EXPR_ALT_OF(arena, out, ...)                                                            \
    di_expr_alt((arena), (const di_expr *const[]){__VA_ARGS__},                                    \
                sizeof((const di_expr *const[]){__VA_ARGS__}) / sizeof(const di_expr *), (out))

/* The same texts as they stand between the quotes of a JSON string (RFC 8259): code points that
 * must be escaped (below U+0020, `"`, `\`) as their short escape or \u00XX, all others as
 * themselves. Repetitions go on counting code points. No RULE, MEMBERS or TOKEN inside. */
DI_WARN_UNUSED di_status di_expr_json_string(di_arena *arena, const di_expr *expr,
                                             const di_expr **out);
/* One code point of any JSON string in any spelling: itself, a short escape (\/ included), \uXXXX,
 * a pair of surrogate escapes. */
DI_WARN_UNUSED di_status di_expr_json_any_char(di_arena *arena, const di_expr **out);

#endif
