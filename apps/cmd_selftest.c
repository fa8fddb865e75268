/* deepinfer selftest: whether results depend on the request alone, on this machine. */
#include "commands.h"
#include "model.h"

typedef struct selftest_args {
    di_engine_args engine;
    di_selftest_options selftest;
    bool is_quick;
} selftest_args;

enum { KEY_QUICK = 0x400, KEY_FULL, KEY_SEED };

static const struct argp_option options[] = {
    {"quick", KEY_QUICK, NULL, 0, "few and short requests (the default)"},
    {"full", KEY_FULL, NULL, 0, "more and longer requests, batches of up to 64"},
    {"seed", KEY_SEED, "N", 0, "of the random requests and kernel inputs; default 1"},
    {NULL},
};

static error_t parse_selftest(int key, char *arg, struct argp_state *state)
{
    selftest_args *args = state->input;
    int64_t seed = 0;
    error_t error;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->engine;
        return 0;
    case KEY_QUICK:
        args->is_quick = true;
        return 0;
    case KEY_FULL:
        args->selftest.is_full = true;
        return 0;
    case KEY_SEED:
        error = di_args_i64(state, "--seed", arg, 1, INT64_MAX, &seed);
        args->selftest.seed = (uint64_t)seed;
        return error;
    case ARGP_KEY_END:
        if (args->is_quick && args->selftest.is_full)
            return di_args_bad(state, "--quick cannot be used with --full");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&di_engine_argp, 0, "Model and engine:", 2}, {NULL}};

static const struct argp selftest_argp = {
    .options = options,
    .parser = parse_selftest,
    .doc = "Checks on this machine, with your model and options, that the result of a request does "
           "not depend on the other requests, nor on how the work is cut.\vA line a check: ok or "
           "FAILED, and what differed first. Exit code 4 if a check failed.",
    .children = children,
};

static bool go_on(void *user)
{
    (void)user;
    return !di_app_interrupted();
}

di_exit di_cmd_selftest(int argc, char **argv)
{
    selftest_args args = {.selftest.go_on = go_on};
    di_model *model = NULL;
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&selftest_argp, 0, argc, argv, &args, &code)) {
        code = di_app_check_options(&args.engine);
        if (code == DI_EXIT_OK)
            code = di_app_model_open(&args.engine, &model);
        if (code == DI_EXIT_OK) {
            const di_status status =
                di_selftest_run(model, &args.engine.options, &args.selftest, stdout);
            code = di_app_flush();
            if (status != DI_OK && code == DI_EXIT_OK)
                code = di_app_fail_status(status, NULL);
        }
    }
    di_model_close(model);
    di_engine_args_free(&args.engine);
    return code;
}
