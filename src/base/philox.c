#include "base/philox.h"

enum { N_LANES = 16 };

/* N_LANES blocks side by side, so that the compiler makes vector code of the rounds. */
typedef struct lanes {
    uint32_t word[4][N_LANES];
} lanes;

static void run_round(lanes *x, uint32_t key_0, uint32_t key_1)
{
    for (int i = 0; i < N_LANES; i++) {
        const uint64_t product_0 = (uint64_t)DI_PHILOX_MULTIPLIER_0 * x->word[0][i];
        const uint64_t product_1 = (uint64_t)DI_PHILOX_MULTIPLIER_1 * x->word[2][i];
        const uint32_t word_0 = (uint32_t)(product_1 >> 32) ^ x->word[1][i] ^ key_0;
        const uint32_t word_2 = (uint32_t)(product_0 >> 32) ^ x->word[3][i] ^ key_1;
        x->word[0][i] = word_0;
        x->word[1][i] = (uint32_t)product_1;
        x->word[2][i] = word_2;
        x->word[3][i] = (uint32_t)product_0;
    }
}

static void run_lanes(di_philox_counter counter, uint64_t key, lanes *x)
{
    for (uint32_t i = 0; i < N_LANES; i++) {
        x->word[0][i] = counter.word[0];
        x->word[1][i] = counter.word[1] + i;
        x->word[2][i] = counter.word[2];
        x->word[3][i] = counter.word[3];
    }
    uint32_t key_0 = (uint32_t)key, key_1 = (uint32_t)(key >> 32);
    for (int round = 0; round < DI_PHILOX_ROUNDS; round++) {
        run_round(x, key_0, key_1);
        key_0 += DI_PHILOX_WEYL_0;
        key_1 += DI_PHILOX_WEYL_1;
    }
}

void di_philox4x32(di_philox_counter counter, uint64_t key, uint32_t out[4])
{
    di_philox_block(counter, key, out);
}

void di_philox4x32_run(di_philox_counter counter, uint64_t key, size_t n_blocks, uint32_t *out)
{
    size_t done = 0;
    for (; done + N_LANES <= n_blocks; done += N_LANES) {
        lanes x;
        run_lanes(counter, key, &x);
        for (int i = 0; i < N_LANES; i++)
            for (int w = 0; w < 4; w++)
                out[4 * (done + (size_t)i) + (size_t)w] = x.word[w][i];
        counter.word[1] += N_LANES;
    }
    for (; done < n_blocks; done++, counter.word[1]++)
        di_philox4x32(counter, key, out + 4 * done);
}
