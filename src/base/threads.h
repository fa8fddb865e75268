/* Fixed worker pool with static splits: item i of n always goes to the same part, so a result can
 * depend on the split only if an item reads another's output. Kernels compute items independently,
 * which makes every result the same for any number of threads. */
#ifndef DI_BASE_THREADS_H
#define DI_BASE_THREADS_H

#include <stdint.h>

#include "base/status.h"

typedef struct di_pool di_pool;

/* Computes items [begin, end). `worker` is 0 .. n_threads-1, for per-worker scratch. */
typedef void (*di_range_fn)(const void *args, int64_t begin, int64_t end, int worker);

/* n_threads >= 1; the calling thread is worker 0, so n_threads - 1 threads are started. */
DI_WARN_UNUSED di_status di_pool_create(int n_threads, di_pool **out);
void di_pool_destroy(di_pool *pool);
int di_pool_n_threads(const di_pool *pool);
/* Runs fn over [0, n_items) split evenly; returns when all of it is done. One caller at a time. */
void di_pool_run(di_pool *pool, di_range_fn fn, const void *args, int64_t n_items);

#endif
