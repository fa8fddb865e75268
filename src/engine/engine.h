/* The engine's inside. `lock` guards what other threads touch: the inbox, cancel marks, finished
 * requests, the outbox and the published statistics. `step_lock` is held during a step and guards
 * the rest. step_lock is taken first. */
#ifndef DI_ENGINE_ENGINE_H
#define DI_ENGINE_ENGINE_H

#include <pthread.h>

#include "engine/executor.h"
#include "engine/outbox.h"
#include "engine/seq.h"

/* Passes in flight: with asynchronous scheduling one runs while the next is scheduled. */
enum { DI_MAX_IN_FLIGHT = 2 };

typedef struct di_entry_list {
    di_entry *first, *last;
} di_entry_list;

/* Nanoseconds that only go up. */
typedef struct di_clock {
    int64_t (*now_ns)(void *user);
    void *user;
} di_clock;

static inline int64_t di_clock_now(const di_clock *clock)
{
    return clock->now_ns(clock->user);
}

/* Doubly linked: requests leave it in any order. */
typedef struct di_active_list {
    di_entry *first, *last;
} di_active_list;

struct di_engine {
    di_clock clock; /* of deadlines; tests may put another one in before the first request */
    di_runner runner;
    di_prefix_cache prefix;
    di_scheduler scheduler;
    di_executor executor;
    di_slot_list slots;
    di_speculation speculation;
    di_active_list active; /* requests with samples that have not ended or are in flight */
    int32_t n_deadlines;   /* active requests that have one */
    uint64_t last_order;
    di_sched_item *items;                 /* [max_step_tokens] */
    di_step *in_flight[DI_MAX_IN_FLIGHT]; /* oldest first */
    int n_in_flight, max_in_flight;
    di_step *free_steps;
    int64_t commit_ns;        /* when the step that is committed was collected */
    int64_t last_finished_ns; /* of the device; 0 = it has been without work */
    di_engine_stats stats;
    di_buf piece;                   /* of text, while a token is committed */
    di_outbox pending;              /* outputs of this step */
    di_entry_list pending_finished; /* requests that ended in this step */

    pthread_mutex_t lock, step_lock;
    di_entry_list inbox, finished;
    di_request_id last_id;
    di_request_id *cancelled; /* ids to cancel */
    size_t n_cancelled, cancelled_cap;
    di_outbox outbox;
    di_engine_stats published;
};

void di_entry_list_push(di_entry_list *list, di_entry *entry);
void di_active_push(di_active_list *list, di_entry *entry);
/* NULL if there is none of this id. */
di_entry *di_active_find(const di_active_list *list, di_request_id id);
void di_active_remove(di_active_list *list, di_entry *entry);
void di_entry_list_remove(di_entry_list *list, di_entry *entry);
/* NULL if there is none of this id. */
di_entry *di_entry_list_find(const di_entry_list *list, di_request_id id);

/* The same with another device, for tests; takes the executor over in any case. */
DI_WARN_UNUSED di_status di_engine_create_with(di_model *model, const di_options *options,
                                               const di_executor *executor, di_engine **out);

/* speculate_stats.c: what of the statistics is the drafter's. */
void di_speculation_stats(const di_speculation *s, di_engine_stats *out);

/* step_build.c: makes a pass of the scheduler's items. Samples that cannot take part end here. */
DI_WARN_UNUSED di_status di_step_build(di_engine *engine, int32_t n_items, di_step *step);

/* commit.c: what the results of a pass do. */
void di_step_commit(di_engine *engine, di_step *step);
/* Hands this step's outputs, ended requests and statistics to the other threads. */
void di_engine_publish(di_engine *engine);
/* Ends a sample and queues its last output. */
void di_seq_finish(di_engine *engine, di_seq *seq, di_finish_reason reason, di_status status);
/* A pass failed: ends the active sequences that are marked lost, with this thread's error, and
 * forgets all prefixes, since the entries of some will never be computed. */
void di_lost_fail(di_engine *engine, di_status status);
/* Ends all samples of a request that still run. */
void di_entry_finish(di_engine *engine, di_entry *entry, di_finish_reason reason, di_status status);
/* Lets go of a request whose samples have ended and are not in flight; it may be gone afterwards.
 */
void di_entry_settle(di_engine *engine, di_entry *entry);

#endif
