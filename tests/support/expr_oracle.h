/* Does a text belong to an expression? By sets of positions and a fixpoint over the rules: slow,
 * and independent of automata and matchers. Every grammar is fine, left-recursive ones too. */
#ifndef DI_TEST_EXPR_ORACLE_H
#define DI_TEST_EXPR_ORACLE_H

#include "grammar/expr.h"

/* bodies[n]: what rule i stands for; NULL, 0 without rules. A text that is not UTF-8 never
 * matches. */
bool di_expr_oracle(const di_expr *expr, const di_expr *const *bodies, uint32_t n, const char *text,
                    size_t len);

#endif
