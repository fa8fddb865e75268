#include "base/threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/checked.h"

typedef struct di_worker {
    di_pool *pool;
    int index;
    pthread_t thread;
} di_worker;

/* A step runs hundreds of small jobs: whoever waits looks for the next event this many times before
 * it sleeps, which spares two system calls a job and costs some 20 us when nothing comes. */
enum { SPINS = 1000 };

struct di_pool {
    pthread_mutex_t lock;
    pthread_cond_t start;  /* a new job, or the end */
    pthread_cond_t done;   /* n_running became 0 */
    _Atomic uint64_t job;  /* counts up; a worker runs each job once */
    _Atomic int n_running; /* workers that have not finished the job */
    _Atomic bool is_ending;
    di_range_fn fn; /* the job: written before `job` changes, read after */
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

static inline void spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Returns when there is a job after `seen`, or false at the end. */
static bool wait_for_job(di_pool *pool, uint64_t seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&pool->job) != seen || atomic_load(&pool->is_ending))
            return !atomic_load(&pool->is_ending);
        spin_pause();
    }
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->job) == seen && !atomic_load(&pool->is_ending))
        pthread_cond_wait(&pool->start, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    return !atomic_load(&pool->is_ending);
}

static void wait_for_workers(di_pool *pool)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&pool->n_running) == 0)
            return;
        spin_pause();
    }
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->n_running) > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *arg)
{
    di_worker *worker = arg;
    di_pool *pool = worker->pool;
    for (uint64_t seen = 0; wait_for_job(pool, seen);) {
        seen++; /* the caller waits for every worker, so no job is ever missed */
        run_part(pool, worker->index);
        if (atomic_fetch_sub(&pool->n_running, 1) == 1) {
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->done);
            pthread_mutex_unlock(&pool->lock);
        }
    }
    return NULL;
}

void di_pool_destroy(di_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->is_ending, true);
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
    pool->fn = fn;
    pool->args = args;
    pool->n_items = n_items;
    atomic_store(&pool->n_running, pool->n_threads - 1);
    pthread_mutex_lock(&pool->lock); /* so that no worker falls asleep between its look and ours */
    atomic_fetch_add(&pool->job, 1);
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    run_part(pool, 0);
    wait_for_workers(pool);
}
