/* Drafts: what the drafter proposes behind the tokens that were just sampled, and what a grammar
 * forces (jump-forward). Each is chosen as the target will choose, with the noise of its position,
 * the penalties and the mask that hold there, so that it agrees as often as the logits do; where
 * drafts are verified by rejection, with other noise. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "engine/step_run.h"

/* Of one sequence. */
typedef struct drafting {
    di_step_job *job;
    di_slot *slot;
    di_sampler_mark mark; /* of the sampler before the drafts */
    int32_t most;         /* drafts */
    int32_t n_forced;     /* the first ones, already in the slot */
    bool is_done;
} drafting;

/* Sequences of one round through the drafter. */
typedef struct group {
    drafting d[DI_DRAFT_SEQS];
    int32_t n;
    int32_t anchors[DI_DRAFT_SEQS], positions[DI_DRAFT_SEQS], floors[DI_DRAFT_SEQS];
    int32_t prev[DI_DRAFT_SEQS];
    const int32_t *tables[DI_DRAFT_SEQS];
    float confidences[DI_DRAFT_SEQS];
} group;

/* ------------------------------------------------------------------------------- forced text */

/* The tokens of text that must come next. The last one is left out unless the text ends with it: it
 * may be the beginning of a longer token. */
static di_status list_forced(di_step_runner *r, const drafting *d)
{
    const di_constraint *c = &d->slot->sampler.constraint;
    enum { MOST_BYTES = 16 * DI_MAX_DRAFTS };
    r->forced.len = 0;
    di_buf_clear(&r->bytes);
    bool is_whole;
    DI_TRY(di_constraint_forced(c, MOST_BYTES, &r->bytes, &is_whole));
    if (r->bytes.len == 0)
        return DI_OK;
    const di_text_span all = {0, r->bytes.len};
    DI_TRY(di_tokenizer_encode(r->runner->model->tokenizer, di_buf_str(&r->bytes), r->bytes.len,
                               &all, 1, &r->forced));
    if (!is_whole && r->forced.len > 0)
        r->forced.len--;
    return DI_OK;
}

static di_status add_draft(drafting *d, int32_t token_id, float confidence)
{
    di_slot *slot = d->slot;
    DI_TRY(di_sampler_state_append(&slot->sampler, token_id));
    slot->drafts[slot->n_drafts] = token_id;
    slot->confidences[slot->n_drafts++] = confidence;
    d->is_done |= slot->n_drafts == d->most;
    return DI_OK;
}

/* A draft without a choice: drawn from itself alone. */
static di_status add_certain(drafting *d, int32_t token_id)
{
    if (d->slot->drawn)
        d->slot->drawn[d->slot->n_drafts] =
            (di_draft){.token_id = token_id, .n = 1, .id = {token_id}, .weight = {1}, .sum = 1};
    return add_draft(d, token_id, INFINITY);
}

static void add_forced(di_step_runner *r, drafting *d)
{
    if (!di_constraint_is_on(&d->slot->sampler.constraint) || list_forced(r, d) != DI_OK)
        return;
    for (size_t i = 0; i < r->forced.len && !d->is_done; i++) {
        if (add_certain(d, r->forced.data[i]) != DI_OK) {
            d->is_done = true;
            break;
        }
    }
    d->n_forced = d->slot->n_drafts;
}

/* ------------------------------------------------------------------------------- the drafter */

static void open_drafting(di_step_runner *r, di_step_job *job, drafting *out)
{
    *out = (drafting){.job = job, .slot = job->slot.slot, .most = job->n_new_drafts};
    out->mark = di_sampler_state_mark(&out->slot->sampler);
    out->slot->n_drafts = 0;
    add_forced(r, out);
}

/* The sampler stands again where the target will go on. */
static void close_drafting(drafting *d)
{
    di_sampler_state_rewind(&d->slot->sampler, &d->mark, d->slot->drafts, d->slot->n_drafts);
    d->job->n_drafted = d->slot->n_drafts;
    memcpy(d->job->drafted, d->slot->confidences,
           (size_t)d->slot->n_drafts * sizeof *d->job->drafted);
}

/* By matching, as the target will choose; by rejection, with noise of its own, and what it was
 * drawn from is kept. */
static di_status draw(di_step_runner *r, const drafting *d, const float *logits, int32_t *token_id)
{
    const di_slot *slot = d->slot;
    const int64_t position = slot->position + 1 + slot->n_drafts;
    if (slot->drawn) {
        di_draft *out = &slot->drawn[slot->n_drafts];
        DI_TRY(
            di_sample_draft(&r->workspace, &slot->sampler, logits, position, slot->n_drafts, out));
        *token_id = out->token_id;
        return DI_OK;
    }
    di_sample_out sampled;
    DI_TRY(di_sample(&r->workspace, &slot->sampler, logits, position, &sampled));
    *token_id = sampled.token_id;
    return DI_OK;
}

/* A draft behind the present ones. A choice that is impossible, or the end, is the last one. */
static void choose(di_step_runner *r, drafting *d, const float *logits, float confidence)
{
    int32_t token_id;
    if (draw(r, d, logits, &token_id) != DI_OK || add_draft(d, token_id, confidence) != DI_OK)
        d->is_done = true;
    else
        d->is_done |= di_sampler_is_end(&d->slot->sampler, token_id);
}

static bool has_more(const group *g, int32_t slot)
{
    for (int32_t i = 0; i < g->n; i++)
        if (!g->d[i].is_done && slot < g->d[i].most)
            return true;
    return false;
}

/* One slot of all sequences. */
static void draft_slot(di_step_runner *r, group *g, const di_pass *pass, int32_t slot,
                       float *logits)
{
    r->runner->draft_logits(pass, slot, g->prev, logits, g->confidences);
    for (int32_t i = 0; i < g->n; i++) {
        drafting *d = &g->d[i];
        if (slot >= d->n_forced && !d->is_done)
            choose(r, d, logits + i * (int64_t)r->workspace.vocab_size, g->confidences[i]);
        if (slot < d->slot->n_drafts)
            g->prev[i] = d->slot->drafts[slot];
    }
}

static di_status run_drafter(di_step_runner *r, group *g)
{
    di_pass pass;
    float *logits;
    di_runner_draft_pass(r->runner, &pass);
    DI_TRY(
        DI_ARENA_NEW(&r->runner->scratch, (size_t)g->n * (size_t)r->workspace.vocab_size, &logits));
    int32_t n_slots = 0;
    for (int32_t i = 0; i < g->n; i++) {
        const di_slot *slot = g->d[i].slot;
        n_slots = (int32_t)di_max_i64(n_slots, g->d[i].most);
        g->anchors[i] = g->prev[i] = slot->last_token;
        g->positions[i] = (int32_t)slot->position;
        const int64_t floor = di_max_i64(slot->window_floor, slot->draft_floor);
        g->floors[i] = (int32_t)di_min_i64(floor, slot->position);
        g->tables[i] = slot->tables[0];
    }
    const di_draft_batch batch = {.n_seqs = g->n,
                                  .n_slots = (int32_t)di_min_i64(n_slots, r->runner->n_draft_slots),
                                  .anchors = g->anchors,
                                  .positions = g->positions,
                                  .window_tables = g->tables,
                                  .window_floors = g->floors};
    DI_TRY(r->runner->draft_begin(&pass, &batch));
    for (int32_t slot = 0; slot < batch.n_slots && has_more(g, slot); slot++)
        draft_slot(r, g, &pass, slot, logits);
    return DI_OK;
}

static void draft_group(di_step_runner *r, bool uses_drafter, group *g)
{
    if (uses_drafter && r->runner->n_draft_slots > 0 && has_more(g, 0))
        (void)!run_drafter(r, g); /* those of a grammar remain */
    for (int32_t i = 0; i < g->n; i++)
        close_drafting(&g->d[i]);
    g->n = 0;
}

static bool wants_drafts(const di_step_job *job)
{
    return job->n_new_drafts > 0 && job->status == DI_OK && !job->scored_tokens && !job->has_ended;
}

void di_step_draft(di_step_runner *r, di_step *step)
{
    group g = {.n = 0};
    for (int32_t i = 0; i < step->n_jobs; i++) {
        if (!wants_drafts(&step->jobs[i]))
            continue;
        open_drafting(r, &step->jobs[i], &g.d[g.n++]);
        step->n_draft_seqs++;
        if (g.n == DI_DRAFT_SEQS)
            draft_group(r, step->uses_drafter, &g);
    }
    if (g.n > 0)
        draft_group(r, step->uses_drafter, &g);
}
