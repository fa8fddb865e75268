/* Parts of the EBNF front end (grammar/ebnf.h); for nobody else, and for tests that want to see the
 * rules. */
#ifndef DI_GRAMMAR_EBNF_PARTS_H
#define DI_GRAMMAR_EBNF_PARTS_H

#include "base/strmap.h"
#include "grammar/ebnf.h"

typedef struct di_ebnf_rule {
    uint32_t rule;       /* of the builder */
    size_t at;           /* where it is defined, or used first */
    const di_expr *expr; /* NULL: not defined yet */
} di_ebnf_rule;

typedef struct di_ebnf_parser {
    di_grammar_builder *builder;
    di_arena *arena;
    const char *text; /* [len], UTF-8 */
    size_t len, at;
    uint32_t depth, max_depth;
    di_ebnf_rule *rules; /* owned */
    size_t n_rules, rules_cap;
    di_strmap names;       /* name -> index into rules */
    const di_expr **stack; /* elements and branches of all open groups; owned */
    size_t n_stack, stack_cap;
    di_charset_builder set;
} di_ebnf_parser;

/* A span of the text. */
typedef struct di_ebnf_name {
    size_t at, len;
} di_ebnf_name;

/* Code points; `at` is where the literal stands. */
typedef struct di_ebnf_string {
    const uint32_t *code;
    size_t n, at;
} di_ebnf_string;

/* Parses the text and defines nothing yet: p->rules has one entry a rule. Zero-initialised p; free
 * with di_ebnf_parser_free. */
DI_WARN_UNUSED di_status di_ebnf_rules(di_ebnf_parser *p, di_grammar_builder *builder,
                                       const char *text, size_t len);
void di_ebnf_parser_free(di_ebnf_parser *p);

/* Fails: what is wrong at a byte of the text, by line and column. */
di_status di_ebnf_fail(const di_ebnf_parser *p, di_status status, size_t at, const char *fmt, ...)
    DI_PRINTF(4, 5);
/* Fails with DI_ERR_INPUT: what stands at p->at, and `wanted`. */
di_status di_ebnf_unexpected(const di_ebnf_parser *p, const char *wanted);

/* The next byte; -1 at the end. */
int di_ebnf_peek(const di_ebnf_parser *p);
bool di_ebnf_take(di_ebnf_parser *p, char byte);
void di_ebnf_skip(di_ebnf_parser *p); /* white space and comments */
/* A name if one stands here, else len = 0. */
di_ebnf_name di_ebnf_take_name(di_ebnf_parser *p);
bool di_ebnf_name_is(const di_ebnf_parser *p, di_ebnf_name name, const char *wanted);
/* One decimal number. */
DI_WARN_UNUSED di_status di_ebnf_number(di_ebnf_parser *p, const char *wanted, uint32_t *out);
/* At `"`: through the other one. */
DI_WARN_UNUSED di_status di_ebnf_literal(di_ebnf_parser *p, di_ebnf_string *out);
/* After `[`: through `]`. */
DI_WARN_UNUSED di_status di_ebnf_class(di_ebnf_parser *p, di_charset *out);
/* A rule by its name. */
DI_WARN_UNUSED di_status di_ebnf_reference(di_ebnf_parser *p, di_ebnf_name name,
                                           const di_expr **out);
/* A rule without a name of its own, defined by a macro. */
DI_WARN_UNUSED di_status di_ebnf_hidden_rule(di_ebnf_parser *p, const char *name,
                                             const di_expr *expr, const di_expr **out);
DI_WARN_UNUSED di_status di_ebnf_codes(di_ebnf_parser *p, di_ebnf_string string,
                                       const di_expr **out);

/* Whether the name is a macro's; then, after `NAME` with `(` next: through `)`. */
bool di_ebnf_is_macro(const di_ebnf_parser *p, di_ebnf_name name);
DI_WARN_UNUSED di_status di_ebnf_macro(di_ebnf_parser *p, di_ebnf_name name, const di_expr **out);

/* Free text between dispatches (ebnf_dispatch.c): texts without any of the tags and excluded
 * strings; a tag that comes up must be followed by its rule. */
typedef struct di_ebnf_tag {
    di_ebnf_string tag;
    const di_expr *rule;
} di_ebnf_tag;
DI_WARN_UNUSED di_status di_ebnf_dispatch(di_ebnf_parser *p, const di_ebnf_tag *tags, size_t n_tags,
                                          const di_ebnf_string *excludes, size_t n_excludes,
                                          bool is_loop, const di_expr **out);

#endif
