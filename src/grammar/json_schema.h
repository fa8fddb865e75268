/* JSON Schema (draft 2020-12, and 4, 6, 7 by $schema) to grammar rules. A keyword that cannot be
 * enforced is DI_ERR_UNSUPPORTED, named with its JSON pointer, unless `lenient`; a schema that
 * nothing satisfies or that is malformed is DI_ERR_INPUT. docs/structured-output.md lists keywords
 * and formats. */
#ifndef DI_GRAMMAR_JSON_SCHEMA_H
#define DI_GRAMMAR_JSON_SCHEMA_H

#include "base/buf.h"
#include "base/json.h"
#include "grammar/grammar.h"

#define DI_WHITESPACE_UNBOUNDED (-1)

typedef struct di_json_schema_options {
    bool fixed_layout;          /* whitespace only as `indent` and the separators say */
    int max_whitespace;         /* free layout: most characters of a run; DI_WHITESPACE_UNBOUNDED */
    int indent;                 /* fixed layout: spaces a level, one member a line; -1 = one line */
    const char *item_separator; /* NULL: by layout ("," in free layout; ", " or ",") */
    const char *key_separator;  /* NULL: ":" in free layout, ": " in fixed layout */
    bool strict; /* objects and arrays are closed where the schema is silent about more members */
    bool any_order; /* members in any order */
    bool lenient;   /* keywords that cannot be enforced are left out and listed */
    /* Not JSON but the parameters of a tool call in the chat format (docs/chat.md), from the end of
     * the line that names the tool to that of the last parameter: docs/structured-output.md. */
    bool is_call;
} di_json_schema_options;

/* Adds rules for the schema. *not_enforced (may be NULL unless lenient): one line a keyword left
 * out. */
DI_WARN_UNUSED di_status di_json_schema_parse(di_grammar_builder *builder, const char *text,
                                              size_t len, const di_json_schema_options *options,
                                              di_buf *not_enforced, uint32_t *root_rule);

#endif
