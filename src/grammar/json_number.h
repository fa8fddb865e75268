/* The texts of JSON numbers within bounds. */
#ifndef DI_GRAMMAR_JSON_NUMBER_H
#define DI_GRAMMAR_JSON_NUMBER_H

#include "grammar/expr.h"

/* Bounds and multiples are texts of JSON numbers of any length ("-12.50", "1e3"); NULL: none. They
 * are compared digit by digit, so nothing is rounded. */
typedef struct di_json_number {
    bool is_integer;
    const char *min, *max;
    bool min_exclusive, max_exclusive;
    const char *const *multiples; /* the number is a multiple of each */
    size_t n_multiples;
} di_json_number;

/* Integers are spelled without -0, fraction and exponent. Other numbers have every spelling of
 * RFC 8259 if there are no bounds and multiples, else every one without an exponent (-0, 0.0 and
 * -0.0 count as 0). *out is di_expr_nothing() if there is no such number. DI_ERR_INPUT if a text is
 * no number or a multiple is not above 0; DI_ERR_UNSUPPORTED if more than max_states states were
 * needed. */
DI_WARN_UNUSED di_status di_json_number_expr(di_arena *arena, const di_json_number *number,
                                             uint32_t max_states, const di_expr **out);

#endif
