#include "engine/engine.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/clock.h"

/* Preemptions of one sequence before it is pinned. */
enum { MAX_PREEMPTIONS = 3 };

/* ------------------------------------------------------------------------------- lists */

void di_entry_list_push(di_entry_list *list, di_entry *entry)
{
    entry->next = NULL;
    if (list->last)
        list->last->next = entry;
    else
        list->first = entry;
    list->last = entry;
}

void di_entry_list_remove(di_entry_list *list, di_entry *entry)
{
    di_entry *before = NULL;
    for (di_entry *e = list->first; e != entry; e = e->next)
        before = e;
    if (before)
        before->next = entry->next;
    else
        list->first = entry->next;
    if (list->last == entry)
        list->last = before;
    entry->next = NULL;
}

di_entry *di_entry_list_find(const di_entry_list *list, di_request_id id)
{
    di_entry *e = list->first;
    while (e && e->id != id)
        e = e->next;
    return e;
}

void di_active_push(di_active_list *list, di_entry *entry)
{
    entry->active_prev = list->last;
    entry->active_next = NULL;
    if (list->last)
        list->last->active_next = entry;
    else
        list->first = entry;
    list->last = entry;
}

void di_active_remove(di_active_list *list, di_entry *entry)
{
    if (entry->active_prev)
        entry->active_prev->active_next = entry->active_next;
    else
        list->first = entry->active_next;
    if (entry->active_next)
        entry->active_next->active_prev = entry->active_prev;
    else
        list->last = entry->active_prev;
}

di_entry *di_active_find(const di_active_list *list, di_request_id id)
{
    di_entry *e = list->first;
    while (e && e->id != id)
        e = e->active_next;
    return e;
}

/* ------------------------------------------------------------------------------- life */

static di_prefix_mode prefix_mode(const char *name)
{
    return name[0] == 'e' ? DI_PREFIX_EXACT : name[0] == 'r' ? DI_PREFIX_REPLAY : DI_PREFIX_OFF;
}

static int64_t system_now(void *user)
{
    (void)user;
    return di_clock_ns();
}

static di_status init_parts(di_engine *engine, const di_options *options, di_model *model)
{
    DI_TRY(di_runner_init(model, options, &engine->runner));
    const di_effective_options *o = &engine->runner.options;
    DI_TRY(di_prefix_cache_init(&engine->runner.kv, prefix_mode(o->prefix_cache),
                                di_ceil_div(o->prefix_interval, DI_KV_BLOCK_TOKENS),
                                &engine->prefix));
    engine->prefix.truncation = engine->runner.truncation;
    const di_sched_limits limits = {o->max_step_tokens, o->max_seqs, MAX_PREEMPTIONS,
                                    (int32_t)di_most_uncertain(o)};
    DI_TRY(di_scheduler_init(&engine->scheduler, &engine->runner.kv, &engine->prefix, &limits));
    engine->items = calloc((size_t)o->max_step_tokens, sizeof *engine->items);
    if (!engine->items)
        return di_fail_memory(o->max_step_tokens * sizeof *engine->items, "the scheduler's plan");
    engine->max_in_flight = o->is_async ? DI_MAX_IN_FLIGHT : 1;
    return DI_OK;
}

di_status di_engine_create_with(di_model *model, const di_options *options,
                                const di_executor *executor, di_engine **out)
{
    di_engine *engine = calloc(1, sizeof *engine);
    if (!engine) {
        if (executor)
            executor->destroy(executor->self);
        return di_fail_memory(sizeof *engine, "an engine");
    }
    if (executor)
        engine->executor = *executor;
    engine->clock.now_ns = system_now;
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->step_lock, NULL);
    di_status status = init_parts(engine, options, model);
    if (status == DI_OK)
        status = di_speculation_init(&engine->runner, &engine->speculation);
    if (status == DI_OK && !executor)
        di_speculation_profile(&engine->speculation, &engine->runner);
    if (status == DI_OK && !executor)
        status = di_cpu_executor_create(&engine->runner, engine->runner.options.is_async,
                                        &engine->executor);
    if (status != DI_OK) {
        di_engine_destroy(engine);
        return status;
    }
    *out = engine;
    return DI_OK;
}

di_status di_engine_create(di_model *model, const di_options *options, di_engine **out)
{
    if (!model || !out)
        return di_fail(DI_ERR_ARGUMENT, "di_engine_create: model and out must not be NULL");
    return di_engine_create_with(model, options, NULL, out);
}

static void destroy_entries(di_entry_list *list)
{
    for (di_entry *e = list->first, *next; e; e = next) {
        next = e->next;
        di_entry_destroy(e);
    }
}

/* Active requests that have ended but were not taken are destroyed with the finished ones. */
static void drop_active(di_engine *engine)
{
    for (int i = 0; i < engine->n_in_flight; i++)
        engine->executor.collect(engine->executor.self, engine->in_flight[i]);
    for (di_entry *e = engine->active.first, *next; e; e = next) {
        next = e->active_next;
        for (int32_t i = 0; i < e->n_samples; i++) {
            di_scheduler_remove(&engine->scheduler, &e->seqs[i].sched);
            if (e->seqs[i].slot)
                di_slot_give_back(&engine->slots, e->seqs[i].slot);
        }
        if (!e->is_finished || e->is_taken)
            di_entry_destroy(e);
    }
}

static void free_steps(di_engine *engine)
{
    for (int i = 0; i < engine->n_in_flight; i++) {
        engine->in_flight[i]->next = engine->free_steps;
        engine->free_steps = engine->in_flight[i];
    }
    for (di_step *step = engine->free_steps, *next; step; step = next) {
        next = step->next;
        di_arena_free(&step->arena);
        free(step);
    }
}

void di_engine_destroy(di_engine *engine)
{
    if (!engine)
        return;
    drop_active(engine);
    destroy_entries(&engine->inbox);
    destroy_entries(&engine->finished);
    if (engine->executor.destroy)
        engine->executor.destroy(engine->executor.self);
    free_steps(engine);
    di_slot_list_free(&engine->slots);
    di_speculation_free(&engine->speculation);
    di_scheduler_free(&engine->scheduler);
    di_prefix_cache_free(&engine->prefix);
    di_outbox_free(&engine->outbox);
    di_outbox_free(&engine->pending);
    di_buf_free(&engine->piece);
    di_runner_free(&engine->runner);
    free(engine->cancelled);
    free(engine->items);
    pthread_mutex_destroy(&engine->lock);
    pthread_mutex_destroy(&engine->step_lock);
    free(engine);
}

/* ------------------------------------------------------------------------------- requests */

/* A timeout beyond the end of time never comes. */
static int64_t deadline_after(int64_t now_ns, int64_t timeout_ms)
{
    const int64_t most = (INT64_MAX - now_ns) / 1000000;
    return timeout_ms > most ? INT64_MAX : now_ns + timeout_ms * 1000000;
}

static di_status submit(di_engine *engine, const di_request *request, bool is_private,
                        di_request_id *out)
{
    if (!engine || !request || !out)
        return di_fail(DI_ERR_ARGUMENT, "submit: engine, request and out must not be NULL");
    di_entry *entry;
    DI_TRY(di_entry_create(&engine->runner, request, &entry));
    entry->is_private = is_private;
    entry->timeout_ms = request->timeout_ms;
    entry->deadline_ns = deadline_after(di_clock_now(&engine->clock), request->timeout_ms);
    pthread_mutex_lock(&engine->lock);
    *out = entry->id = ++engine->last_id;
    di_entry_list_push(&engine->inbox, entry);
    pthread_mutex_unlock(&engine->lock);
    return DI_OK;
}

di_status di_engine_submit(di_engine *engine, const di_request *request, di_request_id *out)
{
    return submit(engine, request, false, out);
}

void di_engine_cancel(di_engine *engine, di_request_id id)
{
    if (!engine)
        return;
    pthread_mutex_lock(&engine->lock);
    const bool known = id > 0 && id <= engine->last_id;
    if (known &&
        DI_GROW(&engine->cancelled, &engine->cancelled_cap, engine->n_cancelled + 1) == DI_OK)
        engine->cancelled[engine->n_cancelled++] = id;
    pthread_mutex_unlock(&engine->lock);
}

bool di_engine_poll(di_engine *engine, di_output *out)
{
    if (!engine || !out)
        return false;
    pthread_mutex_lock(&engine->lock);
    di_outbox_recycle(&engine->outbox, engine->outbox.polled);
    di_event *event = engine->outbox.polled = di_outbox_pop(&engine->outbox, 0);
    if (event)
        *out = event->output;
    pthread_mutex_unlock(&engine->lock);
    return event != NULL;
}

void di_engine_get_stats(di_engine *engine, di_engine_stats *out)
{
    if (!out)
        return;
    *out = (di_engine_stats){0};
    if (!engine)
        return;
    pthread_mutex_lock(&engine->lock);
    *out = engine->published;
    pthread_mutex_unlock(&engine->lock);
}

/* NULL if there is none. Only di_generate itself takes what it submitted. */
static di_entry *take_finished(di_engine *engine, di_request_id id, bool is_private)
{
    pthread_mutex_lock(&engine->lock);
    di_entry *entry = di_entry_list_find(&engine->finished, id);
    if (entry && entry->is_private != is_private)
        entry = NULL;
    if (entry)
        di_entry_list_remove(&engine->finished, entry);
    pthread_mutex_unlock(&engine->lock);
    return entry;
}

/* After the result was taken. A pass in flight may still refer to the request. */
static void let_go(di_engine *engine, di_entry *entry)
{
    pthread_mutex_lock(&engine->lock);
    entry->is_taken = true;
    const bool is_settled = entry->is_settled;
    pthread_mutex_unlock(&engine->lock);
    if (is_settled)
        di_entry_destroy(entry);
}

di_status di_engine_take_result(di_engine *engine, di_request_id id, di_result **out)
{
    if (!engine || !out)
        return di_fail(DI_ERR_ARGUMENT, "di_engine_take_result: engine and out must not be NULL");
    di_entry *entry = take_finished(engine, id, false);
    if (!entry)
        return di_fail(DI_ERR_ARGUMENT, "request %llu: found no finished request of this id",
                       (unsigned long long)id);
    const di_status status = di_entry_result(entry, out);
    if (status == DI_OK) {
        let_go(engine, entry);
        return DI_OK;
    }
    pthread_mutex_lock(&engine->lock);
    di_entry_list_push(&engine->finished, entry);
    pthread_mutex_unlock(&engine->lock);
    return status;
}

/* Hands the outputs of one request that are there to its callback. */
static void deliver(di_engine *engine, di_request_id id, di_token_callback callback, void *user)
{
    for (;;) {
        pthread_mutex_lock(&engine->lock);
        di_event *event = di_outbox_pop(&engine->outbox, id);
        pthread_mutex_unlock(&engine->lock);
        if (!event)
            return;
        if (callback && !callback(user, &event->output))
            di_engine_cancel(engine, id);
        pthread_mutex_lock(&engine->lock);
        di_outbox_recycle(&engine->outbox, event);
        pthread_mutex_unlock(&engine->lock);
    }
}

static bool is_finished(di_engine *engine, di_request_id id)
{
    pthread_mutex_lock(&engine->lock);
    const bool found = di_entry_list_find(&engine->finished, id) != NULL;
    pthread_mutex_unlock(&engine->lock);
    return found;
}

/* The first sample that failed; NULL if none did. */
static const di_seq *find_failed(const di_entry *entry)
{
    for (int32_t i = 0; i < entry->n_samples; i++)
        if (entry->seqs[i].status != DI_OK)
            return &entry->seqs[i];
    return NULL;
}

di_status di_generate(di_engine *engine, const di_request *request, di_token_callback callback,
                      void *user, di_result **out)
{
    if (!out)
        return di_fail(DI_ERR_ARGUMENT, "di_generate: out must not be NULL");
    di_request_id id;
    DI_TRY(submit(engine, request, true, &id));
    while (!is_finished(engine, id)) {
        DI_TRY(di_engine_step(engine, NULL));
        deliver(engine, id, callback, user);
    }
    deliver(engine, id, callback, user);
    di_entry *entry = take_finished(engine, id, true);
    const di_seq *failed = find_failed(entry);
    di_status status;
    if (failed) {
        status = failed->status;
        di_error_set_text(failed->error ? failed->error : di_status_name(status));
    } else {
        status = di_entry_result(entry, out);
    }
    let_go(engine, entry);
    return status;
}
