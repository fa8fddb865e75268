/* A few threads that read weights, or ask the system to, while a pass computes. Jobs start in the
 * order they came. */
#ifndef DI_WEIGHTS_IO_POOL_H
#define DI_WEIGHTS_IO_POOL_H

#include <stdint.h>

#include "base/status.h"

typedef struct di_io_pool di_io_pool;

typedef struct di_io_job {
    void (*fn)(void *user, int64_t a, int64_t b);
    void *user;
    int64_t a, b;
} di_io_job;

/* Room for `capacity` jobs that wait. */
DI_WARN_UNUSED di_status di_io_pool_create(int n_threads, int64_t capacity, di_io_pool **out);
/* Jobs that have not started are dropped; returns when the others are done. NULL is fine. */
void di_io_pool_destroy(di_io_pool *pool);
/* Takes the jobs that there is room for, from the first on; returns their number. */
int64_t di_io_pool_push(di_io_pool *pool, const di_io_job *jobs, int64_t n);
/* Returns when no job waits or runs. */
void di_io_pool_drain(di_io_pool *pool);

#endif
