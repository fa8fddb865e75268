/* One pass with all that goes with it, as the host hands it to the device and gets it back: copies,
 * the batch, tokens that only the device knows, what to sample, and the results. Everything lives
 * in the step's arena, so the host may go on changing sequences while the step runs. */
#ifndef DI_ENGINE_STEP_H
#define DI_ENGINE_STEP_H

#include "base/arena.h"
#include "engine/batch_maker.h"
#include "engine/slot.h"
#include "spec/confidence.h"

struct di_seq;
struct di_entry;

/* A sequence's part of the pass: known tokens, or, when it decodes, the slot's newest token and the
 * drafts behind it. Only the device knows which those are and where they stand, since the pass
 * before may be in flight; the host has made places as far as they may reach. */
typedef struct di_step_seq {
    struct di_seq *seq; /* for the host alone */
    di_slot_ref slot;
    bool decodes;
    int64_t first, n; /* positions; of a decode by layout */
    const int32_t
        *token_ids;   /* [n_before + n] from position first - n_before on; not of a decode */
    int64_t n_before; /* tokens before the first row that Engram needs and the slot may lack */
    int64_t write_floor, window_floor, decoder_start; /* as in di_kv_seq */
    int32_t n_drafts; /* decode: most drafts to verify: there are places for them */
    bool wants_all_logits, wants_last_logits; /* of a decode: of every row in any case */
    int32_t n_jobs; /* of jobs, in the same order; with those of samples that begin here */
    bool is_end;    /* a request that only scores its prompt ends with these rows */

    /* Set by layout. */
    int32_t first_row, first_logit_row;
} di_step_seq;

/* Block ids that a slot's tables lack or have otherwise: a table changes once in many steps. */
typedef struct di_step_table {
    di_slot *slot;
    int64_t first, n;   /* logical blocks */
    const int32_t *ids; /* [groups, n] */
} di_step_table;

/* A token to sample and, where drafts are verified, those behind it; or, with scored_tokens, given
 * tokens to score. */
typedef struct di_step_job {
    struct di_seq *seq; /* for the host alone */
    di_slot_ref slot;
    int32_t from;                 /* of seqs: whose rows */
    int32_t logit_offset;         /* from its first logit row */
    int64_t position;             /* of the token to be chosen, or of the first given one; of a
                                     decode by layout */
    const int32_t *scored_tokens; /* [n_scored] */
    int64_t n_scored;
    int32_t n_new_drafts; /* most drafts to make behind the token that is sampled */

    /* Results. */
    di_status status; /* of the token after the n_tokens that were sampled */
    char *error;      /* NULL = none */
    int32_t n_tokens;
    int32_t token_ids[DI_MAX_DRAFTS + 1];
    di_position_logprobs *logprobs; /* [n_tokens], or [n_scored] */
    bool has_ended;                 /* with an id that ends the output */
    int32_t n_verified;             /* drafts that had rows: n_tokens - 1 of them were accepted */
    float verified[DI_MAX_DRAFTS];  /* their raw confidences; INFINITY: forced by a grammar */
    int32_t n_drafted;              /* new drafts */
    float drafted[DI_MAX_DRAFTS];
} di_step_job;

/* After the pass `to` continues from where `from` stands: a further sample of its prompt. */
typedef struct di_step_fork {
    struct di_seq *seq; /* the new sample, for the host alone */
    di_slot_ref from, to;
    int64_t n_tokens; /* of the prompt */
} di_step_fork;

typedef struct di_step di_step;
struct di_step {
    di_step *next; /* in the executor's queue or the engine's list of free steps */
    di_arena arena;
    di_batch_maker made;  /* room for n_rows rows; filled by layout */
    int64_t n_rows;       /* at most */
    int32_t n_draft_rows; /* of them drafts, at most */
    bool is_laid_out;
    bool uses_drafter;          /* for new drafts */
    bool writes_taps;           /* the drafter's window entries of its rows */
    di_calibration calibration; /* of its confidences */
    di_kv_copy *copies;
    size_t n_copies;
    di_step_table *tables;
    int32_t n_tables;
    di_step_seq *seqs;
    int32_t n_seqs;
    di_step_job *jobs;
    int32_t n_jobs;
    di_step_fork *forks;
    int32_t n_forks;
    struct di_entry **entries; /* requests that may settle once it is committed, each once */
    int32_t n_entries;

    /* Results. */
    di_status status; /* of the pass as a whole */
    char *error;      /* in the arena; NULL = none */
    int64_t started_ns, finished_ns;
    int64_t forward_ns, draft_ns; /* of the pass, and of making drafts */
    uint64_t n_layer_rows;        /* of the pass (model/forward.h) */
    int32_t n_draft_seqs;         /* that drafts were made for */
    bool is_done;                 /* the executor's */
};

#endif
