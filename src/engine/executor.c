#include "engine/executor.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

typedef struct cpu_executor {
    di_runner *runner;
    di_sampler_workspace workspace;
    bool has_thread, is_ending;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    di_step *queue, *queue_last; /* launched, not yet taken by the thread */
} cpu_executor;

/* ------------------------------------------------------------------------------- one step */

static di_status check_slot(const di_slot_ref *ref)
{
    if (ref->slot->generation != ref->generation)
        return di_fail(DI_ERR_RUNTIME, "a step refers to turn %llu of a slot that is at turn %llu",
                       (unsigned long long)ref->generation,
                       (unsigned long long)ref->slot->generation);
    return DI_OK;
}

/* Input ids, and Engram's compressed ids, of a sequence's rows. */
static di_status fill_tokens(const cpu_executor *e, di_step *step, const di_step_seq *s)
{
    DI_TRY(check_slot(&s->slot));
    di_slot *slot = s->slot.slot;
    int32_t *ids = step->made.token_ids + s->first_row;
    if (s->token_ids) {
        memcpy(ids, s->token_ids + s->n_before, (size_t)s->n * sizeof *ids);
    } else {
        if (slot->last_token < 0)
            return di_fail(DI_ERR_RUNTIME, "a step takes a token of a slot that holds none");
        ids[0] = slot->last_token;
        slot->last_token = -1;
    }
    const int32_t *map = e->runner->model->token_map;
    for (int64_t i = -s->n_before; map && i < s->n; i++)
        slot->engram_ids[s->first + i] = map[i < 0 ? s->token_ids[s->n_before + i] : ids[i]];
    return DI_OK;
}

/* The new sample's slot gets the prompt's history, as far as later rows need it. */
static void apply_fork(const cpu_executor *e, const di_step_fork *fork)
{
    const di_slot *from = fork->from.slot;
    di_slot *to = fork->to.slot;
    const size_t n = (size_t)(e->runner->kv.layout.n_compressors * 2 * e->runner->kv.head_dim);
    memcpy(to->compressor_state, from->compressor_state, n * sizeof *to->compressor_state);
    if (e->runner->model->token_map)
        memcpy(to->engram_ids, from->engram_ids, (size_t)fork->n_tokens * sizeof *to->engram_ids);
}

static di_status score_given(cpu_executor *e, di_step *step, di_step_job *job, const float *logits)
{
    const di_sampling_params *params = job->slot.slot->sampler.setup.params;
    const int64_t vocab = e->workspace.vocab_size;
    DI_TRY(DI_ARENA_NEW(&step->arena, (size_t)job->n_scored, &job->logprobs));
    for (int64_t i = 0; i < job->n_scored; i++) {
        di_position_logprobs logprobs;
        DI_TRY(di_sample_given(&e->workspace, logits + i * vocab, job->position + i,
                               job->scored_tokens[i], params->n_logprobs, &logprobs));
        DI_TRY(di_position_logprobs_copy(&step->arena, &logprobs, &job->logprobs[i]));
    }
    return DI_OK;
}

static di_status run_job(cpu_executor *e, di_step *step, di_step_job *job, const float *all)
{
    DI_TRY(check_slot(&job->slot));
    const float *logits = all + (int64_t)job->logit_row * e->workspace.vocab_size;
    if (job->scored_tokens)
        return score_given(e, step, job, logits);
    di_slot *slot = job->slot.slot;
    di_sample_out sampled;
    DI_TRY(di_sample(&e->workspace, &slot->sampler, logits, job->position, &sampled));
    DI_TRY(DI_ARENA_NEW(&step->arena, 1, &job->logprobs));
    DI_TRY(di_position_logprobs_copy(&step->arena, &sampled.logprobs, job->logprobs));
    job->token_id = slot->last_token = sampled.token_id;
    return di_sampler_state_append(&slot->sampler, sampled.token_id);
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
    if (!job->scored_tokens && job->slot.slot->generation == job->slot.generation)
        job->slot.slot->last_token = 0;
}

static void update_table(const di_step_table *t, int n_groups)
{
    for (int g = 0; g < n_groups; g++)
        memcpy(t->slot->tables[g] + t->first, t->ids + g * t->n, (size_t)t->n * sizeof *t->ids);
}

static di_status run_pass(cpu_executor *e, di_step *step)
{
    for (int32_t i = 0; i < step->n_tables; i++)
        update_table(&step->tables[i], e->runner->kv.layout.n_groups);
    for (size_t i = 0; i < step->n_copies; i++)
        di_kv_cache_copy_block(&e->runner->kv, &step->copies[i]);
    for (int32_t i = 0; i < step->n_seqs; i++)
        DI_TRY(fill_tokens(e, step, &step->seqs[i]));
    float *logits;
    DI_TRY(di_runner_execute(e->runner, &step->made.batch, NULL, &logits));
    for (int32_t i = 0; i < step->n_forks; i++)
        apply_fork(e, &step->forks[i]);
    for (int32_t i = 0; i < step->n_jobs; i++) {
        di_step_job *job = &step->jobs[i];
        job->status = run_job(e, step, job, logits);
        if (job->status != DI_OK) {
            keep_error(step, &job->error);
            fill_in_token(job);
        }
    }
    return DI_OK;
}

static void run_step(cpu_executor *e, di_step *step)
{
    step->started_ns = di_clock_ns();
    step->status = run_pass(e, step);
    if (step->status != DI_OK) {
        keep_error(step, &step->error);
        for (int32_t i = 0; i < step->n_jobs; i++)
            fill_in_token(&step->jobs[i]);
    }
    step->finished_ns = di_clock_ns();
}

/* ------------------------------------------------------------------------------- the queue */

static void *thread_main(void *arg)
{
    cpu_executor *e = arg;
    di_pool_pin_caller(e->runner->team.pool);
    pthread_mutex_lock(&e->lock);
    for (;;) {
        while (!e->queue && !e->is_ending)
            pthread_cond_wait(&e->changed, &e->lock);
        di_step *step = e->queue;
        if (!step)
            break;
        e->queue = step->next;
        pthread_mutex_unlock(&e->lock);
        run_step(e, step);
        pthread_mutex_lock(&e->lock);
        step->is_done = true;
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static void launch(void *self, di_step *step)
{
    cpu_executor *e = self;
    step->next = NULL;
    step->is_done = false;
    if (!e->has_thread) {
        run_step(e, step);
        return;
    }
    pthread_mutex_lock(&e->lock);
    if (e->queue)
        e->queue_last->next = step;
    else
        e->queue = step;
    e->queue_last = step;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static void collect(void *self, di_step *step)
{
    cpu_executor *e = self;
    if (!e->has_thread)
        return;
    pthread_mutex_lock(&e->lock);
    while (!step->is_done)
        pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
}

static void destroy(void *self)
{
    cpu_executor *e = self;
    if (e->has_thread) {
        pthread_mutex_lock(&e->lock);
        e->is_ending = true;
        pthread_cond_broadcast(&e->changed);
        pthread_mutex_unlock(&e->lock);
        pthread_join(e->thread, NULL);
    }
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->changed);
    di_sampler_workspace_free(&e->workspace);
    free(e);
}

di_status di_cpu_executor_create(di_runner *runner, bool has_thread, di_executor *out)
{
    cpu_executor *e = calloc(1, sizeof *e);
    if (!e)
        return di_fail_memory(sizeof *e, "an executor");
    e->runner = runner;
    const di_status status = di_sampler_workspace_init(
        &e->workspace, (int32_t)runner->model->config.vocab_size, runner->plan.kernels);
    if (status != DI_OK) {
        free(e);
        return status;
    }
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    if (has_thread && pthread_create(&e->thread, NULL, thread_main, e) != 0) {
        destroy(e);
        return di_fail(DI_ERR_MEMORY, "cannot start the executor's thread");
    }
    e->has_thread = has_thread;
    *out = (di_executor){e, launch, collect, destroy};
    return DI_OK;
}
