/* A text through the whole machinery: grammar, automata, matcher. */
#ifndef DI_TEST_GRAMMAR_RUN_H
#define DI_TEST_GRAMMAR_RUN_H

#include "grammar/grammar.h"

/* Whether a matcher reads the text and may end there. A grammar that accepts no text at all, which
 * di_grammar_build refuses, accepts this one neither. Other errors are returned. */
DI_WARN_UNUSED di_status di_test_grammar_accepts(di_grammar_builder *builder, uint32_t root,
                                                 const char *text, size_t len, bool *accepted);
/* The same for one expression without rules; limits as in di_grammar_builder_create. */
DI_WARN_UNUSED di_status di_test_expr_accepts(const di_grammar_limits *limits, const di_expr *expr,
                                              const char *text, size_t len, bool *accepted);

#endif
