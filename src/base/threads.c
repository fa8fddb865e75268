#define _GNU_SOURCE /* pthread_setaffinity_np */

#include "base/threads.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/topology.h"

/* A step runs hundreds of small jobs: whoever waits looks for the next event this many times before
 * it sleeps, which spares two system calls a job. A pinned team has its cores to itself and may
 * wait through the sampling between two passes. Every YIELD looks it lets others run, so that a
 * thread that shares a CPU with one it waits for does not hold it up. */
enum { SPINS = 1000, PINNED_SPINS = 4000, CROWDED_SPINS = 8, YIELD = 64 };

enum { LINE = 128 }; /* bytes that may travel between cores together */

typedef struct di_worker {
    alignas(LINE) _Atomic uint64_t done; /* the last job that it finished; written by it alone */
    di_pool *pool;
    int index;
    pthread_t thread;
} di_worker;

/* Sleeping: a sleeper says so, then looks again; the other side makes its change, then looks for
 * sleepers. All four are sequentially consistent, so that one of the two sees the other, and the
 * lock keeps a wake-up from falling between the second look and the wait. */
struct di_pool {
    alignas(LINE) _Atomic uint64_t job; /* counts up; a worker runs each job once */
    di_range_fn fn;                     /* the job: written before `job` changes, read after */
    const void *args;
    int64_t n_items;
    bool is_ending;
    alignas(LINE) _Atomic int n_asleep; /* workers */
    _Atomic bool is_caller_asleep;
    pthread_mutex_t lock;
    pthread_cond_t start; /* a new job, or the end */
    pthread_cond_t done;  /* a worker finished */
    int n_threads, n_started, n_spins;
    int first_cpu;      /* worker 0's; -1: none */
    di_worker *workers; /* [n_threads - 1] */
};

static void run_part(di_pool *pool, int index)
{
    const int64_t n = pool->n_items, parts = pool->n_threads;
    const int64_t begin = n * index / parts, end = n * (index + 1) / parts;
    if (begin < end)
        pool->fn(pool->args, begin, end, index);
}

static inline void spin_pause(int turn)
{
    if (turn % YIELD == YIELD - 1)
        sched_yield();
#if defined(__x86_64__)
    else
        __builtin_ia32_pause();
#endif
}

/* ------------------------------------------------------------------------------------- waiting */

static void wait_for_job(di_pool *pool, uint64_t seen)
{
    for (int i = 0; i < pool->n_spins; i++) {
        if (atomic_load_explicit(&pool->job, memory_order_acquire) != seen)
            return;
        spin_pause(i);
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->n_asleep, 1);
    while (atomic_load(&pool->job) == seen)
        pthread_cond_wait(&pool->start, &pool->lock);
    atomic_fetch_sub(&pool->n_asleep, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void publish(di_pool *pool)
{
    atomic_fetch_add(&pool->job, 1);
    if (atomic_load(&pool->n_asleep) == 0)
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
}

static void finish(di_worker *worker, uint64_t job)
{
    di_pool *pool = worker->pool;
    atomic_store(&worker->done, job);
    if (!atomic_load(&pool->is_caller_asleep))
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->lock);
}

static void wait_for_worker(di_pool *pool, di_worker *worker, uint64_t job)
{
    for (int i = 0; i < pool->n_spins; i++) {
        if (atomic_load_explicit(&worker->done, memory_order_acquire) == job)
            return;
        spin_pause(i);
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->is_caller_asleep, true);
    while (atomic_load(&worker->done) != job)
        pthread_cond_wait(&pool->done, &pool->lock);
    atomic_store(&pool->is_caller_asleep, false);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *arg)
{
    di_worker *worker = arg;
    di_pool *pool = worker->pool;
    for (uint64_t seen = 0;;) {
        wait_for_job(pool, seen);
        if (pool->is_ending)
            return NULL;
        seen++; /* the caller waits for every worker, so no job is ever missed */
        run_part(pool, worker->index);
        finish(worker, seen);
    }
}

/* ---------------------------------------------------------------------------------------- life */

static int pin(pthread_t thread, int cpu)
{
    cpu_set_t *set = CPU_ALLOC((size_t)cpu + 1);
    if (!set)
        return ENOMEM;
    const size_t bytes = CPU_ALLOC_SIZE((size_t)cpu + 1);
    CPU_ZERO_S(bytes, set);
    CPU_SET_S((size_t)cpu, bytes, set);
    const int error = pthread_setaffinity_np(thread, bytes, set);
    CPU_FREE(set);
    return error;
}

static di_status start_workers(di_pool *pool, const int *cpus)
{
    for (int i = 1; i < pool->n_threads; i++) {
        di_worker *worker = &pool->workers[i - 1];
        worker->pool = pool;
        worker->index = i;
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0)
            return di_fail(DI_ERR_MEMORY, "cannot start worker thread %d of %d", i,
                           pool->n_threads - 1);
        pool->n_started++;
        const int error = cpus ? pin(worker->thread, cpus[i]) : 0;
        if (error)
            return di_fail(DI_ERR_RUNTIME, "worker thread %d cannot stay on CPU %d: %s", i, cpus[i],
                           strerror(error));
    }
    return DI_OK;
}

di_status di_pool_create_on(const di_pool_setup *setup, di_pool **out)
{
    const int n = setup->n_threads;
    if (n < 1 || n > 4096)
        return di_fail(DI_ERR_ARGUMENT, "threads: found %d, wanted 1 to 4096", n);
    const size_t bytes = (size_t)n * sizeof(di_worker);
    di_pool *pool = aligned_alloc(LINE, sizeof *pool);
    di_worker *workers = aligned_alloc(LINE, bytes);
    if (!pool || !workers) {
        free(pool);
        free(workers);
        return di_fail_memory(sizeof *pool + bytes, "the thread pool");
    }
    memset(pool, 0, sizeof *pool);
    memset(workers, 0, bytes);
    pool->n_threads = n;
    pool->workers = workers;
    pool->n_spins = setup->is_crowded ? CROWDED_SPINS : setup->cpus ? PINNED_SPINS : SPINS;
    pool->first_cpu = setup->cpus ? setup->cpus[0] : -1;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->done, NULL);
    const di_status status = start_workers(pool, setup->cpus);
    if (status == DI_OK)
        *out = pool;
    else
        di_pool_destroy(pool);
    return status;
}

di_status di_pool_create(int n_threads, di_pool **out)
{
    const di_pool_setup setup = {.n_threads = n_threads,
                                 .is_crowded = n_threads > di_affinity_count()};
    return di_pool_create_on(&setup, out);
}

void di_pool_destroy(di_pool *pool)
{
    if (!pool)
        return;
    pool->is_ending = true;
    publish(pool);
    for (int i = 0; i < pool->n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->start);
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

int di_pool_n_threads(const di_pool *pool)
{
    return pool->n_threads;
}

void di_pool_pin_caller(const di_pool *pool)
{
    if (pool->first_cpu >= 0)
        (void)pin(pthread_self(), pool->first_cpu); /* else it runs where it ran */
}

/* ------------------------------------------------------------------------------------- running */

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
    publish(pool);
    run_part(pool, 0);
    const uint64_t job = atomic_load_explicit(&pool->job, memory_order_relaxed);
    for (int i = 0; i < pool->n_threads - 1; i++)
        wait_for_worker(pool, &pool->workers[i], job);
}
