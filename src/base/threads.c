#include "base/threads.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/checked.h"

typedef struct di_worker {
    di_pool *pool;
    int index;
    pthread_t thread;
} di_worker;

struct di_pool {
    pthread_mutex_t lock;
    pthread_cond_t start; /* a new job, or the end */
    pthread_cond_t done;  /* n_running became 0 */
    uint64_t job;         /* counts up; a worker runs each job once */
    int n_running;
    bool is_ending;
    di_range_fn fn;
    const void *args;
    int64_t n_items;
    int n_threads;
    int n_started;
    di_worker *workers; /* [n_threads - 1] */
};

static void run_part(di_pool *pool, int index)
{
    const int64_t n = pool->n_items, parts = pool->n_threads;
    const int64_t begin = n * index / parts, end = n * (index + 1) / parts;
    if (begin < end)
        pool->fn(pool->args, begin, end, index);
}

static void *worker_main(void *arg)
{
    di_worker *worker = arg;
    di_pool *pool = worker->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->job == seen && !pool->is_ending)
            pthread_cond_wait(&pool->start, &pool->lock);
        if (pool->is_ending)
            break;
        seen = pool->job;
        pthread_mutex_unlock(&pool->lock);
        run_part(pool, worker->index);
        pthread_mutex_lock(&pool->lock);
        if (--pool->n_running == 0)
            pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

void di_pool_destroy(di_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->is_ending = true;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->start);
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

di_status di_pool_create(int n_threads, di_pool **out)
{
    if (n_threads < 1 || n_threads > 4096)
        return di_fail(DI_ERR_ARGUMENT, "threads: found %d, wanted 1 to 4096", n_threads);
    di_pool *pool = calloc(1, sizeof *pool);
    di_worker *workers = calloc((size_t)n_threads, sizeof *workers);
    if (!pool || !workers) {
        free(pool);
        free(workers);
        return di_fail_memory(sizeof *pool, "the thread pool");
    }
    pool->n_threads = n_threads;
    pool->workers = workers;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (int i = 0; i < n_threads - 1; i++) {
        workers[i] = (di_worker){.pool = pool, .index = i + 1};
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0) {
            di_pool_destroy(pool);
            return di_fail(DI_ERR_MEMORY, "cannot start worker thread %d of %d", i + 1,
                           n_threads - 1);
        }
        pool->n_started++;
    }
    *out = pool;
    return DI_OK;
}

int di_pool_n_threads(const di_pool *pool)
{
    return pool->n_threads;
}

void di_pool_run(di_pool *pool, di_range_fn fn, const void *args, int64_t n_items)
{
    if (n_items <= 0)
        return;
    if (pool->n_threads == 1) {
        fn(args, 0, n_items, 0);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->fn = fn;
    pool->args = args;
    pool->n_items = n_items;
    pool->n_running = pool->n_threads - 1;
    pool->job++;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    run_part(pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->n_running > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
