#include "engine/step_run.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "engine/step_layout.h"

di_status di_step_runner_init(di_runner *runner, di_step_runner *out)
{
    di_step_runner r = {.runner = runner};
    DI_TRY(di_sampler_workspace_init(&r.workspace, (int32_t)runner->model->config.vocab_size,
                                     runner->plan.kernels));
    di_status status = di_mask_ahead_create(&r.masks);
    if (status == DI_OK)
        status = di_draft_order_init(&r.order, runner->options.max_seqs);
    if (status != DI_OK) {
        di_step_runner_free(&r);
        return status;
    }
    *out = r;
    return DI_OK;
}

void di_step_runner_free(di_step_runner *r)
{
    di_mask_ahead_destroy(r->masks);
    di_sampler_workspace_free(&r->workspace);
    di_draft_order_free(&r->order);
    di_ids_free(&r->forced);
    di_buf_free(&r->bytes);
}

/* ------------------------------------------------------------------------------- before a pass */

static void update_table(const di_step_table *t, int n_groups)
{
    for (int g = 0; g < n_groups; g++)
        memcpy(t->slot->tables[g] + t->first, t->ids + g * t->n, (size_t)t->n * sizeof *t->ids);
}

/* The new sample's slot gets the prompt's history, as far as later rows need it, and its blocks
 * until it is told of those of its own. */
static void apply_fork(const di_step_runner *r, const di_step_fork *fork)
{
    const di_slot *from = fork->from.slot;
    di_slot *to = fork->to.slot;
    const di_kv_layout *layout = &r->runner->kv.layout;
    memcpy(to->compressor_state, from->compressor_state,
           di_compressor_state_len(r->runner) * sizeof *to->compressor_state);
    if (r->runner->model->token_map)
        memcpy(to->engram_ids, from->engram_ids, (size_t)fork->n_tokens * sizeof *to->engram_ids);
    const int64_t n_blocks = (fork->n_tokens + DI_KV_BLOCK_TOKENS - 1) / DI_KV_BLOCK_TOKENS;
    for (int g = 0; g < layout->n_groups; g++)
        memcpy(to->tables[g], from->tables[g], (size_t)n_blocks * sizeof *to->tables[g]);
    to->window_floor = from->window_floor;
    to->draft_floor = from->draft_floor;
}

/* Masks of the tokens that this pass will sample: what they depend on is known by now, and where
 * drafts are verified, so is what they will depend on if the drafts are right. */
static void start_masks(const di_step_runner *r, const di_step *step)
{
    for (int32_t i = 0; i < step->n_jobs; i++) {
        const di_step_job *job = &step->jobs[i];
        di_slot *slot = job->slot.slot;
        const int32_t *inputs = step->made.token_ids + step->seqs[job->from].first_row;
        if (!job->scored_tokens && slot->generation == job->slot.generation)
            di_mask_ahead_add(r->masks, &slot->sampler.constraint, inputs + 1, job->n_verified);
    }
    di_mask_ahead_start(r->masks);
}

/* ------------------------------------------------------------------------------- jobs */

static di_status score_given(di_step_runner *r, di_step *step, di_step_job *job,
                             const float *logits)
{
    const di_sampling_params *params = job->slot.slot->sampler.setup.params;
    const int64_t vocab = r->workspace.vocab_size;
    DI_TRY(DI_ARENA_NEW(&step->arena, (size_t)job->n_scored, &job->logprobs));
    for (int64_t i = 0; i < job->n_scored; i++) {
        di_position_logprobs logprobs;
        DI_TRY(di_sample_given(&r->workspace, logits + i * vocab, job->position + i,
                               job->scored_tokens[i], params->n_logprobs, &logprobs));
        DI_TRY(di_position_logprobs_copy(&step->arena, &logprobs, &job->logprobs[i]));
    }
    return DI_OK;
}

/* The next token of a job: `forced`, unless that is -1; where a draft is verified by rejection, it
 * is that one if it is right. */
static di_status sample_one(di_step_runner *r, di_step *step, di_step_job *job, const float *logits,
                            int32_t forced)
{
    di_slot *slot = job->slot.slot;
    const int64_t position = job->position + job->n_tokens;
    di_sample_out sampled;
    if (slot->drawn && job->n_tokens < job->n_verified)
        DI_TRY(di_sample_verify(&r->workspace, &slot->sampler, logits, position,
                                &slot->drawn[job->n_tokens], &sampled));
    else
        DI_TRY(di_sample(&r->workspace, &slot->sampler, logits, position, &sampled));
    if (forced >= 0)
        sampled.token_id = forced;
    DI_TRY(
        di_position_logprobs_copy(&step->arena, &sampled.logprobs, &job->logprobs[job->n_tokens]));
    DI_TRY(di_sampler_state_append(&slot->sampler, sampled.token_id));
    job->token_ids[job->n_tokens++] = slot->last_token = sampled.token_id;
    slot->position = position;
    job->has_ended = di_sampler_is_end(&slot->sampler, sampled.token_id);
    return DI_OK;
}

/* For benchmarks: drafts to take whatever they are, so that lengths have the wanted mean; -1: as
 * they are right. */
static int32_t forced_drafts(const di_runner *runner, const di_step_job *job)
{
    if (runner->forced_accepted_len <= 0.0 || job->n_verified == 0)
        return -1;
    const double wanted = runner->forced_accepted_len - 1.0;
    const double phase = (double)job->position * 0.61803398874989485;
    const int32_t n = (int32_t)(wanted + (phase - floor(phase)));
    return n < job->n_verified ? n : job->n_verified;
}

/* Verification by matching (features 7.3): each row's token is the target's own choice, with the
 * noise of its position; a draft was right if it is that token, and only then the row behind it
 * counts. So drafts never change what comes out. By rejection, on request, a draft decides with the
 * target's distribution whether it is the row's token (sample/reject.h). */
static di_status sample(di_step_runner *r, di_step *step, di_step_job *job, const float *logits)
{
    const di_step_seq *s = &step->seqs[job->from];
    const int32_t *inputs = step->made.token_ids + s->first_row;
    const int32_t n_rows = 1 + job->n_verified, n_forced = forced_drafts(r->runner, job);
    DI_TRY(DI_ARENA_NEW(&step->arena, (size_t)n_rows, &job->logprobs));
    for (int32_t i = 0; i < n_rows; i++) {
        DI_TRY(sample_one(r, step, job, logits + i * (int64_t)r->workspace.vocab_size,
                          i < n_forced ? inputs[i + 1] : -1));
        if (job->has_ended || i == n_forced)
            break;
        if (n_forced < 0 && i + 1 < n_rows && inputs[i + 1] != job->token_ids[i])
            break;
    }
    return DI_OK;
}

static di_status run_job(di_step_runner *r, di_step *step, di_step_job *job, const float *all)
{
    DI_TRY(di_slot_check(&job->slot));
    const int64_t row = step->seqs[job->from].first_logit_row + job->logit_offset;
    const float *logits = all + row * r->workspace.vocab_size;
    return job->scored_tokens ? score_given(r, step, job, logits) : sample(r, step, job, logits);
}

/* Keeps this thread's error text for the host. Without memory the status alone must do. */
static void keep_error(di_step *step, char **out)
{
    if (di_arena_strdup(&step->arena, di_last_error(), out) != DI_OK)
        *out = NULL;
}

/* The sequence ends here, but the next pass may be under way already with a row for the token that
 * was not sampled. Any token will do there: nobody reads that row, and those beside it must not
 * suffer. */
static void fill_in_token(const di_step_job *job)
{
    di_slot *slot = job->slot.slot;
    if (job->scored_tokens || slot->generation != job->slot.generation || slot->last_token >= 0)
        return;
    slot->last_token = 0;
    slot->position = job->position;
    slot->n_drafts = 0;
}

/* ------------------------------------------------------------------------------- a pass */

static di_status run_pass(di_step_runner *r, di_step *step)
{
    for (int32_t i = 0; i < step->n_tables; i++)
        update_table(&step->tables[i], r->runner->kv.layout.n_groups);
    for (size_t i = 0; i < step->n_copies; i++)
        di_kv_cache_copy_block(&r->runner->kv, &step->copies[i]);
    DI_TRY(di_step_lay_out(r->runner, &r->order, step));
    float *logits;
    start_masks(r, step);
    r->runner->skips_taps = !step->writes_taps;
    const di_status status = di_runner_execute(r->runner, &step->made.batch, NULL, &logits);
    di_mask_ahead_join(r->masks);
    DI_TRY(status);
    step->n_layer_rows = r->runner->n_layer_rows;
    step->forward_ns = di_clock_ns() - step->started_ns;
    for (int32_t i = 0; i < step->n_forks; i++)
        apply_fork(r, &step->forks[i]);
    for (int32_t i = 0; i < step->n_jobs; i++) {
        di_step_job *job = &step->jobs[i];
        job->status = run_job(r, step, job, logits);
        if (job->status != DI_OK) {
            keep_error(step, &job->error);
            fill_in_token(job);
        }
    }
    return DI_OK;
}

void di_step_run(di_step_runner *r, di_step *step)
{
    step->started_ns = di_clock_ns();
    step->status = run_pass(r, step);
    if (step->status != DI_OK) {
        keep_error(step, &step->error);
        for (int32_t i = 0; i < step->n_jobs; i++)
            fill_in_token(&step->jobs[i]);
    } else {
        const int64_t from = di_clock_ns();
        di_step_draft(r, step);
        step->draft_ns = di_clock_ns() - from;
    }
    step->finished_ns = di_clock_ns();
}
