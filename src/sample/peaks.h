/* The largest values of a row by blocks of ids: one pass over the vocabulary that later passes use
 * to pass over what cannot matter. */
#ifndef DI_SAMPLE_PEAKS_H
#define DI_SAMPLE_PEAKS_H

#include <stdint.h>

enum { DI_PEAK_IDS = 128 }; /* ids of a block */

static inline int32_t di_n_peaks(int32_t n)
{
    return n / DI_PEAK_IDS + (n % DI_PEAK_IDS != 0);
}

/* peaks[b] = largest of row[128 b ... 128 b + 127]; n >= 1. Returns how many values are NaN or
 * +inf: if there are any, the peaks mean nothing. */
int32_t di_peaks_find(const float *row, int32_t n, float *peaks);

/* Lowest id of the largest value. */
int32_t di_peaks_argmax(const float *row, int32_t n, const float *peaks);

/* Largest of row[n], without NaN; n >= 1. */
float di_row_max(const float *row, int32_t n);

#endif
