/* deepinfer bench speculation: what drafts gain on this machine. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "model.h"

enum { MAX_BATCHES = 16 };

typedef struct speculation_args {
    di_engine_args engine;
    di_bench_speculation_options bench;
    int64_t batches[MAX_BATCHES];
} speculation_args;

enum { KEY_BATCH = 0x900, KEY_TOKENS, KEY_ROUNDS, KEY_TEMPERATURE, KEY_ACCEPTED };

static const struct argp_option options[] = {
    {"batch", KEY_BATCH, "LIST", 0,
     "sequences that decode together, with commas; default 1,2,4,8,16,32,64"},
    {"tokens", KEY_TOKENS, "N", 0, "new tokens of each sequence; default 96"},
    {"rounds", KEY_ROUNDS, "N", 0, "of all modes in turns; default 5"},
    {"temperature", KEY_TEMPERATURE, "T", 0, "of the sampling; default 0"},
    {"accepted-len", KEY_ACCEPTED, "X", 0,
     "take X tokens a verification on average, whether drafts are right or not: times only"},
    {NULL},
};

static error_t parse_batches(struct argp_state *state, char *arg, speculation_args *args)
{
    size_t n = 0;
    for (char *at = arg, *next; at != NULL; at = next) {
        next = strchr(at, ',');
        if (next != NULL)
            *next++ = '\0';
        if (n == MAX_BATCHES)
            return di_args_bad(state, "--batch: more than %d numbers", MAX_BATCHES);
        const error_t error = di_args_i64(state, "--batch", at, 1, 64, &args->batches[n++]);
        if (error != 0)
            return error;
    }
    args->bench.batches = args->batches;
    args->bench.n_batches = n;
    return 0;
}

static error_t parse_number(struct argp_state *state, const char *name, const char *arg,
                            double most, double *out)
{
    char *error = NULL;
    if (di_args_parse_f64(arg, 0.0, most, out, &error))
        return 0;
    const error_t result = di_args_bad(state, "%s: %s", name, error);
    free(error);
    return result;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    speculation_args *args = state->input;
    int64_t value = 0;
    error_t error;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->engine;
        return 0;
    case KEY_BATCH:
        return parse_batches(state, arg, args);
    case KEY_TOKENS:
        return di_args_i64(state, "--tokens", arg, 8, 4096, &args->bench.n_tokens);
    case KEY_ROUNDS:
        error = di_args_i64(state, "--rounds", arg, 1, 1000, &value);
        args->bench.n_rounds = (int)value;
        return error;
    case KEY_TEMPERATURE:
        return parse_number(state, "--temperature", arg, 100, &args->bench.temperature);
    case KEY_ACCEPTED:
        return parse_number(state, "--accepted-len", arg, 8, &args->bench.accepted_len);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&di_engine_argp, 0, "Model and engine:", 1},
    {NULL},
};

static const struct argp speculation_argp = {
    .options = options,
    .parser = parse,
    .doc = "Decodes the same prompts without drafts, with all drafts verified and with as many as "
           "pay, in turns, and prints tokens a second, accepted lengths, what passes cost, and the "
           "speed-up these costs predict.",
    .children = children,
};

static bool go_on(void *user)
{
    (void)user;
    return !di_app_interrupted();
}

static di_exit run(const speculation_args *args)
{
    di_model *model = NULL;
    di_exit code = di_app_check_options(&args->engine);
    if (code == DI_EXIT_OK)
        code = di_app_model_open(&args->engine, &model);
    if (code != DI_EXIT_OK)
        return code;
    const di_status status =
        di_bench_speculation(model, &args->engine.options, &args->bench, stdout);
    code = di_app_flush();
    if (status != DI_OK && code == DI_EXIT_OK)
        code = di_app_interrupted() ? DI_EXIT_INTERRUPTED : di_app_fail_status(status, NULL);
    di_model_close(model);
    return code;
}

di_exit di_cmd_bench_speculation(int argc, char **argv)
{
    speculation_args args = {.bench.go_on = go_on};
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&speculation_argp, 0, argc, argv, &args, &code))
        code = run(&args);
    di_engine_args_free(&args.engine);
    return code;
}
