/* Runs forward passes: owns what a pass needs beside the model (kernel plan, thread pool, KV cache,
 * step memory). Used by one thread at a time. The engine and di_score share it. */
#ifndef DI_ENGINE_RUNNER_H
#define DI_ENGINE_RUNNER_H

#include "base/options.h"
#include "core/ids.h"
#include "engine/model.h"
#include "model/forward.h"

typedef struct di_runner {
    const di_model *model;
    di_effective_options options;
    int64_t max_context_len; /* tokens of a sequence: the lower of option and config */
    di_plan plan;
    di_pool *pool;
    di_kv_cache kv;
    di_arena step; /* reset before each pass */
} di_runner;

/* A sequence as the runner sees it: tokens, their compressed ids and their KV places. */
typedef struct di_runner_seq {
    di_ids tokens;
    di_ids engram_ids; /* as many as tokens, if the model has engram layers */
    di_kv_seq kv;      /* kv.len tokens have been computed */
    bool has_kv;       /* between begin and release */
} di_runner_seq;

/* One sequence's part of a pass: its next n_tokens tokens. */
typedef struct di_work {
    di_runner_seq *seq;
    int64_t n_tokens;
    bool wants_all_logits; /* of every row */
    bool wants_last_logits;
} di_work;

DI_WARN_UNUSED di_status di_runner_init(const di_model *model, const di_options *options,
                                        di_runner *out);
void di_runner_free(di_runner *runner);

/* DI_ERR_ARGUMENT naming the first id outside the vocabulary. */
DI_WARN_UNUSED di_status di_ids_check(const int32_t *ids, size_t n_ids, int64_t vocab_size);

/* Appends tokens (checked ids) to a sequence that starts zeroed. */
DI_WARN_UNUSED di_status di_runner_seq_append(const di_runner *runner, di_runner_seq *seq,
                                              const int32_t *ids, size_t n_ids);
/* Takes the sequence's cache state; release gives it back (fine without begin). */
DI_WARN_UNUSED di_status di_runner_seq_begin(di_runner *runner, di_runner_seq *seq);
void di_runner_seq_release(di_runner *runner, di_runner_seq *seq);
void di_runner_seq_free(di_runner *runner, di_runner_seq *seq);

/* One forward pass over all works. *logits [wanted rows, vocab_size] in order of the works, valid
 * until the next pass. observer may be NULL. */
DI_WARN_UNUSED di_status di_runner_forward(di_runner *runner, const di_work *works, int32_t n_works,
                                           const di_observer *observer, float **logits);

#endif
