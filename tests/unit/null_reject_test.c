/* Verification by rejection through the whole engine: scheduler, budgets, passes in flight, slots.
 * On the null device the target is known, so whole texts can be held against their probabilities,
 * whatever is drafted and however much of it is verified. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "chi_square.h"
#include "traffic.h"

enum { WORDS = 3, MOST_TOKENS = 24, MOST_TEXTS = 1024, AT_ONCE = 200 };
static const int32_t words[WORDS] = {DI_TRAFFIC_EOS, 5, 300};
static int32_t prompt[62]; /* two tokens before the end of a block */

/* ------------------------------------------------------------------------------- what must come */

typedef struct text {
    int32_t ids[MOST_TOKENS], n;
    double p;
    uint64_t count;
} text;

/* A request that is made again and again, and its texts as far as n_counted tokens. */
typedef struct toy {
    di_request request;
    di_null_bend_fn bend;
    int32_t n_counted;
    di_constraint_setup constraint;
    text texts[MOST_TEXTS];
    int32_t n_texts;
} toy;

typedef struct lister {
    toy *toy;
    di_sampling_params params; /* tell the probabilities of all tokens */
    di_sampler_workspace workspace;
    di_sampler_state state;
    float *logits;
} lister;

/* The target after a history; entries are those of tokens that can come. */
static size_t list_next(lister *l, uint64_t history, int64_t position, di_logprob *out)
{
    di_sample_out sampled;
    size_t n = 0;
    di_null_logits(history, l->logits, l->workspace.vocab_size);
    if (l->toy->bend)
        l->toy->bend(NULL, history, position, l->logits);
    di_require(di_sample(&l->workspace, &l->state, l->logits, position, &sampled));
    for (size_t i = 1; i < sampled.logprobs.n_entries; i++) {
        assert_true(n < 64);
        if (sampled.logprobs.entries[i].logprob > -60.0f)
            out[n++] = sampled.logprobs.entries[i];
    }
    return n;
}

/* All texts that go on from `begun`, up to their end or n_counted. */
static void list_texts(lister *l, const text *begun, uint64_t history)
{
    toy *t = l->toy;
    if (begun->n == t->n_counted || (begun->n && begun->ids[begun->n - 1] == DI_TRAFFIC_EOS)) {
        assert_true(t->n_texts < MOST_TEXTS);
        t->texts[t->n_texts++] = *begun;
        return;
    }
    di_logprob next[64];
    const int64_t position = (int64_t)t->request.n_token_ids + begun->n;
    const size_t n = list_next(l, history, position, next);
    for (size_t i = 0; i < n; i++) {
        const int32_t id = next[i].token_id;
        const di_sampler_mark mark = di_sampler_state_mark(&l->state);
        text longer = *begun;
        longer.ids[longer.n++] = id;
        longer.p *= exp((double)next[i].logprob);
        di_require(di_sampler_state_append(&l->state, id));
        list_texts(l, &longer, di_null_history(history, id));
        di_sampler_state_rewind(&l->state, &mark, &id, 1);
    }
}

static void list_all(toy *t)
{
    const di_model *model = di_traffic_model;
    const int32_t vocab_size = (int32_t)model->config.vocab_size;
    lister l = {.toy = t, .params = t->request.sampling};
    l.params.n_logprobs = vocab_size;
    l.params.processed_logprobs = true;
    const di_sampler_setup setup = {
        .params = &l.params,
        .vocab_size = vocab_size,
        .prompt = t->request.token_ids,
        .n_prompt = t->request.n_token_ids,
        .finish_ids = model->generation.eos_ids,
        .n_finish_ids = (size_t)model->generation.n_eos,
        .constraint = t->constraint,
    };
    l.logits = malloc((size_t)vocab_size * sizeof *l.logits);
    assert_non_null(l.logits);
    di_require(di_sampler_workspace_init(&l.workspace, vocab_size, NULL));
    di_require(di_sampler_state_init(&l.state, &setup));
    uint64_t history = DI_NULL_HISTORY;
    for (size_t i = 0; i < t->request.n_token_ids; i++)
        history = di_null_history(history, t->request.token_ids[i]);
    list_texts(&l, &(text){.p = 1.0}, history);
    di_sampler_state_free(&l.state);
    di_sampler_workspace_free(&l.workspace);
    free(l.logits);
    double sum = 0.0;
    for (int32_t i = 0; i < t->n_texts; i++)
        sum += t->texts[i].p;
    assert_true(fabs(sum - 1.0) < 1e-4);
}

/* ------------------------------------------------------------------------------- what comes */

static void count_text(toy *t, const di_result *r)
{
    const int32_t n =
        (int32_t)r->n_token_ids < t->n_counted ? (int32_t)r->n_token_ids : t->n_counted;
    for (int32_t i = 0; i < t->n_texts; i++) {
        text *x = &t->texts[i];
        if (x->n == n && memcmp(x->ids, r->token_ids, (size_t)n * sizeof *x->ids) == 0) {
            x->count++;
            return;
        }
    }
    fail_msg("found a text of %d tokens that the target cannot give", n);
}

static void take_result(di_engine *engine, toy *t, di_request_id id)
{
    di_result *result;
    di_require(di_engine_take_result(engine, id, &result));
    for (const di_result *r = result; r; r = r->next) {
        assert_int_equal(r->status, DI_OK);
        assert_false(r->is_reproducible);
        count_text(t, r);
    }
    di_result_free(result);
}

/* prepares: before each step. */
static void run_until_done(di_engine *engine, void (*prepares)(di_engine *))
{
    bool has_work = true;
    di_output output;
    while (has_work) {
        if (prepares)
            prepares(engine);
        di_require(di_engine_step(engine, &has_work));
        while (di_engine_poll(engine, &output))
            ;
    }
}

/* Costs of passes, whatever was learned. */
static void use_costs(di_engine *engine, const int *rows, const double *cost, int n)
{
    di_cost_table *costs = &engine->speculation.costs;
    di_cost_table_init(costs);
    di_cost_curve_init(&costs->verify, 0);
    for (int i = 0; i < n; i++)
        di_require(di_cost_curve_add(&costs->verify, rows[i], &cost[i], 1));
}

/* Verification is free up to 16 rows, and then it is not. */
static void use_steep_costs(di_engine *engine)
{
    static const int rows[] = {1, 16, 20, 48};
    static const double cost[] = {1.0, 1.0, 1.3, 4.0};
    use_costs(engine, rows, cost, 4);
}

/* n_texts of the toy's request, each with another seed. */
static void make_texts(di_engine *engine, toy *t, int n_texts, uint64_t first_seed)
{
    di_request_id ids[AT_ONCE];
    di_request request = t->request;
    for (int made = 0; made < n_texts;) {
        int n = 0;
        for (; n < AT_ONCE && made < n_texts; n++, made += request.sampling.n) {
            request.sampling.seed = first_seed + (uint64_t)made;
            di_require(di_engine_submit(engine, &request, &ids[n]));
        }
        run_until_done(engine, use_steep_costs);
        for (int i = 0; i < n; i++)
            take_result(engine, t, ids[i]);
    }
}

static double sigmas_of(const toy *t)
{
    static uint64_t counts[MOST_TEXTS];
    static double probability[MOST_TEXTS];
    for (int32_t i = 0; i < t->n_texts; i++) {
        counts[i] = t->texts[i].count;
        probability[i] = t->texts[i].p;
    }
    return chi_square_sigmas(counts, probability, t->n_texts);
}

static void check_idle(di_engine *engine, const di_null_device *device)
{
    di_check_idle(engine, device);
    for (const di_slot *slot = engine->slots.free; slot; slot = slot->next)
        assert_null(slot->drawn);
}

/* ------------------------------------------------------------------------------- texts */

/* Three words, one of them the end. Drafts (position 0) are of logits that are somewhat off. */
static void three_words(void *user, uint64_t history, int64_t position, float *logits)
{
    (void)user;
    const uint64_t off = (history ^ history >> 31) * 0x9e3779b97f4a7c15u;
    float kept[WORDS];
    for (int i = 0; i < WORDS; i++) {
        kept[i] = 0.4f * logits[words[i]] - (i == 0 ? 1.5f : 0.0f);
        if (position == 0)
            kept[i] += (float)(off >> (8 * i + 20) & 0xff) / 128.0f - 1.0f;
    }
    for (int32_t i = 0; i < di_model_vocab_size(di_traffic_model); i++)
        logits[i] = -INFINITY;
    for (int i = 0; i < WORDS; i++)
        logits[words[i]] = kept[i];
}

static di_request toy_request(double temperature)
{
    for (int i = 0; i < (int)(sizeof prompt / sizeof prompt[0]); i++)
        prompt[i] = 3 + 7 * i;
    di_request r = di_plain_request(prompt, sizeof prompt / sizeof prompt[0], 9);
    r.sampling.temperature = temperature;
    r.sampling.verification = DI_VERIFICATION_REJECT;
    return r;
}

typedef struct text_case {
    di_null_setting setting;
    double temperature, top_p, frequency_penalty;
    int n, n_logprobs;
} text_case;

static const text_case text_cases[] = {
    {{DI_NULL_AT_LAUNCH, "off", "exact", 8, 64, 0, 4, "off", 1}, 1.0, 1.0, 0.0, 1, -1},
    {{DI_NULL_AT_LAUNCH, "off", "off", 8, 64, 0, 4, "off", 5}, 0.7, 1.0, 0.0, 1, -1},
    {{DI_NULL_AT_LAUNCH, "off", "exact", 8, 64, 0, 4, "on", 5}, 1.3, 1.0, 0.0, 3, -1},
    {{DI_NULL_AT_COLLECT, "on", "exact", 8, 64, 0, 4, "off", 5}, 1.0, 0.85, 0.0, 1, 0},
    {{DI_NULL_AT_COLLECT, "on", "exact", 8, 64, 0, 1, "on", 5}, 1.0, 1.0, 0.8, 1, -1},
    {{DI_NULL_AT_NEXT_LAUNCH, "on", "off", 8, 64, 0, 4, "on", 1}, 1.0, 1.0, 0.0, 2, 2},
    /* Preempted where their second block begins. */
    {{DI_NULL_AT_COLLECT, "on", "off", 8, 64, 9, 4, "off", 5}, 1.0, 1.0, 0.0, 1, -1},
    {{DI_NULL_AT_LAUNCH, "off", "exact", 8, 64, 9, 4, "on", 3}, 1.0, 1.0, 0.5, 1, -1},
};

static void run_text_case(const text_case *c, uint64_t first_seed)
{
    toy *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->request = toy_request(c->temperature);
    t->request.sampling.top_p = c->top_p;
    t->request.sampling.frequency_penalty = c->frequency_penalty;
    t->request.sampling.n = c->n;
    t->request.sampling.n_logprobs = c->n_logprobs;
    t->bend = three_words;
    t->n_counted = 6;
    list_all(t);
    di_null_device device = {.bend = three_words};
    di_engine *engine = di_null_setting_engine(&c->setting, &device);
    make_texts(engine, t, 5000, first_seed);
    di_engine_stats stats;
    di_engine_get_stats(engine, &stats);
    const double sigmas = sigmas_of(t);
    print_message("%d texts: %.2f standard deviations, %llu of %llu verified drafts accepted, of "
                  "%llu, %llu preemptions\n",
                  t->n_texts, sigmas, (unsigned long long)stats.accepted_drafts,
                  (unsigned long long)stats.verified_drafts,
                  (unsigned long long)stats.drafted_tokens,
                  (unsigned long long)stats.n_preemptions);
    assert_true(sigmas < 4.5);
    assert_true(stats.verified_drafts > 5000);
    assert_true(stats.accepted_drafts > stats.verified_drafts / 5);
    assert_true(!c->setting.kv_blocks == !stats.n_preemptions);
    check_idle(engine, &device);
    di_engine_destroy(engine);
    free(t);
}

/* It can fail: with rejected drafts replaced by a draw from the target, instead of from what
 * remains of it, the cases of fixed lengths are 9 to 20 standard deviations off, the constrained
 * ones below 5 and 10. */
static void texts_have_the_targets_distribution(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof text_cases / sizeof text_cases[0]; i++)
        run_text_case(&text_cases[i], 1000000 * (i + 1));
}

/* Forced text between choices: drafts without a choice, verified by rejection as others are, since
 * the target may cut the text into tokens otherwise. */
static void constrained_texts(void **state)
{
    (void)state;
    static const char pattern[] = "(yes|no), (yes|no)\\.";
    di_so_args args = DI_SO_ARGS_INIT;
    args.schema_type = DI_SCHEMA_REGEX;
    args.schema = pattern;
    for (int has_drafter = 0; has_drafter < 2; has_drafter++) {
        toy *t = calloc(1, sizeof *t);
        assert_non_null(t);
        t->request = toy_request(2.0);
        t->request.sampling.max_tokens = MOST_TOKENS;
        t->request.so_args = &args;
        t->n_counted = MOST_TOKENS;
        t->constraint = (di_constraint_setup){
            .begins_after = -1,
            .eos_ids = di_traffic_model->generation.eos_ids,
            .n_eos_ids = (size_t)di_traffic_model->generation.n_eos,
        };
        di_require(
            di_grammar_cache_get(di_traffic_model->grammars, &args, &t->constraint.acceptor));
        list_all(t);
        di_null_device device = {.bend = NULL};
        const di_null_setting setting = {DI_NULL_AT_COLLECT,  "on",  "exact", 8, 64, 0,
                                         has_drafter ? 3 : 0, "off", 5};
        di_engine *engine = di_null_setting_engine(&setting, &device);
        make_texts(engine, t, 4000, 77);
        di_engine_stats stats;
        di_engine_get_stats(engine, &stats);
        const double sigmas = sigmas_of(t);
        print_message("%d constrained texts: %.2f standard deviations, %llu of %llu accepted\n",
                      t->n_texts, sigmas, (unsigned long long)stats.accepted_drafts,
                      (unsigned long long)stats.verified_drafts);
        assert_true(t->n_texts > 20 && sigmas < 4.5);
        assert_true(stats.accepted_drafts > 300 && stats.accepted_drafts < stats.verified_drafts);
        check_idle(engine, &device);
        di_engine_destroy(engine);
        di_acceptor_unref(t->constraint.acceptor);
        free(t);
    }
}

/* ------------------------------------------------------------------------------- budgets */

/* The example of the paper's appendix: the target gives .7 and .3, the drafter .5 and .5, and a
 * second draft is only likely to be right behind the first word. */
static void seven_to_three(void *user, uint64_t history, int64_t position, float *logits)
{
    (void)user;
    (void)history;
    (void)position;
    for (int32_t i = 0; i < di_model_vocab_size(di_traffic_model); i++)
        logits[i] = -INFINITY;
    logits[words[1]] = -0.35667494f;
    logits[words[2]] = -1.20397280f;
}

static void draft_evenly(const di_pass *pass, int slot, const int32_t *prev, float *logits,
                         float *confidences)
{
    (void)pass;
    seven_to_three(NULL, 0, 0, logits);
    logits[words[1]] = logits[words[2]] = 0.0f;
    const float second = prev[0] == words[1] ? 2.19722458f : -100.0f;
    confidences[0] = slot == 0 ? 1.38629436f : second;
}

/* Costs and calibration as in the example, whatever was learned. */
static void use_costs_of_example(di_engine *engine)
{
    static const int rows[] = {1, 2, 3};
    static const double cost[] = {1.0, 2.0, 1.0 / 0.45};
    di_speculation *s = &engine->speculation;
    use_costs(engine, rows, cost, 3);
    di_confidence_init(&s->confidence, s->draft_len);
}

static void check_example(const char *async)
{
    enum { TOKENS = 41, TEXTS = 500 };
    static const double probability[] = {0.49, 0.21, 0.21, 0.09};
    uint64_t counts[4] = {0};
    const di_null_setting s = {DI_NULL_AT_LAUNCH, async, "off", 1, 64, 0, 1, "on", 2};
    di_null_device device = {.bend = seven_to_three};
    di_engine *engine = di_null_setting_engine(&s, &device);
    engine->runner.draft_logits = draft_evenly;
    di_request request = di_plain_request(di_counting, 3, TOKENS);
    request.sampling.temperature = 1.0;
    request.sampling.verification = DI_VERIFICATION_REJECT;
    for (int i = 0; i < TEXTS; i++) {
        di_result *r;
        di_request_id id;
        request.sampling.seed = (uint64_t)i + 1;
        di_require(di_engine_submit(engine, &request, &id));
        run_until_done(engine, use_costs_of_example);
        di_require(di_engine_take_result(engine, id, &r));
        assert_int_equal(r->n_token_ids, TOKENS);
        for (int k = 1; k + 1 < TOKENS; k += 2) /* the first one is never drafted */
            counts[2 * (r->token_ids[k] == words[2]) + (r->token_ids[k + 1] == words[2])]++;
        di_result_free(r);
    }
    di_engine_stats stats;
    di_engine_get_stats(engine, &stats);
    const double first =
        (2.0 * (double)counts[0] + (double)counts[1] + (double)counts[2]) / (TEXTS * (TOKENS - 1));
    print_message("async %s: %.4f, %llu of %llu drafts verified\n", async, first,
                  (unsigned long long)stats.verified_drafts,
                  (unsigned long long)stats.drafted_tokens);
    /* The planner plans: it verifies some blocks, and others not. */
    assert_true(stats.verified_drafts > stats.drafted_tokens / 10 &&
                stats.verified_drafts < stats.drafted_tokens / 10 * 9);
    assert_true(chi_square_sigmas(counts, probability, 4) < 4.5);
    check_idle(engine, &device);
    di_engine_destroy(engine);
}

/* A budget that is planned by the survivals of the drafts it is for is not lossless: without passes
 * in flight, and with di_speculation_plan taking the newest block that was collected for every
 * sequence, the share of the first word is 0.778 instead of 0.7. */
static void budgets_do_not_look_at_the_drafts(void **state)
{
    (void)state;
    check_example("off");
    check_example("on");
}

/* ------------------------------------------------------------------------------- acceptance */

static const float even_target[WORDS] = {0.2f, 0.9f, -0.4f},
                   even_drafter[WORDS] = {0.4f, 0.6f, -0.2f};

static void set_words(const float *values, float *logits)
{
    static const int32_t ids[WORDS] = {4, 5, 300}; /* no end */
    for (int32_t i = 0; i < di_model_vocab_size(di_traffic_model); i++)
        logits[i] = -INFINITY;
    for (int i = 0; i < WORDS; i++)
        logits[ids[i]] = values[i];
}

static void same_target(void *user, uint64_t history, int64_t position, float *logits)
{
    (void)user;
    (void)history;
    (void)position;
    set_words(even_target, logits);
}

static void draft_same(const di_pass *pass, int slot, const int32_t *prev, float *logits,
                       float *confidences)
{
    (void)pass;
    (void)slot;
    (void)prev;
    set_words(even_drafter, logits);
    confidences[0] = 1.0f;
}

static void soften(const float *logits, double temperature, double *p)
{
    double sum = 0.0;
    for (int i = 0; i < WORDS; i++)
        sum += p[i] = exp((double)logits[i] / temperature);
    for (int i = 0; i < WORDS; i++)
        p[i] /= sum;
}

/* Bug D03: acceptance fell from slot to slot, and to nothing at a temperature. Here every slot that
 * is reached is accepted as often as the distributions overlap. */
static void every_slot_is_accepted_alike(void **state)
{
    (void)state;
    static const double temperatures[] = {0.3, 0.7, 1.0};
    for (int k = 0; k < 3; k++) {
        double target[WORDS], drafter[WORDS], overlap = 0.0;
        soften(even_target, temperatures[k], target);
        soften(even_drafter, temperatures[k], drafter);
        for (int i = 0; i < WORDS; i++)
            overlap += fmin(target[i], drafter[i]);
        const di_null_setting s = {DI_NULL_AT_COLLECT, "on", "off", 1, 64, 0, 1, "off", 5};
        di_null_device device = {.bend = same_target};
        di_engine *engine = di_null_setting_engine(&s, &device);
        engine->runner.draft_logits = draft_same;
        di_request request = di_plain_request(di_counting, 3, 60);
        request.sampling.temperature = temperatures[k];
        request.sampling.verification = DI_VERIFICATION_REJECT;
        for (int i = 0; i < 150; i++) {
            di_result *r;
            request.sampling.seed = (uint64_t)i + 1;
            di_require(di_generate(engine, &request, NULL, NULL, &r));
            di_result_free(r);
        }
        di_confidence_report report;
        di_confidence_report_of(&engine->speculation.confidence, &report);
        for (int i = 0; i < 5; i++) {
            const double n = (double)report.slots[i].n_reached;
            const double error = (double)report.slots[i].n_accepted - n * overlap;
            assert_true(n > 20);
            assert_true(fabs(error) < 4.5 * sqrt(n * overlap * (1.0 - overlap)));
        }
        di_engine_destroy(engine);
    }
}

/* ------------------------------------------------------------------------------- results */

static di_result *generate(di_engine *engine, di_verification verification, double temperature)
{
    di_result *result;
    di_request request = toy_request(temperature);
    request.sampling.verification = verification;
    request.sampling.max_tokens = 40;
    request.sampling.ignore_eos = true;
    request.sampling.n_logprobs = 1;
    request.sampling.seed = 11;
    di_require(di_generate(engine, &request, NULL, NULL, &result));
    assert_int_equal(result->n_token_ids, 40);
    return result;
}

/* Of a result: the logprobs are the target's. */
static void check_logprobs(const di_result *r)
{
    const int32_t vocab_size = di_model_vocab_size(di_traffic_model);
    di_sampler_workspace workspace;
    float *logits = malloc((size_t)vocab_size * sizeof *logits);
    assert_non_null(logits);
    di_require(di_sampler_workspace_init(&workspace, vocab_size, NULL));
    uint64_t history = DI_NULL_HISTORY;
    for (size_t i = 0; i < r->n_prompt_token_ids; i++)
        history = di_null_history(history, r->prompt_token_ids[i]);
    for (size_t i = 0; i < r->n_token_ids; i++) {
        di_position_logprobs wanted;
        di_null_logits(history, logits, vocab_size);
        three_words(NULL, history, 1, logits);
        di_require(di_sample_given(&workspace, logits, 1, r->token_ids[i], 1, &wanted));
        assert_int_equal(r->logprobs[i].n_entries, wanted.n_entries);
        assert_memory_equal(r->logprobs[i].entries, wanted.entries,
                            wanted.n_entries * sizeof *wanted.entries);
        history = di_null_history(history, r->token_ids[i]);
    }
    di_sampler_workspace_free(&workspace);
    free(logits);
}

static void compare(di_engine *engine, double temperature, bool is_reproducible)
{
    di_result *match = generate(engine, DI_VERIFICATION_MATCH, temperature);
    di_result *reject = generate(engine, DI_VERIFICATION_REJECT, temperature);
    assert_true(match->is_reproducible);
    assert_int_equal(reject->is_reproducible, is_reproducible);
    const bool is_same = memcmp(match->token_ids, reject->token_ids,
                                match->n_token_ids * sizeof *match->token_ids) == 0;
    assert_int_equal(is_same, is_reproducible);
    check_logprobs(match);
    check_logprobs(reject);
    di_result_free(match);
    di_result_free(reject);
}

/* Only where drafts are verified by rejection, and not greedily, the seed is not all there is. */
static void results_say_what_the_seed_is_worth(void **state)
{
    (void)state;
    for (int wrong = 0; wrong <= 4; wrong += 4) {
        const di_null_setting s = {DI_NULL_AT_COLLECT, "on", "exact", 8, 64, 0, wrong, "off", 5};
        di_null_device device = {.bend = three_words};
        di_engine *engine = di_null_setting_engine(&s, &device);
        compare(engine, 1.0, wrong == 0);
        compare(engine, 0.0, true);
        check_idle(engine, &device);
        di_engine_destroy(engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_have_the_targets_distribution),
        cmocka_unit_test(constrained_texts),
        cmocka_unit_test(budgets_do_not_look_at_the_drafts),
        cmocka_unit_test(every_slot_is_accepted_alike),
        cmocka_unit_test(results_say_what_the_seed_is_worth),
    };
    return cmocka_run_group_tests(tests, di_traffic_open_model, di_traffic_close_model);
}
