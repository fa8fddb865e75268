/* Verification by rejection sampling (Leviathan et al. 2023; Chen et al. 2023): a draft x drawn
 * from p_d is accepted with probability min(1, p_t(x) / p_d(x)); otherwise the token is drawn from
 * the positive part of p_t - p_d. The result is distributed as p_t, whatever p_d is, as long as p_d
 * is what x was drawn from and nothing that depends on x decided whether x is verified.
 *
 * In whole numbers, hence exact: u and v are the first and the second 64 bits, low word first, of
 * the Philox block with the counter (position, 0, DI_NOISE_ACCEPT, sample). */
#ifndef DI_SAMPLE_REJECT_H
#define DI_SAMPLE_REJECT_H

#include "sample/noise.h"

/* What a row of logits means after all the sampler's steps: the probability of a token is its
 * weight / sum, up to 2^40 / below 2^63. Borrowed. Either the tokens that filters left, or all. */
typedef struct di_distribution {
    int32_t n;              /* tokens, 1 at least */
    const int32_t *id;      /* [n], ascending; NULL: the ids 0 .. n - 1 */
    const uint64_t *weight; /* [n], with ids */
    const float *score;     /* [n], without ids: the weights are di_exp_weight(score), */
    const uint64_t *sums;   /* [di_n_peaks(n)] and these the sums of their blocks of DI_PEAK_IDS */
    uint64_t sum;           /* of all weights, above 0 */
} di_distribution;

enum { DI_DRAFT_IDS = 256 };

/* A drafted token and the distribution that it was drawn from: at most the DI_DRAFT_IDS likeliest
 * tokens, so that it is small enough to be kept until it is verified. */
typedef struct di_draft {
    int32_t token_id;
    int32_t n;
    int32_t id[DI_DRAFT_IDS]; /* [n], ascending */
    uint64_t weight[DI_DRAFT_IDS];
    uint64_t sum;
} di_draft;

/* The token at key->position (key->purpose is not read): the draft's own if it is accepted, another
 * one if not. A token that the target excludes (a grammar, a ban) is a draft like others, with p_t
 * 0: to drop it unverified and sample from p_t would give other probabilities. The two forms of one
 * target give one token. */
int32_t di_verify_reject(const di_noise_key *key, const di_distribution *target,
                         const di_draft *draft);

#endif
