#include "engine/speculate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "engine/seq.h"

/* Passes, and so tokens of each sequence, before a probe whose window entries are written. */
enum { PROBED_TOKENS = 48 };

_Static_assert((int)DI_MAX_DRAFTS <= (int)DI_SPEC_SLOTS, "slots of a planner");
_Static_assert((int)DI_MAX_DRAFTS == (int)DI_OPTION_MOST_DRAFTS, "the option's limit");

di_status di_speculation_init(const di_runner *runner, di_speculation *out)
{
    const di_effective_options *o = &runner->options;
    di_speculation s = {
        .is_on = strcmp(o->speculation, "off") != 0,
        .has_drafter = runner->n_draft_slots > 0,
        .draft_len = o->draft_len,
    };
    const di_planner_options planner = {
        .max_seqs = o->max_seqs,
        .n_slots = s.draft_len,
        .is_fixed = !o->has_varlen,
        .is_guarded = o->has_varlen,
    };
    s.load = calloc((size_t)o->max_seqs, sizeof *s.load);
    if (!s.load)
        return di_fail_memory(o->max_seqs * sizeof *s.load, "the speculation planner");
    const di_status status = di_planner_init(&s.planner, &planner);
    if (status != DI_OK) {
        free(s.load);
        return status;
    }
    di_cost_table_init(&s.costs);
    s.costs.is_live = true;
    di_confidence_init(&s.confidence, s.draft_len);
    *out = s;
    return DI_OK;
}

void di_speculation_free(di_speculation *s)
{
    di_planner_free(&s->planner);
    free(s->load);
    *s = (di_speculation){.is_on = false};
}

/* ------------------------------------------------------------------------------- planning */

/* Decodes of the next pass, most likely: running sequences of which only sampled tokens are left.
 */
static int32_t list_decodes(di_speculation *s, const di_scheduler *scheduler, int64_t *n_forced)
{
    int32_t n = 0;
    for (di_sched_seq *seq = scheduler->running.first; seq; seq = seq->next) {
        if (seq->n_tokens - seq->kv.len != 1 || seq->kv.len < seq->n_prompt)
            continue;
        const di_seq_drafts *d = &di_seq_of(seq)->drafts;
        const int64_t n_left = seq->max_len - seq->n_tokens;
        const int32_t cap = di_draft_cap(d->n_coming, s->draft_len, n_left);
        *n_forced += d->has_grammar ? cap : 0;
        /* With rejection, of a block older than the one that the pass verifies; that one was made
         * by the newest pass of the sequence, and is known if no pass is in flight. */
        const bool is_too_new = d->rejects && seq->n_in_flight == 0;
        s->load[n++] = (di_draft_seq){
            .survivals = is_too_new ? d->older : d->survivals,
            .n_known = is_too_new ? d->n_older : d->n_survivals,
            .cap = d->has_drafter ? cap : 0,
        };
    }
    return n;
}

/* While nothing is drafted the drafter's windows cost for nothing, but for the tokens before the
 * next probe, which must not begin with empty ones. */
static bool needs_taps(const di_speculation *s)
{
    return s->has_drafter && (s->is_drafting || s->planner.n_until_probe <= PROBED_TOKENS);
}

void di_speculation_plan(di_speculation *s, di_scheduler *scheduler)
{
    scheduler->most_drafts = s->is_on ? s->draft_len : 0;
    scheduler->most_draft_rows = 0;
    s->is_drafting = s->is_on && s->has_drafter;
    if (!s->is_on)
        return;
    int64_t n_forced = 0, budget = 0;
    const int32_t n = list_decodes(s, scheduler, &n_forced);
    if (s->has_drafter && n > 0) {
        const int64_t room = di_max_i64(0, scheduler->limits.max_step_tokens - n);
        const di_draft_load load = {
            .seqs = s->load,
            .n_seqs = n,
            .n_base = n,
            .max_budget = (int32_t)di_min_i64(room, (int64_t)n * s->draft_len),
        };
        const di_draft_plan plan = di_planner_plan(&s->planner, &load, &s->costs);
        budget = plan.choice.budget;
        s->is_drafting = plan.is_drafting;
    }
    scheduler->most_draft_rows = budget + n_forced;
    s->writes_taps = needs_taps(s);
}

/* ------------------------------------------------------------------------------- learning */

/* Counts that share a point: 1 to 8, then four to an octave. Returns the bucket; *count stands for
 * it. */
static int32_t bucket_of(int32_t n, int32_t *count)
{
    int32_t bucket = n - 1, step = 2, upper = 8;
    *count = n;
    if (n <= 8)
        return bucket;
    for (bucket = 7; upper < n; step *= upper % (8 * step) == 0 ? 2 : 1) {
        upper += step;
        bucket++;
    }
    *count = upper;
    return bucket < DI_PROFILE_BUCKETS ? bucket : DI_PROFILE_BUCKETS - 1;
}

static void learn(di_cost_curve *curve, di_pass_times *times, int32_t n, int64_t ns)
{
    int32_t count;
    di_pass_times *t = &times[bucket_of(n, &count)];
    if (t->n == DI_PROFILE_RUNS) {
        di_cost_curve_observe(curve, count, (double)ns);
        return;
    }
    t->ns[t->n++] = (double)ns;
    if (t->n == DI_PROFILE_RUNS) /* cannot fail: times are above 0, and the buckets fit */
        (void)!di_cost_curve_add(curve, count, t->ns, t->n);
}

void di_speculation_learn_verify(di_speculation *s, int32_t n_rows, int64_t ns)
{
    learn(&s->costs.verify, s->verify_times, n_rows, ns);
}

void di_speculation_learn_draft(di_speculation *s, int32_t n_seqs, int64_t ns)
{
    learn(&s->costs.draft, s->draft_times, n_seqs, ns);
}

/* Passes of decodes alone. */
void di_speculation_observe_pass(di_speculation *s, const di_step *step)
{
    if (!s->has_drafter || step->status != DI_OK)
        return;
    for (int32_t i = 0; i < step->n_seqs; i++)
        if (!step->seqs[i].decodes)
            return;
    if (step->forward_ns > 0)
        di_speculation_learn_verify(s, step->made.batch.n_rows, step->forward_ns);
    /* A pass late: a block that ends early (with the end of the text) takes less time, and the plan
     * by which it is verified must not know. */
    if (s->n_late > 0)
        di_speculation_learn_draft(s, s->n_late, s->late_draft_ns);
    s->n_late = step->draft_ns > 0 ? step->n_draft_seqs : 0;
    s->late_draft_ns = step->draft_ns;
}

/* Drafts of the drafter that were verified: those before the first that a grammar forced, and none
 * behind the end of the output. */
static int32_t n_observed(const di_step_job *job)
{
    int32_t n = job->n_verified;
    if (job->has_ended && n > job->n_tokens - 1)
        n = job->n_tokens - 1;
    for (int32_t i = 0; i < n; i++)
        if (isinf(job->verified[i]))
            return 0;
    return n;
}

void di_speculation_observe_job(di_speculation *s, di_seq_drafts *drafts, const di_step_job *job)
{
    if (!s->has_drafter)
        return;
    const int32_t n = n_observed(job);
    const int32_t n_accepted = job->n_tokens - 1 < n ? job->n_tokens - 1 : n;
    if (n > 0 && n_accepted >= 0)
        di_confidence_observe(&s->confidence, job->verified, n, n_accepted);
    if (job->n_drafted == 0)
        return; /* what is known stays */
    memcpy(drafts->older, drafts->survivals, sizeof drafts->older);
    drafts->n_older = drafts->n_survivals;
    const int32_t n_drafted = job->n_drafted < s->draft_len ? job->n_drafted : s->draft_len;
    di_calibration_survivals(&s->confidence.calibration, job->drafted, n_drafted,
                             drafts->survivals);
    for (int32_t i = n_drafted; i < s->draft_len;
         i++) /* cut short: another time it may be longer */
        drafts->survivals[i] = drafts->survivals[n_drafted - 1];
    drafts->n_survivals = s->draft_len;
}
