#include "engine/engine.h"

#include <stdlib.h>

#include "base/buf.h"

void di_seq_list_push(di_seq_list *list, di_seq *seq)
{
    seq->next = NULL;
    if (list->last)
        list->last->next = seq;
    else
        list->first = seq;
    list->last = seq;
}

di_seq *di_seq_list_take(di_seq_list *list, di_request_id id)
{
    di_seq *before = NULL;
    for (di_seq *s = list->first; s; before = s, s = s->next) {
        if (s->id != id)
            continue;
        if (before)
            before->next = s->next;
        else
            list->first = s->next;
        if (list->last == s)
            list->last = before;
        s->next = NULL;
        return s;
    }
    return NULL;
}

di_status di_engine_create(di_model *model, const di_options *options, di_engine **out)
{
    if (!model || !out)
        return di_fail(DI_ERR_ARGUMENT, "di_engine_create: model and out must not be NULL");
    di_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return di_fail_memory(sizeof *engine, "an engine");
    di_status status = di_runner_init(model, options, &engine->runner);
    if (status != DI_OK) {
        free(engine);
        return status;
    }
    status = di_sampler_workspace_init(&engine->sampler, di_model_vocab_size(model));
    if (status != DI_OK) {
        di_runner_free(&engine->runner);
        free(engine);
        return status;
    }
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->step_lock, NULL);
    *out = engine;
    return DI_OK;
}

static void destroy_list(di_engine *engine, di_seq_list *list)
{
    for (di_seq *s = list->first, *next; s; s = next) {
        next = s->next;
        di_seq_destroy(&engine->runner, s);
    }
}

void di_engine_destroy(di_engine *engine)
{
    if (!engine)
        return;
    di_seq_destroy(&engine->runner, engine->running);
    destroy_list(engine, &engine->waiting);
    destroy_list(engine, &engine->finished);
    free(engine->cancelled);
    di_outbox_free(&engine->outbox);
    di_sampler_workspace_free(&engine->sampler);
    di_runner_free(&engine->runner);
    pthread_mutex_destroy(&engine->lock);
    pthread_mutex_destroy(&engine->step_lock);
    free(engine);
}

static di_status submit(di_engine *engine, const di_request *request, bool is_private,
                        di_request_id *out)
{
    if (!engine || !request || !out)
        return di_fail(DI_ERR_ARGUMENT, "submit: engine, request and out must not be NULL");
    di_seq *seq;
    DI_TRY(di_seq_create(&engine->runner, request, &seq));
    seq->is_private = is_private;
    pthread_mutex_lock(&engine->lock);
    *out = seq->id = ++engine->last_id;
    di_seq_list_push(&engine->waiting, seq);
    pthread_mutex_unlock(&engine->lock);
    return DI_OK;
}

di_status di_engine_submit(di_engine *engine, const di_request *request, di_request_id *out)
{
    return submit(engine, request, false, out);
}

void di_engine_cancel(di_engine *engine, di_request_id id)
{
    pthread_mutex_lock(&engine->lock);
    const bool known = id > 0 && id <= engine->last_id;
    if (known &&
        DI_GROW(&engine->cancelled, &engine->cancelled_cap, engine->n_cancelled + 1) == DI_OK)
        engine->cancelled[engine->n_cancelled++] = id;
    pthread_mutex_unlock(&engine->lock);
}

bool di_engine_poll(di_engine *engine, di_output *out)
{
    pthread_mutex_lock(&engine->lock);
    di_outbox_recycle(&engine->outbox, engine->outbox.polled);
    di_event *event = engine->outbox.polled = di_outbox_pop(&engine->outbox, 0);
    if (event)
        *out = event->output;
    pthread_mutex_unlock(&engine->lock);
    return event != NULL;
}

static di_seq *take_finished(di_engine *engine, di_request_id id)
{
    pthread_mutex_lock(&engine->lock);
    di_seq *seq = di_seq_list_take(&engine->finished, id);
    pthread_mutex_unlock(&engine->lock);
    return seq;
}

di_status di_engine_take_result(di_engine *engine, di_request_id id, di_result **out)
{
    di_seq *seq = take_finished(engine, id);
    if (!seq)
        return di_fail(DI_ERR_ARGUMENT, "request %llu: found no finished request of this id",
                       (unsigned long long)id);
    const di_status status = di_seq_result(seq, out);
    if (status == DI_OK) {
        di_seq_destroy(&engine->runner, seq);
        return DI_OK;
    }
    pthread_mutex_lock(&engine->lock);
    di_seq_list_push(&engine->finished, seq);
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
    const di_seq *s = engine->finished.first;
    while (s && s->id != id)
        s = s->next;
    pthread_mutex_unlock(&engine->lock);
    return s != NULL;
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
    di_seq *seq = take_finished(engine, id);
    di_status status = seq->status;
    if (status == DI_OK)
        status = di_seq_result(seq, out);
    else if (seq->error)
        di_error_set_text(seq->error);
    di_seq_destroy(&engine->runner, seq);
    return status;
}
