/* A device without a model, for tests of everything around one. Passes run through the engine's own
 * CPU executor, but instead of a forward pass each row writes its token history (a hash and the
 * token) into the real KV memory, through the batch's slots, block tables and compressor state, and
 * logits are a function of the history alone. Before anything is written, every entry that the rows
 * will see is compared with the sequence's own history; at launch, who owns the blocks that the
 * pass touches. The first difference is kept as a line of text.
 *
 * The model lends its configuration and tokenizer; its weights are not touched. One null device at
 * a time in a process. */
#ifndef DI_TEST_NULL_DEVICE_H
#define DI_TEST_NULL_DEVICE_H

#include "engine/engine.h"

enum { DI_NULL_HISTORY = 0x5eed }; /* of no tokens */

typedef enum di_null_pace {
    DI_NULL_AT_LAUNCH,      /* a pass runs as it is launched */
    DI_NULL_AT_NEXT_LAUNCH, /* ... as the next one is, or as it is collected */
    DI_NULL_AT_COLLECT,     /* ... only as it is collected */
    DI_NULL_THREADED,       /* ... on the executor's own thread */
    DI_NULL_BARE, /* ... as it is launched, and does nothing but name tokens: to measure */
    DI_N_NULL_PACES
} di_null_pace;

/* Changes the logits of the token at `position` after a history; called by whoever runs passes. */
typedef void (*di_null_bend_fn)(void *user, uint64_t history, int64_t position, float *logits);

typedef struct di_null_device {
    di_null_pace pace;
    int64_t pass_ns;      /* a pass takes at least that long */
    uint64_t failed_pass; /* this pass, counted from 1, fails as a whole; 0 = none */
    di_null_bend_fn bend; /* NULL = none */
    void *user;
    int wrong_drafts; /* of 16 drafts so many are of other logits; 0 = no drafter at all */

    di_engine *engine;
    di_executor inner;
    di_step *waiting[DI_MAX_IN_FLIGHT]; /* launched, not run; oldest first */
    int n_waiting;
    int32_t *n_uses[DI_MAX_KV_GROUPS]; /* [blocks]: of the step's sequences; scratch */
    uint64_t n_passes;
    int64_t most_rows, most_seqs; /* of one pass */
    bool is_doomed;               /* the pass now running has problems that are to be expected */
    char problem[256];            /* "" = none */
} di_null_device;

uint64_t di_null_history(uint64_t before, int32_t token_id);
/* The logits after a history, before they are bent. */
void di_null_logits(uint64_t history, float *logits, int32_t vocab_size);

/* An engine on the device, whose members up to wrong_drafts the caller has set. */
DI_WARN_UNUSED di_status di_null_engine_create(di_null_device *device, di_model *model,
                                               const di_options *options, di_engine **out);

#endif
