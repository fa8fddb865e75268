/* Passes over a row of the vocabulary, for the sampler. */
#ifndef DI_KERNELS_VOCAB_H
#define DI_KERNELS_VOCAB_H

#include "base/philox.h"
#include "kernels/kernel.h"

enum { DI_VOCAB_BLOCK = 128 }; /* ids of a block; the last one of a row may have fewer */

static inline int32_t di_vocab_blocks(int32_t n)
{
    return n / DI_VOCAB_BLOCK + (n % DI_VOCAB_BLOCK != 0);
}

/* peaks[b] = the largest value of block b (zeros are +0), NaN if one is NaN or +inf. Items: blocks.
 */
typedef struct di_row_peaks_args {
    const float *row; /* [n] */
    float *peaks;     /* [di_vocab_blocks(n)] */
    int64_t n;
} di_row_peaks_args;

/* sums[b] = sum of di_exp_weight(row[i] - max) over block b; no value is above max. Items: blocks.
 */
typedef struct di_exp_weights_args {
    const float *row; /* [n] */
    uint64_t *sums;   /* [di_vocab_blocks(n)] */
    int64_t n;
    float max;
} di_exp_weights_args;

/* Philox blocks whose counters differ in word 1: bits[w][i] = word w of the i-th. Items: those. */
typedef struct di_philox_bits_args {
    di_philox_counter counter; /* word 1 is not used */
    uint64_t key;
    const uint32_t *word_1; /* [n] */
    uint32_t *bits;         /* [4, n] */
    int64_t n;
} di_philox_bits_args;

/* A plan's functions; without a plan the best of this machine. */
typedef struct di_vocab_kernels {
    di_range_fn row_peaks, exp_weights, philox_bits;
} di_vocab_kernels;

di_vocab_kernels di_vocab_kernels_of(const di_kernel *const *plan);

#endif
