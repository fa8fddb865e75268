/* Lists of numbers, numbered in the order of their first sight: the states of an automaton that is
 * made from another one are sets, pairs and the like of its states. */
#ifndef DI_GRAMMAR_TUPLES_H
#define DI_GRAMMAR_TUPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

typedef struct di_tuple {
    size_t first; /* in values */
    uint32_t n, hash;
} di_tuple;

/* Zero-initialise; free with di_tuples_free. */
typedef struct di_tuples {
    uint32_t *values;
    di_tuple *items;
    uint32_t *slots; /* open addressing; number of the item + 1, 0 = free */
    size_t n_values, cap_values, n, cap, n_slots;
} di_tuples;

/* *id is the number of the list; a new list gets the next one (the former tuples->n). */
DI_WARN_UNUSED di_status di_tuples_intern(di_tuples *tuples, const uint32_t *values, uint32_t n,
                                          uint32_t *id);
void di_tuples_free(di_tuples *tuples);

/* Valid until the next di_tuples_intern. */
static inline const uint32_t *di_tuples_values(const di_tuples *tuples, uint32_t id)
{
    return tuples->values + tuples->items[id].first;
}

#endif
