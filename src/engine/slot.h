/* What the device keeps of a sequence from one pass to the next. The host hands it to passes in
 * order and does not look inside while one is in flight. A slot outlives preemptions of its
 * sequence and is reused by another one only after all its passes were collected; `generation` then
 * counts up, so that a stale reference is noticed. */
#ifndef DI_ENGINE_SLOT_H
#define DI_ENGINE_SLOT_H

#include "core/ids.h"
#include "engine/runner.h"
#include "sample/sampler.h"

typedef struct di_slot di_slot;
struct di_slot {
    di_slot *next; /* in the list of free slots */
    uint64_t generation;
    int32_t last_token;   /* sampled by the latest pass; -1 once it was taken as input */
    int64_t position;     /* of last_token */
    int64_t window_floor; /* positions below it have no outputs of the last layers in any window */
    int64_t draft_floor;  /* positions below it may lack the drafter's window entries */
    int32_t n_drafts;     /* behind last_token */
    int32_t drafts[DI_MAX_DRAFTS];
    float confidences[DI_MAX_DRAFTS]; /* raw; INFINITY: forced by a grammar */
    di_draft *drawn; /* [DI_MAX_DRAFTS]: the drafts with what they were drawn from, until they are
                        verified by rejection; NULL: they are verified by matching */
    int32_t *engram_ids; /* [max_len]: compressed ids by position; NULL without engram layers */
    size_t engram_cap;
    float *compressor_state;           /* as in core/batch.h */
    int32_t *tables[DI_MAX_KV_GROUPS]; /* block tables, as far as steps have told (di_step_table) */
    size_t table_caps[DI_MAX_KV_GROUPS];
    di_sampler_state sampler;
    bool has_sampler;
};

/* A reference that knows whose turn it was. */
typedef struct di_slot_ref {
    di_slot *slot;
    uint64_t generation;
} di_slot_ref;

static inline di_slot_ref di_slot_ref_of(di_slot *slot)
{
    return (di_slot_ref){slot, slot->generation};
}

typedef struct di_slot_list {
    di_slot *free;
    int64_t n_slots, n_free;
} di_slot_list;

/* For a sequence of at most max_len tokens. */
typedef struct di_slot_setup {
    di_sampler_setup sampler;
    int64_t max_len;
    bool rejects; /* its drafts are verified by rejection */
} di_slot_setup;

DI_WARN_UNUSED di_status di_slot_take(di_slot_list *list, const di_runner *runner,
                                      const di_slot_setup *setup, di_slot **out);
void di_slot_give_back(di_slot_list *list, di_slot *slot);
void di_slot_list_free(di_slot_list *list); /* all must have been given back */

#endif
