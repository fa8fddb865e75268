/* spec/planner.h: vectors, brute force, and the guard. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include "random.h"
#include "spec/planner.h"

enum { MOST_SEQS = 64, SLOTS = 5 };

/* Costs 1 / rate at 1 .. n rows; drafting is free. */
static di_cost_table costs_of_rates(double (*rate)(int32_t rows), int32_t n)
{
    di_cost_table costs;
    di_cost_table_init(&costs);
    di_cost_curve_init(&costs.verify, 0);
    for (int32_t rows = 1; rows <= n; rows++)
        assert_int_equal(di_cost_curve_add(&costs.verify, rows, &(double){1.0 / rate(rows)}, 1),
                         DI_OK);
    return costs;
}

static double appendix_rate(int32_t rows)
{
    static const double rates[] = {1.0, 0.5, 0.45};
    return rates[rows - 1];
}

static double smooth_rate(int32_t rows)
{
    return 1.0 / (1.0 + 0.05 * rows);
}

static double stepped_rate(int32_t rows)
{
    return 1.0 / (1.0 + 0.5 * ((rows + 3) / 4));
}

/* survivals[j] = products of confidences. */
static void survivals_of(const float *confidences, int32_t n, float *survivals)
{
    float survival = 1.0f;
    for (int32_t j = 0; j < n; j++)
        survivals[j] = survival *= confidences[j];
}

typedef struct vector {
    double (*rate)(int32_t rows);
    int32_t n_seqs, n_slots, n_rows;
    float confidences[3][SLOTS];
    int32_t early[3], global[3];
    double early_value, global_value;
} vector;

static void check_vector(const vector *v)
{
    float survivals[3][SLOTS];
    di_draft_seq seqs[3];
    int32_t lengths[3];
    di_draft_order order;
    const di_cost_table costs = costs_of_rates(v->rate, v->n_rows);
    assert_int_equal(di_draft_order_init(&order, 3), DI_OK);
    for (int32_t r = 0; r < v->n_seqs; r++) {
        survivals_of(v->confidences[r], v->n_slots, survivals[r]);
        seqs[r] = (di_draft_seq){survivals[r], v->n_slots, v->n_slots};
    }
    const di_draft_load load = {seqs, v->n_seqs, v->n_seqs, 100};
    const di_budget_choice early = di_plan_early_stop(&order, &load, &costs, v->n_seqs, lengths);
    assert_true(fabs(early.rate - v->early_value) < 5e-5);
    assert_memory_equal(lengths, v->early, (size_t)v->n_seqs * sizeof *lengths);
    const di_budget_choice global = di_plan_budget(&order, &load, &costs, v->n_seqs);
    assert_true(fabs(global.rate - v->global_value) < 5e-5);
    assert_true(fabs(global.tokens * v->rate(v->n_seqs + global.budget) - global.rate) < 1e-12);
    di_draft_order_assign(&order, seqs, v->n_seqs, global.budget, lengths);
    assert_memory_equal(lengths, v->global, (size_t)v->n_seqs * sizeof *lengths);
    di_draft_order_free(&order);
}

/* The paper's appendix, a smooth rate and one in steps. */
static void known_vectors(void **state)
{
    (void)state;
#define THREE                                                                                      \
    {                                                                                              \
        {.9f, .8f, .7f, .6f, .5f}, {.6f, .5f, .4f, .3f, .2f},                                      \
        {                                                                                          \
            .95f, .95f, .9f, .9f, .85f                                                             \
        }                                                                                          \
    }
    static const vector vectors[] = {
        {appendix_rate, 1, 2, 3, {{.8f, .9f}}, {0}, {2}, 1.0, 1.134},
        {appendix_rate, 1, 2, 3, {{.8f, 0.0f}}, {0}, {0}, 1.0, 1.0},
        {smooth_rate, 3, 5, 18, THREE, {3, 1, 5}, {3, 1, 5}, 6.0882, 6.0882},
        {stepped_rate, 3, 5, 18, THREE, {0, 0, 1}, {3, 1, 5}, 2.6333, 3.8965},
    };
#undef THREE
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        check_vector(&vectors[i]);
}

/* ------------------------------------------------------------------------ random batches */

typedef struct batch {
    float survivals[MOST_SEQS][SLOTS];
    di_draft_seq seqs[MOST_SEQS];
    di_draft_load load;
    di_cost_table costs;
} batch;

/* Few distinct survivals now and then, hence ties. */
static void random_batch(di_rng *rng, int32_t most_seqs, batch *b)
{
    const int32_t n = (int32_t)di_rng_between(rng, 1, most_seqs);
    const bool has_ties = di_rng_below(rng, 2);
    for (int32_t r = 0; r < n; r++) {
        float confidences[SLOTS];
        for (int32_t j = 0; j < SLOTS; j++) {
            const float c = (float)di_rng_uniform(rng);
            confidences[j] = has_ties ? rintf(2.0f * c) * 0.5f : c;
        }
        survivals_of(confidences, SLOTS, b->survivals[r]);
        b->seqs[r] = (di_draft_seq){b->survivals[r], (int32_t)di_rng_between(rng, 0, SLOTS),
                                    (int32_t)di_rng_between(rng, 0, SLOTS)};
    }
    b->load = (di_draft_load){b->seqs, n, n + (int32_t)di_rng_below(rng, 20),
                              (int32_t)di_rng_between(rng, 0, 5 * n)};
    di_cost_table_init(&b->costs);
    di_cost_curve_init(&b->costs.verify, di_rng_below(rng, 2) ? 16 : 0);
    for (int32_t rows = 1; rows < 400; rows *= 2) {
        const double time = 1.0 + 0.1 * rows * di_rng_uniform(rng);
        assert_int_equal(di_cost_curve_add(&b->costs.verify, rows, &time, 1), DI_OK);
        assert_int_equal(di_cost_curve_add(&b->costs.draft, rows, &(double){0.1 * time}, 1), DI_OK);
    }
}

static float survival_at(const di_draft_seq *seq, int32_t slot)
{
    if (slot < seq->n_known)
        return seq->survivals[slot];
    return seq->n_known > 0 ? seq->survivals[seq->n_known - 1] : 1.0f;
}

static double tokens_of(const batch *b, const int32_t *lengths)
{
    double sum = b->load.n_seqs;
    for (int32_t r = 0; r < b->load.n_seqs; r++)
        for (int32_t j = 0; j < lengths[r]; j++)
            sum += (double)survival_at(&b->seqs[r], j);
    return sum;
}

/* The best rate over all combinations of lengths. */
static double best_rate(const batch *b, int32_t n_drafting)
{
    int32_t lengths[MOST_SEQS] = {0};
    double best = 0.0;
    for (;;) {
        int32_t budget = 0, r = 0;
        for (int32_t i = 0; i < b->load.n_seqs; i++)
            budget += lengths[i];
        if (budget <= b->load.max_budget)
            best = fmax(best, tokens_of(b, lengths) /
                                  (di_cost_curve_at(&b->costs.draft, n_drafting) +
                                   di_cost_curve_at(&b->costs.verify, b->load.n_base + budget)));
        while (r < b->load.n_seqs && lengths[r] == b->seqs[r].cap)
            lengths[r++] = 0;
        if (r == b->load.n_seqs)
            return best;
        lengths[r]++;
    }
}

static void budgets_against_brute_force(void **state)
{
    (void)state;
    di_rng rng = di_rng_named("planner/budget");
    di_draft_order order;
    assert_int_equal(di_draft_order_init(&order, MOST_SEQS), DI_OK);
    for (int round = 0; round < 400; round++) {
        batch b;
        int32_t lengths[MOST_SEQS], n = 0;
        random_batch(&rng, 4, &b);
        const int32_t n_drafting = (int32_t)di_rng_between(&rng, 0, b.load.n_seqs);
        const di_budget_choice choice = di_plan_budget(&order, &b.load, &b.costs, n_drafting);
        assert_true(fabs(choice.rate - best_rate(&b, n_drafting)) < 1e-9);
        di_draft_order_assign(&order, b.seqs, b.load.n_seqs, choice.budget, lengths);
        for (int32_t r = 0; r < b.load.n_seqs; r++)
            n += lengths[r];
        assert_int_equal(n, choice.budget);
        assert_true(fabs(tokens_of(&b, lengths) - choice.tokens) < 1e-9);
    }
    di_draft_order_free(&order);
}

/* A draft that is verified has a larger survival than one that is not, or the same and stands
 * before it; caps hold; all of the budget is spent. */
static void assignments_are_the_top(void **state)
{
    (void)state;
    di_rng rng = di_rng_named("planner/assign");
    di_draft_order order;
    assert_int_equal(di_draft_order_init(&order, MOST_SEQS), DI_OK);
    for (int round = 0; round < 300; round++) {
        batch b;
        int32_t lengths[MOST_SEQS], n = 0, caps = 0;
        random_batch(&rng, MOST_SEQS, &b);
        const int32_t budget = (int32_t)di_rng_between(&rng, 0, 6 * b.load.n_seqs);
        di_draft_order_assign(&order, b.seqs, b.load.n_seqs, budget, lengths);
        for (int32_t r = 0; r < b.load.n_seqs; r++) {
            assert_true(lengths[r] >= 0 && lengths[r] <= b.seqs[r].cap);
            n += lengths[r];
            caps += b.seqs[r].cap;
        }
        assert_int_equal(n, budget < caps ? budget : caps);
        for (int32_t r = 0; r < b.load.n_seqs; r++)
            for (int32_t q = 0; q < b.load.n_seqs; q++) {
                if (lengths[r] == 0 || lengths[q] == b.seqs[q].cap)
                    continue;
                const float in = survival_at(&b.seqs[r], lengths[r] - 1);
                const float out = survival_at(&b.seqs[q], lengths[q]);
                assert_true(in > out || (in == out && r <= q));
            }
    }
    di_draft_order_free(&order);
}

/* Early stop never finds more than the search, and the same where the rate has one peak. */
static void early_stop_is_a_prefix_search(void **state)
{
    (void)state;
    di_rng rng = di_rng_named("planner/early");
    di_draft_order order;
    assert_int_equal(di_draft_order_init(&order, MOST_SEQS), DI_OK);
    for (int round = 0; round < 300; round++) {
        batch b;
        int32_t lengths[MOST_SEQS], same[MOST_SEQS];
        random_batch(&rng, MOST_SEQS, &b);
        const di_budget_choice early =
            di_plan_early_stop(&order, &b.load, &b.costs, b.load.n_seqs, lengths);
        const di_budget_choice global = di_plan_budget(&order, &b.load, &b.costs, b.load.n_seqs);
        assert_true(early.rate <= global.rate && early.budget <= global.budget);
        di_draft_order_assign(&order, b.seqs, b.load.n_seqs, early.budget, same);
        assert_memory_equal(lengths, same, (size_t)b.load.n_seqs * sizeof *same);

        b.costs = costs_of_rates(smooth_rate, DI_COST_POINTS);
        const double rate = di_plan_budget(&order, &b.load, &b.costs, 0).rate;
        assert_true(fabs(di_plan_early_stop(&order, &b.load, &b.costs, 0, lengths).rate - rate) <
                    1e-12 * rate);
    }
    di_draft_order_free(&order);
}

/* A single stream takes the l with most (1 + sum of a) / cost(1 + l). */
static void single_stream(void **state)
{
    (void)state;
    di_rng rng = di_rng_named("planner/single");
    di_draft_order order;
    assert_int_equal(di_draft_order_init(&order, 1), DI_OK);
    for (int round = 0; round < 200; round++) {
        batch b;
        random_batch(&rng, 1, &b);
        b.seqs[0].n_known = b.seqs[0].cap = SLOTS;
        b.load.n_base = 1;
        b.load.max_budget = 100;
        int32_t best = 0;
        double tokens = 1.0, rate = 1.0 / di_cost_curve_at(&b.costs.verify, 1);
        for (int32_t l = 1; l <= SLOTS; l++) {
            tokens += (double)b.survivals[0][l - 1];
            if (tokens / di_cost_curve_at(&b.costs.verify, 1 + l) > rate) {
                rate = tokens / di_cost_curve_at(&b.costs.verify, 1 + l);
                best = l;
            }
        }
        assert_int_equal(di_plan_budget(&order, &b.load, &b.costs, 0).budget, best);
    }
    di_draft_order_free(&order);
}

static void caps(void **state)
{
    (void)state;
    assert_int_equal(di_draft_cap(5, 5, 100), 5);
    assert_int_equal(di_draft_cap(5, 3, 100), 3);
    assert_int_equal(di_draft_cap(2, 5, 100), 2);
    assert_int_equal(di_draft_cap(5, 5, 4), 3);
    assert_int_equal(di_draft_cap(5, 5, 1), 0);
    assert_int_equal(di_draft_cap(5, 5, 0), 0);
}

/* Survivals that are none (NaN, above 1, rising) neither crash nor break the order of slots. */
static void senseless_survivals(void **state)
{
    (void)state;
    static const float survivals[2][SLOTS] = {{0.5f, 0.9f, __builtin_nanf(""), 1.0f, -1.0f},
                                              {7.0f, INFINITY, 0.6f, -INFINITY, 0.5f}};
    const di_draft_seq seqs[] = {{survivals[0], SLOTS, SLOTS}, {survivals[1], SLOTS, SLOTS}};
    di_draft_order order;
    assert_int_equal(di_draft_order_init(&order, 2), DI_OK);
    for (int32_t budget = 0; budget <= 10; budget++) {
        int32_t lengths[2];
        di_draft_order_assign(&order, seqs, 2, budget, lengths);
        assert_int_equal(lengths[0] + lengths[1], budget);
        if (budget <= 3)
            assert_int_equal(lengths[1], budget);
        else if (budget <= 5)
            assert_int_equal(lengths[0], budget - 3);
    }
    di_draft_order_free(&order);
}

/* ----------------------------------------------------------------------------- the planner */

static di_planner open_planner(bool is_fixed, bool is_guarded)
{
    di_planner planner;
    const di_planner_options options = {MOST_SEQS, SLOTS, is_fixed, is_guarded};
    assert_int_equal(di_planner_init(&planner, &options), DI_OK);
    return planner;
}

/* A world for the guard: n equal sequences whose true survivals are `survivals`, known two passes
 * after they were drafted. Costs are what `costs` says. */
typedef struct world {
    di_planner planner;
    di_cost_table costs;
    int32_t n_seqs;
    float survivals[SLOTS];
    int32_t n_drafting; /* passes in a row that drafted, up to 3 */
    double tokens, time;
    const di_cost_table *truth;     /* NULL: costs */
    double verify_time, draft_time; /* of the last pass; its rows: */
    int32_t n_rows;
} world;

static di_draft_plan step(world *w)
{
    di_draft_seq seqs[MOST_SEQS];
    for (int32_t r = 0; r < w->n_seqs; r++)
        seqs[r] = (di_draft_seq){w->survivals, w->n_drafting >= 2 ? SLOTS : 0,
                                 w->n_drafting >= 1 ? SLOTS : 0};
    const di_draft_load load = {seqs, w->n_seqs, w->n_seqs, 1000};
    const di_draft_plan plan = di_planner_plan(&w->planner, &load, &w->costs);
    di_draft_order order;
    int32_t lengths[MOST_SEQS];
    assert_int_equal(di_draft_order_init(&order, MOST_SEQS), DI_OK);
    for (int32_t r = 0; r < w->n_seqs; r++)
        seqs[r].n_known = SLOTS;
    di_draft_order_assign(&order, seqs, w->n_seqs, plan.choice.budget, lengths);
    di_draft_order_free(&order);
    w->tokens += w->n_seqs;
    for (int32_t r = 0; r < w->n_seqs; r++)
        for (int32_t j = 0; j < lengths[r]; j++)
            w->tokens += (double)w->survivals[j];
    const di_cost_table *truth = w->truth ? w->truth : &w->costs;
    w->n_rows = w->n_seqs;
    for (int32_t r = 0; r < w->n_seqs; r++)
        w->n_rows += lengths[r];
    w->verify_time = di_cost_curve_at(&truth->verify, w->n_rows);
    w->draft_time = plan.is_drafting ? di_cost_curve_at(&truth->draft, w->n_seqs) : 0.0;
    w->time += w->verify_time + w->draft_time;
    w->n_drafting = !plan.is_drafting ? 0 : w->n_drafting < 3 ? w->n_drafting + 1 : 3;
    return plan;
}

/* verify(b) = 1 + slope (b - 1), draft(n) = draft * verify(n) */
static di_cost_table linear_costs(double slope, double draft)
{
    di_cost_table costs;
    di_cost_table_init(&costs);
    di_cost_curve_init(&costs.verify, 0);
    for (int32_t rows = 1; rows <= 512; rows *= 2) {
        const double time = 1.0 + slope * (rows - 1);
        assert_int_equal(di_cost_curve_add(&costs.verify, rows, &time, 1), DI_OK);
        assert_int_equal(di_cost_curve_add(&costs.draft, rows, &(double){draft * time}, 1), DI_OK);
    }
    return costs;
}

static double plain_rate(const world *w)
{
    return w->n_seqs / di_cost_curve_at(&w->costs.verify, w->n_seqs);
}

/* Whatever rows and drafts cost and however good drafts are: in the long run within 2.5% of not
 * drafting at all, and of the better of the two choices. */
static void never_slower_than_none(void **state)
{
    (void)state;
    static const double slopes[] = {0.0, 0.03, 0.1, 0.3, 0.9}, drafts[] = {0.02, 0.1, 0.4};
    static const float confidences[] = {0.1f, 0.5f, 0.8f, 0.95f};
    static const int32_t sizes[] = {1, 8, 64};
    for (int c = 0; c < 5 * 3 * 4 * 3; c++) {
        world w = {.planner = open_planner(false, true),
                   .costs = linear_costs(slopes[c % 5], drafts[c / 5 % 3]),
                   .n_seqs = sizes[c / 15 % 3]};
        const float confidence = confidences[c / 45];
        const float all[SLOTS] = {confidence, confidence, confidence, confidence, confidence};
        survivals_of(all, SLOTS, w.survivals);
        for (int i = 0; i < 2500; i++)
            (void)step(&w);
        const double rate = w.tokens / w.time;
        di_draft_seq seqs[MOST_SEQS];
        for (int32_t r = 0; r < w.n_seqs; r++)
            seqs[r] = (di_draft_seq){w.survivals, SLOTS, SLOTS};
        const di_draft_load load = {seqs, w.n_seqs, w.n_seqs, 1000};
        const double best =
            fmax(plain_rate(&w), di_plan_budget(&w.planner.order, &load, &w.costs, w.n_seqs).rate);
        if (!(rate >= 0.975 * best))
            fail_msg("slope %g, draft %g, confidence %g, %d sequences: found %.3f of the best",
                     slopes[c % 5], drafts[c / 5 % 3], (double)confidence, w.n_seqs, rate / best);
        di_planner_free(&w.planner);
    }
}

/* The median of three passes of a size is a point, later ones correct the curve; times scatter by
 * 10%. */
static void learn(di_rng *rng, di_cost_curve *curve, double runs[][4], int32_t count, double time)
{
    double *const run = runs[count];
    time *= 0.95 + 0.1 * di_rng_uniform(rng);
    if (run[3] >= 3.0) {
        di_cost_curve_observe(curve, count, time);
        return;
    }
    run[(int)run[3]] = time;
    run[3] += 1.0;
    if (run[3] >= 3.0)
        assert_int_equal(di_cost_curve_add(curve, count, run, 3), DI_OK);
}

/* Without a profile at the start: costs are learned while passes run, plain ones included, and the
 * rate comes close to the better choice all the same. */
static void live_costs(void **state)
{
    (void)state;
    static const double slopes[] = {0.0, 0.1, 0.9}, drafts[] = {0.02, 0.4};
    static const float confidences[] = {0.1f, 0.5f, 0.9f};
    static const int32_t sizes[] = {1, 8};
    di_rng rng = di_rng_named("planner/live");
    for (int c = 0; c < 3 * 2 * 3 * 2; c++) {
        static double verify_runs[64][4], draft_runs[64][4];
        memset(verify_runs, 0, sizeof verify_runs);
        memset(draft_runs, 0, sizeof draft_runs);
        const di_cost_table truth = linear_costs(slopes[c % 3], drafts[c / 3 % 2]);
        const float confidence = confidences[c / 6 % 3];
        const float all[SLOTS] = {confidence, confidence, confidence, confidence, confidence};
        world w = {.planner = open_planner(false, true), .n_seqs = sizes[c / 18], .truth = &truth};
        survivals_of(all, SLOTS, w.survivals);
        di_cost_table_init(&w.costs);
        w.costs.is_live = true;
        for (int i = 0; i < 3000; i++) {
            (void)step(&w);
            learn(&rng, &w.costs.verify, verify_runs, w.n_rows, 1e6 * w.verify_time);
            if (w.draft_time > 0.0)
                learn(&rng, &w.costs.draft, draft_runs, w.n_seqs, 1e6 * w.draft_time);
        }
        di_draft_seq seqs[MOST_SEQS];
        for (int32_t r = 0; r < w.n_seqs; r++)
            seqs[r] = (di_draft_seq){w.survivals, SLOTS, SLOTS};
        const di_draft_load load = {seqs, w.n_seqs, w.n_seqs, 1000};
        const double plain = w.n_seqs / di_cost_curve_at(&truth.verify, w.n_seqs);
        const double best =
            fmax(plain, di_plan_budget(&w.planner.order, &load, &truth, w.n_seqs).rate);
        const double rate = w.tokens / w.time;
        if (!(rate >= 0.96 * best))
            fail_msg("slope %g, draft %g, confidence %g, %d sequences: found %.3f of the best",
                     slopes[c % 3], drafts[c / 3 % 2], (double)confidence, w.n_seqs, rate / best);
        di_planner_free(&w.planner);
    }
}

/* Where no pass teaches what one without drafts costs, few are spent on it. */
static void measuring_gives_up(void **state)
{
    (void)state;
    const di_cost_table truth = linear_costs(0.0, 0.1);
    world w = {.planner = open_planner(false, true),
               .n_seqs = 1,
               .survivals = {0.9f, 0.8f, 0.7f, 0.6f, 0.5f},
               .truth = &truth};
    int n_plain = 0;
    di_cost_table_init(&w.costs);
    w.costs.is_live = true;
    for (int i = 0; i < 4096; i++)
        n_plain += step(&w).choice.budget == 0;
    assert_in_range(n_plain, 8, 30);
    di_planner_free(&w.planner);
}

/* Drafts that were bad at the start and became good are found by a probe; a load at which drafting
 * pays is seen at once. */
static void the_guard_recovers(void **state)
{
    (void)state;
    world w = {.planner = open_planner(false, true), .costs = linear_costs(0.1, 0.1), .n_seqs = 4};
    for (int i = 0; i < 100; i++)
        (void)step(&w);
    assert_false(w.planner.is_drafting);
    for (int32_t j = 0; j < SLOTS; j++)
        w.survivals[j] = 0.9f - 0.05f * (float)j;
    int n = 0;
    while (n < 1100 && !(step(&w).is_drafting && w.planner.n_probe == 0))
        n++;
    assert_true(n < 300);
    assert_int_equal(w.planner.n_probes, 1);

    /* At 64 sequences the rows cost more than they give; at 2 again not. */
    w.costs = linear_costs(0.9, 0.1);
    di_cost_table cheap = linear_costs(0.05, 0.1);
    w.n_seqs = 64;
    for (n = 0; step(&w).is_drafting; n++)
        assert_true(n < 20);
    w.costs = cheap;
    w.n_seqs = 2;
    for (n = 0; !step(&w).is_drafting; n++)
        assert_true(n < 20);
    di_planner_free(&w.planner);
}

/* Near the break-even point the guard does not flap. */
static void the_guard_has_hysteresis(void **state)
{
    (void)state;
    di_rng rng = di_rng_named("planner/hysteresis");
    world w = {.planner = open_planner(false, true), .costs = linear_costs(0.0, 0.5), .n_seqs = 1};
    int n_changes = 0;
    bool was_drafting = true;
    for (int i = 0; i < 2000; i++) {
        const float wobble = 0.1f * (float)(di_rng_uniform(&rng) - 0.5);
        for (int32_t j = 0; j < SLOTS; j++)
            w.survivals[j] = j == 0 ? 0.51f + wobble : 0.0f;
        const bool is_drafting = step(&w).is_drafting && w.planner.n_probe == 0;
        n_changes += is_drafting != was_drafting;
        was_drafting = is_drafting;
    }
    assert_true(n_changes < 20);
    di_planner_free(&w.planner);
}

/* Fixed lengths: everything, whatever it costs; the room of the pass still holds. */
static void fixed_lengths(void **state)
{
    (void)state;
    static const float none[SLOTS] = {0};
    di_planner planner = open_planner(true, true);
    const di_cost_table costs = linear_costs(5.0, 3.0);
    const di_draft_seq seqs[] = {{none, SLOTS, SLOTS}, {none, SLOTS, 2}, {none, 0, 0}};
    int32_t lengths[3];
    for (int i = 0; i < 300; i++) {
        const di_draft_load load = {seqs, 3, 3, i % 2 ? 100 : 4};
        const di_draft_plan plan = di_planner_plan(&planner, &load, &costs);
        assert_true(plan.is_drafting);
        assert_int_equal(plan.choice.budget, i % 2 ? 7 : 4);
    }
    di_draft_order_assign(&planner.order, seqs, 3, 7, lengths);
    assert_true(lengths[0] == 5 && lengths[1] == 2 && lengths[2] == 0);
    di_planner_free(&planner);
}

/* New sequences count as certain; without a profile everything is verified. */
static void the_beginning(void **state)
{
    (void)state;
    di_planner planner = open_planner(false, true);
    di_cost_table costs;
    di_cost_table_init(&costs);
    static const float low[SLOTS] = {0.01f, 0.001f, 1e-4f, 1e-5f, 1e-6f};
    const di_draft_seq seqs[] = {{NULL, 0, SLOTS}, {low, SLOTS, SLOTS}};
    const di_draft_load both = {seqs, 2, 2, 100}, nobody = {seqs, 0, 7, 100};
    const di_draft_plan plan = di_planner_plan(&planner, &both, &costs);
    assert_true(plan.is_drafting);
    assert_int_equal(plan.choice.budget, 2 * SLOTS);
    assert_int_equal(di_planner_plan(&planner, &nobody, &costs).choice.budget, 0);
    const di_cost_table dear = linear_costs(0.1, 0.01);
    assert_int_equal(di_planner_plan(&planner, &both, &dear).choice.budget, SLOTS);
    di_planner_free(&planner);
}

static void same_loads_same_plans(void **state)
{
    (void)state;
    di_planner planners[2] = {open_planner(false, true), open_planner(false, true)};
    for (int k = 0; k < 2; k++) {
        di_rng rng = di_rng_named("planner/same");
        double sum = 0.0;
        for (int i = 0; i < 400; i++) {
            batch b;
            random_batch(&rng, 16, &b);
            const di_draft_plan plan = di_planner_plan(&planners[k], &b.load, &b.costs);
            sum += plan.gain * (i + 1) + plan.choice.budget;
        }
        planners[k].gain = sum;
    }
    assert_true(planners[0].gain == planners[1].gain);
    di_planner_free(&planners[0]);
    di_planner_free(&planners[1]);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_vectors),
        cmocka_unit_test(budgets_against_brute_force),
        cmocka_unit_test(assignments_are_the_top),
        cmocka_unit_test(early_stop_is_a_prefix_search),
        cmocka_unit_test(single_stream),
        cmocka_unit_test(caps),
        cmocka_unit_test(senseless_survivals),
        cmocka_unit_test(never_slower_than_none),
        cmocka_unit_test(live_costs),
        cmocka_unit_test(measuring_gives_up),
        cmocka_unit_test(the_guard_recovers),
        cmocka_unit_test(the_guard_has_hysteresis),
        cmocka_unit_test(fixed_lengths),
        cmocka_unit_test(the_beginning),
        cmocka_unit_test(same_loads_same_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
