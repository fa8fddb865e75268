#include "sample/noise.h"

#include "base/philox.h"

enum { IDS_PER_BLOCK = 4, RUN_BLOCKS = 32 };

static di_philox_counter counter_of(const di_noise_key *key, int32_t token_id)
{
    return (di_philox_counter){
        {key->position, (uint32_t)token_id / IDS_PER_BLOCK, key->purpose, key->sample}};
}

uint32_t di_noise_bits(const di_noise_key *key, int32_t token_id)
{
    uint32_t bits[IDS_PER_BLOCK];
    di_philox4x32(counter_of(key, token_id), key->seed, bits);
    return bits[(uint32_t)token_id % IDS_PER_BLOCK];
}

void di_noise_bits_block(const di_vocab_kernels *kernels, const di_noise_key *key, int32_t first,
                         uint32_t out[DI_VOCAB_BLOCK])
{
    uint32_t blocks[DI_VOCAB_BLOCK / IDS_PER_BLOCK];
    const uint32_t begin = (uint32_t)first / IDS_PER_BLOCK;
    for (uint32_t i = 0; i < DI_VOCAB_BLOCK / IDS_PER_BLOCK; i++)
        blocks[i] = begin + i;
    const di_philox_bits_args args = {.counter = counter_of(key, first),
                                      .key = key->seed,
                                      .word_1 = blocks,
                                      .bits = out,
                                      .n = DI_VOCAB_BLOCK / IDS_PER_BLOCK};
    kernels->philox_bits(&args, 0, args.n, 0);
}

void di_noise_gumbel(const di_noise_key *key, int32_t first, int32_t n, float *out)
{
    uint32_t bits[IDS_PER_BLOCK * RUN_BLOCKS];
    while (n > 0) {
        const int32_t skip = first % IDS_PER_BLOCK;
        int32_t count = IDS_PER_BLOCK * RUN_BLOCKS - skip;
        if (count > n)
            count = n;
        const size_t n_blocks = (size_t)(skip + count + IDS_PER_BLOCK - 1) / IDS_PER_BLOCK;
        di_philox4x32_run(counter_of(key, first), key->seed, n_blocks, bits);
        for (int32_t i = 0; i < count; i++)
            out[i] = di_gumbelf(bits[skip + i]);
        first += count;
        out += count;
        n -= count;
    }
}
