/* Fixed worker pool with static splits: item i of n always goes to the same part, so a result can
 * depend on the split only if an item reads another's output. Kernels compute items independently,
 * which makes every result the same for any number of threads.
 *
 * A job is published and collected through counters that whoever waits looks at for a while before
 * it sleeps: while the pool is busy a job costs one round trip between cores and no system call. */
#ifndef DI_BASE_THREADS_H
#define DI_BASE_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct di_pool di_pool;

/* Computes items [begin, end). `worker` is 0 .. n_threads-1, for per-worker scratch. */
typedef void (*di_range_fn)(const void *args, int64_t begin, int64_t end, int worker);

typedef struct di_pool_setup {
    int n_threads;   /* >= 1; the calling thread is worker 0, so n_threads - 1 are started */
    const int *cpus; /* [n_threads]: the one that each worker stays on; NULL: wherever */
    bool is_crowded; /* fewer CPUs than threads: whoever waits sleeps at once */
} di_pool_setup;

/* DI_ERR_RUNTIME if a thread may not run on its CPU. */
DI_WARN_UNUSED di_status di_pool_create_on(const di_pool_setup *setup, di_pool **out);
/* Nobody stays anywhere; crowded if this process may run on fewer CPUs. */
DI_WARN_UNUSED di_status di_pool_create(int n_threads, di_pool **out);
void di_pool_destroy(di_pool *pool);
int di_pool_n_threads(const di_pool *pool);

/* From now on the calling thread stays on worker 0's CPU, if the pool has such; for threads of our
 * own only. The pool never does so by itself: the caller's affinity is its own. */
void di_pool_pin_caller(const di_pool *pool);

/* Runs fn over [0, n_items) split evenly; returns when all of it is done. One caller at a time. */
void di_pool_run(di_pool *pool, di_range_fn fn, const void *args, int64_t n_items);

#endif
