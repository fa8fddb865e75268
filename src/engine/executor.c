#include "engine/executor.h"

#include <pthread.h>
#include <stdlib.h>

#include "engine/step_run.h"

typedef struct cpu_executor {
    di_step_runner steps;
    bool has_thread, is_ending;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    di_step *queue, *queue_last; /* launched, not yet taken by the thread */
} cpu_executor;

/* ------------------------------------------------------------------------------- the queue */

static void *thread_main(void *arg)
{
    cpu_executor *e = arg;
    di_pool_pin_caller(e->steps.runner->team.pool);
    pthread_mutex_lock(&e->lock);
    for (;;) {
        while (!e->queue && !e->is_ending)
            pthread_cond_wait(&e->changed, &e->lock);
        di_step *step = e->queue;
        if (!step)
            break;
        e->queue = step->next;
        pthread_mutex_unlock(&e->lock);
        di_step_run(&e->steps, step);
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
        di_step_run(&e->steps, step);
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
    di_step_runner_free(&e->steps);
    free(e);
}

di_status di_cpu_executor_create(di_runner *runner, bool has_thread, di_executor *out)
{
    cpu_executor *e = calloc(1, sizeof *e);
    if (!e)
        return di_fail_memory(sizeof *e, "an executor");
    const di_status status = di_step_runner_init(runner, &e->steps);
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
