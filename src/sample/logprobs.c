#include "sample/logprobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* 1 and the ids of larger values, and of equal ones the lower ids. */
static int32_t rank_of(const float *row, const float *peaks, int32_t n, int32_t id)
{
    const float x = row[id];
    int32_t rank = 1;
    for (int32_t first = 0; first < n; first += DI_PEAK_IDS) {
        if (peaks[first / DI_PEAK_IDS] < x)
            continue;
        const int32_t end = n - first < DI_PEAK_IDS ? n : first + DI_PEAK_IDS;
        for (int32_t i = first; i < end; i++)
            rank += (row[i] > x) | ((row[i] == x) & (i < id));
    }
    return rank;
}

di_status di_logprobs_compute(di_logprobs_buffer *buffer, di_selection *selection, const float *row,
                              int32_t chosen, int32_t n_top, di_position_logprobs *out)
{
    const int32_t n = selection->capacity;
    const int32_t n_wanted = n_top < n ? n_top : n;
    DI_TRY(DI_GROW(&buffer->entries, &buffer->cap, (size_t)n_wanted + 1));
    float *const peaks = selection->peaks;
    (void)di_peaks_find(&selection->kernels, row, n, peaks); /* the row has no bad values */
    const float max = di_row_max(peaks, di_n_peaks(n));
    const float log_sum = di_log_of_weights(di_weights_sum(selection, row, max));

    buffer->entries[0] = (di_logprob){.token_id = chosen,
                                      .logprob = (row[chosen] - max) - log_sum,
                                      .rank = rank_of(row, peaks, n, chosen)};
    size_t n_entries = 1;
    if (n_wanted > 0) {
        di_selection_fill(selection, row, peaks, di_selection_floor(selection, peaks, n_wanted));
        di_selection_keep_top(selection, n_wanted);
        di_selection_sort(selection);
        for (int32_t i = 0; i < selection->n; i++) {
            const int32_t id = selection->id[i];
            buffer->entries[n_entries++] =
                (di_logprob){.token_id = id, .logprob = (row[id] - max) - log_sum, .rank = i + 1};
        }
    }
    *out = (di_position_logprobs){.entries = buffer->entries, .n_entries = n_entries};
    return DI_OK;
}

di_status di_position_logprobs_copy(di_arena *arena, const di_position_logprobs *from,
                                    di_position_logprobs *to)
{
    di_logprob *entries;
    DI_TRY(DI_ARENA_NEW(arena, from->n_entries, &entries));
    if (from->n_entries)
        memcpy(entries, from->entries, from->n_entries * sizeof *entries);
    *to = (di_position_logprobs){entries, from->n_entries};
    return DI_OK;
}

void di_logprobs_buffer_free(di_logprobs_buffer *buffer)
{
    free(buffer->entries);
    *buffer = (di_logprobs_buffer){0};
}
