#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "eval.h"
#include "json_out.h"
#include "model.h"

enum { DEFAULT_WINDOW = 2048 };

/* What a text's tokens cost. */
typedef struct cost {
    size_t n_tokens;
    size_t n_bytes; /* of the text those tokens make */
    double bits;    /* sum of -log2 p */
} cost;

static double perplexity(const cost *c)
{
    return exp2(c->bits / (double)c->n_tokens);
}

static double bits_per_byte(const cost *c)
{
    return c->bits / (double)c->n_bytes;
}

/* -------------------------------------------------------------------------------------- windows */

typedef struct evaluator {
    const di_eval_ppl_args *args;
    di_model *model;
    di_options options;
    int64_t window, stride;
    int32_t *input; /* [window] */
    bool is_tty;
} evaluator;

/* The tokens a window predicts; those before `n_skipped` were counted in the window before. */
typedef struct window {
    const int32_t *targets;
    int64_t n_skipped;
    double bits;
} window;

/* -log2 of the softmax of logits at `id`. */
static double token_bits(const float *logits, int32_t n, int32_t id)
{
    float most = logits[0];
    for (int32_t i = 1; i < n; i++)
        most = logits[i] > most ? logits[i] : most;
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - (double)most);
    return (log(sum) - ((double)logits[id] - (double)most)) / M_LN2;
}

static bool on_row(void *user, int64_t position, const float *logits, int32_t vocab_size)
{
    window *self = user;
    if (position >= self->n_skipped)
        self->bits += token_bits(logits, vocab_size, self->targets[position]);
    return !di_app_interrupted();
}

/* Windows begin at 0, stride, 2 stride, ... and predict `window` tokens each, from the
 * begin-of-sentence token and those before; the last one ends with the text. */
static di_exit score_tokens(evaluator *self, const int32_t *ids, int64_t n, const char *name,
                            double *bits)
{
    *bits = 0;
    int64_t counted = 0; /* tokens */
    for (int64_t begin = 0; counted < n; begin += self->stride) {
        const int64_t end = n - begin < self->window ? n : begin + self->window;
        self->input[0] = di_model_bos_id(self->model);
        for (int64_t i = begin; i + 1 < end; i++)
            self->input[i - begin + 1] = ids[i];
        window w = {.targets = ids + begin, .n_skipped = counted - begin};
        const di_status status = di_score(self->model, &self->options, self->input,
                                          (size_t)(end - begin), NULL, on_row, &w);
        if (di_app_interrupted())
            return di_app_fail(DI_EXIT_INTERRUPTED, "interrupted in %s", name);
        if (status != DI_OK)
            return di_app_fail_status(status, name);
        *bits += w.bits;
        counted = end;
        if (self->is_tty)
            fprintf(stderr, "\rdeepinfer: %s: %" PRId64 " of %" PRId64 " tokens%s", name, counted,
                    n, counted == n ? "\n" : "");
    }
    return DI_EXIT_OK;
}

/* ---------------------------------------------------------------------------------------- texts */

di_exit di_eval_read_text(const di_model *model, const char *path, int32_t **ids, size_t *n_ids,
                          size_t *n_bytes)
{
    const char *name = di_app_file_name(path);
    char *text = NULL;
    *ids = NULL;
    const di_exit code = di_app_read_file(path, &text, n_bytes);
    if (code != DI_EXIT_OK)
        return code;
    const di_status status = di_tokenize(model, text, *n_bytes, false, ids, n_ids);
    free(text);
    if (status != DI_OK)
        return di_app_fail_status(status, name);
    if (*n_ids == 0)
        return di_app_fail(DI_EXIT_INPUT, "%s: the text is empty", name);
    return DI_EXIT_OK;
}

/* Cuts the tokens at --limit, and the bytes to what is left of the text. */
static di_exit apply_limit(const evaluator *self, const int32_t *ids, const char *name, cost *c)
{
    if (self->args->limit == 0 || (int64_t)c->n_tokens <= self->args->limit)
        return DI_EXIT_OK;
    c->n_tokens = (size_t)self->args->limit;
    char *text = NULL;
    const di_status status =
        di_detokenize(self->model, ids, c->n_tokens, false, &text, &c->n_bytes);
    di_free(text);
    return status == DI_OK ? DI_EXIT_OK : di_app_fail_status(status, name);
}

static di_exit score_file(evaluator *self, const char *path, cost *c)
{
    *c = (cost){0};
    const char *name = di_app_file_name(path);
    int32_t *ids = NULL;
    di_exit code = di_eval_read_text(self->model, path, &ids, &c->n_tokens, &c->n_bytes);
    if (code == DI_EXIT_OK)
        code = apply_limit(self, ids, name, c);
    if (code == DI_EXIT_OK)
        code = score_tokens(self, ids, (int64_t)c->n_tokens, name, &c->bits);
    di_free(ids);
    return code;
}

/* --------------------------------------------------------------------------------------- report */

static void print_row(const char *name, const cost *c)
{
    printf("%10zu %10zu %12.4f %12.4f %10.5f  %s\n", c->n_tokens, c->n_bytes,
           c->bits * M_LN2 / (double)c->n_tokens, perplexity(c), bits_per_byte(c), name);
}

static void write_cost(const cost *c)
{
    printf("\"tokens\": %zu, \"bytes\": %zu, \"bits\": %.17g, \"nats_per_token\": %.17g, "
           "\"perplexity\": %.17g, \"bits_per_byte\": %.17g",
           c->n_tokens, c->n_bytes, c->bits, c->bits * M_LN2 / (double)c->n_tokens, perplexity(c),
           bits_per_byte(c));
}

static void report_json(const evaluator *self, const cost *costs, const cost *total)
{
    const di_text_list *files = &self->args->files;
    printf("{\"ctx\": %" PRId64 ", \"stride\": %" PRId64 ", \"files\": [", self->window,
           self->stride);
    for (size_t i = 0; i < files->n; i++) {
        fputs(i > 0 ? ", {\"file\": " : "{\"file\": ", stdout);
        di_out_text(stdout, files->items[i], strlen(files->items[i]));
        fputs(", ", stdout);
        write_cost(&costs[i]);
        putchar('}');
    }
    fputs("], \"total\": {", stdout);
    write_cost(total);
    fputs("}}\n", stdout);
}

static void report_table(const evaluator *self, const cost *costs, const cost *total)
{
    const di_text_list *files = &self->args->files;
    printf("%10s %10s %12s %12s %10s  windows of %" PRId64 ", stride %" PRId64 "\n", "tokens",
           "bytes", "nats/token", "perplexity", "bits/byte", self->window, self->stride);
    for (size_t i = 0; i < files->n; i++)
        print_row(di_app_file_name(files->items[i]), &costs[i]);
    if (files->n > 1)
        print_row("all", total);
}

static di_exit score_files(evaluator *self)
{
    const di_text_list *files = &self->args->files;
    cost *costs = di_app_resize(NULL, files->n, sizeof *costs);
    cost total = {0};
    di_exit code = DI_EXIT_OK;
    for (size_t i = 0; i < files->n && code == DI_EXIT_OK; i++) {
        code = score_file(self, files->items[i], &costs[i]);
        total.n_tokens += costs[i].n_tokens;
        total.n_bytes += costs[i].n_bytes;
        total.bits += costs[i].bits;
    }
    if (code == DI_EXIT_OK)
        (self->args->is_json ? report_json : report_table)(self, costs, &total);
    free(costs);
    return code;
}

/* A window fits the context; a stride the window. */
static di_exit choose_window(evaluator *self)
{
    const di_eval_ppl_args *args = self->args;
    const int64_t limit = args->engine.options.max_context_len > 0
                              ? args->engine.options.max_context_len
                              : di_model_max_context(self->model);
    self->window = args->window;
    if (self->window == 0)
        self->window = limit < DEFAULT_WINDOW ? limit : DEFAULT_WINDOW;
    self->stride = args->stride == 0 ? self->window : args->stride;
    if (self->window > limit)
        return di_app_fail(DI_EXIT_USAGE,
                           "--ctx: found %" PRId64 ", wanted at most %" PRId64
                           ", the context limit",
                           self->window, limit);
    if (self->stride > self->window)
        return di_app_fail(DI_EXIT_USAGE, "--stride %" PRId64 " is more than --ctx %" PRId64,
                           self->stride, self->window);
    /* Scoring runs one sequence of at most a window: no memory for more. */
    self->options = args->engine.options;
    self->options.max_context_len = self->window;
    self->options.max_seqs = 1;
    return DI_EXIT_OK;
}

di_exit di_eval_ppl(const di_eval_ppl_args *args)
{
    evaluator self = {.args = args, .is_tty = isatty(STDERR_FILENO) == 1};
    di_exit code = di_app_model_open(&args->engine, &self.model);
    if (code == DI_EXIT_OK)
        code = choose_window(&self);
    if (code == DI_EXIT_OK) {
        self.input = di_app_resize(NULL, (size_t)self.window, sizeof *self.input);
        code = score_files(&self);
    }
    free(self.input);
    di_model_close(self.model);
    return code;
}
