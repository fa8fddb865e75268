#include "grammar/tuples.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_SLOTS = 64 };

static uint32_t hash_of(const uint32_t *values, uint32_t n)
{
    uint64_t hash = 0x9E3779B97F4A7C15u + n;
    for (uint32_t i = 0; i < n; i++) {
        hash = (hash ^ values[i]) * 0xFF51AFD7ED558CCDu;
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

static di_status more_slots(di_tuples *tuples)
{
    const size_t n_slots = tuples->n_slots > 0 ? tuples->n_slots * 2 : LEAST_SLOTS;
    uint32_t *slots = calloc(n_slots, sizeof *slots);
    if (slots == NULL)
        return di_fail_memory(n_slots * sizeof *slots, "states of an automaton");
    for (size_t i = 0; i < tuples->n; i++) {
        size_t at = tuples->items[i].hash & (n_slots - 1);
        while (slots[at] != 0)
            at = (at + 1) & (n_slots - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(tuples->slots);
    tuples->slots = slots;
    tuples->n_slots = n_slots;
    return DI_OK;
}

static bool is_same(const di_tuples *tuples, size_t i, const uint32_t *values, di_tuple wanted)
{
    const di_tuple item = tuples->items[i];
    return item.hash == wanted.hash && item.n == wanted.n &&
           (item.n == 0 ||
            memcmp(tuples->values + item.first, values, item.n * sizeof *values) == 0);
}

di_status di_tuples_intern(di_tuples *tuples, const uint32_t *values, uint32_t n, uint32_t *id)
{
    if (tuples->n * 2 >= tuples->n_slots)
        DI_TRY(more_slots(tuples));
    const di_tuple wanted = {.first = tuples->n_values, .n = n, .hash = hash_of(values, n)};
    size_t at = wanted.hash & (tuples->n_slots - 1);
    for (; tuples->slots[at] != 0; at = (at + 1) & (tuples->n_slots - 1)) {
        if (is_same(tuples, tuples->slots[at] - 1, values, wanted)) {
            *id = tuples->slots[at] - 1;
            return DI_OK;
        }
    }
    DI_TRY(DI_GROW(&tuples->items, &tuples->cap, tuples->n + 1));
    DI_TRY(DI_GROW(&tuples->values, &tuples->cap_values, tuples->n_values + n + 1));
    if (n > 0)
        memcpy(tuples->values + tuples->n_values, values, n * sizeof *values);
    tuples->n_values += n;
    tuples->items[tuples->n] = wanted;
    *id = (uint32_t)tuples->n++;
    tuples->slots[at] = *id + 1;
    return DI_OK;
}

void di_tuples_free(di_tuples *tuples)
{
    free(tuples->values);
    free(tuples->items);
    free(tuples->slots);
    *tuples = (di_tuples){0};
}
