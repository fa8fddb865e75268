#include "sample/logprobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
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

static int32_t rank_of(const float *row, int32_t n, int32_t id)
{
    const float x = row[id];
    int32_t rank = 1;
    for (int32_t i = 0; i < n; i++)
        rank += row[i] > x;
    for (int32_t i = 0; i < id; i++)
        rank += row[i] == x;
    return rank;
}

di_status di_logprobs_compute(di_logprobs_buffer *buffer, di_selection *selection, const float *row,
                              int32_t chosen, int32_t n_top, di_position_logprobs *out)
{
    const int32_t n = selection->capacity;
    const int32_t n_wanted = n_top < n ? n_top : n;
    DI_TRY(DI_GROW(&buffer->entries, &buffer->cap, (size_t)n_wanted + 1));
    const float max = di_row_max(row, n);
    uint64_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += di_exp_weight(row[i] - max);
    const float log_sum = di_log_of_weights(sum);

    buffer->entries[0] = (di_logprob){.token_id = chosen,
                                      .logprob = (row[chosen] - max) - log_sum,
                                      .rank = rank_of(row, n, chosen)};
    size_t n_entries = 1;
    if (n_wanted > 0) {
        di_selection_fill(selection, row, -INFINITY);
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
