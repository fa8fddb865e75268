/* The engine's inside. `lock` guards what other threads touch: the waiting and finished lists,
 * cancel marks and the outbox. `step_lock` is held during a step and guards the rest. step_lock is
 * taken first. */
#ifndef DI_ENGINE_ENGINE_H
#define DI_ENGINE_ENGINE_H

#include <pthread.h>

#include "engine/outbox.h"
#include "engine/seq.h"

typedef struct di_seq_list {
    di_seq *first, *last;
} di_seq_list;

struct di_engine {
    di_runner runner;
    di_sampler_workspace sampler;
    di_seq *running; /* one sequence at a time, first come first served */

    pthread_mutex_t lock, step_lock;
    di_seq_list waiting, finished;
    di_request_id last_id;
    di_request_id *cancelled; /* ids to cancel, in order of arrival */
    size_t n_cancelled, cancelled_cap;
    di_outbox outbox;
};

void di_seq_list_push(di_seq_list *list, di_seq *seq);
/* Removes and returns the sequence of an id; NULL if it is not there. */
di_seq *di_seq_list_take(di_seq_list *list, di_request_id id);

/* commit.c: what a step's results do to a sequence. */

/* Adds a sampled token: text, stop conditions, finish reason. */
DI_WARN_UNUSED di_status di_engine_commit(di_engine *engine, di_seq *seq, int32_t token_id,
                                          const di_position_logprobs *logprobs);
/* Ends the running sequence and queues its last output. */
void di_engine_finish(di_engine *engine, di_seq *seq, di_finish_reason reason, di_status status);

#endif
