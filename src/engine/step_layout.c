#include "engine/step_layout.h"

#include <string.h>

#include "base/checked.h"

di_status di_slot_check(const di_slot_ref *ref)
{
    if (ref->slot->generation != ref->generation)
        return di_fail(DI_ERR_RUNTIME, "a step refers to turn %llu of a slot that is at turn %llu",
                       (unsigned long long)ref->generation,
                       (unsigned long long)ref->slot->generation);
    return DI_OK;
}

static di_status check_slots(const di_step *step)
{
    for (int32_t i = 0; i < step->n_seqs; i++) {
        const di_step_seq *s = &step->seqs[i];
        DI_TRY(di_slot_check(&s->slot));
        if (s->decodes && s->slot.slot->last_token < 0)
            return di_fail(DI_ERR_RUNTIME, "a step takes a token of a slot that holds none");
    }
    return DI_OK;
}

/* Drafts of a slot that may be verified. */
static int32_t n_available(const di_step_seq *s)
{
    const int32_t n = s->slot.slot->n_drafts;
    return !s->decodes ? 0 : n < s->n_drafts ? n : s->n_drafts;
}

/* Whose drafts get the rows, by the confidence in these very drafts. What a grammar forces is as
 * good as certain. */
static di_status assign_drafts(di_draft_order *order, di_step *step, int32_t *n_drafts)
{
    di_draft_seq *seqs;
    float *survivals;
    DI_TRY(DI_ARENA_NEW(&step->arena, (size_t)step->n_seqs, &seqs));
    DI_TRY(DI_ARENA_NEW(&step->arena, (size_t)step->n_seqs * DI_MAX_DRAFTS, &survivals));
    for (int32_t i = 0; i < step->n_seqs; i++) {
        const di_step_seq *s = &step->seqs[i];
        const int32_t n = n_available(s);
        float *own = survivals + (ptrdiff_t)i * DI_MAX_DRAFTS;
        if (n > 0)
            di_calibration_survivals(&step->calibration, s->slot.slot->confidences, n, own);
        seqs[i] = (di_draft_seq){.survivals = own, .n_known = n, .cap = n};
    }
    di_draft_order_assign(order, seqs, step->n_seqs, step->n_draft_rows, n_drafts);
    return DI_OK;
}

/* The tokens of a decode: the slot no longer holds them afterwards. */
static void take_tokens(di_step_seq *s, int32_t n_drafts, int32_t *ids)
{
    di_slot *slot = s->slot.slot;
    s->first = slot->position;
    s->n = 1 + n_drafts;
    ids[0] = slot->last_token;
    memcpy(ids + 1, slot->drafts, (size_t)n_drafts * sizeof *ids);
    slot->last_token = -1;
    slot->n_drafts = 0;
}

/* Compressed ids of the rows, and of the tokens before them that the slot may lack. */
static void fill_engram(const int32_t *map, const di_step_seq *s, const int32_t *ids)
{
    di_slot *slot = s->slot.slot;
    for (int64_t i = -s->n_before; map && i < s->n; i++)
        slot->engram_ids[s->first + i] = map[ids[i]];
}

/* From where on the drafter's windows are whole: rows without taps leave gaps, rows that are
 * computed again close them. */
static void note_taps(const di_step *step, const di_step_seq *s)
{
    di_slot *slot = s->slot.slot;
    if (!step->writes_taps)
        slot->draft_floor = s->first + s->n;
    else if (!s->decodes && s->first < slot->draft_floor)
        slot->draft_floor = s->first;
}

static void add_seq(const di_runner *runner, di_step *step, di_step_seq *s, int32_t n_drafts)
{
    di_slot *slot = s->slot.slot;
    int32_t decoded[DI_MAX_DRAFTS + 1];
    const int32_t *ids = decoded;
    if (s->decodes) {
        take_tokens(s, n_drafts, decoded);
    } else {
        ids = s->token_ids + s->n_before;
        slot->n_drafts = 0; /* of before a preemption */
    }
    slot->window_floor = di_max_i64(s->window_floor, s->decoder_start);
    note_taps(step, s);
    fill_engram(runner->model->token_map, s, ids);
    s->first_row = step->made.batch.n_rows;
    s->first_logit_row = step->made.batch.n_logit_rows;
    const di_batch_part part = {
        .tables = slot->tables,
        .write_floor = s->write_floor,
        .window_floor = s->window_floor,
        .decoder_start = s->decoder_start,
        .first = s->first,
        .n = s->n,
        .token_ids = ids,
        .engram_ids = slot->engram_ids,
        .compressor_state = slot->compressor_state,
        .wants_all_logits = s->wants_all_logits || s->decodes,
        .wants_last_logits = s->wants_last_logits,
    };
    di_batch_add(&step->made, &part);
}

/* A decode samples from its first row on. */
static void place_jobs(di_step *step)
{
    for (int32_t i = 0; i < step->n_jobs; i++) {
        const di_step_seq *s = &step->seqs[step->jobs[i].from];
        if (!s->decodes)
            continue;
        di_step_job *job = &step->jobs[i];
        job->position = s->first + 1;
        job->n_verified = (int32_t)s->n - 1;
        memcpy(job->verified, s->slot.slot->confidences,
               (size_t)job->n_verified * sizeof *job->verified);
    }
}

di_status di_step_lay_out(const di_runner *runner, di_draft_order *order, di_step *step)
{
    int32_t *n_drafts;
    DI_TRY(check_slots(step));
    DI_TRY(DI_ARENA_ZNEW(&step->arena, (size_t)step->n_seqs, &n_drafts));
    if (step->n_draft_rows > 0)
        DI_TRY(assign_drafts(order, step, n_drafts));
    for (int32_t i = 0; i < step->n_seqs; i++)
        add_seq(runner, step, &step->seqs[i], n_drafts[i]);
    place_jobs(step);
    step->is_laid_out = true;
    return DI_OK;
}
