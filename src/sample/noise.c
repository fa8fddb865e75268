#include "sample/noise.h"

#include <string.h>

#include "base/philox.h"

enum { IDS_PER_BLOCK = 4, RUN_IDS = 128 };

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

void di_noise_bits_run(const di_noise_key *key, int32_t first, int32_t n, uint32_t *out)
{
    uint32_t edge[IDS_PER_BLOCK];
    const int32_t skip = first % IDS_PER_BLOCK;
    if (skip > 0 && n > 0) { /* the rest of a block */
        const int32_t rest = IDS_PER_BLOCK - skip, count = rest < n ? rest : n;
        di_philox4x32(counter_of(key, first), key->seed, edge);
        memcpy(out, edge + skip, (size_t)count * sizeof *out);
        first += count;
        out += count;
        n -= count;
    }
    const int32_t whole = n / IDS_PER_BLOCK * IDS_PER_BLOCK;
    di_philox4x32_run(counter_of(key, first), key->seed, (size_t)(whole / IDS_PER_BLOCK), out);
    if (n > whole) {
        di_philox4x32(counter_of(key, first + whole), key->seed, edge);
        memcpy(out + whole, edge, (size_t)(n - whole) * sizeof *out);
    }
}

void di_noise_gumbel(const di_noise_key *key, int32_t first, int32_t n, float *out)
{
    uint32_t bits[RUN_IDS];
    for (int32_t at = 0; at < n; at += RUN_IDS) {
        const int32_t count = n - at < RUN_IDS ? n - at : RUN_IDS;
        di_noise_bits_run(key, first + at, count, bits);
        for (int32_t i = 0; i < count; i++)
            out[at + i] = di_gumbelf(bits[i]);
    }
}
