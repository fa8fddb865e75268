/* The step: the engine's table of contents. A pass is launched, and an older one collected; with
 * asynchronous scheduling one stays in flight between two steps. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine.h"

/* ------------------------------------------------------------------------------- what came in */

/* Cancellations that came before now are of requests that came before now. */
static di_entry *take_inbox(di_engine *engine, size_t *n_cancelled)
{
    pthread_mutex_lock(&engine->lock);
    di_entry *first = engine->inbox.first;
    engine->inbox = (di_entry_list){NULL, NULL};
    *n_cancelled = engine->n_cancelled;
    pthread_mutex_unlock(&engine->lock);
    return first;
}

static void drain_inbox(di_engine *engine, size_t *n_cancelled)
{
    for (di_entry *e = take_inbox(engine, n_cancelled), *next; e; e = next) {
        next = e->next;
        di_active_push(&engine->active, e);
        engine->n_deadlines += e->timeout_ms != 0;
        engine->stats.prompt_tokens += e->n_prompt;
        di_seq *seq = &e->seqs[0];
        seq->sched.order = ++engine->last_order;
        if (e->max_len == (int64_t)e->n_prompt && !e->params.prompt_logprobs)
            di_entry_finish(engine, e, DI_FINISH_LENGTH, DI_OK); /* nothing was asked for */
        else
            di_scheduler_add(&engine->scheduler, &seq->sched);
    }
}

static di_request_id cancelled_at(di_engine *engine, size_t i)
{
    pthread_mutex_lock(&engine->lock);
    const di_request_id id = engine->cancelled[i];
    pthread_mutex_unlock(&engine->lock);
    return id;
}

/* The oldest n. Ids that are no longer active are ignored. */
static void drain_cancelled(di_engine *engine, size_t n)
{
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        di_entry *entry = di_active_find(&engine->active, cancelled_at(engine, i));
        if (entry)
            di_entry_finish(engine, entry, DI_FINISH_CANCELLED, DI_OK);
    }
    pthread_mutex_lock(&engine->lock);
    engine->n_cancelled -= n;
    memmove(engine->cancelled, engine->cancelled + n,
            engine->n_cancelled * sizeof *engine->cancelled);
    pthread_mutex_unlock(&engine->lock);
}

static void drain_expired(di_engine *engine)
{
    if (engine->n_deadlines == 0)
        return;
    const int64_t now = di_clock_now(&engine->clock);
    for (di_entry *e = engine->active.first, *next; e; e = next) {
        next = e->active_next;
        if (!e->timeout_ms || now < e->deadline_ns)
            continue;
        const di_status status =
            di_fail(DI_ERR_CANCELLED, "timeout: the request did not end within %lld ms",
                    (long long)e->timeout_ms);
        di_entry_finish(engine, e, DI_FINISH_ERROR, status);
    }
}

/* ------------------------------------------------------------------------------- launch */

static di_step *take_step(di_engine *engine)
{
    di_step *step = engine->free_steps;
    if (step)
        engine->free_steps = step->next;
    else
        step = calloc(1, sizeof *step);
    return step;
}

static void recycle_step(di_engine *engine, di_step *step)
{
    const di_arena arena = step->arena;
    *step = (di_step){.arena = arena};
    di_arena_reset(&step->arena);
    step->next = engine->free_steps;
    engine->free_steps = step;
}

/* Without memory for the step none of its sequences can go on. */
static void fail_step(di_engine *engine, int32_t n_items, di_step *step, di_status status)
{
    for (int32_t i = 0; i < n_items; i++) {
        engine->items[i].seq->n_in_flight--;
        di_seq_of(engine->items[i].seq)->is_lost = true;
    }
    for (int32_t i = 0; step && i < step->n_forks; i++) {
        step->forks[i].seq->sched.n_in_flight--;
        step->forks[i].seq->is_lost = true;
    }
    engine->runner.kv.n_copies = 0; /* all were for these */
    di_lost_fail(engine, status);
    if (step)
        recycle_step(engine, step);
}

/* Schedules a pass and starts it; false if nothing can run now. */
static bool launch_next(di_engine *engine)
{
    const uint64_t n_plans = engine->speculation.planner.n_plans;
    di_speculation_plan(&engine->speculation, &engine->scheduler);
    if (engine->speculation.planner.n_plans > n_plans) {
        engine->stats.draft_plans++;
        engine->stats.draft_budget += (uint64_t)engine->scheduler.most_draft_rows;
    }
    const int32_t n_items = di_scheduler_next(&engine->scheduler, engine->items);
    if (n_items == 0)
        return false;
    di_step *step = take_step(engine);
    const di_status status =
        step ? di_step_build(engine, n_items, step) : di_fail_memory(sizeof *step, "a step");
    if (status != DI_OK) {
        fail_step(engine, n_items, step, status);
        return true;
    }
    engine->in_flight[engine->n_in_flight++] = step;
    engine->stats.n_steps++;
    engine->executor.launch(engine->executor.self, step);
    return true;
}

/* ------------------------------------------------------------------------------- collect */

static void note_times(di_engine *engine, const di_step *step)
{
    engine->stats.busy_ns += (uint64_t)(step->finished_ns - step->started_ns);
    if (engine->last_finished_ns && step->started_ns > engine->last_finished_ns)
        engine->stats.idle_ns += (uint64_t)(step->started_ns - engine->last_finished_ns);
    engine->last_finished_ns = step->finished_ns;
    engine->stats.computed_layer_rows += step->n_layer_rows;
}

static void collect_oldest(di_engine *engine, int64_t *waited_ns)
{
    di_step *step = engine->in_flight[0];
    const int64_t from = di_clock_ns();
    engine->executor.collect(engine->executor.self, step);
    *waited_ns += di_clock_ns() - from;
    for (int i = 1; i < engine->n_in_flight; i++)
        engine->in_flight[i - 1] = engine->in_flight[i];
    engine->n_in_flight--;
    engine->stats.computed_tokens += (uint64_t)step->made.batch.n_rows;
    note_times(engine, step);
    di_speculation_observe_pass(&engine->speculation, step);
    di_step_commit(engine, step);
    recycle_step(engine, step);
}

/* ------------------------------------------------------------------------------- statistics */

static void update_stats(di_engine *engine, bool has_more)
{
    di_engine_stats *s = &engine->stats;
    if (!has_more || s->n_steps % 64 == 0) /* costs about as much as the rest of a step */
        di_speculation_stats(&engine->speculation, s);
    const di_sched_stats *sched = &engine->scheduler.stats;
    s->n_waiting = engine->scheduler.waiting.n;
    s->n_running = engine->scheduler.running.n;
    s->n_preemptions = sched->n_preemptions;
    s->replayed_tokens = sched->replayed_tokens;
    di_weight_stats weights;
    di_weight_source_get_stats(engine->runner.source, &weights);
    s->expert_hits = weights.n_hits;
    s->expert_misses = weights.n_misses;
    s->weight_bytes_read = weights.bytes_read;
    s->weight_wait_ns = weights.wait_ns;
    s->kv_blocks_used = s->kv_blocks_cached = s->kv_blocks_free = 0;
    for (int g = 0; g < engine->runner.kv.layout.n_groups; g++) {
        const di_block_pool *pool = &engine->runner.kv.pools[g];
        s->kv_blocks_free += (uint64_t)pool->n_free;
        s->kv_blocks_cached += (uint64_t)pool->n_cached;
        s->kv_blocks_used += (uint64_t)(pool->n_blocks - pool->n_free - pool->n_cached);
    }
}

static bool has_work(di_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    const bool has_new = engine->inbox.first != NULL;
    pthread_mutex_unlock(&engine->lock);
    return has_new || engine->active.first;
}

di_status di_engine_step(di_engine *engine, bool *has_more)
{
    if (!engine)
        return di_fail(DI_ERR_ARGUMENT, "di_engine_step: engine must not be NULL");
    pthread_mutex_lock(&engine->step_lock);
    const int64_t from = di_clock_ns();
    int64_t waited_ns = 0;
    size_t n_cancelled;
    drain_inbox(engine, &n_cancelled);
    drain_cancelled(engine, n_cancelled);
    drain_expired(engine);
    const bool launched = launch_next(engine);
    if (engine->n_in_flight == engine->max_in_flight || (!launched && engine->n_in_flight > 0))
        collect_oldest(engine, &waited_ns);
    const bool more = has_work(engine);
    if (!more)
        engine->last_finished_ns = 0;
    engine->stats.schedule_ns += (uint64_t)(di_clock_ns() - from - waited_ns);
    update_stats(engine, more);
    di_engine_publish(engine);
    pthread_mutex_unlock(&engine->step_lock);
    if (has_more)
        *has_more = more;
    return DI_OK;
}
