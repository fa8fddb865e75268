/* Philox4x32-10 (Salmon et al. 2011), bit-equal to Random123: 128 random bits as a pure function of
 * a 128-bit counter and a 64-bit key. Integer arithmetic only, the same on every machine. */
#ifndef DI_BASE_PHILOX_H
#define DI_BASE_PHILOX_H

#include <stddef.h>
#include <stdint.h>

typedef struct di_philox_counter {
    uint32_t word[4];
} di_philox_counter;

/* One block: out[0..3]. The key's low half is Random123's key[0]. */
void di_philox4x32(di_philox_counter counter, uint64_t key, uint32_t out[4]);

/* n_blocks blocks whose counter word 1 is counter.word[1], + 1, ... (modulo 2^32): out[4 *
 * n_blocks], block after block. */
void di_philox4x32_run(di_philox_counter counter, uint64_t key, size_t n_blocks, uint32_t *out);

#endif
