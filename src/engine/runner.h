/* Runs forward passes: owns what a pass needs beside the model (kernel plan, thread pool, KV cache,
 * step memory). Used by one thread at a time. The engine and di_score share it. */
#ifndef DI_ENGINE_RUNNER_H
#define DI_ENGINE_RUNNER_H

#include "base/team.h"
#include "core/ids.h"
#include "engine/memplan.h"
#include "engine/model.h"
#include "kv/cache.h"
#include "model/draft.h"
#include "model/forward.h"

/* di_forward, or, in tests, what stands in for the model. */
typedef di_status (*di_forward_fn)(di_pass *pass, float *logits);
/* di_draft_begin and di_draft_logits, or what stands in for them. */
typedef di_status (*di_draft_begin_fn)(di_pass *pass, const di_draft_batch *batch);
typedef void (*di_draft_logits_fn)(const di_pass *pass, int slot, const int32_t *prev,
                                   float *logits, float *confidences);

typedef struct di_runner {
    const di_model *model;
    di_effective_options options;
    di_memplan memplan;
    di_plan plan;
    di_truncation truncation;
    di_team team;
    di_kv_cache kv;
    di_weight_source *source;
    di_arena scratch;      /* reset before each pass */
    uint64_t n_layer_rows; /* of the last pass (model/forward.h) */
    di_forward_fn forward;
    int32_t n_draft_slots; /* drafts that the drafter makes at once; 0 = no drafter */
    di_draft_begin_fn draft_begin;
    di_draft_logits_fn draft_logits;
    bool skips_taps;            /* passes do not write the drafter's windows */
    double forced_accepted_len; /* benchmarks alone: so many tokens a verification are taken on
                                   average, drafts for right or wrong as they come; 0 = never */
} di_runner;

/* A sequence as the runner sees it: tokens, their compressed ids and their KV places. */
typedef struct di_runner_seq {
    di_ids tokens;
    di_ids engram_ids;       /* as many as tokens, if the model has engram layers */
    di_kv_seq kv;            /* kv.len tokens have been computed */
    float *compressor_state; /* as in core/batch.h */
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
/* Gives blocks and memory back; fine for a zeroed sequence. */
void di_runner_seq_free(di_runner *runner, di_runner_seq *seq);

/* Runs a batch whose sequences have places in the runner's KV cache. *logits [n_logit_rows,
 * vocab_size], valid until the next pass. observer may be NULL. */
DI_WARN_UNUSED di_status di_runner_execute(di_runner *runner, const di_batch *batch,
                                           const di_observer *observer, float **logits);

/* An empty pass to draft with; ends what the last pass left in memory. */
void di_runner_draft_pass(di_runner *runner, di_pass *out);

/* Floats of a sequence's compressor state (core/batch.h). */
size_t di_compressor_state_len(const di_runner *runner);
/* Memory for it, zeroed; free() it. */
DI_WARN_UNUSED di_status di_compressor_state_new(const di_runner *runner, float **out);

/* One forward pass over all works, of different sequences. If the KV cache has no room for all of
 * them (DI_ERR_MEMORY), none has advanced. *logits [wanted rows, vocab_size] in order of the works,
 * valid until the next pass. observer may be NULL. */
DI_WARN_UNUSED di_status di_runner_forward(di_runner *runner, const di_work *works, int32_t n_works,
                                           const di_observer *observer, float **logits);

#endif
