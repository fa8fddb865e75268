/* deepinfer bench experts: how fast a checkpoint's experts come from disk. */
#include "commands.h"
#include "model.h"

typedef struct experts_args {
    di_engine_args engine;
    di_bench_experts_options bench;
} experts_args;

enum { KEY_TOKENS = 0x800, KEY_REPEAT, KEY_SEED };

static const struct argp_option options[] = {
    {"tokens", KEY_TOKENS, "N", 0, "tokens to read the experts of; default 16"},
    {"repeat", KEY_REPEAT, "PERCENT", 0,
     "share of a token's experts that the next one has too; default 0: all at random"},
    {"seed", KEY_SEED, "N", 0, "of the routing; default 1"},
    {NULL},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    experts_args *args = state->input;
    int64_t value = 0;
    error_t error;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->engine;
        return 0;
    case KEY_TOKENS:
        return di_args_i64(state, "--tokens", arg, 1, 1 << 20, &args->bench.n_tokens);
    case KEY_REPEAT:
        error = di_args_i64(state, "--repeat", arg, 0, 100, &value);
        args->bench.repeat_percent = (int)value;
        return error;
    case KEY_SEED:
        error = di_args_i64(state, "--seed", arg, 1, INT64_MAX / 2, &value);
        args->bench.seed = (uint64_t)value;
        return error;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&di_engine_argp, 0, "Model and engine:", 1},
    {NULL},
};

static const struct argp experts_argp = {
    .options = options,
    .parser = parse,
    .doc =
        "Reads the routed experts of made-up tokens as the forward pass would, without computing: "
        "through page faults, with read-ahead, and with --weight-cache N through such a cache. "
        "Drops the checkpoint's files from the page cache first.",
    .children = children,
};

static bool go_on(void *user)
{
    (void)user;
    return !di_app_interrupted();
}

static di_exit run(const experts_args *args)
{
    di_model *model = NULL;
    di_exit code = di_app_check_options(&args->engine);
    if (code == DI_EXIT_OK)
        code = di_app_model_open(&args->engine, &model);
    if (code != DI_EXIT_OK)
        return code;
    const di_status status = di_bench_experts(model, &args->engine.options, &args->bench, stdout);
    code = di_app_flush();
    if (status != DI_OK && code == DI_EXIT_OK)
        code = di_app_interrupted() ? DI_EXIT_INTERRUPTED : di_app_fail_status(status, NULL);
    di_model_close(model);
    return code;
}

di_exit di_cmd_bench_experts(int argc, char **argv)
{
    experts_args args = {.bench.go_on = go_on};
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&experts_argp, 0, argc, argv, &args, &code))
        code = run(&args);
    di_engine_args_free(&args.engine);
    return code;
}
