/* The candidates of one row and the filters that cut them, in linear time and without a full sort.
 *
 * The order of candidates is by value, largest first, equal values by token id, lowest first. A
 * filter keeps a prefix of that order. Sums of probabilities are sums of whole numbers
 * (di_exp_weight), so that they do not depend on the order of adding, and a cut is the same on
 * every machine. */
#ifndef DI_SAMPLE_SELECT_H
#define DI_SAMPLE_SELECT_H

#include "base/mathf.h"
#include "base/status.h"
#include "sample/peaks.h"

enum { DI_MAX_VOCAB = 1 << 22 }; /* keeps the sums of weights below 2^63 */

/* ln of a sum of weights, in units of 1: the sum must hold one weight of 2^40 at least. */
static inline float di_log_of_weights(uint64_t sum)
{
    return di_log1pf((float)(sum - ((uint64_t)1 << 40)) * 0x1p-40f);
}

typedef struct di_selection {
    int32_t capacity; /* = vocab_size */
    int32_t n;
    int32_t *id;         /* [n], ascending until di_selection_sort */
    uint32_t *key;       /* [n], as unsigned numbers in the order of the values */
    uint64_t *weight;    /* [n] */
    uint64_t *histogram; /* scratch */
    float *peaks;        /* [di_n_peaks(capacity)], scratch */
    uint64_t *sums;      /* the same */
    di_vocab_kernels kernels;
} di_selection;

/* plan: the kernels to use, NULL for this machine's best. */
DI_WARN_UNUSED di_status di_selection_init(di_selection *selection, int32_t vocab_size,
                                           const di_kernel *const *plan);
void di_selection_free(di_selection *selection);
/* Bytes di_selection_init takes. */
size_t di_selection_bytes(int32_t vocab_size);

/* Takes the ids whose value is >= floor and not -inf. row[vocab_size] without NaN, and no value
 * above its block's peak. */
void di_selection_fill(di_selection *selection, const float *row, const float *peaks, float floor);

/* A value that at least n_top values of a row reach, -inf if the peaks do not tell: the row's first
 * n_top in order are among those. Uses the selection's memory. */
float di_selection_floor(di_selection *selection, const float *peaks, int32_t n_top);

/* Sum of di_exp_weight(row[i] - max) over row[capacity]; max >= all values. */
uint64_t di_weights_sum(const di_selection *selection, const float *row, float max);

/* Sets weight[i] = di_exp_weight(value - max) and returns the sum; max >= all values. */
uint64_t di_selection_weigh(di_selection *selection, float max);

/* Keeps the first n_top in order. n_top >= 1. */
void di_selection_keep_top(di_selection *selection, int32_t n_top);

/* Keeps those before which less than `limit` of weight lies. limit >= 1; needs di_selection_weigh.
 */
void di_selection_keep_mass(di_selection *selection, uint64_t limit);

/* Puts the candidates in order. Spoils the weights. */
void di_selection_sort(di_selection *selection);

#endif
