/* What changes single logits before temperature and filters: logit bias, then repetition, frequency
 * and presence penalties. A result that overflows stays at the largest finite number, so that no
 * parameter makes an infinity or a NaN; a token at -inf (banned) stays there. */
#ifndef DI_SAMPLE_PENALTIES_H
#define DI_SAMPLE_PENALTIES_H

#include "base/status.h"

/* How often each token occurred in one sequence. */
typedef struct di_token_counts {
    int32_t vocab_size;
    int32_t n_distinct;
    int32_t *distinct; /* [n_distinct], in order of first occurrence */
    uint32_t *seen; /* [vocab_size]: low 31 bits = times in the output, top bit = in the prompt */
} di_token_counts;

/* Takes 8 bytes a vocabulary entry, once: adding tokens allocates nothing. */
DI_WARN_UNUSED di_status di_token_counts_init(di_token_counts *counts, int32_t vocab_size);
void di_token_counts_free(di_token_counts *counts);
/* 0 <= id < vocab_size. */
void di_token_counts_add_prompt(di_token_counts *counts, const int32_t *ids, size_t n_ids);
void di_token_counts_add_output(di_token_counts *counts, int32_t id);
/* Takes back the latest output token that was added and not taken back. */
void di_token_counts_take_output(di_token_counts *counts, int32_t id);

/* True if any of the three penalties is on. */
bool di_penalties_are_on(const di_sampling_params *params);

/* Both want checked parameters (di_sampling_params_check); logits[vocab_size]. */
void di_logit_bias_apply(const di_sampling_params *params, float *logits);
void di_penalties_apply(const di_sampling_params *params, const di_token_counts *counts,
                        float *logits);

#endif
