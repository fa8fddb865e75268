/* Grammars in EBNF: GBNF and xgrammar's superset of it. DI_ERR_INPUT with line and column. */
#ifndef DI_GRAMMAR_EBNF_H
#define DI_GRAMMAR_EBNF_H

#include "grammar/grammar.h"

/* Adds the rules of `text` to the builder. root NULL: "root". */
DI_WARN_UNUSED di_status di_ebnf_parse(di_grammar_builder *builder, const char *text, size_t len,
                                       const char *root, uint32_t *root_rule);

#endif
