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

/* Ids in a mask, counted until there are more than `most`. */
static inline uint32_t di_mask_count(const uint64_t *bits, uint32_t n_words, uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_words && n <= most; i++)
        n += bits[i] == 0 ? 0 : (uint32_t)__builtin_popcountll(bits[i]);
    return n <= most ? n : most + 1;
}

/* More ids than this are kept as bits. */
enum { DI_MASK_LIST = 512 };

/* Writes the ids of a mask, ascending. */
static inline void di_mask_ids(const uint64_t *bits, uint32_t n_words, uint32_t *ids)
{
    for (uint32_t i = 0; i < n_words; i++)
        for (uint64_t word = bits[i]; word != 0; word &= word - 1)
            *ids++ = i * 64 + (uint32_t)__builtin_ctzll(word);
}

static inline bool di_mask_has(const uint64_t *bits, uint32_t id)
{
    return (bits[id / 64] >> (id % 64) & 1) != 0;
}

#endif
