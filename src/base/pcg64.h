/* numpy's default_rng: PCG64 (XSL-RR) seeded through SeedSequence, with numpy's bounded integers
 * (model spec 12). Needed for the Engram multipliers, which the release draws with it. */
#ifndef DI_BASE_PCG64_H
#define DI_BASE_PCG64_H

#include <stdbool.h>
#include <stdint.h>

typedef struct di_pcg64 {
    unsigned __int128 state, increment;
    bool has_half; /* a 32-bit draw left its upper half */
    uint32_t half;
} di_pcg64;

/* words: the seed's 32-bit words, least significant first; n_words >= 1. */
void di_pcg64_seed_words(di_pcg64 *rng, const uint32_t *words, int n_words);
void di_pcg64_seed(di_pcg64 *rng, uint64_t seed);
uint64_t di_pcg64_next(di_pcg64 *rng);
/* Uniform in [0, n), n >= 1: default_rng.integers(0, n, dtype=int64). */
uint64_t di_pcg64_below(di_pcg64 *rng, uint64_t n);

#endif
