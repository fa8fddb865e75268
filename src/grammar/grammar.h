/* A compiled grammar: what the front ends (grammar/regex.h, grammar/ebnf.h, grammar/json_schema.h)
 * build from rules of expressions, and a matcher (grammar/matcher.h) runs. */
#ifndef DI_GRAMMAR_GRAMMAR_H
#define DI_GRAMMAR_GRAMMAR_H

#include "grammar/expr.h"

typedef struct di_grammar di_grammar;
typedef struct di_vocab di_vocab;
typedef struct di_grammar_builder di_grammar_builder;

/* Work a compilation may do, the same on every machine; 0 = the default. Beyond it:
 * DI_ERR_UNSUPPORTED with the number in the text. */
typedef struct di_grammar_limits {
    uint32_t max_states; /* of all automata over bytes together, and of each deterministic one */
    uint32_t max_depth;  /* nesting of brackets, groups, schemas */
} di_grammar_limits;

DI_WARN_UNUSED di_status di_grammar_builder_create(const di_grammar_limits *limits,
                                                   di_grammar_builder **out);
void di_grammar_builder_destroy(di_grammar_builder *builder);
/* Everything that expressions are made of can live here; freed with the builder. */
di_arena *di_grammar_builder_arena(di_grammar_builder *builder);
di_grammar_limits di_grammar_builder_limits(
    const di_grammar_builder *builder); /* defaults filled */

/* A new rule, not yet defined; `name` (for error texts) is copied. */
DI_WARN_UNUSED di_status di_grammar_rule(di_grammar_builder *builder, const char *name,
                                         uint32_t *rule);
/* Once for each rule. */
DI_WARN_UNUSED di_status di_grammar_define(di_grammar_builder *builder, uint32_t rule,
                                           const di_expr *expr);
/* In the texts of a rule a code point from U+0080 to U+FFFF stands as its escape in JSON, \uxxxx,
 * never as itself. One code point a rule. */
void di_grammar_escape(di_grammar_builder *builder, uint32_t rule, uint32_t code);
/* The vocabulary whose added tokens DI_EXPR_TOKEN means, borrowed until the grammar is built.
 * Without one, and for tokens that it lacks, such an expression is its text. */
void di_grammar_use_tokens(di_grammar_builder *builder, const di_vocab *vocab);
/* All rules must be defined. DI_ERR_INPUT if no text at all matches root. The builder stays as it
 * is. */
DI_WARN_UNUSED di_status di_grammar_build(di_grammar_builder *builder, uint32_t root,
                                          di_grammar **out);

/* Counted references: matchers and caches share a grammar. */
di_grammar *di_grammar_ref(di_grammar *grammar);
void di_grammar_unref(di_grammar *grammar);

#endif
