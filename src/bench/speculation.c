/* deepinfer bench speculation: decodes of the same prompts without drafts, with all drafts verified
 * and with as many as pay, in turns, so that what else the machine does meets all three. Beside the
 * measured speed-up stands the one that the engine's own cost tables predict. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "bench/timing.h"
#include "deepinfer/tools.h"
#include "engine/engine.h"

enum { N_MODES = 3, MAX_BATCH = 64, DEFAULT_TOKENS = 96, DEFAULT_ROUNDS = 5, MAX_ROUNDS = 1000 };
enum { PROMPT_TOKENS = 64 }; /* room for any of the prompts */

typedef enum mode { OFF, FIXED, VARLEN } mode;

static const int64_t default_batches[] = {1, 2, 4, 8, 16, 32, 64};

/* One run of one mode. */
typedef struct run {
    double rate;         /* tokens a second */
    double accepted_len; /* tokens of a sequence a pass */
    double verified;     /* drafts of a sequence a pass */
    double pass_ms;      /* the device's time for a pass, drafts made in it included */
} run;

typedef struct bench {
    const di_bench_speculation_options *options;
    di_engine *engines[N_MODES];
    int64_t n_tokens;
    int n_rounds;
    run *runs[N_MODES]; /* [n_rounds] */
    double *values;     /* [n_rounds], scratch */
    FILE *out;
} bench;

/* ------------------------------------------------------------------------------- one run */

static di_status submit_one(const bench *b, di_engine *engine, int64_t index, di_request_id *id)
{
    static const char *const kinds[] = {"little", "young",  "poor",   "clever",
                                        "hungry", "lonely", "strong", "merry"};
    static const char *const heroes[] = {"fox",   "boy",   "girl",   "king",
                                         "giant", "mouse", "sailor", "woman"};
    char text[96];
    snprintf(text, sizeof text, "Once upon a time there was a %s %s who", kinds[index % 8],
             heroes[index / 8 % 8]);
    di_request r = DI_REQUEST_INIT;
    r.text = text;
    r.sampling.temperature = b->options->temperature;
    r.sampling.has_seed = true;
    r.sampling.seed = (uint64_t)index + 1;
    r.sampling.ignore_eos = true;
    r.sampling.max_tokens = b->n_tokens;
    return di_engine_submit(engine, &r, id);
}

static bool goes_on(const bench *b)
{
    return !b->options->go_on || b->options->go_on(b->options->user);
}

/* Steps until `is_over`, and polls what comes. */
static di_status step_until(const bench *b, di_engine *engine, di_engine_stats *stats,
                            bool (*is_over)(const di_engine_stats *now, uint64_t bound),
                            uint64_t bound)
{
    bool has_work = true;
    di_output output;
    do {
        if (!goes_on(b))
            return di_fail(DI_ERR_CANCELLED, "bench: interrupted");
        DI_TRY(di_engine_step(engine, &has_work));
        while (di_engine_poll(engine, &output))
            if (output.status != DI_OK)
                return di_fail(output.status, "%s", output.error);
        di_engine_get_stats(engine, stats);
    } while (has_work && !is_over(stats, bound));
    return DI_OK;
}

static bool has_generated(const di_engine_stats *now, uint64_t bound)
{
    return now->generated_tokens >= bound;
}

static bool has_finished(const di_engine_stats *now, uint64_t bound)
{
    return now->n_finished >= bound;
}

static run rate_of(const di_engine_stats *from, const di_engine_stats *to, int64_t ns,
                   int64_t batch)
{
    const double tokens = (double)(to->generated_tokens - from->generated_tokens);
    const double decodes = (double)(to->n_steps - from->n_steps) * (double)batch;
    return (run){
        .rate = tokens / ((double)ns * 1e-9),
        .accepted_len = decodes > 0 ? tokens / decodes : 0,
        .verified =
            decodes > 0 ? (double)(to->verified_drafts - from->verified_drafts) / decodes : 0,
        .pass_ms = decodes > 0 ? (double)(to->busy_ns - from->busy_ns) * 1e-6 /
                                     (double)(to->n_steps - from->n_steps)
                               : 0,
    };
}

/* From when all sequences have a few tokens to when the first one ends: all decode. */
static di_status measure(const bench *b, di_engine *engine, int64_t batch, run *out)
{
    di_request_id ids[MAX_BATCH];
    di_engine_stats start, from, to;
    di_engine_get_stats(engine, &start);
    for (int64_t i = 0; i < batch; i++)
        DI_TRY(submit_one(b, engine, i, &ids[i]));
    DI_TRY(
        step_until(b, engine, &from, has_generated, start.generated_tokens + 2 * (uint64_t)batch));
    const int64_t from_ns = di_clock_ns();
    DI_TRY(step_until(b, engine, &to, has_finished, start.n_finished + 1));
    *out = rate_of(&from, &to, di_clock_ns() - from_ns, batch);
    for (int64_t i = 0; i < batch; i++)
        di_engine_cancel(engine, ids[i]);
    DI_TRY(step_until(b, engine, &to, has_finished, UINT64_MAX));
    for (int64_t i = 0; i < batch; i++) {
        di_result *result;
        DI_TRY(di_engine_take_result(engine, ids[i], &result));
        di_result_free(result);
    }
    return DI_OK;
}

/* ------------------------------------------------------------------------------- a batch */

/* Medians over the rounds of a member of the runs, or of its quotient by that of the mode OFF. */
static double median_of(const bench *b, mode m, size_t member, bool is_ratio)
{
    for (int i = 0; i < b->n_rounds; i++) {
        double value, off;
        memcpy(&value, (const char *)&b->runs[m][i] + member, sizeof value);
        memcpy(&off, (const char *)&b->runs[OFF][i] + member, sizeof off);
        b->values[i] = is_ratio ? value / off : value;
    }
    return di_timing_median(b->values, (size_t)b->n_rounds);
}

static void print_head(const bench *b)
{
    const di_engine *e = b->engines[FIXED];
    fprintf(b->out,
            "%d drafts a block, %lld tokens a sequence, temperature %g, %d rounds in turns, %d "
            "threads\n",
            e->speculation.draft_len, (long long)b->n_tokens, b->options->temperature, b->n_rounds,
            e->runner.options.n_threads);
    if (b->options->accepted_len > 0)
        fprintf(b->out,
                "ACCEPTANCE IS FORCED to an accepted length of %g: the texts are no texts of the "
                "model, only the times count\n",
                b->options->accepted_len);
    fprintf(b->out, "%5s | %26s | %15s | %11s | %23s | %s\n", "", "tokens/s", "to off (pairs)",
            "accepted", "ms of a pass, by tables", "fixed / off");
    fprintf(b->out, "%5s | %8s %8s %8s | %7s %7s | %5s %5s | %7s %7s %7s | %9s %9s\n", "batch",
            "off", "fixed", "varlen", "fixed", "varlen", "fixed", "var.", "off", "block", "draft",
            "predicted", "measured/p.");
}

static void print_batch(const bench *b, int64_t batch)
{
    const di_speculation *s = &b->engines[FIXED]->speculation;
    const int32_t n = (int32_t)batch;
    const double one = median_of(b, OFF, offsetof(run, pass_ms), false);
    const double accepted = median_of(b, FIXED, offsetof(run, accepted_len), false);
    const double rows = batch * (1 + median_of(b, FIXED, offsetof(run, verified), false));
    const double block = di_cost_curve_at(&s->costs.verify, (int32_t)(rows + 0.5)) * 1e-6;
    const double draft = di_cost_curve_at(&s->costs.draft, n) * 1e-6;
    const double predicted = accepted * one / (block + draft);
    const double measured = median_of(b, FIXED, offsetof(run, rate), true);
    fprintf(b->out,
            "%5lld | %8.1f %8.1f %8.1f | %7.3f %7.3f | %5.2f %5.2f | %7.3f %7.3f %7.3f | %9.3f "
            "%9.3f\n",
            (long long)batch, median_of(b, OFF, offsetof(run, rate), false),
            median_of(b, FIXED, offsetof(run, rate), false),
            median_of(b, VARLEN, offsetof(run, rate), false), measured,
            median_of(b, VARLEN, offsetof(run, rate), true), accepted,
            median_of(b, VARLEN, offsetof(run, accepted_len), false), one, block, draft, predicted,
            measured / predicted);
    fflush(b->out);
}

/* The first round only warms up: engines learn what passes of this size cost. */
static di_status run_batch(const bench *b, int64_t batch)
{
    run unused;
    for (int m = 0; m < N_MODES; m++)
        DI_TRY(measure(b, b->engines[m], batch, &unused));
    for (int i = 0; i < b->n_rounds; i++)
        for (int k = 0; k < N_MODES; k++) {
            const int m = (i + k) % N_MODES;
            DI_TRY(measure(b, b->engines[m], batch, &b->runs[m][i]));
        }
    print_batch(b, batch);
    return DI_OK;
}

/* ------------------------------------------------------------------------------- the whole */

static void free_bench(bench *b)
{
    for (int m = 0; m < N_MODES; m++) {
        di_engine_destroy(b->engines[m]);
        free(b->runs[m]);
    }
    free(b->values);
}

static di_status make_engines(bench *b, di_model *model, const di_options *options,
                              int64_t most_batch)
{
    di_options o = options ? *options : (di_options){0};
    o.max_seqs = (int)most_batch;
    o.max_context_len = PROMPT_TOKENS + b->n_tokens;
    o.prefix_cache = "off";
    for (int m = 0; m < N_MODES; m++) {
        o.speculation = m == OFF ? "off" : "auto";
        o.draft_varlen = m == VARLEN && b->options->accepted_len == 0 ? "on" : "off";
        DI_TRY(di_engine_create(model, &o, &b->engines[m]));
        if (m != OFF)
            b->engines[m]->runner.forced_accepted_len = b->options->accepted_len;
    }
    if (b->engines[FIXED]->runner.n_draft_slots == 0)
        return di_fail(DI_ERR_ARGUMENT, "bench speculation: the checkpoint has no draft layers");
    return DI_OK;
}

static di_status run_all(bench *b, di_model *model, const di_options *options)
{
    const int64_t *batches = b->options->n_batches ? b->options->batches : default_batches;
    const size_t n = b->options->n_batches ? b->options->n_batches
                                           : sizeof default_batches / sizeof default_batches[0];
    int64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        if (batches[i] < 1 || batches[i] > MAX_BATCH)
            return di_fail(DI_ERR_ARGUMENT, "bench speculation: found batch %lld, wanted 1 to %d",
                           (long long)batches[i], MAX_BATCH);
        most = di_max_i64(most, batches[i]);
    }
    const size_t rounds = (size_t)b->n_rounds;
    b->values = calloc(rounds, sizeof *b->values);
    for (int m = 0; m < N_MODES; m++)
        b->runs[m] = calloc(rounds, sizeof *b->runs[m]);
    if (!b->values || !b->runs[OFF] || !b->runs[FIXED] || !b->runs[VARLEN])
        return di_fail_memory(rounds * sizeof *b->runs[0], "the runs");
    DI_TRY(make_engines(b, model, options, most));
    print_head(b);
    for (size_t i = 0; i < n; i++)
        DI_TRY(run_batch(b, batches[i]));
    return fflush(b->out) || ferror(b->out) ? di_fail(DI_ERR_IO, "cannot write the results")
                                            : DI_OK;
}

di_status di_bench_speculation(di_model *model, const di_options *options,
                               const di_bench_speculation_options *given, FILE *out)
{
    static const di_bench_speculation_options defaults = {0};
    if (!model || !out)
        return di_fail(DI_ERR_ARGUMENT, "di_bench_speculation: model and out must not be NULL");
    bench b = {.options = given ? given : &defaults, .out = out};
    b.n_tokens = b.options->n_tokens ? b.options->n_tokens : DEFAULT_TOKENS;
    b.n_rounds = b.options->n_rounds ? b.options->n_rounds : DEFAULT_ROUNDS;
    if (b.n_tokens < 8 || b.n_rounds < 1 || b.n_rounds > MAX_ROUNDS)
        return di_fail(DI_ERR_ARGUMENT,
                       "bench speculation: found %lld tokens and %d rounds, wanted 8 at least and "
                       "1 to %d",
                       (long long)b.n_tokens, b.n_rounds, MAX_ROUNDS);
    if (b.options->accepted_len != 0 &&
        !(b.options->accepted_len >= 1 && b.options->accepted_len <= DI_MAX_DRAFTS + 1))
        return di_fail(DI_ERR_ARGUMENT,
                       "bench speculation: found an accepted length of %g, wanted 1 to %d",
                       b.options->accepted_len, DI_MAX_DRAFTS + 1);
    const di_status status = run_all(&b, model, options);
    free_bench(&b);
    return status;
}
