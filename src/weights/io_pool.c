#include "weights/io_pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/checked.h"

struct di_io_pool {
    pthread_mutex_t lock;
    pthread_cond_t more; /* a job came, or the end */
    pthread_cond_t idle; /* nothing waits or runs */
    di_io_job *ring;     /* [capacity] */
    int64_t capacity, first, n_waiting;
    int n_running, n_threads;
    bool is_ending;
    pthread_t *threads; /* [n_threads] that were started */
};

static void *thread_main(void *arg)
{
    di_io_pool *pool = arg;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->n_waiting == 0 && !pool->is_ending)
            pthread_cond_wait(&pool->more, &pool->lock);
        if (pool->is_ending)
            break;
        const di_io_job job = pool->ring[pool->first];
        pool->first = (pool->first + 1) % pool->capacity;
        pool->n_waiting--;
        pool->n_running++;
        pthread_mutex_unlock(&pool->lock);
        job.fn(job.user, job.a, job.b);
        pthread_mutex_lock(&pool->lock);
        pool->n_running--;
        if (pool->n_running == 0 && pool->n_waiting == 0)
            pthread_cond_broadcast(&pool->idle);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

di_status di_io_pool_create(int n_threads, int64_t capacity, di_io_pool **out)
{
    di_io_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return di_fail_memory(sizeof *pool, "the reading threads");
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->more, NULL);
    pthread_cond_init(&pool->idle, NULL);
    pool->capacity = capacity;
    pool->ring = calloc((size_t)capacity, sizeof *pool->ring);
    pool->threads = calloc((size_t)n_threads, sizeof *pool->threads);
    di_status status = DI_OK;
    if (!pool->ring || !pool->threads)
        status = di_fail_memory((size_t)capacity * sizeof *pool->ring, "the reading threads' jobs");
    for (int i = 0; status == DI_OK && i < n_threads; i++) {
        if (pthread_create(&pool->threads[i], NULL, thread_main, pool) != 0)
            status =
                di_fail(DI_ERR_MEMORY, "cannot start reading thread %d of %d", i + 1, n_threads);
        else
            pool->n_threads++;
    }
    if (status == DI_OK)
        *out = pool;
    else
        di_io_pool_destroy(pool);
    return status;
}

void di_io_pool_destroy(di_io_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->is_ending = true;
    pthread_cond_broadcast(&pool->more);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->more);
    pthread_cond_destroy(&pool->idle);
    pthread_mutex_destroy(&pool->lock);
    free(pool->ring);
    free(pool->threads);
    free(pool);
}

int64_t di_io_pool_push(di_io_pool *pool, const di_io_job *jobs, int64_t n)
{
    pthread_mutex_lock(&pool->lock);
    const int64_t taken = di_min_i64(n, pool->capacity - pool->n_waiting);
    for (int64_t i = 0; i < taken; i++)
        pool->ring[(pool->first + pool->n_waiting + i) % pool->capacity] = jobs[i];
    pool->n_waiting += taken;
    if (taken == 1)
        pthread_cond_signal(&pool->more);
    else if (taken > 1)
        pthread_cond_broadcast(&pool->more);
    pthread_mutex_unlock(&pool->lock);
    return taken;
}

void di_io_pool_drain(di_io_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->n_waiting > 0 || pool->n_running > 0)
        pthread_cond_wait(&pool->idle, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
