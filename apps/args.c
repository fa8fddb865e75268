#define _GNU_SOURCE /* vasprintf */
#include "args.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------- the wrapper */

/* The root parser of every command: --help, errors, how many arguments. The command's own argp is
 * its only child. Every parser's state leads here: state->root_argp is the first member. */
typedef struct root {
    struct argp argp;
    void *inner_input;
    int max_positional;
    bool is_decided; /* leave with `code` */
    di_exit code;
} root;

static error_t leave(root *self, di_exit code)
{
    self->is_decided = true;
    self->code = code;
    return ECANCELED;
}

error_t di_args_bad(struct argp_state *state, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        text = NULL;
    va_end(args);
    di_app_fail(DI_EXIT_USAGE, "%s", text != NULL ? text : "out of memory");
    free(text);
    return leave((root *)state->root_argp, DI_EXIT_USAGE);
}

enum { MAX_OPTIONS = 128 };

typedef struct option_set {
    const struct argp_option *items[MAX_OPTIONS];
    size_t n;
} option_set;

static void collect_options(const struct argp *argp, option_set *set)
{
    for (const struct argp_option *o = argp->options;
         o != NULL && (o->name != NULL || o->key != 0 || o->doc != NULL); o++)
        if ((o->name != NULL || o->key != 0) && set->n < MAX_OPTIONS)
            set->items[set->n++] = o;
    for (const struct argp_child *c = argp->children; c != NULL && c->argp != NULL; c++)
        collect_options(c->argp, set);
}

static error_t explain_long(struct argp_state *state, const option_set *set, const char *arg)
{
    const size_t n = strcspn(arg + 2, "=");
    char *name = di_app_text("%.*s", (int)n, arg + 2);
    const char *names[MAX_OPTIONS];
    size_t n_names = 0;
    size_t n_prefixed = 0;
    const struct argp_option *match = NULL;
    for (size_t i = 0; i < set->n; i++) {
        const char *other = set->items[i]->name;
        if (other == NULL)
            continue;
        names[n_names++] = other;
        if (strcmp(other, name) == 0) {
            match = set->items[i];
            n_prefixed = 1;
            break;
        }
        if (strncmp(other, name, n) == 0 && n > 0) {
            match = set->items[i];
            n_prefixed++;
        }
    }
    error_t result;
    const char *nearest = di_app_nearest(name, names, n_names);
    if (n_prefixed > 1)
        result = di_args_bad(state, "option '--%s' is ambiguous", name);
    else if (match != NULL && match->arg == NULL)
        result = di_args_bad(state, "option '--%s' takes no value", name);
    else if (match != NULL)
        result = di_args_bad(state, "option '--%s' wants a value", name);
    else if (nearest != NULL)
        result = di_args_bad(state, "unknown option '--%s', did you mean '--%s'?", name, nearest);
    else
        result = di_args_bad(state, "unknown option '--%s' (see '%s --help')", name, state->name);
    free(name);
    return result;
}

static const struct argp_option *find_short(const option_set *set, char key)
{
    for (size_t i = 0; i < set->n; i++)
        if (set->items[i]->key == (unsigned char)key)
            return set->items[i];
    return NULL;
}

/* argp stopped without a word (ARGP_NO_ERRS): getopt met an unknown option, or one with a missing
 * or surplus value. It stands before state->next, or at it within a cluster of short options. */
static error_t explain_option(struct argp_state *state)
{
    option_set set = {.n = 0};
    collect_options(state->root_argp, &set);
    const char *arg = state->next > 0 ? state->argv[state->next - 1] : "";
    if (strncmp(arg, "--", 2) == 0 && arg[2] != '\0')
        return explain_long(state, &set, arg);
    for (int i = state->next - 1; i <= state->next && i < state->argc; i++) {
        const char *cluster = i > 0 ? state->argv[i] : "";
        if (cluster[0] != '-' || cluster[1] == '\0')
            continue;
        for (const char *c = cluster + 1; *c != '\0'; c++) {
            const struct argp_option *option = find_short(&set, *c);
            if (option == NULL)
                return di_args_bad(state, "unknown option '-%c' (see '%s --help')", *c,
                                   state->name);
            if (option->arg != NULL && c[1] == '\0')
                return di_args_bad(state, "option '-%c' wants a value", *c);
        }
    }
    return di_args_bad(state, "'%s' is not understood (see '%s --help')", arg, state->name);
}

static error_t parse_root(int key, char *arg, struct argp_state *state)
{
    root *self = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = self->inner_input;
        return 0;
    case 'h':
        argp_help(state->root_argp, stdout, ARGP_HELP_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC,
                  state->name);
        return leave(self, DI_EXIT_OK);
    case ARGP_KEY_ARG:
        if ((int)state->arg_num >= self->max_positional)
            return di_args_bad(state, "unexpected argument '%s' (see '%s --help')", arg,
                               state->name);
        return ARGP_ERR_UNKNOWN;
    case ARGP_KEY_ERROR:
        return self->is_decided ? 0 : explain_option(state);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

bool di_args_parse(const struct argp *argp, int max_positional, int argc, char **argv, void *input,
                   di_exit *code)
{
    static const struct argp_option options[] = {
        {"help", 'h', NULL, 0, "print this help and leave", -1},
        {NULL},
    };
    const struct argp_child children[] = {{.argp = argp}, {NULL}};
    root self = {.argp = {.options = options, .parser = parse_root, .children = children},
                 .inner_input = input,
                 .max_positional = max_positional};
    const error_t error =
        argp_parse(&self.argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT, NULL, &self);
    if (!self.is_decided && error == 0)
        return true;
    *code = self.is_decided
                ? self.code
                : di_app_fail(DI_EXIT_USAGE, "cannot read the command line: %s", strerror(error));
    if (*code == DI_EXIT_OK)
        *code = di_app_flush();
    return false;
}

/* -------------------------------------------------------------------------------------- numbers */

static char *range_text(double low, double high)
{
    if (low <= -(double)FLT_MAX)
        return di_app_text("a finite number");
    if (high >= (double)(INT64_MAX / 2))
        return low > 0 && low < 1 ? di_app_text("more than 0") : di_app_text("%.15g or more", low);
    return di_app_text("%.15g to %.15g", low, high);
}

static bool number_error(const char *text, const char *problem, double low, double high,
                         char **error)
{
    char *range = range_text(low, high);
    *error = di_app_text("'%s' is %s, wanted %s", text, problem, range);
    free(range);
    return false;
}

static bool is_number_start(const char *text)
{
    return strchr("+-.0123456789", text[0]) != NULL && text[0] != '\0';
}

bool di_args_parse_i64(const char *text, int64_t low, int64_t high, int64_t *out, char **error)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (!is_number_start(text) || *end != '\0' || end == text)
        return number_error(text, "not a whole number", (double)low, (double)high, error);
    if (errno == ERANGE || value < low || value > high)
        return number_error(text, "out of range", (double)low, (double)high, error);
    *out = value;
    return true;
}

bool di_args_parse_u64(const char *text, uint64_t *out, char **error)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    const bool is_whole = text[0] >= '0' && text[0] <= '9' && *end == '\0';
    if (!is_whole || errno == ERANGE) {
        *error = di_app_text("'%s' is %s, wanted 0 to %" PRIu64, text,
                             is_whole ? "out of range" : "not a whole number", UINT64_MAX);
        return false;
    }
    *out = value;
    return true;
}

bool di_args_parse_f64(const char *text, double low, double high, double *out, char **error)
{
    char *end = NULL;
    const double value = strtod(text, &end);
    if (!is_number_start(text) || *end != '\0' || end == text)
        return number_error(text, "not a number", low, high, error);
    if (!isfinite(value) || value < low || value > high)
        return number_error(text, "out of range", low, high, error);
    *out = value;
    return true;
}

error_t di_args_i64(struct argp_state *state, const char *option, const char *arg, int64_t low,
                    int64_t high, int64_t *out)
{
    char *error = NULL;
    if (di_args_parse_i64(arg, low, high, out, &error))
        return 0;
    const error_t result = di_args_bad(state, "%s: %s", option, error);
    free(error);
    return result;
}

void di_text_list_add(di_text_list *list, const char *text)
{
    list->items = di_app_grow(list->items, list->n, sizeof *list->items);
    list->items[list->n++] = text;
}

void di_text_list_free(di_text_list *list)
{
    free(list->items);
    *list = (di_text_list){NULL};
}

/* ------------------------------------------------------------------------------- engine options */

enum {
    KEY_ACCELERATOR = 0x100,
    KEY_THREADS,
    KEY_PIN,
    KEY_STEP_TOKENS,
    KEY_CONTEXT,
    KEY_SEQS,
    KEY_KV_BYTES,
    KEY_KV_FRACTION,
    KEY_WEIGHTS,
    KEY_WEIGHT_CACHE,
    KEY_PREFIX_CACHE,
    KEY_PREFIX_INTERVAL,
    KEY_TRUNCATION,
    KEY_KEEP,
    KEY_ASYNC,
    KEY_INVARIANT,
    KEY_SPECULATION,
    KEY_DRAFT_LEN,
    KEY_DRAFT_VARLEN,
    KEY_ISA,
    KEY_KERNEL
};

static const struct argp_option engine_options[] = {
    {"model", 'm', "MODEL", 0,
     "checkpoint: a directory, org/name on the Hugging Face hub (downloaded into its cache), or an "
     "alias (v4.1-flash); default: DEEPINFER_HF_MODEL_DIR, else the small model that comes along"},
    {"accelerator", KEY_ACCELERATOR, "NAME", 0, "where to compute: cpu"},
    {"threads", KEY_THREADS, "N", 0, "CPU threads; default: the cores this process may use"},
    {"pin", KEY_PIN, "auto|on|off", 0,
     "each thread stays on a core of its own; default auto: where they take all cores of this "
     "process"},
    {"max-step-tokens", KEY_STEP_TOKENS, "N", 0,
     "most tokens of one forward pass, the prefill chunk; default 512"},
    {"max-context-len", KEY_CONTEXT, "N", 0,
     "most tokens of prompt and output together; default: the model's limit"},
    {"max-seqs", KEY_SEQS, "N", 0, "most sequences running at once; default 256"},
    {"kv-cache-bytes", KEY_KV_BYTES, "N", 0,
     "memory for the KV cache; default: an eighth of this process's; one sequence of the longest "
     "context fits in any case"},
    {"kv-cache-fraction", KEY_KV_FRACTION, "F", 0,
     "memory for the KV cache as a part, up to 1, of what is available beside weights and step "
     "memory; instead of --kv-cache-bytes"},
    {"weights", KEY_WEIGHTS, "map|copy", 0,
     "copy: read the weights into large pages near the threads; default map: from the files"},
    {"weight-cache", KEY_WEIGHT_CACHE, "N", 0,
     "bytes of memory for experts, which then are read from disk as they are wanted; default: "
     "none, "
     "the system decides what stays in memory"},
    {"prefix-cache", KEY_PREFIX_CACHE, "MODE", 0,
     "reuse of prompt beginnings: exact (default), replay or off"},
    {"prefix-interval", KEY_PREFIX_INTERVAL, "N", 0,
     "tokens between places where an exact prefix hit can end; default 1024"},
    {"prefill-truncation", KEY_TRUNCATION, "MODE", 0,
     "layers from the last KV source on compute only the last tokens of a prompt: compact "
     "(approximate), exact, or off (default)"},
    {"prefill-keep", KEY_KEEP, "N", 0, "how many tokens those are; default 140"},
    {"async-scheduling", KEY_ASYNC, "on|off", 0,
     "schedule a step while the last one runs; default on"},
    {"batch-invariant", KEY_INVARIANT, "on|off", 0,
     "results do not depend on what else runs; default on"},
    {"speculation", KEY_SPECULATION, "auto|on|off", 0,
     "guess tokens and verify several at a time, which never changes them; default auto: where the "
     "checkpoint has draft layers or a grammar forces text"},
    {"draft-len", KEY_DRAFT_LEN, "N", 0,
     "most guesses verified at once for one sequence, 1 to 7; default 5"},
    {"draft-varlen", KEY_DRAFT_VARLEN, "on|off", 0,
     "verify as many guesses as pay; off: all of them; default on"},
    {"isa", KEY_ISA, "LEVEL", 0, "highest CPU kernel level to use, such as ref"},
    {"kernel", KEY_KERNEL, "OP=NAME", 0, "force one operation's kernel (may be repeated)"},
    {NULL},
};

error_t di_args_add_kernel(struct argp_state *state, const char *arg, char **kernels,
                           di_options *options)
{
    const char *equals = strchr(arg, '=');
    if (equals == NULL || equals == arg || equals[1] == '\0')
        return di_args_bad(state, "--kernel: '%s' is not OP=NAME", arg);
    char *joined = *kernels == NULL ? di_app_text("%s", arg) : di_app_text("%s,%s", *kernels, arg);
    free(*kernels);
    *kernels = joined;
    options->kernels = joined;
    return 0;
}

/* Options that are words: di_app_check_options looks at their values. */
static const char **word_field(int key, di_options *options)
{
    switch (key) {
    case KEY_ACCELERATOR:
        return &options->accelerator;
    case KEY_PIN:
        return &options->pin;
    case KEY_WEIGHTS:
        return &options->weights;
    case KEY_PREFIX_CACHE:
        return &options->prefix_cache;
    case KEY_TRUNCATION:
        return &options->prefill_truncation;
    case KEY_ASYNC:
        return &options->async_scheduling;
    case KEY_INVARIANT:
        return &options->batch_invariant;
    case KEY_SPECULATION:
        return &options->speculation;
    case KEY_DRAFT_VARLEN:
        return &options->draft_varlen;
    case KEY_ISA:
        return &options->isa;
    default:
        return NULL;
    }
}

static error_t set_count(struct argp_state *state, const char *option, const char *arg, int most,
                         int *out)
{
    int64_t value = 0;
    const error_t error = di_args_i64(state, option, arg, 1, most, &value);
    *out = (int)value;
    return error;
}

static error_t set_fraction(struct argp_state *state, const char *option, const char *arg,
                            double *out)
{
    char *error = NULL;
    if (di_args_parse_f64(arg, 0.000001, 1, out, &error))
        return 0;
    const error_t result = di_args_bad(state, "%s: %s", option, error);
    free(error);
    return result;
}

static error_t parse_engine(int key, char *arg, struct argp_state *state)
{
    di_engine_args *args = state->input;
    const char **word = word_field(key, &args->options);
    if (word != NULL) {
        *word = arg;
        return 0;
    }
    switch (key) {
    case 'm':
        if (arg[0] == '\0')
            return di_args_bad(state, "--model: the name is empty");
        args->model = arg;
        return 0;
    case KEY_THREADS:
        return set_count(state, "--threads", arg, 4096, &args->options.n_threads);
    case KEY_STEP_TOKENS:
        return set_count(state, "--max-step-tokens", arg, 65536, &args->options.max_step_tokens);
    case KEY_DRAFT_LEN:
        return set_count(state, "--draft-len", arg, 7, &args->options.draft_len);
    case KEY_CONTEXT:
        return di_args_i64(state, "--max-context-len", arg, 1, INT32_MAX,
                           &args->options.max_context_len);
    case KEY_SEQS:
        return set_count(state, "--max-seqs", arg, 16384, &args->options.max_seqs);
    case KEY_KV_BYTES:
        return di_args_i64(state, "--kv-cache-bytes", arg, 1, INT64_MAX / 2,
                           &args->options.kv_cache_bytes);
    case KEY_KV_FRACTION:
        return set_fraction(state, "--kv-cache-fraction", arg, &args->options.kv_cache_fraction);
    case KEY_PREFIX_INTERVAL:
        return set_count(state, "--prefix-interval", arg, 1 << 24, &args->options.prefix_interval);
    case KEY_KEEP:
        return set_count(state, "--prefill-keep", arg, INT32_MAX, &args->options.prefill_keep);
    case KEY_WEIGHT_CACHE:
        return di_args_i64(state, "--weight-cache", arg, 1, INT64_MAX / 4,
                           &args->options.weight_cache);
    case KEY_KERNEL:
        return di_args_add_kernel(state, arg, &args->kernels, &args->options);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp di_engine_argp = {.options = engine_options, .parser = parse_engine};

void di_engine_args_free(di_engine_args *args)
{
    free(args->kernels);
    *args = (di_engine_args){NULL};
}
