#include "spec/planner.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"

/* ------------------------------------------------------------------------- drafts in order */

/* A key is the complement of the survival's bits over the draft's number (sequence, slot): rising
 * keys are falling survivals, equal ones by number. */
enum { SLOT_BITS = 4 };
_Static_assert(DI_SPEC_SLOTS == 1 << SLOT_BITS, "a slot fits its bits");

di_status di_draft_order_init(di_draft_order *order, int32_t max_seqs)
{
    const size_t bytes = di_draft_order_bytes(max_seqs);
    assert(max_seqs >= 1 && max_seqs <= INT32_MAX >> SLOT_BITS);
    *order = (di_draft_order){.max_seqs = max_seqs, .keys = malloc(bytes)};
    return order->keys ? DI_OK : di_fail_memory(bytes, "the order of drafts");
}

void di_draft_order_free(di_draft_order *order)
{
    free(order->keys);
    *order = (di_draft_order){0};
}

size_t di_draft_order_bytes(int32_t max_seqs)
{
    return (size_t)max_seqs * DI_SPEC_SLOTS * sizeof(uint64_t);
}

static uint64_t key_of(float survival, int32_t seq, int32_t slot)
{
    return (uint64_t)~di_f32_bits(survival) << 32 | (uint32_t)(seq << SLOT_BITS | slot);
}

static float survival_of(uint64_t key)
{
    return di_f32_from_bits(~(uint32_t)(key >> 32));
}

static int32_t seq_of(uint64_t key)
{
    return (int32_t)((uint32_t)key >> SLOT_BITS);
}

static void sift_down(uint64_t *heap, int32_t root, int32_t n)
{
    const uint64_t value = heap[root];
    for (int32_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && heap[child + 1] > heap[child])
            child++;
        if (heap[child] <= value)
            break;
        heap[root] = heap[child];
    }
    heap[root] = value;
}

static void sort(uint64_t *keys, int32_t n)
{
    for (int32_t i = n / 2 - 1; i >= 0; i--)
        sift_down(keys, i, n);
    for (int32_t last = n - 1; last > 0; last--) {
        const uint64_t largest = keys[0];
        keys[0] = keys[last];
        keys[last] = largest;
        sift_down(keys, 0, last);
    }
}

/* All drafts that may be verified, in order; returns how many. */
static int32_t fill(di_draft_order *order, const di_draft_seq *seqs, int32_t n_seqs)
{
    int32_t n = 0;
    assert(n_seqs <= order->max_seqs);
    for (int32_t r = 0; r < n_seqs; r++) {
        assert(seqs[r].cap >= 0 && seqs[r].cap <= DI_SPEC_SLOTS);
        float survival = 1.0f;
        for (int32_t j = 0; j < seqs[r].cap; j++) {
            /* Whatever comes in: in [0, 1] (NaN: 0) and never above the slot before. */
            if (j < seqs[r].n_known && !(seqs[r].survivals[j] >= survival))
                survival = seqs[r].survivals[j] > 0.0f ? seqs[r].survivals[j] : 0.0f;
            order->keys[n++] = key_of(survival, r, j);
        }
    }
    sort(order->keys, n);
    return n;
}

static void count_lengths(const di_draft_order *order, int32_t budget, int32_t n_seqs,
                          int32_t *lengths)
{
    memset(lengths, 0, (size_t)n_seqs * sizeof *lengths);
    for (int32_t i = 0; i < budget; i++)
        lengths[seq_of(order->keys[i])]++;
}

void di_draft_order_assign(di_draft_order *order, const di_draft_seq *seqs, int32_t n_seqs,
                           int32_t budget, int32_t *lengths)
{
    const int32_t n = fill(order, seqs, n_seqs);
    count_lengths(order, budget < n ? budget : n, n_seqs, lengths);
}

/* --------------------------------------------------------------------------------- budgets */

static double rate_of(double tokens, const di_draft_load *load, const di_cost_table *costs,
                      int32_t n_drafting, int32_t budget)
{
    return tokens / (di_cost_curve_at(&costs->draft, n_drafting) +
                     di_cost_curve_at(&costs->verify, load->n_base + budget));
}

typedef struct budget_walk {
    di_budget_choice none, best, last;
} budget_walk;

/* Takes the drafts in order. */
static budget_walk walk(di_draft_order *order, const di_draft_load *load,
                        const di_cost_table *costs, int32_t n_drafting, bool stops_early)
{
    const int32_t n_drafts = fill(order, load->seqs, load->n_seqs);
    const int32_t most = n_drafts < load->max_budget ? n_drafts : load->max_budget;
    double tokens = load->n_seqs;
    const di_budget_choice none = {0, tokens, rate_of(tokens, load, costs, n_drafting, 0)};
    budget_walk w = {none, none, none};
    for (int32_t b = 1; b <= most; b++) {
        tokens += (double)survival_of(order->keys[b - 1]);
        w.last = (di_budget_choice){b, tokens, rate_of(tokens, load, costs, n_drafting, b)};
        if (w.last.rate > w.best.rate)
            w.best = w.last;
        else if (stops_early)
            break;
    }
    return w;
}

di_budget_choice di_plan_budget(di_draft_order *order, const di_draft_load *load,
                                const di_cost_table *costs, int32_t n_drafting)
{
    return walk(order, load, costs, n_drafting, false).best;
}

di_budget_choice di_plan_early_stop(di_draft_order *order, const di_draft_load *load,
                                    const di_cost_table *costs, int32_t n_drafting,
                                    int32_t *lengths)
{
    const di_budget_choice best = walk(order, load, costs, n_drafting, true).best;
    count_lengths(order, best.budget, load->n_seqs, lengths);
    return best;
}

/* --------------------------------------------------------------------------------- planner */

/* The guard in passes: how much a new gain counts, when it changes its mind, how it probes. A probe
 * of 8 passes verifies blocks in about 6 of them. */
enum { PROBE_PASSES = 8, FIRST_PROBE_AFTER = 128, LAST_PROBE_AFTER = 1024 };
/* Passes that verify nothing for the sake of live costs: after 1, 2, 4, ... plans until the cost is
 * known, and then rarely. */
enum { MEASURE_AFTER = 256 };
static const double probe_costs = 1.25; /* a pass of a probe against one without drafts */
static const double gain_follows = 1.0 / 8.0;
static const float usual_follows = 1.0f / 8.0f, usual_follows_in_probe = 1.0f / 2.0f;
static const double stops_below = 0.99, starts_above = 1.02;
/* Verifying less than everything must promise this much more: profiles are not better than that,
 * and a draft left out is a loss for certain. */
static const double profile_noise = 0.01;

di_status di_planner_init(di_planner *planner, const di_planner_options *options)
{
    const size_t bytes = (size_t)options->max_seqs * sizeof *planner->seqs;
    assert(options->n_slots >= 1 && options->n_slots <= DI_SPEC_SLOTS);
    di_planner fresh = {
        .options = *options,
        .is_drafting = true,
        .probe_interval = FIRST_PROBE_AFTER,
        .measure_interval = 1,
    };
    DI_TRY(di_draft_order_init(&fresh.order, options->max_seqs));
    fresh.seqs = malloc(bytes);
    if (!fresh.seqs) {
        di_draft_order_free(&fresh.order);
        return di_fail_memory(bytes, "the planner");
    }
    *planner = fresh;
    return DI_OK;
}

void di_planner_free(di_planner *planner)
{
    di_draft_order_free(&planner->order);
    free(planner->seqs);
    *planner = (di_planner){0};
}

/* Means over the sequences that are known, slot by slot. */
static void learn_usual(di_planner *planner, const di_draft_load *load)
{
    const float part = planner->n_probe > 0 ? usual_follows_in_probe : usual_follows;
    for (int32_t j = 0; j < planner->options.n_slots; j++) {
        float sum = 0.0f;
        int32_t n = 0;
        for (int32_t r = 0; r < load->n_seqs; r++) {
            const di_draft_seq *seq = &load->seqs[r];
            if (j >= seq->n_known || !(seq->survivals[j] >= 0.0f))
                continue;
            sum += seq->survivals[j];
            n++;
        }
        if (n == 0)
            return;
        const float mean = sum / (float)n;
        planner->usual[j] += (planner->has_usual ? part : 1.0f) * (mean - planner->usual[j]);
    }
    planner->has_usual = load->n_seqs > 0;
}

/* What drafting gives in the long run against none: every sequence with a whole block, the usual
 * survivals for those that are not known. */
static double weigh_drafting(di_planner *planner, const di_draft_load *load,
                             const di_cost_table *costs)
{
    di_draft_load steady = *load;
    for (int32_t r = 0; r < load->n_seqs; r++) {
        const di_draft_seq *seq = &load->seqs[r];
        const bool is_known = seq->n_known >= planner->options.n_slots;
        planner->seqs[r] =
            (di_draft_seq){.survivals = is_known ? seq->survivals : planner->usual,
                           .n_known = is_known || planner->has_usual ? planner->options.n_slots : 0,
                           .cap = planner->options.n_slots};
    }
    steady.seqs = planner->seqs;
    const double n = load->n_seqs;
    return di_plan_budget(&planner->order, &steady, costs, load->n_seqs).rate /
           rate_of(n, load, costs, 0, 0);
}

static void start_drafting(di_planner *planner)
{
    planner->is_drafting = true;
    planner->n_probe = 0;
    planner->probe_interval = FIRST_PROBE_AFTER;
}

static void stop_drafting(di_planner *planner, int32_t probe_interval)
{
    planner->is_drafting = false;
    planner->n_probe = 0;
    planner->probe_interval = probe_interval < LAST_PROBE_AFTER ? probe_interval : LAST_PROBE_AFTER;
    planner->n_until_probe = planner->probe_interval;
}

/* Whether this pass drafts, by the gain. */
static void guard(di_planner *planner)
{
    if (planner->n_probe > 0) {
        if (--planner->n_probe > 0)
            return;
        if (planner->gain > 1.0)
            start_drafting(planner);
        else
            stop_drafting(planner, 2 * planner->probe_interval);
    } else if (planner->is_drafting) {
        if (planner->gain < stops_below)
            stop_drafting(planner, planner->probe_interval);
    } else if (planner->gain > starts_above) {
        start_drafting(planner);
    } else if (--planner->n_until_probe == 0) {
        planner->is_drafting = true;
        planner->n_probe = PROBE_PASSES;
        planner->n_probes++;
    }
}

/* A probe that verified nothing would teach nothing: up to a block, as long as that takes little
 * more time, and one draft at least. */
static int32_t probed_budget(const di_planner *planner, const di_draft_load *load,
                             const di_cost_table *costs, int32_t budget, int32_t most)
{
    const double bearable = probe_costs * di_cost_curve_at(&costs->verify, load->n_base);
    const int32_t wanted = most < planner->options.n_slots ? most : planner->options.n_slots;
    while (budget < wanted &&
           (budget == 0 || di_cost_curve_at(&costs->verify, load->n_base + budget + 1) <= bearable))
        budget++;
    return budget;
}

/* Whether this pass verifies nothing, so that the owner learns what that costs. */
static bool measures(di_planner *planner, const di_draft_load *load, const di_cost_table *costs)
{
    if (!costs->is_live || planner->options.is_fixed)
        return false;
    const bool is_known = di_cost_curve_knows(&costs->verify, load->n_base);
    if (is_known != planner->was_known) {
        planner->was_known = is_known;
        planner->measure_interval = is_known ? MEASURE_AFTER : 1;
        planner->measures_at = planner->n_plans + (is_known ? MEASURE_AFTER : 0);
    }
    if (planner->n_plans < planner->measures_at)
        return false;
    if (planner->measure_interval < MEASURE_AFTER)
        planner->measure_interval *= 2;
    planner->measures_at = planner->n_plans + planner->measure_interval;
    return true;
}

static di_budget_choice spend(di_planner *planner, const di_draft_load *load,
                              const di_cost_table *costs, int32_t n_drafting)
{
    const budget_walk w = walk(&planner->order, load, costs, n_drafting, false);
    di_budget_choice choice = w.best;
    if (planner->options.is_fixed || choice.rate * (1.0 - profile_noise) <= w.last.rate)
        choice = w.last;
    if (measures(planner, load, costs))
        return w.none;
    if (planner->n_probe > 0)
        choice.budget = probed_budget(planner, load, costs, choice.budget, w.last.budget);
    return choice;
}

di_draft_plan di_planner_plan(di_planner *planner, const di_draft_load *load,
                              const di_cost_table *costs)
{
    const di_planner_options *options = &planner->options;
    planner->n_plans++;
    if (load->n_seqs == 0)
        return (di_draft_plan){.is_drafting = planner->is_drafting, .gain = planner->gain};
    learn_usual(planner, load);
    if (!costs->is_live || di_cost_curve_knows(&costs->verify, load->n_base)) {
        const double gain = weigh_drafting(planner, load, costs);
        planner->gain += (planner->has_gain ? gain_follows : 1.0) * (gain - planner->gain);
        planner->has_gain = true;
        if (options->is_guarded && !options->is_fixed)
            guard(planner);
    }
    const int32_t n_drafting = planner->is_drafting ? load->n_seqs : 0;
    planner->n_plain += !planner->is_drafting;
    return (di_draft_plan){.choice = spend(planner, load, costs, n_drafting),
                           .is_drafting = planner->is_drafting,
                           .gain = planner->gain};
}
