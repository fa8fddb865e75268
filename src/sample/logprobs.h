/* Log-probabilities of one row. */
#ifndef DI_SAMPLE_LOGPROBS_H
#define DI_SAMPLE_LOGPROBS_H

#include "base/arena.h"
#include "sample/select.h"

/* Result of the latest di_logprobs_compute; grows to the largest request seen. */
typedef struct di_logprobs_buffer {
    di_logprob *entries;
    size_t cap;
} di_logprobs_buffer;

/* log-softmax of row[selection->capacity] (no NaN, no +inf, not all -inf) for `chosen` and for the
 * n_top largest, best first, with ranks (1 = first in the order of select.h). Tokens at -inf have
 * no probability: none of them is among the largest, and a chosen one gets -inf. *out points into
 * the buffer. n_top >= 0. */
DI_WARN_UNUSED di_status di_logprobs_compute(di_logprobs_buffer *buffer, di_selection *selection,
                                             const float *row, int32_t chosen, int32_t n_top,
                                             di_position_logprobs *out);
/* A copy of one position's logprobs that lives in the arena. */
DI_WARN_UNUSED di_status di_position_logprobs_copy(di_arena *arena,
                                                   const di_position_logprobs *from,
                                                   di_position_logprobs *to);
void di_logprobs_buffer_free(di_logprobs_buffer *buffer);

#endif
