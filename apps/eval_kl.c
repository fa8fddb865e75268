#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "eval.h"
#include "json_out.h"
#include "model.h"

/* What the predictions of some tokens differ by. */
typedef struct distance {
    size_t n_windows, n_tokens, n_same; /* n_same: predictions whose likeliest token is the same */
    double kl, most_kl;                 /* sum and largest, nats */
    double nats_all, nats;              /* -log p of the texts' tokens: of the whole prefill's, and
                                           of the predictions that are measured */
} distance;

typedef struct evaluator {
    const di_eval_kl_args *args;
    di_model *model;
    di_options all, options; /* the engine's, without truncation and as they were given */
    int32_t vocab_size;
    int32_t *input;  /* [prompt + predict - 1] */
    float *expected; /* [predict, vocab_size]: log probabilities of the whole prefill */
    bool is_tty;
} evaluator;

/* -------------------------------------------------------------------------------------- windows */

typedef struct window {
    const evaluator *self;
    const int32_t *targets; /* [predict] */
    distance *sum;
} window;

static int32_t likeliest(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

/* log of the sum of exp(x). */
static double log_sum(const float *x, int32_t n)
{
    const float most = x[likeliest(x, n)];
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - (double)most);
    return log(sum) + (double)most;
}

static float *row_of(const window *w, int64_t position)
{
    return w->self->expected + (position - w->self->args->prompt + 1) * w->self->vocab_size;
}

static bool keep_row(void *user, int64_t position, const float *logits, int32_t n)
{
    const window *w = user;
    float *row = row_of(w, position);
    const double sum = log_sum(logits, n);
    for (int32_t i = 0; i < n; i++)
        row[i] = (float)((double)logits[i] - sum);
    w->sum->nats_all -= (double)row[w->targets[position - w->self->args->prompt + 1]];
    return !di_app_interrupted();
}

static bool compare_row(void *user, int64_t position, const float *logits, int32_t n)
{
    const window *w = user;
    const float *row = row_of(w, position);
    const double sum = log_sum(logits, n);
    double kl = 0;
    for (int32_t i = 0; i < n; i++) {
        const float log_p = (float)((double)logits[i] - sum);
        if (row[i] != log_p)
            kl += exp((double)row[i]) * ((double)row[i] - (double)log_p);
    }
    distance *d = w->sum;
    d->kl += kl;
    d->most_kl = kl > d->most_kl ? kl : d->most_kl;
    d->n_same += likeliest(row, n) == likeliest(logits, n);
    d->nats += sum - (double)logits[w->targets[position - w->self->args->prompt + 1]];
    d->n_tokens++;
    return !di_app_interrupted();
}

/* The window of the text that begins at ids: a prompt of the begin-of-sentence token and what
 * follows it, then the tokens that are predicted. */
static di_exit compare_window(evaluator *self, const int32_t *ids, const char *name, distance *sum)
{
    const di_eval_kl_args *args = self->args;
    const int64_t n = args->prompt + args->predict - 1;
    const di_score_options score = {.prefill = -1, .prompt = args->prompt};
    window w = {.self = self, .targets = ids + args->prompt - 1, .sum = sum};
    self->input[0] = di_model_bos_id(self->model);
    memcpy(self->input + 1, ids, (size_t)(n - 1) * sizeof *ids);
    di_status status =
        di_score(self->model, &self->all, self->input, (size_t)n, &score, keep_row, &w);
    if (status == DI_OK)
        status =
            di_score(self->model, &self->options, self->input, (size_t)n, &score, compare_row, &w);
    sum->n_windows++;
    if (di_app_interrupted())
        return di_app_fail(DI_EXIT_INTERRUPTED, "interrupted in %s", name);
    return status == DI_OK ? DI_EXIT_OK : di_app_fail_status(status, name);
}

/* ---------------------------------------------------------------------------------------- texts */

static di_exit compare_text(evaluator *self, const char *path, distance *sum)
{
    const di_eval_kl_args *args = self->args;
    const char *name = di_app_file_name(path);
    const int64_t length = args->prompt + args->predict - 1; /* of a window, in the text */
    int32_t *ids = NULL;
    size_t n_ids = 0, n_bytes;
    di_exit code = di_eval_read_text(self->model, path, &ids, &n_ids, &n_bytes);
    int64_t n = (int64_t)n_ids;
    if (args->limit > 0 && n > args->limit)
        n = args->limit;
    if (code == DI_EXIT_OK && n < length)
        code = di_app_fail(DI_EXIT_INPUT,
                           "%s: found %" PRId64 " tokens, wanted at least a window of %" PRId64,
                           name, n, length);
    for (int64_t at = 0; code == DI_EXIT_OK && at + length <= n; at += length) {
        code = compare_window(self, ids + at, name, sum);
        if (self->is_tty)
            fprintf(stderr, "\rdeepinfer: %s: %" PRId64 " of %" PRId64 " tokens", name, at + length,
                    n);
    }
    if (self->is_tty)
        fputc('\n', stderr);
    di_free(ids);
    return code;
}

/* --------------------------------------------------------------------------------------- report */

static void add(distance *total, const distance *d)
{
    total->n_windows += d->n_windows;
    total->n_tokens += d->n_tokens;
    total->n_same += d->n_same;
    total->kl += d->kl;
    total->most_kl = d->most_kl > total->most_kl ? d->most_kl : total->most_kl;
    total->nats_all += d->nats_all;
    total->nats += d->nats;
}

static void print_row(const char *name, const distance *d)
{
    const double n = (double)d->n_tokens;
    printf("%8zu %10.6f %10.6f %9.3f%% %11.4f %11.4f  %s\n", d->n_tokens, d->kl / n, d->most_kl,
           100.0 * (double)d->n_same / n, d->nats_all / n, d->nats / n, name);
}

static void write_distance(const distance *d)
{
    const double n = (double)d->n_tokens;
    printf("\"windows\": %zu, \"tokens\": %zu, \"mean_kl\": %.17g, \"max_kl\": %.17g, "
           "\"same_likeliest\": %.17g, \"nats_per_token_whole\": %.17g, "
           "\"nats_per_token\": %.17g",
           d->n_windows, d->n_tokens, d->kl / n, d->most_kl, (double)d->n_same / n, d->nats_all / n,
           d->nats / n);
}

static void report(const evaluator *self, const distance *each, const distance *total)
{
    const di_eval_kl_args *args = self->args;
    const di_text_list *files = &args->files;
    if (!args->is_json) {
        printf("%8s %10s %10s %10s %11s %11s  prompts of %" PRId64 ", then %" PRId64 " tokens\n",
               "tokens", "mean KL", "max KL", "same best", "nats whole", "nats/token", args->prompt,
               args->predict);
        for (size_t i = 0; i < files->n; i++)
            print_row(di_app_file_name(files->items[i]), &each[i]);
        if (files->n > 1)
            print_row("all", total);
        return;
    }
    printf("{\"prompt\": %" PRId64 ", \"predict\": %" PRId64 ", \"files\": [", args->prompt,
           args->predict);
    for (size_t i = 0; i < files->n; i++) {
        fputs(i > 0 ? ", {\"file\": " : "{\"file\": ", stdout);
        di_out_text(stdout, files->items[i], strlen(files->items[i]));
        fputs(", ", stdout);
        write_distance(&each[i]);
        putchar('}');
    }
    fputs("], \"total\": {", stdout);
    write_distance(total);
    fputs("}}\n", stdout);
}

static di_exit compare_files(evaluator *self)
{
    const di_text_list *files = &self->args->files;
    distance *each = di_app_resize(NULL, files->n, sizeof *each);
    distance total = {0};
    di_exit code = DI_EXIT_OK;
    for (size_t i = 0; i < files->n && code == DI_EXIT_OK; i++) {
        each[i] = (distance){0};
        code = compare_text(self, files->items[i], &each[i]);
        add(&total, &each[i]);
    }
    if (code == DI_EXIT_OK)
        report(self, each, &total);
    free(each);
    return code;
}

di_exit di_eval_kl(const di_eval_kl_args *args)
{
    evaluator self = {.args = args, .is_tty = isatty(STDERR_FILENO) == 1};
    const int64_t n = args->prompt + args->predict - 1;
    di_exit code = di_app_model_open(&args->engine, &self.model);
    if (code == DI_EXIT_OK && n > di_model_max_context(self.model))
        code = di_app_fail(DI_EXIT_USAGE,
                           "--prompt and --predict: found %" PRId64
                           " tokens, wanted at most %" PRId64 ", the context limit",
                           n, di_model_max_context(self.model));
    if (code == DI_EXIT_OK) {
        self.vocab_size = di_model_vocab_size(self.model);
        self.input = di_app_resize(NULL, (size_t)n, sizeof *self.input);
        self.expected =
            di_app_resize(NULL, (size_t)(args->predict * self.vocab_size), sizeof *self.expected);
        self.options = args->engine.options;
        self.options.max_context_len = n; /* one sequence of a window: no memory for more */
        self.options.max_seqs = 1;
        self.all = self.options;
        self.all.prefill_truncation = "off";
        code = compare_files(&self);
    }
    free(self.input);
    free(self.expected);
    di_model_close(self.model);
    return code;
}
