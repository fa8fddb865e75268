/* The host's side of speculation: how many drafts the next pass verifies and whether it makes new
 * ones, by what passes cost and what drafts are worth. Plans with what is known when a pass is
 * planned, which is older than the drafts it verifies (spec/planner.h). */
#ifndef DI_ENGINE_SPECULATE_H
#define DI_ENGINE_SPECULATE_H

#include "engine/step.h"
#include "sched/scheduler.h"
#include "spec/planner.h"

/* What a sequence knows of its own drafts. */
typedef struct di_seq_drafts {
    float survivals[DI_MAX_DRAFTS]; /* of the newest block that was collected */
    float older[DI_MAX_DRAFTS];     /* of the block before that */
    int32_t n_survivals, n_older;
    int32_t n_coming; /* drafts that the newest pass may make */
    bool has_grammar; /* may have text that is forced */
    bool has_drafter;
    bool rejects; /* verified by rejection: nothing may be planned by the drafts themselves */
} di_seq_drafts;

/* Times of passes with so many rows, until there are enough for a point. */
enum { DI_PROFILE_BUCKETS = 48, DI_PROFILE_RUNS = 3 };
typedef struct di_pass_times {
    int32_t n;
    double ns[DI_PROFILE_RUNS];
} di_pass_times;

typedef struct di_speculation {
    bool is_on;       /* drafts of any kind */
    bool has_drafter; /* and planner, costs and confidence are used */
    int32_t draft_len;
    di_planner planner;
    di_cost_table costs;
    di_confidence confidence;
    di_pass_times verify_times[DI_PROFILE_BUCKETS], draft_times[DI_PROFILE_BUCKETS];
    di_draft_seq *load;    /* [max_seqs] */
    int32_t n_late;        /* sequences of late_draft_ns; 0 = none */
    int64_t late_draft_ns; /* a time of drafting that is not learned from yet */
    bool writes_taps; /* it writes the drafter's windows, which a pass of prefills does anyway */
    bool is_drafting; /* the pass that is planned makes new drafts */
    int64_t n_passes; /* planned */
} di_speculation;

DI_WARN_UNUSED di_status di_speculation_init(const di_runner *runner, di_speculation *out);
void di_speculation_free(di_speculation *s);

/* Before a pass is scheduled: sets what of it may be drafts. */
void di_speculation_plan(di_speculation *s, di_scheduler *scheduler);

/* Measures passes and drafts on the runner, which nobody else uses yet, for a fraction of a second
 * at most; a model that takes longer is left to learn as it runs. */
void di_speculation_profile(di_speculation *s, di_runner *runner);
/* A pass of n_rows, or drafts of n_seqs sequences, took so long. */
void di_speculation_learn_verify(di_speculation *s, int32_t n_rows, int64_t ns);
void di_speculation_learn_draft(di_speculation *s, int32_t n_seqs, int64_t ns);

/* A pass was collected, or a decode of it. */
void di_speculation_observe_pass(di_speculation *s, const di_step *step);
void di_speculation_observe_job(di_speculation *s, di_seq_drafts *drafts, const di_step_job *job);

#endif
