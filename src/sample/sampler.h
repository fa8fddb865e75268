/* From one row of logits to one token (docs/sampling.md): check, logit bias, penalties, the
 * constraint's mask, banned ends, temperature, min-p, top-k, top-p, Gumbel-max.
 *
 * A choice is a function of (logits, parameters, token history, seed, position) and of nothing
 * else. */
#ifndef DI_SAMPLE_SAMPLER_H
#define DI_SAMPLE_SAMPLER_H

#include "sample/constraint.h"
#include "sample/logprobs.h"
#include "sample/noise.h"
#include "sample/penalties.h"
#include "sample/reject.h"
#include "sample/select.h"

/* Scratch of one engine, for one row at a time. Grows to the largest n_logprobs seen; otherwise
 * sampling allocates nothing. */
typedef struct di_sampler_workspace {
    int32_t vocab_size;
    float *scores; /* [vocab_size]: the row on its way through the steps */
    float *peaks;  /* [di_n_peaks(vocab_size)]: no value of the row is above its block's */
    di_selection selection;
    di_logprobs_buffer logprobs;
} di_sampler_workspace;

/* plan: the kernels to use, NULL for this machine's best. */
DI_WARN_UNUSED di_status di_sampler_workspace_init(di_sampler_workspace *workspace,
                                                   int32_t vocab_size,
                                                   const di_kernel *const *plan);
void di_sampler_workspace_free(di_sampler_workspace *workspace);
/* Bytes di_sampler_workspace_init takes, for the memory plan. */
size_t di_sampler_workspace_bytes(int32_t vocab_size);

typedef struct di_sampler_setup {
    const di_sampling_params *params; /* checked; borrowed for the life of the state */
    int32_t vocab_size;
    const int32_t *prompt; /* ids < vocab_size; read by init only */
    size_t n_prompt;
    const int32_t
        *finish_ids; /* ids that would end the output: EOS ids unless ignore_eos, and stop
                        ids; banned until min_tokens; borrowed for the life of the state */
    size_t n_finish_ids;
    uint64_t seed;
    uint32_t sample_index; /* which sample of the request this sequence is; 0 = the first */
    di_constraint_setup constraint;
} di_sampler_setup;

/* What the sampler knows of one sequence. */
typedef struct di_sampler_state {
    di_sampler_setup setup; /* without the prompt */
    int64_t n_output;
    di_token_counts counts; /* used only if a penalty is on */
    di_constraint constraint;
} di_sampler_state;

DI_WARN_UNUSED di_status di_sampler_state_init(di_sampler_state *state,
                                               const di_sampler_setup *setup);
void di_sampler_state_free(di_sampler_state *state);
/* The token is now part of the output; on failure it is not. Allocates nothing but what a
 * constraint finds out. */
DI_WARN_UNUSED di_status di_sampler_state_append(di_sampler_state *state, int32_t token_id);

/* Where a state stands, to try tokens and take them back. */
typedef struct di_sampler_mark {
    di_constraint_mark constraint;
} di_sampler_mark;

di_sampler_mark di_sampler_state_mark(const di_sampler_state *state);
/* Takes back the n tokens ids that were appended since the mark. */
void di_sampler_state_rewind(di_sampler_state *state, const di_sampler_mark *mark,
                             const int32_t *ids, int32_t n);
/* Whether the token is one that ends the output. */
bool di_sampler_is_end(const di_sampler_state *state, int32_t token_id);

typedef struct di_sample_out {
    int32_t token_id;
    di_position_logprobs logprobs; /* n_entries 0 without n_logprobs; valid until the workspace's
                                      next use */
} di_sample_out;

/* logits[vocab_size] of the position before `position`, the index in the sequence of the token to
 * be chosen (n for the first token after a prompt of n). The state is not changed. DI_ERR_RUNTIME
 * if a logit is NaN or +inf or if no token is left; it concerns this sequence only. */
DI_WARN_UNUSED di_status di_sample(di_sampler_workspace *workspace, const di_sampler_state *state,
                                   const float *logits, int64_t position, di_sample_out *out);

/* A draft for `position`, the slot-th of its block (0 to 65535), by the drafter's logits: by the
 * same steps as di_sample, but from the DI_DRAFT_IDS likeliest tokens only and with the noise of
 * drafts, whose sample index is sample + 65536 slot. (A position that is drafted again has another
 * slot then: old drafts, which budgets may depend on, must say nothing of the new one.) For
 * verification by rejection. The state may be one without constraint and penalties, or one that was
 * given the drafts before this one: what the draft is drawn from is kept with it. Errors as
 * di_sample's. */
DI_WARN_UNUSED di_status di_sample_draft(di_sampler_workspace *workspace,
                                         const di_sampler_state *state, const float *logits,
                                         int64_t position, int32_t slot, di_draft *out);

/* As di_sample, where `draft` stands at `position` and is verified by rejection: out->token_id is
 * the draft's if and only if it is accepted. At temperature 0 the token is di_sample's. With the
 * drafts of a block verified from left to right, each accepted one appended to the state, every
 * token has the distribution that di_sample draws from. */
DI_WARN_UNUSED di_status di_sample_verify(di_sampler_workspace *workspace,
                                          const di_sampler_state *state, const float *logits,
                                          int64_t position, const di_draft *draft,
                                          di_sample_out *out);

/* Raw logprobs of a token that is given: `token_id` at `position` of the prompt, by the logits of
 * the position before. */
DI_WARN_UNUSED di_status di_sample_given(di_sampler_workspace *workspace, const float *logits,
                                         int64_t position, int32_t token_id, int32_t n_logprobs,
                                         di_position_logprobs *out);

/* DI_ERR_RUNTIME naming the first token whose logit is NaN or +inf, or if all are -inf. */
DI_WARN_UNUSED di_status di_logits_check(const float *logits, int32_t vocab_size, int64_t position);

#endif
