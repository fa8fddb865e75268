#include "base/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/topology.h"
#include "deepinfer/tools.h"

extern char **environ;

static const char env_prefix[] = "DEEPINFER_";

/* Fractions are held as whole millionths. */
enum { MAX_THREADS = 4096, FRACTION_ONE = 1000000 };

static const char *const accelerators[] = {"cpu", NULL};
static const char *const accelerators_elsewhere[] = {"nvidia", NULL};
static const char *const prefix_modes[] = {"exact", "replay", "off", NULL};
static const char *const truncation_modes[] = {"off", "compact", "exact", NULL};
static const char *const switches[] = {"on", "off", "1", "0", NULL};
static const char *const speculation_modes[] = {"auto", "on", "off", NULL};
static const char *const pin_modes[] = {"auto", "on", "off", NULL};
static const char *const weight_modes[] = {"map", "copy", NULL};
/* The levels of all architectures: which of them this machine has is the kernel mask's to say. */
static const char *const isa_levels[] = {"best",       "ref",        "neon", "avx2", "avx512",
                                         "avx512vnni", "avx512bf16", "amx",  NULL};

const di_option di_option_table[DI_N_OPTIONS] = {
    [DI_OPTION_ACCELERATOR] = {.name = "accelerator",
                               .env = "DEEPINFER_ACCELERATOR",
                               .type = DI_OPTION_ENUM,
                               .offset = offsetof(di_options, accelerator),
                               .values = accelerators,
                               .unavailable = accelerators_elsewhere,
                               .default_text = "cpu",
                               .help = "where the model runs"},
    [DI_OPTION_THREADS] = {.name = "n_threads",
                           .env = "DEEPINFER_THREADS",
                           .type = DI_OPTION_INT,
                           .offset = offsetof(di_options, n_threads),
                           .min = 1,
                           .max = MAX_THREADS,
                           .default_text = "the cores this process may use",
                           .help = "CPU worker threads"},
    [DI_OPTION_PIN] = {.name = "pin",
                       .env = "DEEPINFER_PIN",
                       .type = DI_OPTION_ENUM,
                       .offset = offsetof(di_options, pin),
                       .values = pin_modes,
                       .default_text = "auto",
                       .help = "each worker stays on a core of its own; auto: where the workers "
                               "take all cores of this process"},
    [DI_OPTION_MAX_STEP_TOKENS] = {.name = "max_step_tokens",
                                   .env = "DEEPINFER_MAX_STEP_TOKENS",
                                   .type = DI_OPTION_INT,
                                   .offset = offsetof(di_options, max_step_tokens),
                                   .min = 1,
                                   .max = 65536,
                                   .default_text = "512",
                                   .default_number = 512,
                                   .help = "most tokens of one forward pass: the prefill chunk"},
    [DI_OPTION_MAX_CONTEXT_LEN] = {.name = "max_context_len",
                                   .env = "DEEPINFER_MAX_CONTEXT_LEN",
                                   .type = DI_OPTION_INT64,
                                   .offset = offsetof(di_options, max_context_len),
                                   .min = 1,
                                   .max = INT32_MAX,
                                   .default_text = "the model's limit",
                                   .help =
                                       "tokens a sequence may have, prompt and output together"},
    [DI_OPTION_MAX_SEQS] = {.name = "max_seqs",
                            .env = "DEEPINFER_MAX_SEQS",
                            .type = DI_OPTION_INT,
                            .offset = offsetof(di_options, max_seqs),
                            .min = 1,
                            .max = 16384,
                            .default_text = "256",
                            .default_number = 256,
                            .help = "most sequences running at once"},
    [DI_OPTION_KV_CACHE_BYTES] = {.name = "kv_cache_bytes",
                                  .env = "DEEPINFER_KV_CACHE_BYTES",
                                  .type = DI_OPTION_INT64,
                                  .offset = offsetof(di_options, kv_cache_bytes),
                                  .min = 1,
                                  .max = INT64_MAX / 2,
                                  .default_text = "an eighth of this process's memory",
                                  .help =
                                      "KV-cache budget; one sequence of max_context_len fits in "
                                      "any case"},
    [DI_OPTION_KV_CACHE_FRACTION] = {.name = "kv_cache_fraction",
                                     .env = "DEEPINFER_KV_CACHE_FRACTION",
                                     .type = DI_OPTION_FRACTION,
                                     .offset = offsetof(di_options, kv_cache_fraction),
                                     .min = 1,
                                     .max = FRACTION_ONE,
                                     .default_text = "none",
                                     .help =
                                         "KV-cache budget instead of kv_cache_bytes: part of the "
                                         "available memory that weights outside experts, step "
                                         "memory and weight_cache leave"},
    [DI_OPTION_WEIGHTS] = {.name = "weights",
                           .env = "DEEPINFER_WEIGHTS",
                           .type = DI_OPTION_ENUM,
                           .offset = offsetof(di_options, weights),
                           .values = weight_modes,
                           .default_text = "map",
                           .help = "copy: what every pass reads is read into large pages near the "
                                   "workers when the model is opened; map: all stays in the files"},
    [DI_OPTION_WEIGHT_CACHE] = {.name = "weight_cache",
                                .env = "DEEPINFER_WEIGHT_CACHE",
                                .type = DI_OPTION_INT64,
                                .offset = offsetof(di_options, weight_cache),
                                .min = 1,
                                .max = INT64_MAX / 4,
                                .default_text = "none",
                                .help =
                                    "bytes of memory for experts that are read from disk as they "
                                    "are wanted; without it the system's page cache decides"},
    [DI_OPTION_PREFIX_CACHE] = {.name = "prefix_cache",
                                .env = "DEEPINFER_PREFIX_CACHE",
                                .type = DI_OPTION_ENUM,
                                .offset = offsetof(di_options, prefix_cache),
                                .values = prefix_modes,
                                .default_text = "exact",
                                .help =
                                    "reuse of prompt beginnings: exact has the bits of a cold run, "
                                    "replay rebuilds windows approximately"},
    [DI_OPTION_PREFIX_INTERVAL] = {.name = "prefix_interval",
                                   .env = "DEEPINFER_PREFIX_INTERVAL",
                                   .type = DI_OPTION_INT,
                                   .offset = offsetof(di_options, prefix_interval),
                                   .min = 1,
                                   .max = 1 << 24,
                                   .default_text = "1024",
                                   .default_number = 1024,
                                   .help =
                                       "tokens between places of a sequence where an exact prefix "
                                       "hit can end, beside ends and forks; whole blocks of 64"},
    [DI_OPTION_PREFILL_TRUNCATION] = {.name = "prefill_truncation",
                                      .env = "DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE",
                                      .type = DI_OPTION_ENUM,
                                      .offset = offsetof(di_options, prefill_truncation),
                                      .values = truncation_modes,
                                      .default_text = "off",
                                      .help =
                                          "compact: the layers from the last KV source on compute "
                                          "only the last tokens of a prompt, approximately; exact: "
                                          "with all that these depend on, with the bits of off"},
    [DI_OPTION_PREFILL_KEEP] = {.name = "prefill_keep",
                                .env = "DEEPINFER_YOCO_PREFILL_KEEP_TOKENS",
                                .type = DI_OPTION_INT,
                                .offset = offsetof(di_options, prefill_keep),
                                .min = 1,
                                .max = INT32_MAX,
                                .default_text = "140",
                                .default_number = 140,
                                .help = "tokens that a truncated prefill keeps in all layers; at "
                                        "least the sliding window and what speculation may take "
                                        "back"},
    [DI_OPTION_ASYNC_SCHEDULING] = {.name = "async_scheduling",
                                    .env = "DEEPINFER_ASYNC_SCHEDULING",
                                    .type = DI_OPTION_ENUM,
                                    .offset = offsetof(di_options, async_scheduling),
                                    .values = switches,
                                    .default_text = "on",
                                    .help = "schedule a step while the last one runs"},
    [DI_OPTION_BATCH_INVARIANT] = {.name = "batch_invariant",
                                   .env = "DEEPINFER_BATCH_INVARIANT",
                                   .type = DI_OPTION_ENUM,
                                   .offset = offsetof(di_options, batch_invariant),
                                   .values = switches,
                                   .default_text = "on",
                                   .help = "results do not depend on what else is in the batch"},
    [DI_OPTION_SPECULATION] = {.name = "speculation",
                               .env = "DEEPINFER_SPECULATION",
                               .type = DI_OPTION_ENUM,
                               .offset = offsetof(di_options, speculation),
                               .values = speculation_modes,
                               .default_text = "auto",
                               .help = "tokens are guessed and verified several at a time, which "
                                       "never changes them unless a request asks for verification "
                                       "by rejection; auto: by the draft layers, if the checkpoint "
                                       "has them, and where a grammar forces text"},
    [DI_OPTION_DRAFT_LEN] = {.name = "draft_len",
                             .env = "DEEPINFER_USE_NEXTN_DECODE",
                             .type = DI_OPTION_INT,
                             .offset = offsetof(di_options, draft_len),
                             .min = 1,
                             .max = DI_OPTION_MOST_DRAFTS,
                             .default_text = "5",
                             .default_number = 5,
                             .help = "most guesses verified at once for one sequence"},
    [DI_OPTION_DRAFT_VARLEN] = {.name = "draft_varlen",
                                .env = "DEEPINFER_ENABLE_MTP_VARLEN",
                                .type = DI_OPTION_ENUM,
                                .offset = offsetof(di_options, draft_varlen),
                                .values = switches,
                                .default_text = "on",
                                .help =
                                    "verify as many guesses as pay, by the drafter's confidence "
                                    "and measured times; off: all of them"},
    [DI_OPTION_ISA] = {.name = "isa",
                       .env = "DEEPINFER_ISA",
                       .type = DI_OPTION_ENUM,
                       .offset = offsetof(di_options, isa),
                       .values = isa_levels,
                       .default_text = "best",
                       .help = "highest CPU kernel level to use"},
    [DI_OPTION_KERNELS] = {.name = "kernels",
                           .env = "DEEPINFER_KERNELS",
                           .type = DI_OPTION_PAIRS,
                           .offset = offsetof(di_options, kernels),
                           .default_text = "none",
                           .help = "forces kernels, for bisecting"},
    [DI_OPTION_HF_MODEL_DIR] = {.name = "hf_model_dir",
                                .env = "DEEPINFER_HF_MODEL_DIR",
                                .type = DI_OPTION_PATH,
                                .is_program_only = true,
                                .default_text = "none",
                                .help = "checkpoint directory of the program when -m is not given"},
};

/* A value and where it comes from. text is NULL and number 0 where the default is no constant. */
typedef struct option_value {
    const char *text;
    int64_t number;
    di_option_source source;
} option_value;

/* One thread a core that this process may use, no more than its CPU time. */
static di_status find_threads(int *out)
{
    di_topology topology;
    DI_TRY(di_topology_read(NULL, &topology));
    *out = di_topology_threads(&topology);
    di_topology_free(&topology);
    return DI_OK;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein distance; a longer than the row is cut, which only makes it farther. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { ROW = 64 };
    size_t row[ROW + 1];
    const size_t n = min_size(strlen(b), ROW);
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            const size_t change = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = min_size(change, min_size(row[j], row[j + 1]) + 1);
        }
    }
    return row[n];
}

static const di_option *find_by_env(const char *env, size_t len)
{
    for (int i = 0; i < DI_N_OPTIONS; i++)
        if (strlen(di_option_table[i].env) == len && !memcmp(di_option_table[i].env, env, len))
            return &di_option_table[i];
    return NULL;
}

static const di_option *find_by_name(const char *name)
{
    for (int i = 0; i < DI_N_OPTIONS; i++)
        if (!strcmp(di_option_table[i].name, name))
            return &di_option_table[i];
    return NULL;
}

static di_status check_environment_names(void)
{
    for (char **entry = environ; entry && *entry; entry++) {
        const size_t len = strcspn(*entry, "=");
        if (strncmp(*entry, env_prefix, sizeof env_prefix - 1) || find_by_env(*entry, len))
            continue;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)min_size(len, sizeof name - 1), *entry);
        const di_option *nearest = &di_option_table[0];
        for (int i = 1; i < DI_N_OPTIONS; i++)
            if (edit_distance(name, di_option_table[i].env) < edit_distance(name, nearest->env))
                nearest = &di_option_table[i];
        return di_fail(DI_ERR_ARGUMENT,
                       "environment variable %s: no such option; the nearest is %s", name,
                       nearest->env);
    }
    return DI_OK;
}

static di_status parse_enum(const di_option *option, const char *label, const char *text,
                            option_value *out)
{
    for (const char *const *value = option->values; *value; value++)
        if (!strcmp(*value, text)) {
            out->text = *value;
            return DI_OK;
        }
    DI_BUF_AUTO supported = {0};
    for (const char *const *value = option->values; *value; value++)
        DI_TRY(di_buf_printf(&supported, "%s\"%s\"", supported.len ? ", " : "", *value));
    for (const char *const *value = option->unavailable; value && *value; value++)
        if (!strcmp(*value, text))
            return di_fail(DI_ERR_UNSUPPORTED, "%s: this build has no \"%s\", it supports %s",
                           label, text, di_buf_str(&supported));
    return di_fail(DI_ERR_ARGUMENT, "%s: found \"%.64s\", this build supports %s", label, text,
                   di_buf_str(&supported));
}

static di_status check_range(const di_option *option, const char *label, int64_t number,
                             option_value *out)
{
    if (number < option->min || number > option->max)
        return di_fail(DI_ERR_ARGUMENT,
                       "%s: found %" PRId64 ", wanted an integer from %" PRId64 " to %" PRId64,
                       label, number, option->min, option->max);
    out->number = number;
    return DI_OK;
}

static di_status parse_number(const di_option *option, const char *label, const char *text,
                              option_value *out)
{
    const size_t n_digits = strspn(text, "0123456789");
    errno = 0;
    const long long number = strtoll(text, NULL, 10);
    if (n_digits == 0 || text[n_digits] || errno)
        return di_fail(DI_ERR_ARGUMENT,
                       "%s: found \"%.64s\", wanted an integer from %" PRId64 " to %" PRId64, label,
                       text, option->min, option->max);
    return check_range(option, label, number, out);
}

static di_status fail_fraction(const char *label, const char *found)
{
    return di_fail(DI_ERR_ARGUMENT, "%s: found %.64s, wanted a number from 0.000001 to 1", label,
                   found);
}

/* "0.25", ".5", "1": no sign, no exponent, a point in every locale; millionths. */
static di_status parse_fraction(const di_option *option, const char *label, const char *text,
                                option_value *out)
{
    const size_t n_whole = strspn(text, "0123456789");
    const char *decimals = text + n_whole + (text[n_whole] == '.');
    const size_t n_decimals = strspn(decimals, "0123456789");
    const bool is_number = decimals[n_decimals] == 0 && n_whole + n_decimals > 0 && n_whole <= 6;
    int64_t number = 0;
    for (size_t i = 0; is_number && i < n_whole; i++)
        number = number * 10 + (text[i] - '0');
    for (size_t i = 0; is_number && i < 6; i++)
        number = number * 10 + (i < n_decimals ? decimals[i] - '0' : 0);
    if (!is_number || number < option->min || number > option->max)
        return fail_fraction(label, text);
    out->number = number;
    return DI_OK;
}

static di_status check_fraction(const char *label, double fraction, option_value *out)
{
    char text[40];
    snprintf(text, sizeof text, "%g", fraction);
    if (!(fraction >= 1.0 / FRACTION_ONE && fraction <= 1.0))
        return fail_fraction(label, text);
    out->number = (int64_t)(fraction * FRACTION_ONE + 0.5);
    return DI_OK;
}

/* Length of the name at the start of text. */
static size_t name_len(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
}

static bool is_pair_list(const char *text)
{
    for (;; text++) {
        const size_t left = name_len(text);
        if (left == 0 || text[left] != '=')
            return false;
        text += left + 1;
        const size_t right = name_len(text);
        if (right == 0)
            return false;
        text += right;
        if (*text != ',')
            return *text == 0;
    }
}

static di_status parse_text(const di_option *option, const char *label, const char *text,
                            option_value *out)
{
    switch (option->type) {
    case DI_OPTION_ENUM:
        return parse_enum(option, label, text, out);
    case DI_OPTION_INT:
    case DI_OPTION_INT64:
        return parse_number(option, label, text, out);
    case DI_OPTION_FRACTION:
        return parse_fraction(option, label, text, out);
    case DI_OPTION_PAIRS:
        if (strlen(text) >= DI_OPTION_TEXT_BYTES)
            return di_fail(DI_ERR_ARGUMENT, "%s: found %zu bytes, wanted under %d", label,
                           strlen(text), (int)DI_OPTION_TEXT_BYTES);
        if (!is_pair_list(text))
            return di_fail(DI_ERR_ARGUMENT,
                           "%s: found \"%.64s\", wanted \"op=kernel\" pairs separated by commas",
                           label, text);
        break;
    case DI_OPTION_PATH:
        break;
    }
    out->text = text;
    return DI_OK;
}

/* *is_given tells whether the API caller set this option. */
static di_status resolve_given(const di_option *option, const di_options *given, option_value *out,
                               bool *is_given)
{
    *is_given = false;
    if (!given || option->is_program_only)
        return DI_OK;
    const char *field = (const char *)given + option->offset;
    int64_t number = 0;
    const char *text = NULL;
    double fraction;
    int narrow;
    switch (option->type) {
    case DI_OPTION_FRACTION:
        memcpy(&fraction, field, sizeof fraction);
        *is_given = fraction != 0.0; /* NaN among them */
        out->source = *is_given ? DI_SOURCE_OPTION : out->source;
        return *is_given ? check_fraction(option->name, fraction, out) : DI_OK;
    case DI_OPTION_INT:
        memcpy(&narrow, field, sizeof narrow);
        number = narrow;
        break;
    case DI_OPTION_INT64:
        memcpy(&number, field, sizeof number);
        break;
    default:
        memcpy(&text, field, sizeof text);
    }
    if (!text && number == 0)
        return DI_OK;
    *is_given = true;
    out->source = DI_SOURCE_OPTION;
    return text ? parse_text(option, option->name, text, out)
                : check_range(option, option->name, number, out);
}

static di_status resolve(const di_option *option, const di_options *given, option_value *out)
{
    *out = (option_value){.source = DI_SOURCE_DEFAULT};
    bool is_given;
    DI_TRY(resolve_given(option, given, out, &is_given));
    if (is_given)
        return DI_OK;
    const char *text = getenv(option->env);
    if (text && *text) {
        out->source = DI_SOURCE_ENVIRONMENT;
        return parse_text(option, option->env, text, out);
    }
    out->number = option->default_number;
    if (option->type == DI_OPTION_ENUM)
        out->text = option->default_text;
    return DI_OK;
}

static bool is_on(const option_value *value)
{
    return !strcmp(value->text, "on") || !strcmp(value->text, "1");
}

/* Two ways to say the same: given at one place they are an error, else the higher place wins. */
static di_status resolve_kv_budget(option_value *bytes, option_value *fraction)
{
    if (bytes->source == DI_SOURCE_DEFAULT || fraction->source == DI_SOURCE_DEFAULT)
        return DI_OK;
    if (bytes->source == fraction->source)
        return di_fail(DI_ERR_ARGUMENT,
                       "found both kv_cache_bytes and kv_cache_fraction, wanted one of them");
    *(bytes->source < fraction->source ? bytes : fraction) =
        (option_value){.source = DI_SOURCE_DEFAULT};
    return DI_OK;
}

/* value: [DI_N_OPTIONS] */
static di_status resolve_all(const di_options *given, option_value *value)
{
    DI_TRY(check_environment_names());
    for (int i = 0; i < DI_N_OPTIONS; i++)
        DI_TRY(resolve(&di_option_table[i], given, &value[i]));
    return resolve_kv_budget(&value[DI_OPTION_KV_CACHE_BYTES], &value[DI_OPTION_KV_CACHE_FRACTION]);
}

di_status di_options_resolve(const di_options *given, di_effective_options *out)
{
    option_value value[DI_N_OPTIONS];
    DI_TRY(resolve_all(given, value));

    *out = (di_effective_options){
        .accelerator = value[DI_OPTION_ACCELERATOR].text,
        .n_threads = (int)value[DI_OPTION_THREADS].number,
        .pin = value[DI_OPTION_PIN].text,
        .max_step_tokens = (int)value[DI_OPTION_MAX_STEP_TOKENS].number,
        .max_context_len = value[DI_OPTION_MAX_CONTEXT_LEN].number,
        .max_seqs = (int)value[DI_OPTION_MAX_SEQS].number,
        .kv_cache_bytes = value[DI_OPTION_KV_CACHE_BYTES].number,
        .kv_cache_fraction =
            (double)value[DI_OPTION_KV_CACHE_FRACTION].number / (double)FRACTION_ONE,
        .weights = value[DI_OPTION_WEIGHTS].text,
        .weight_cache = value[DI_OPTION_WEIGHT_CACHE].number,
        .prefix_cache = value[DI_OPTION_PREFIX_CACHE].text,
        .prefix_interval = (int)value[DI_OPTION_PREFIX_INTERVAL].number,
        .prefill_truncation = value[DI_OPTION_PREFILL_TRUNCATION].text,
        .prefill_keep = (int)value[DI_OPTION_PREFILL_KEEP].number,
        .is_async = is_on(&value[DI_OPTION_ASYNC_SCHEDULING]),
        .is_batch_invariant = is_on(&value[DI_OPTION_BATCH_INVARIANT]),
        .speculation = value[DI_OPTION_SPECULATION].text,
        .draft_len = (int)value[DI_OPTION_DRAFT_LEN].number,
        .has_varlen = is_on(&value[DI_OPTION_DRAFT_VARLEN]),
        .isa = value[DI_OPTION_ISA].text,
    };
    if (out->n_threads == 0)
        DI_TRY(find_threads(&out->n_threads));
    const char *kernels = value[DI_OPTION_KERNELS].text;
    if (kernels)
        snprintf(out->kernels, sizeof out->kernels, "%s", kernels);
    for (int i = 0; i < DI_N_OPTIONS; i++)
        out->source[i] = value[i].source;
    return DI_OK;
}

di_status di_option_string(const char *name, const char **out)
{
    DI_TRY(check_environment_names());
    const di_option *option = name ? find_by_name(name) : NULL;
    if (!option || !option->is_program_only)
        return di_fail(DI_ERR_ARGUMENT, "no option \"%s\" of the program", name ? name : "");
    option_value value;
    DI_TRY(resolve(option, NULL, &value));
    *out = value.text;
    return DI_OK;
}

static void print_value(const di_option *option, const option_value *value, FILE *out)
{
    if (value->number && option->type == DI_OPTION_FRACTION)
        fprintf(out, "%g", (double)value->number / FRACTION_ONE);
    else if (value->number)
        fprintf(out, "%" PRId64, value->number);
    else
        fputs(value->text ? value->text : option->default_text, out);
}

di_status di_print_options(const di_options *options, FILE *out)
{
    static const char *const source_names[] = {
        [DI_SOURCE_DEFAULT] = "default",
        [DI_SOURCE_ENVIRONMENT] = "environment",
        [DI_SOURCE_OPTION] = "option",
    };
    if (!out)
        return di_fail(DI_ERR_ARGUMENT, "no file to print the options to");
    di_effective_options effective;
    DI_TRY(di_options_resolve(options, &effective)); /* all or nothing is printed */
    option_value values[DI_N_OPTIONS];
    DI_TRY(resolve_all(options, values));
    values[DI_OPTION_THREADS].number = effective.n_threads;
    for (int i = 0; i < DI_N_OPTIONS; i++) {
        const di_option *option = &di_option_table[i];
        fprintf(out, "%-18s = ", option->name);
        print_value(option, &values[i], out);
        fprintf(out, "  (%s; %s)\n", source_names[values[i].source], option->env);
    }
    if (fflush(out) || ferror(out))
        return di_fail(DI_ERR_IO, "cannot write the options: %s", strerror(errno));
    return DI_OK;
}
