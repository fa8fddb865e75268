#include "sample/peaks.h"

#include <float.h>

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

/* A whole block, in loops of constant length for the compiler. */
static int32_t find_block(const float *row, float *peak)
{
    float lane[DI_LANES];
    int32_t n_bad[DI_LANES] = {0};
    for (int j = 0; j < DI_LANES; j++)
        lane[j] = -INFINITY;
    for (int i = 0; i < DI_PEAK_IDS; i += DI_LANES) {
        for (int j = 0; j < DI_LANES; j++) {
            n_bad[j] += !(row[i + j] <= FLT_MAX);
            lane[j] = row[i + j] > lane[j] ? row[i + j] : lane[j];
        }
    }
    for (int step = DI_LANES / 2; step > 0; step /= 2) {
        for (int j = 0; j < step; j++) {
            lane[j] = lane[j] > lane[j + step] ? lane[j] : lane[j + step];
            n_bad[j] += n_bad[j + step];
        }
    }
    *peak = lane[0];
    return n_bad[0];
}

int32_t di_peaks_find(const float *row, int32_t n, float *peaks)
{
    int32_t n_bad = 0, b = 0;
    for (; (b + 1) * DI_PEAK_IDS <= n; b++)
        n_bad += find_block(row + b * DI_PEAK_IDS, &peaks[b]);
    if (b * DI_PEAK_IDS == n)
        return n_bad;
    peaks[b] = -INFINITY;
    for (int32_t i = b * DI_PEAK_IDS; i < n; i++) {
        n_bad += !(row[i] <= FLT_MAX);
        peaks[b] = row[i] > peaks[b] ? row[i] : peaks[b];
    }
    return n_bad;
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
