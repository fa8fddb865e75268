/* How many drafted tokens a pass verifies, and whose.
 *
 * A pass with n sequences that sample, `n_base` rows without drafts and b rows of drafts gives
 * n + (sum of the survivals of those drafts) tokens in expectation and takes
 * draft(n) + verify(n_base + b). The budget b is the one with most tokens for the time: among b
 * drafts always those with the largest survivals, ties by (sequence, slot). A survival is never
 * above that of the slot before, so a sequence always verifies the beginning of its block.
 *
 * Lossless: which drafts are verified must not depend on the drafts themselves, or else the rule of
 * rejection sampling no longer gives the target's distribution (the rule by matching does not
 * care). So there are two steps: di_planner_plan chooses the budget, from survivals of blocks that
 * are older than those the pass will verify (two steps, when a pass is planned while another runs);
 * di_draft_order_assign shares it out by the survivals of the very blocks, on which only other
 * sequences and later slots depend. di_plan_early_stop is the paper's planner, which does both at
 * once and is lossless because it stops at the first draft that does not pay; it stays as the
 * reference.
 *
 * The guard: a pass that neither drafts nor verifies drafts gives n tokens for verify(n_base). When
 * that is the better deal for a while (hysteresis), drafting stops; survivals of the past tell
 * whether another load would make it pay again, and every now and then a few passes draft again in
 * case they have changed. With costs that are learned from passes (di_cost_table.is_live) a pass
 * now and then verifies nothing, often until the time at its size is known, and the guard waits for
 * it.
 *
 * Nothing allocates after init; deterministic; owned by one thread. Sources: DSpark's paper,
 * Algorithm 1 and section 5.2. */
#ifndef DI_SPEC_PLANNER_H
#define DI_SPEC_PLANNER_H

#include "base/status.h"
#include "spec/confidence.h"
#include "spec/cost_table.h"

/* One sequence that samples in the pass. */
typedef struct di_draft_seq {
    const float *survivals; /* [n_known], di_calibration_survivals; never rising */
    int32_t n_known;        /* the slots beyond it count as certain: a new sequence has 0 */
    int32_t cap;            /* most drafts it may verify; 0: it has none */
} di_draft_seq;

/* The least of what a sequence's verification is bound by, 0 at least. Verifying l drafts may give
 * l + 1 tokens, so with n_left tokens to the end of the sequence l <= n_left - 1. */
static inline int32_t di_draft_cap(int32_t n_drafted, int32_t max_drafts, int64_t n_left)
{
    int64_t cap = n_drafted < max_drafts ? n_drafted : max_drafts;
    if (cap > n_left - 1)
        cap = n_left - 1;
    return cap < 0 ? 0 : (int32_t)cap;
}

/* Scratch to order drafts; one for each thread that does. */
typedef struct di_draft_order {
    int32_t max_seqs;
    uint64_t *keys; /* [max_seqs * DI_SPEC_SLOTS] */
} di_draft_order;

DI_WARN_UNUSED di_status di_draft_order_init(di_draft_order *order, int32_t max_seqs);
void di_draft_order_free(di_draft_order *order);
size_t di_draft_order_bytes(int32_t max_seqs);

/* Shares `budget` out: lengths[r] <= seqs[r].cap drafts of sequence r are verified; together
 * min(budget, sum of the caps). n_seqs <= max_seqs. */
void di_draft_order_assign(di_draft_order *order, const di_draft_seq *seqs, int32_t n_seqs,
                           int32_t budget, int32_t *lengths);

/* One pass to be planned. */
typedef struct di_draft_load {
    const di_draft_seq *seqs;
    int32_t n_seqs;
    int32_t n_base;     /* rows without drafts: one of each sequence above, and prefill's */
    int32_t max_budget; /* rows of drafts that the pass has room for */
} di_draft_load;

typedef struct di_budget_choice {
    int32_t budget;
    double tokens; /* expected */
    double rate;   /* tokens for the time */
} di_budget_choice;

/* The best budget, of equal ones the smallest. n_drafting: sequences that draft in the pass. */
di_budget_choice di_plan_budget(di_draft_order *order, const di_draft_load *load,
                                const di_cost_table *costs, int32_t n_drafting);

/* The paper's Algorithm 1: drafts in order of their survivals, as long as each raises the rate;
 * sets lengths[n_seqs]. Here seqs hold the survivals of the very drafts. */
di_budget_choice di_plan_early_stop(di_draft_order *order, const di_draft_load *load,
                                    const di_cost_table *costs, int32_t n_drafting,
                                    int32_t *lengths);

typedef struct di_planner_options {
    int32_t max_seqs;
    int32_t n_slots; /* of a block: what a sequence with drafts can verify at most */
    bool is_fixed;   /* verify all there is, always: no budget, no guard */
    bool is_guarded; /* false: always draft */
} di_planner_options;

typedef struct di_planner {
    di_planner_options options;
    di_draft_order order;
    di_draft_seq *seqs; /* [max_seqs], scratch */
    /* The guard's. */
    float usual[DI_SPEC_SLOTS]; /* survivals of late */
    bool has_usual, has_gain;
    double gain;      /* of late: rate with drafts / rate without */
    bool is_drafting; /* probes included */
    int32_t n_probe;  /* passes that the running probe has left; 0: no probe runs */
    int32_t n_until_probe, probe_interval;
    uint64_t n_plans, n_plain, n_probes; /* so far; plain: passes that do not draft */
    /* With live costs: passes that verify nothing, so that their time is known. */
    uint64_t measures_at, measure_interval; /* in plans */
    bool was_known;
} di_planner;

typedef struct di_draft_plan {
    di_budget_choice choice; /* the budget to share out in this pass, and what it should give */
    bool is_drafting;        /* the pass drafts the next blocks of its sequences */
    double gain;             /* the guard's estimate: above 1, drafting pays */
} di_draft_plan;

DI_WARN_UNUSED di_status di_planner_init(di_planner *planner, const di_planner_options *options);
void di_planner_free(di_planner *planner);

/* Plans one pass. The survivals in `load` are old ones (see above); caps are those of this pass, 0
 * for sequences that the pass before did not draft for. Everything is verified where less promises
 * no more than the noise of a profile (1%). */
di_draft_plan di_planner_plan(di_planner *planner, const di_draft_load *load,
                              const di_cost_table *costs);

#endif
