/* Sampling noise without state: every number is a function of (seed, position, token id, purpose,
 * sample index), of nothing else. Nothing depends on the batch, the step, the order of evaluation
 * or on other tokens. docs/sampling.md defines it to the bit. */
#ifndef DI_SAMPLE_NOISE_H
#define DI_SAMPLE_NOISE_H

#include "base/mathf.h"
#include "kernels/vocab/vocab.h"

/* Domains that never share noise. The numbers are part of what a seed means: never renumber. */
typedef enum di_noise_purpose {
    DI_NOISE_TARGET = 0, /* the model's own choice of a token */
    DI_NOISE_DRAFT = 1,  /* a draft's choice */
    DI_NOISE_ACCEPT = 2, /* accepting or rejecting a draft */
} di_noise_purpose;

typedef struct di_noise_key {
    uint64_t seed;
    uint32_t position; /* in the sequence, of the token being chosen */
    uint32_t purpose;  /* di_noise_purpose */
    uint32_t sample;   /* which of several samples of one request; 0 = the first */
} di_noise_key;

/* Largest value of di_gumbelf: no token's noise is above it. */
#define DI_GUMBEL_MAX 0x1.6dfb52p4f /* 33 ln 2 */

/* Gumbel(0, 1) from 32 random bits: -ln(-ln u) with u = (h + 1/2) / 2^32, never 0 or 1. From
 * sqrt(1/2) on, ln u is taken as ln(1 - v) with v = 1 - u exact to fp32, so that the upper tail
 * keeps its precision. Within 3e-7 + 1e-7 |g| of the exact value. */
static inline float di_gumbelf(uint32_t h)
{
    const float u = ((float)h + 0.5f) * 0x1p-32f;
    const float v = ((float)~h + 0.5f) * 0x1p-32f;
    const uint32_t bits = di_f32_bits(u);
    const float half = di_f32_from_bits((bits & 0x7fffffu) | 0x3f000000u);
    const int32_t below = half < 0x1.6a09e6p-1f;
    const int32_t e = (int32_t)(bits >> 23) - 126 - below;
    const int is_near_one = h >= 0xb504f334u; /* sqrt(1/2) * 2^32, rounded up */
    const float m = is_near_one ? -v : (below ? half + half : half) - 1.0f;
    return -di_log_normalf(-di_log_polyf(m, is_near_one ? 0.0f : (float)e));
}

/* 32 random bits of one token id. */
uint32_t di_noise_bits(const di_noise_key *key, int32_t token_id);

/* The same of a block's ids first .. first + 127, first a multiple of 4: that of first + i is
 * out[di_noise_place(i)]. */
void di_noise_bits_block(const di_vocab_kernels *kernels, const di_noise_key *key, int32_t first,
                         uint32_t out[DI_VOCAB_BLOCK]);

static inline int32_t di_noise_place(int32_t i)
{
    return i % 4 * (DI_VOCAB_BLOCK / 4) + i / 4;
}

/* No token whose ~bits are above this has more noise than g. */
static inline uint32_t di_gumbel_limit(float g)
{
    /* -ln(-ln(1 - v)) > g only if v < e^-g; the slack is far above the error of di_gumbelf. */
    const float v = di_expf(1e-4f - g);
    return v < 0.99f ? (uint32_t)(v * 0x1p32f) : UINT32_MAX;
}

/* Gumbel noise of the token ids first, first + 1, ...: out[n]. */
void di_noise_gumbel(const di_noise_key *key, int32_t first, int32_t n, float *out);

#endif
