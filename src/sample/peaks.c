#include "sample/peaks.h"

#include "base/sum.h"

float di_row_max(const float *row, int32_t n)
{
    float lane[DI_LANES];
    for (int j = 0; j < DI_LANES; j++)
        lane[j] = -INFINITY;
    int32_t i = 0;
    for (; i + DI_LANES <= n; i += DI_LANES)
        for (int j = 0; j < DI_LANES; j++)
            lane[j] = row[i + j] > lane[j] ? row[i + j] : lane[j];
    float max = -INFINITY;
    for (; i < n; i++)
        max = row[i] > max ? row[i] : max;
    for (int j = 0; j < DI_LANES; j++)
        max = lane[j] > max ? lane[j] : max;
    return max;
}

bool di_peaks_find(const di_vocab_kernels *kernels, const float *row, int32_t n, float *peaks)
{
    const di_row_peaks_args args = {.row = row, .peaks = peaks, .n = n};
    kernels->row_peaks(&args, 0, di_n_peaks(n), 0);
    int32_t n_bad = 0;
    for (int32_t b = 0; b < di_n_peaks(n); b++)
        n_bad += peaks[b] != peaks[b];
    return n_bad == 0;
}

int32_t di_peaks_argmax(const float *row, int32_t n, const float *peaks)
{
    const float max = di_row_max(peaks, di_n_peaks(n));
    int32_t b = 0;
    while (peaks[b] != max)
        b++;
    int32_t i = b * DI_PEAK_IDS;
    while (row[i] != max)
        i++;
    return i;
}
