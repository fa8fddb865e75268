/* A request in the engine: its prompt and output tokens, where it stands, and what it needs to
 * sample, to decode text and to stop. Owned by the engine from submission until its result is
 * taken. */
#ifndef DI_ENGINE_SEQ_H
#define DI_ENGINE_SEQ_H

#include "base/arena.h"
#include "engine/runner.h"
#include "sample/sampler.h"
#include "sample/stop.h"
#include "text/detokenizer.h"

/* Logprobs by position, filled as they come. */
typedef struct di_logprob_list {
    di_position_logprobs *data; /* entries in the seq's arena */
    size_t len, cap;
} di_logprob_list;

typedef struct di_seq_times {
    int64_t submitted_ns, prefill_ns, first_token_ns, last_token_ns; /* 0 = not yet */
} di_seq_times;

typedef struct di_seq di_seq;
struct di_seq {
    di_seq *next; /* in the engine's list of waiting or finished requests */
    di_request_id id;
    bool is_private; /* submitted by di_generate: its outputs are not for di_engine_poll */
    di_arena arena;  /* everything of this request that only grows */
    di_sampling_params params; /* owned copy, in arena */
    uint64_t seed;
    const int32_t *finish_ids; /* EOS ids (unless ignore_eos) and stop ids, in arena */
    size_t n_finish_ids;
    int64_t max_new_tokens; /* max_tokens cut to the context limit */

    di_runner_seq tokens; /* prompt, then output; tokens.kv.len of them computed */
    size_t n_prompt;
    di_sampler_state sampler;
    bool has_sampler;
    di_detokenizer detokenizer;
    di_stop_matcher *stop;
    di_buf text; /* output text so far */
    di_logprob_list logprobs, prompt_logprobs;
    di_seq_times times;

    di_finish_reason finish_reason; /* DI_FINISH_NONE = waiting or running */
    di_status status;
    char *error; /* in arena; NULL = none */
};

static inline int64_t di_seq_n_output(const di_seq *seq)
{
    return (int64_t)(seq->tokens.tokens.len - seq->n_prompt);
}

/* Checks a request against model and limits and makes its sequence. */
DI_WARN_UNUSED di_status di_seq_create(const di_runner *runner, const di_request *request,
                                       di_seq **out);
void di_seq_destroy(di_runner *runner, di_seq *seq); /* NULL is fine */
DI_WARN_UNUSED di_status di_logprob_list_add(di_seq *seq, di_logprob_list *list,
                                             const di_position_logprobs *logprobs);
/* The public result of a finished sequence. */
DI_WARN_UNUSED di_status di_seq_result(const di_seq *seq, di_result **out);

#endif
