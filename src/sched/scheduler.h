/* Which tokens of which sequences the next pass computes. Pure bookkeeping: knows KV blocks and
 * token counts, but no model, no device and no clock of its own.
 *
 * A sequence is waiting (no KV places), running, or ended (unknown to the scheduler). Its tokens
 * are known, or in flight: a pass that was scheduled will sample them. What is left to compute is
 * n_tokens - kv.len; a running sequence whose tokens are all computed waits for a token in flight.
 *
 * A decode may take drafts along: tokens that are guessed, and verified by the pass. How many of
 * them were right only the pass knows. Until the owner settles it, n_tokens and kv.len are what
 * they can be at most; n_uncertain of them may turn out not to be.
 *
 * One step: running sequences with one token left (decode) come first, in order of (priority,
 * arrival). What is left of the token budget goes to prefills, running and waiting: shared out so
 * that short prompts pass a long one and the long one still moves. A waiting sequence is admitted
 * if the pools hold all its present tokens beside those of all running ones; a small one, if they
 * hold its own, as long as no running one waits for blocks. If a running sequence
 * finds no block, the last one after it in order is preempted: its blocks are given back and it
 * computes its tokens again later. A sequence preempted max_preemptions times is pinned: never
 * again, and at most one pinned one runs at a time; it may preempt anyone, and fits the pools
 * alone, so it gets through. A running sequence that finds neither a block nor a victim waits with
 * what it has. */
#ifndef DI_SCHED_SCHEDULER_H
#define DI_SCHED_SCHEDULER_H

#include "kv/prefix_cache.h"

typedef struct di_sched_seq di_sched_seq;
/* What every step looks at stands together: with hundreds of sequences, cache lines are the cost.
 */
struct di_sched_seq {
    /* Set by the owner before di_scheduler_add. */
    int priority;      /* lower is first */
    int32_t n_samples; /* places it takes among the running ones: itself and its forks to come */
    uint64_t order;    /* arrival, unique */
    int64_t max_chunk; /* most prompt tokens of one pass; 0 = no limit */
    bool is_cold;      /* takes nothing from the prefix cache (prompt logprobs need every row) */
    int64_t decoder_start; /* as in di_batch_seq */
    int64_t n_prompt;
    int64_t max_len;       /* no token is sampled beyond this length */
    const int32_t *tokens; /* the known ones; may move between steps */
    int64_t n_known;       /* tokens known; raised by the owner as they are collected */
    int64_t n_tokens;      /* known and in flight, at most (di_scheduler_settle) */
    int32_t most_drafts;   /* that a pass may verify; 0 = none */

    /* The scheduler's. */
    di_sched_seq *prev, *next; /* in waiting or running, in order */
    uint64_t planned_step;     /* the last step it is part of */
    bool is_waiting, is_running, is_pinned;
    bool has_kv;
    int32_t
        n_in_flight;  /* passes that hold it and have not been collected; the owner counts down */
    di_kv_seq kv;     /* kv.len tokens have been given to passes */
    int64_t n_cached; /* tokens its last admission took from the prefix cache */
    int32_t n_preemptions;
};

/* One sequence's part of a pass: tokens first .. first + n - 1. */
typedef struct di_sched_item {
    di_sched_seq *seq;
    int64_t first, n; /* of a decode n is 1, and first where it stands at most */
    bool decodes;     /* the token is one that was sampled, of which the device knows all */
    int32_t n_drafts; /* most drafts behind it, which have their places: that many more tokens are
                         in flight, at most; the owner settles how many came of it */
    bool samples; /* reaches the last token: the next one is sampled and is in flight from now on */
    bool fills_block;   /* completes blocks that the prefix cache has not been told of */
    int32_t n_to_begin; /* samples that wait for the end of its prompt */
} di_sched_item;

typedef struct di_sched_limits {
    int64_t max_step_tokens;
    int32_t max_seqs; /* running at once */
    int32_t max_preemptions;
    int32_t most_uncertain; /* tokens of one sequence at any time: drafts of all passes in flight */
} di_sched_limits;

typedef struct di_sched_list {
    di_sched_seq *first, *last;
    int32_t n;
} di_sched_list;

typedef struct di_sched_stats {
    uint64_t n_preemptions;
    uint64_t admitted_tokens; /* of admissions, re-admissions after a preemption included */
    uint64_t cached_tokens;   /* of them not computed again */
    uint64_t replayed_tokens; /* computed again only to rebuild a window */
} di_sched_stats;

typedef struct di_scheduler {
    di_kv_cache *kv;
    di_prefix_cache *prefix;
    di_sched_limits limits;
    di_sched_list waiting, running; /* by (priority, order) */
    int32_t n_reserved;             /* places of running sequences, their samples included */
    int32_t most_drafts;            /* of a sequence in the next pass; set by the owner */
    int64_t most_draft_rows;        /* of the next pass; set by the owner */
    int32_t n_draft_rows;           /* planned for the pass that was scheduled last */
    uint64_t step;
    uint64_t short_step;    /* the last step in which a running sequence waited for blocks */
    di_sched_seq **scratch; /* [max_seqs] */
    di_sched_stats stats;
} di_scheduler;

DI_WARN_UNUSED di_status di_scheduler_init(di_scheduler *scheduler, di_kv_cache *kv,
                                           di_prefix_cache *prefix, const di_sched_limits *limits);
void di_scheduler_free(di_scheduler *scheduler);

/* Queues a sequence. Its tokens must fit the pools when nothing else runs. */
void di_scheduler_add(di_scheduler *scheduler, di_sched_seq *seq);
/* A further sample of a running sequence whose prompt has just been given to a pass: shares its
 * blocks and runs. */
DI_WARN_UNUSED di_status di_scheduler_fork(di_scheduler *scheduler, di_sched_seq *from,
                                           di_sched_seq *to);
/* Takes a sequence out, waiting or running, and gives its blocks back (after telling the prefix
 * cache of them). Passes in flight may still write to the blocks: they run before any pass that
 * gets the blocks anew. Fine for a sequence that is neither. */
void di_scheduler_remove(di_scheduler *scheduler, di_sched_seq *seq);

/* A pass that verified drafts has sampled n_tokens of the 1 + n_drafts tokens that its item allowed
 * for; the sequence stands that much further back than it may have. */
void di_scheduler_settle(di_sched_seq *seq, int32_t n_drafts, int32_t n_tokens);

/* Plans one pass: items [at least max_step_tokens long], returns how many. Counts up n_in_flight of
 * the items' sequences. 0 = nothing can run now. */
int32_t di_scheduler_next(di_scheduler *scheduler, di_sched_item *items);

/* The scheduler's own invariants; for tests. */
bool di_scheduler_is_sound(const di_scheduler *scheduler);

#endif
