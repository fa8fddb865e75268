/* Token masks. Internal to the folder. */
#ifndef DI_GRAMMAR_MASK_H
#define DI_GRAMMAR_MASK_H

#include "grammar/acceptor.h"

/* bits [vocab->n_words]: the tokens that can follow in a set, whole. Cached with the set. */
DI_WARN_UNUSED di_status di_acceptor_mask(di_acceptor *a, uint32_t set, uint64_t *bits);
void di_acceptor_drop_masks(di_acceptor *a);

static inline void di_mask_set(uint64_t *bits, uint32_t id)
{
    bits[id / 64] |= (uint64_t)1 << (id % 64);
}

static inline bool di_mask_has(const uint64_t *bits, uint32_t id)
{
    return (bits[id / 64] >> (id % 64) & 1) != 0;
}

#endif
