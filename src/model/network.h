/* The model as the forward pass sees it: config, weights and what follows from them. Constant after
 * di_network_init; shared by engines and threads. */
#ifndef DI_MODEL_NETWORK_H
#define DI_MODEL_NETWORK_H

#include "base/arena.h"
#include "core/config.h"
#include "weights/bind.h"

/* Hash constants of one engram layer (model spec 4.6, 12). */
typedef struct di_engram_constants {
    int64_t multipliers[DI_MAX_ENGRAM_NGRAM]; /* [max_ngram] */
    int64_t *primes;                          /* [max_ngram - 1, n_heads] */
    int64_t *offsets;                         /* [(max_ngram - 1) * n_heads] */
} di_engram_constants;

typedef struct di_network {
    const di_config *config;
    const di_weights *weights;
    di_engram_constants engram[DI_MAX_ENGRAM_LAYERS];
    const int32_t
        *token_map;    /* [vocab_size]: token id to compressed id; NULL without engram layers */
    float *rope_plain; /* [rope_dim / 2]: angle per position, layers of ratio 0 */
    float *rope_compressed; /* [rope_dim / 2]: layers of ratio 1 and 2 */
    di_arena arena;
} di_network;

/* token_map is borrowed. Checks that the engram constants fit the table sizes. */
DI_WARN_UNUSED di_status di_network_init(const di_config *config, const di_weights *weights,
                                         const int32_t *token_map, di_network *out);
void di_network_free(di_network *network);

/* Primes, offsets and multipliers of every engram layer of a config, in arena. */
DI_WARN_UNUSED di_status di_engram_constants_init(const di_config *config, di_arena *arena,
                                                  di_engram_constants *out);

/* Inverse frequencies f_i of rope_dim / 2 pairs (model spec 3): plain, or with YaRN. */
void di_rope_frequencies(int64_t rope_dim, double theta, const di_rope_scaling *scaling,
                         float *out);
/* cos and sin [n, half] of position * f_i, fp32 angle. */
void di_rope_table(const float *frequencies, int64_t half, const int32_t *positions, int64_t n,
                   float *cos_out, float *sin_out);

#endif
