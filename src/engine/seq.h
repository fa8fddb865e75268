/* A sample of a request in the engine: its tokens, where it stands, and what it needs to decode
 * text and to stop. A request with n samples has n sequences; the first one prefills for all. */
#ifndef DI_ENGINE_SEQ_H
#define DI_ENGINE_SEQ_H

#include "base/arena.h"
#include "engine/slot.h"
#include "engine/speculate.h"
#include "sample/stop.h"
#include "sched/scheduler.h"
#include "text/detokenizer.h"

/* Logprobs by position, filled as they come. */
typedef struct di_logprob_list {
    di_position_logprobs *data; /* entries in the seq's arena */
    size_t len, cap;
} di_logprob_list;

typedef struct di_seq_times {
    int64_t prefill_ns, first_token_ns, last_token_ns; /* 0 = not yet */
} di_seq_times;

typedef struct di_entry di_entry;

/* As in the scheduler, what every step looks at stands together, here and in a request. */
typedef struct di_seq {
    di_sched_seq sched; /* first: the scheduler's items lead back here */
    di_entry *entry;
    di_slot *slot; /* NULL before its first pass and after its last was collected */
    int32_t sample_index;
    di_finish_reason finish_reason; /* DI_FINISH_NONE = waiting or running */
    di_ids tokens;                  /* known: prompt, then collected output */
    di_buf text;                    /* output text so far */
    di_detokenizer detokenizer;
    di_seq_times times;
    char *error; /* in arena; NULL = none */
    di_status status;
    bool is_lost; /* a pass that it depends on has failed */

    di_seq_drafts drafts;
    int64_t n_cached; /* prompt tokens its first admission took from the prefix cache */
    int64_t n_scored; /* prompt positions whose logprobs have been asked of passes */
    di_stop_matcher *stop;
    di_logprob_list logprobs, prompt_logprobs;
    di_arena arena; /* what only grows */
} di_seq;

/* A request: what its samples share. The engine keeps it until its result is taken. */
struct di_entry {
    di_request_id id;
    size_t n_prompt;
    int64_t max_len;           /* prompt and most new tokens, cut to the context limit */
    const int32_t *finish_ids; /* EOS ids (unless ignore_eos) and stop ids, in arena */
    size_t n_finish_ids;
    int32_t n_samples, n_ended;
    bool is_private;   /* submitted by di_generate: its outputs are not for di_engine_poll */
    bool has_stop;     /* has stop strings */
    bool has_logprobs; /* of the output */
    bool rejects;      /* has drafts, and verifies them by rejection */
    bool is_finished;  /* all samples have ended: the result may be taken */
    bool is_settled;   /* and none is in flight: no step refers to it any more */
    bool is_taken; /* the result was taken: whoever comes second, settling or taking, destroys it */
    bool is_listed;                      /* among those that a step may settle */
    di_seq *seqs;                        /* [n_samples] */
    di_entry *next;                      /* in the engine's inbox or list of finished requests */
    di_entry *active_prev, *active_next; /* in the list of active ones */
    di_arena arena;
    di_sampling_params params;      /* owned copy, in arena */
    di_constraint_setup constraint; /* with a reference of its own */
    uint64_t seed;
    int64_t submitted_ns;            /* di_clock_ns */
    int64_t timeout_ms, deadline_ns; /* by the engine's clock; timeout 0 = none */
};

static inline di_seq *di_seq_of(di_sched_seq *sched)
{
    return (di_seq *)sched;
}

static inline size_t di_seq_n_output(const di_seq *seq)
{
    return seq->tokens.len - seq->entry->n_prompt;
}

/* Checks a request against model and limits and makes its sequences. */
DI_WARN_UNUSED di_status di_entry_create(const di_runner *runner, const di_request *request,
                                         di_entry **out);
/* NULL is fine. Its sequences must have ended. */
void di_entry_destroy(di_entry *entry);
DI_WARN_UNUSED di_status di_logprob_list_add(di_seq *seq, di_logprob_list *list,
                                             const di_position_logprobs *logprobs);
/* The public result of a finished request. */
DI_WARN_UNUSED di_status di_entry_result(const di_entry *entry, di_result **out);

#endif
