/* The largest values of a row by blocks of ids: one pass over the vocabulary that later passes use
 * to pass over what cannot matter. */
#ifndef DI_SAMPLE_PEAKS_H
#define DI_SAMPLE_PEAKS_H

#include "kernels/vocab/vocab.h"

enum { DI_PEAK_IDS = DI_VOCAB_BLOCK }; /* ids of a block */

static inline int32_t di_n_peaks(int32_t n)
{
    return di_vocab_blocks(n);
}

/* peaks[b] = largest value of block b of row[n]; n >= 1. False if a value is NaN or +inf: then the
 * peaks mean nothing. */
bool di_peaks_find(const di_vocab_kernels *kernels, const float *row, int32_t n, float *peaks);

/* Lowest id of the largest value. */
int32_t di_peaks_argmax(const float *row, int32_t n, const float *peaks);

/* Largest of row[n], without NaN; n >= 1. */
float di_row_max(const float *row, int32_t n);

#endif
