/* The sampling options: one table gives their names, ranges and fields. */
#include <inttypes.h>
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "json_out.h"

typedef enum value_kind {
    VALUE_F64,
    VALUE_I64,
    VALUE_I32,
    VALUE_FLAG,
    VALUE_SEED,
    VALUE_BIAS,
    VALUE_STOP_ID,
    VALUE_STOP,
    VALUE_VERIFICATION
} value_kind;

typedef struct sampling_row {
    const char *name;
    value_kind kind;
    size_t offset; /* in di_sampling_params */
    double low, high;
} sampling_row;

enum { FIRST_KEY = 0x200 };
#define FIELD(name) offsetof(di_sampling_params, name)

/* Row i has the key FIRST_KEY + i in `options` below. */
static const sampling_row rows[] = {
    {"temperature", VALUE_F64, FIELD(temperature), 0, DBL_MAX},
    {"top-k", VALUE_I32, FIELD(top_k), -1, INT32_MAX},
    {"top-p", VALUE_F64, FIELD(top_p), 0, 1},
    {"min-p", VALUE_F64, FIELD(min_p), 0, 1},
    {"repetition-penalty", VALUE_F64, FIELD(repetition_penalty), DBL_MIN, DBL_MAX},
    {"presence-penalty", VALUE_F64, FIELD(presence_penalty), -2, 2},
    {"frequency-penalty", VALUE_F64, FIELD(frequency_penalty), -2, 2},
    {"logit-bias", VALUE_BIAS, 0, 0, 0},
    {"seed", VALUE_SEED, 0, 0, 0},
    {"max-tokens", VALUE_I64, FIELD(max_tokens), -1, (double)INT64_MAX},
    {"min-tokens", VALUE_I64, FIELD(min_tokens), 0, (double)INT64_MAX},
    {"ignore-eos", VALUE_FLAG, FIELD(ignore_eos), 0, 0},
    {"stop", VALUE_STOP, 0, 0, 0},
    {"stop-id", VALUE_STOP_ID, 0, 0, 0},
    {"logprobs", VALUE_I32, FIELD(n_logprobs), 0, INT32_MAX},
    {"processed-logprobs", VALUE_FLAG, FIELD(processed_logprobs), 0, 0},
    {"prompt-logprobs", VALUE_FLAG, FIELD(prompt_logprobs), 0, 0},
    {"verification", VALUE_VERIFICATION, 0, 0, 0},
};

#define KEY(row) (FIRST_KEY + (row))
static const struct argp_option options[] = {
    {"temperature", KEY(0), "T", 0, "0 takes the most likely token each time"},
    {"top-k", KEY(1), "K", 0, "only the K most likely tokens; 0 or -1: off"},
    {"top-p", KEY(2), "P", 0, "only the most likely tokens that together have P; 1: off"},
    {"min-p", KEY(3), "P", 0, "only tokens P times as likely as the best one; 0: off"},
    {"repetition-penalty", KEY(4), "R", 0, "divides the logits of tokens seen; 1: off"},
    {"presence-penalty", KEY(5), "X", 0, "taken once from each token of the output, -2 to 2"},
    {"frequency-penalty", KEY(6), "X", 0, "taken for each time a token is in the output, -2 to 2"},
    {"logit-bias", KEY(7), "ID=B", 0,
     "adds B to a token's logit, -inf bans it (may be repeated; also JSON: {\"ID\": B, ...})"},
    {"seed", KEY(8), "N", 0, "of the random numbers; default: a fresh one, told in the result"},
    {"max-tokens", KEY(9), "N", 0,
     "most new tokens; 0: only score the prompt; -1: up to the context limit"},
    {"min-tokens", KEY(10), "N", 0, "no end before that many new tokens"},
    {"ignore-eos", KEY(11), NULL, 0, "go on after the end-of-sentence token"},
    {"stop", KEY(12), "TEXT", 0, "text that ends the output (may be repeated)"},
    {"stop-id", KEY(13), "ID", 0, "token that ends the output (may be repeated)"},
    {"logprobs", KEY(14), "N", 0, "log probabilities of each token and of the N most likely"},
    {"processed-logprobs", KEY(15), NULL, 0, "those after penalties, temperature and filters"},
    {"prompt-logprobs", KEY(16), NULL, 0, "also those of the prompt"},
    {"verification", KEY(17), "RULE", 0,
     "of drafts: match (default: the seed gives the same text with or without) or reject"},
    {NULL},
};

static void add_bias(di_sampling_args *args, int64_t id, double bias)
{
    args->bias = di_app_grow(args->bias, args->params.n_logit_bias, sizeof *args->bias);
    args->bias[args->params.n_logit_bias++] =
        (di_logit_bias){.token_id = (int32_t)id, .bias = (float)bias};
    args->params.logit_bias = args->bias;
}

static bool parse_bias(di_sampling_args *args, const char *id_text, const char *bias_text,
                       char **error)
{
    int64_t id = 0;
    double bias = -INFINITY;
    if (!di_args_parse_i64(id_text, 0, INT32_MAX, &id, error))
        return false;
    if (strcmp(bias_text, "-inf") != 0 &&
        !di_args_parse_f64(bias_text, -(double)FLT_MAX, (double)FLT_MAX, &bias, error))
        return false;
    add_bias(args, id, bias);
    return true;
}

static bool parse_bias_json(di_sampling_args *args, const char *value, char **error)
{
    json_error_t problem;
    json_t *object = json_loads(value, JSON_REJECT_DUPLICATES, &problem);
    if (object == NULL) {
        *error = di_app_text("'%s' is not JSON: %s", value, problem.text);
        return false;
    }
    bool is_good = true;
    const char *key = NULL;
    json_t *item = NULL;
    json_object_foreach(object, key, item)
    {
        if (!is_good)
            continue;
        if (!json_is_number(item)) {
            *error = di_app_text("the bias of '%s' is not a number", key);
            is_good = false;
            continue;
        }
        char *number = di_app_text("%.17g", json_number_value(item));
        is_good = parse_bias(args, key, number, error);
        free(number);
    }
    json_decref(object);
    return is_good;
}

static bool set_bias(di_sampling_args *args, const char *value, char **error)
{
    if (value[0] == '{')
        return parse_bias_json(args, value, error);
    const char *equals = strchr(value, '=');
    if (equals == NULL) {
        *error = di_app_text("'%s' is not ID=BIAS", value);
        return false;
    }
    char *id = di_app_text("%.*s", (int)(equals - value), value);
    const bool is_good = parse_bias(args, id, equals + 1, error);
    free(id);
    return is_good;
}

static bool set_stop(di_sampling_args *args, const char *value, char **error)
{
    if (value[0] == '\0') {
        *error = di_app_text("the text is empty");
        return false;
    }
    if (!di_out_is_utf8(value, strlen(value))) {
        *error = di_app_text("the text is not UTF-8");
        return false;
    }
    di_text_list_add(&args->stop, value);
    args->params.stop = args->stop.items;
    args->params.n_stop = args->stop.n;
    return true;
}

static bool set_stop_id(di_sampling_args *args, const char *value, char **error)
{
    int64_t id = 0;
    if (!di_args_parse_i64(value, 0, INT32_MAX, &id, error))
        return false;
    args->stop_ids = di_app_grow(args->stop_ids, args->params.n_stop_ids, sizeof *args->stop_ids);
    args->stop_ids[args->params.n_stop_ids++] = (int32_t)id;
    args->params.stop_ids = args->stop_ids;
    return true;
}

static bool set_flag(bool *field, const char *value, char **error)
{
    const bool is_on = value == NULL || strcmp(value, "on") == 0;
    if (!is_on && strcmp(value, "off") != 0) {
        *error = di_app_text("'%s' is not on or off", value);
        return false;
    }
    *field = is_on;
    return true;
}

static bool set_verification(di_sampling_args *args, const char *value, char **error)
{
    if (di_verification_from_name(value, &args->params.verification))
        return true;
    *error = di_app_text("'%s' is not match or reject", value);
    return false;
}

/* The upper bound INT64_MAX is no double: a bound at or above it means none. */
static int64_t whole_bound(double bound)
{
    return bound >= (double)INT64_MAX ? INT64_MAX : (int64_t)bound;
}

static bool set_row(di_sampling_args *args, const sampling_row *row, const char *value,
                    char **error)
{
    char *field = (char *)&args->params + row->offset;
    int64_t whole = 0;
    switch (row->kind) {
    case VALUE_F64:
        return di_args_parse_f64(value, row->low, row->high, (double *)field, error);
    case VALUE_I64:
        return di_args_parse_i64(value, (int64_t)row->low, whole_bound(row->high), (int64_t *)field,
                                 error);
    case VALUE_I32:
        if (!di_args_parse_i64(value, (int64_t)row->low, whole_bound(row->high), &whole, error))
            return false;
        *(int32_t *)field = (int32_t)whole;
        return true;
    case VALUE_FLAG:
        return set_flag((bool *)field, value, error);
    case VALUE_SEED:
        args->params.has_seed = di_args_parse_u64(value, &args->params.seed, error);
        return args->params.has_seed;
    case VALUE_BIAS:
        return set_bias(args, value, error);
    case VALUE_STOP_ID:
        return set_stop_id(args, value, error);
    case VALUE_STOP:
        return set_stop(args, value, error);
    case VALUE_VERIFICATION:
        return set_verification(args, value, error);
    }
    return false;
}

static bool set_by_index(di_sampling_args *args, size_t i, const char *value, char **error)
{
    char *problem = NULL;
    if (set_row(args, &rows[i], value, &problem)) {
        args->given |= UINT32_C(1) << i;
        return true;
    }
    *error = di_app_text("--%s: %s", rows[i].name, problem);
    free(problem);
    return false;
}

static error_t check_together(const di_sampling_params *params, struct argp_state *state)
{
    if (params->max_tokens >= 0 && params->min_tokens > params->max_tokens)
        return di_args_bad(state, "--min-tokens: %" PRId64 " is more than --max-tokens %" PRId64,
                           params->min_tokens, params->max_tokens);
    return 0;
}

static error_t parse_sampling(int key, char *arg, struct argp_state *state)
{
    if (key == ARGP_KEY_END) {
        const di_sampling_args *args = state->input;
        return check_together(&args->params, state);
    }
    if (key < FIRST_KEY || key >= FIRST_KEY + (int)DI_COUNT(rows))
        return ARGP_ERR_UNKNOWN;
    char *error = NULL;
    if (set_by_index(state->input, (size_t)(key - FIRST_KEY), arg, &error))
        return 0;
    const error_t result = di_args_bad(state, "%s", error);
    free(error);
    return result;
}

const struct argp di_sampling_argp = {.options = options, .parser = parse_sampling};

void di_sampling_args_init(di_sampling_args *args)
{
    *args = (di_sampling_args){.params = DI_SAMPLING_PARAMS_INIT};
}

void di_sampling_args_free(di_sampling_args *args)
{
    free(args->bias);
    free(args->stop_ids);
    di_text_list_free(&args->stop);
    di_sampling_args_init(args);
}

bool di_sampling_args_set(di_sampling_args *args, const char *name, const char *value, char **error)
{
    const char *names[DI_COUNT(rows)];
    char *option = di_app_text("%s", name);
    for (char *c = option; *c != '\0'; c++)
        if (*c == '_')
            *c = '-';
    size_t i = 0;
    for (; i < DI_COUNT(rows) && strcmp(rows[i].name, option) != 0; i++)
        names[i] = rows[i].name;
    bool is_good = false;
    if (i < DI_COUNT(rows)) {
        is_good = set_by_index(args, i, value, error);
    } else {
        const char *nearest = di_app_nearest(option, names, DI_COUNT(names));
        *error = nearest != NULL
                     ? di_app_text("unknown parameter '%s', did you mean '%s'?", name, nearest)
                     : di_app_text("unknown parameter '%s'", name);
    }
    free(option);
    return is_good;
}

static void copy_row(const di_sampling_params *from, const sampling_row *row,
                     di_sampling_params *to)
{
    static const size_t field_bytes[] = {[VALUE_F64] = sizeof(double),
                                         [VALUE_I64] = sizeof(int64_t),
                                         [VALUE_I32] = sizeof(int32_t),
                                         [VALUE_FLAG] = sizeof(bool)};
    switch (row->kind) {
    case VALUE_SEED:
        to->has_seed = from->has_seed;
        to->seed = from->seed;
        return;
    case VALUE_BIAS:
        to->logit_bias = from->logit_bias;
        to->n_logit_bias = from->n_logit_bias;
        return;
    case VALUE_STOP_ID:
        to->stop_ids = from->stop_ids;
        to->n_stop_ids = from->n_stop_ids;
        return;
    case VALUE_STOP:
        to->stop = from->stop;
        to->n_stop = from->n_stop;
        return;
    case VALUE_VERIFICATION:
        to->verification = from->verification;
        return;
    case VALUE_F64:
    case VALUE_I64:
    case VALUE_I32:
    case VALUE_FLAG:
        memcpy((char *)to + row->offset, (const char *)from + row->offset, field_bytes[row->kind]);
        return;
    }
}

static di_exit check_vocabulary(const di_sampling_params *given, int32_t vocab_size)
{
    for (size_t i = 0; i < given->n_logit_bias; i++)
        if (given->logit_bias[i].token_id >= vocab_size)
            return di_app_fail(DI_EXIT_USAGE,
                               "--logit-bias: token %" PRId32
                               " is outside the vocabulary of %" PRId32,
                               given->logit_bias[i].token_id, vocab_size);
    for (size_t i = 0; i < given->n_stop_ids; i++)
        if (given->stop_ids[i] >= vocab_size)
            return di_app_fail(DI_EXIT_USAGE,
                               "--stop-id: token %" PRId32 " is outside the vocabulary of %" PRId32,
                               given->stop_ids[i], vocab_size);
    if (given->n_logprobs > vocab_size)
        return di_app_fail(DI_EXIT_USAGE,
                           "--logprobs: %" PRId32 " is more than the vocabulary of %" PRId32,
                           given->n_logprobs, vocab_size);
    return DI_EXIT_OK;
}

di_exit di_sampling_args_apply(const di_sampling_args *args, const di_model *model,
                               di_sampling_params *out)
{
    const di_exit code = check_vocabulary(&args->params, di_model_vocab_size(model));
    if (code != DI_EXIT_OK)
        return code;
    di_model_sampling_defaults(model, out);
    for (size_t i = 0; i < DI_COUNT(rows); i++)
        if ((args->given >> i & 1) != 0)
            copy_row(&args->params, &rows[i], out);
    /* Log probabilities of the prompt or after the filters are log probabilities; and when only the
     * prompt is scored, its own are all there is to ask for. */
    if ((out->prompt_logprobs || out->processed_logprobs) && out->n_logprobs < 0)
        out->n_logprobs = 0;
    if (out->max_tokens == 0 && out->n_logprobs >= 0)
        out->prompt_logprobs = true;
    return DI_EXIT_OK;
}
