/* One pass with all that goes with it, as the host hands it to the device and gets it back: copies,
 * the batch, tokens that only the device knows, what to sample, and the results. Everything lives
 * in the step's arena, so the host may go on changing sequences while the step runs. */
#ifndef DI_ENGINE_STEP_H
#define DI_ENGINE_STEP_H

#include "base/arena.h"
#include "engine/batch_maker.h"
#include "engine/slot.h"

struct di_seq;
struct di_entry;

/* A sequence's rows of the batch. */
typedef struct di_step_seq {
    struct di_seq *seq; /* for the host alone */
    di_slot_ref slot;
    int32_t first_row;
    int64_t first, n;         /* positions */
    const int32_t *token_ids; /* [n_before + n] from position first - n_before on; NULL: the one
                                 row's token is the slot's last_token */
    int64_t n_before; /* tokens before the first row that Engram needs and the slot may lack */
    int32_t n_jobs;   /* of jobs, in the same order; with those of samples that begin here */
    bool is_end;      /* a request that only scores its prompt ends with these rows */
} di_step_seq;

/* Block ids that a slot's tables lack or have otherwise: a table changes once in many steps. */
typedef struct di_step_table {
    di_slot *slot;
    int64_t first, n;   /* logical blocks */
    const int32_t *ids; /* [groups, n] */
} di_step_table;

/* A token to sample, or, with scored_tokens, given tokens to score. */
typedef struct di_step_job {
    struct di_seq *seq; /* for the host alone */
    di_slot_ref slot;
    int32_t logit_row;            /* first one */
    int64_t position;             /* of the token to be chosen, or of the first given one */
    const int32_t *scored_tokens; /* [n_scored] */
    int64_t n_scored;

    /* Results. */
    di_status status;
    char *error;                    /* NULL = none */
    int32_t token_id;               /* sampled */
    di_position_logprobs *logprobs; /* [1], or [n_scored] */
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
    di_batch_maker made;
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
    bool is_done; /* the executor's */
};

#endif
