/* Runs steps in order: the device queue. On the CPU it is a worker thread that does the forward
 * pass and the sampling; tests put a device without a model in its place. */
#ifndef DI_ENGINE_EXECUTOR_H
#define DI_ENGINE_EXECUTOR_H

#include "engine/step.h"

typedef struct di_executor {
    void *self;
    /* Takes a step; it may start at once or later. The step stays the caller's to keep alive. */
    void (*launch)(void *self, di_step *step);
    /* Waits until the step, the oldest not collected, has run. */
    void (*collect)(void *self, di_step *step);
    void (*destroy)(void *self); /* nothing may be in flight */
} di_executor;

/* has_thread: launch returns at once; else it runs the step. The runner is used by the executor
 * alone, but for its model, options and KV bookkeeping. */
DI_WARN_UNUSED di_status di_cpu_executor_create(di_runner *runner, bool has_thread,
                                                di_executor *out);

#endif
