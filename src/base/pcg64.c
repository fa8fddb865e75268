#include "base/pcg64.h"

enum { POOL_WORDS = 4, SEED_WORDS = 8 };

static uint32_t hash_mix(uint32_t v, uint32_t *constant)
{
    v ^= *constant;
    *constant *= 0x931e8875u;
    v *= *constant;
    return v ^ v >> 16;
}

static uint32_t mix(uint32_t x, uint32_t y)
{
    const uint32_t r = 0xca01f9ddu * x - 0x4973f715u * y;
    return r ^ r >> 16;
}

static void fill_pool(uint32_t pool[POOL_WORDS], const uint32_t *words, int n_words)
{
    uint32_t constant = 0x43b0d7e5u;
    for (int i = 0; i < POOL_WORDS; i++)
        pool[i] = hash_mix(i < n_words ? words[i] : 0, &constant);
    for (int from = 0; from < POOL_WORDS; from++)
        for (int to = 0; to < POOL_WORDS; to++)
            if (from != to)
                pool[to] = mix(pool[to], hash_mix(pool[from], &constant));
    for (int i = POOL_WORDS; i < n_words; i++)
        for (int to = 0; to < POOL_WORDS; to++)
            pool[to] = mix(pool[to], hash_mix(words[i], &constant));
}

static void step(di_pcg64 *rng)
{
    const unsigned __int128 multiplier =
        (unsigned __int128)0x2360ED051FC65DA4u << 64 | 0x4385DF649FCCF645u;
    rng->state = rng->state * multiplier + rng->increment;
}

void di_pcg64_seed_words(di_pcg64 *rng, const uint32_t *words, int n_words)
{
    uint32_t pool[POOL_WORDS];
    fill_pool(pool, words, n_words);
    uint32_t constant = 0x8b51f9ddu;
    uint64_t q[SEED_WORDS / 2] = {0};
    for (int i = 0; i < SEED_WORDS; i++) {
        uint32_t v = pool[i % POOL_WORDS] ^ constant;
        constant *= 0x58f38dedu;
        v *= constant;
        v ^= v >> 16;
        q[i / 2] |= (uint64_t)v << (i % 2 ? 32 : 0);
    }
    *rng = (di_pcg64){.increment = ((unsigned __int128)q[2] << 64 | q[3]) << 1 | 1};
    step(rng);
    rng->state += (unsigned __int128)q[0] << 64 | q[1];
    step(rng);
}

void di_pcg64_seed(di_pcg64 *rng, uint64_t seed)
{
    const uint32_t words[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    di_pcg64_seed_words(rng, words, words[1] ? 2 : 1);
}

uint64_t di_pcg64_next(di_pcg64 *rng)
{
    step(rng);
    const uint64_t x = (uint64_t)(rng->state >> 64) ^ (uint64_t)rng->state;
    const int r = (int)(rng->state >> 122);
    return x >> r | x << (-r & 63);
}

static uint32_t next32(di_pcg64 *rng)
{
    if (rng->has_half) {
        rng->has_half = false;
        return rng->half;
    }
    const uint64_t x = di_pcg64_next(rng);
    rng->half = (uint32_t)(x >> 32);
    rng->has_half = true;
    return (uint32_t)x;
}

static uint64_t below32(di_pcg64 *rng, uint64_t n)
{
    if (n == (uint64_t)1 << 32)
        return next32(rng);
    const uint32_t threshold = (uint32_t)(((uint64_t)1 << 32) % n);
    uint64_t m;
    do
        m = next32(rng) * n;
    while ((uint32_t)m < threshold);
    return m >> 32;
}

uint64_t di_pcg64_below(di_pcg64 *rng, uint64_t n)
{
    if (n == 1)
        return 0;
    if (n - 1 <= UINT32_MAX)
        return below32(rng, n);
    const uint64_t threshold = -n % n; /* 2^64 mod n */
    unsigned __int128 m;
    do
        m = (unsigned __int128)di_pcg64_next(rng) * n;
    while ((uint64_t)m < threshold);
    return (uint64_t)(m >> 64);
}
