/* Philox4x32-10 (Salmon et al. 2011), bit-equal to Random123: 128 random bits as a pure function of
 * a 128-bit counter and a 64-bit key. Integer arithmetic only, the same on every machine. */
#ifndef DI_BASE_PHILOX_H
#define DI_BASE_PHILOX_H

#include <stddef.h>
#include <stdint.h>

#include "base/inline.h"

typedef struct di_philox_counter {
    uint32_t word[4];
} di_philox_counter;

/* One block: out[0..3]. The key's low half is Random123's key[0]. */
void di_philox4x32(di_philox_counter counter, uint64_t key, uint32_t out[4]);

/* n_blocks blocks whose counter word 1 is counter.word[1], + 1, ... (modulo 2^32): out[4 *
 * n_blocks], block after block. */
void di_philox4x32_run(di_philox_counter counter, uint64_t key, size_t n_blocks, uint32_t *out);

/* The body of di_philox4x32, for GPU kernels too. */
#define DI_PHILOX_MULTIPLIER_0 0xD2511F53u
#define DI_PHILOX_MULTIPLIER_1 0xCD9E8D57u
#define DI_PHILOX_WEYL_0       0x9E3779B9u
#define DI_PHILOX_WEYL_1       0xBB67AE85u
enum { DI_PHILOX_ROUNDS = 10 };

DI_DEVICE_INLINE void di_philox_block(di_philox_counter counter, uint64_t key, uint32_t out[4])
{
    uint32_t *const x = counter.word;
    uint32_t key_0 = (uint32_t)key, key_1 = (uint32_t)(key >> 32);
    for (int round = 0; round < DI_PHILOX_ROUNDS; round++) {
        const uint64_t product_0 = (uint64_t)DI_PHILOX_MULTIPLIER_0 * x[0];
        const uint64_t product_1 = (uint64_t)DI_PHILOX_MULTIPLIER_1 * x[2];
        x[0] = (uint32_t)(product_1 >> 32) ^ x[1] ^ key_0;
        x[2] = (uint32_t)(product_0 >> 32) ^ x[3] ^ key_1;
        x[1] = (uint32_t)product_1;
        x[3] = (uint32_t)product_0;
        key_0 += DI_PHILOX_WEYL_0;
        key_1 += DI_PHILOX_WEYL_1;
    }
    for (int i = 0; i < 4; i++)
        out[i] = x[i];
}

#endif
