/* deepinfer inspect: what is in a checkpoint, and what is wrong with it. */
#include <stdlib.h>

#include "commands.h"
#include "model.h"

typedef struct inspect_args {
    di_engine_args engine;
    di_inspect_options inspect;
    const char *path;
} inspect_args;

enum { KEY_TENSOR = 0x400, KEY_MEMPLAN };

static const struct argp_option options[] = {
    {"tensor", KEY_TENSOR, "NAME", 0, "print this tensor's values"},
    {"values", 'n', "N", 0, "how many of them; -1: all; default 64"},
    {"memplan", KEY_MEMPLAN, NULL, 0, "print what memory running it takes"},
    {NULL},
};

static error_t parse_inspect(int key, char *arg, struct argp_state *state)
{
    inspect_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->engine;
        return 0;
    case KEY_TENSOR:
        args->inspect.tensor = arg;
        return 0;
    case KEY_MEMPLAN:
        args->inspect.memplan = true;
        return 0;
    case 'n':
        return di_args_i64(state, "-n", arg, -1, INT64_MAX, &args->inspect.n_values);
    case ARGP_KEY_ARG:
        args->path = arg;
        return 0;
    case ARGP_KEY_END:
        if (args->inspect.n_values != 0 && args->inspect.tensor == NULL)
            return di_args_bad(state, "-n is only for --tensor");
        if (args->path != NULL && args->engine.model != NULL)
            return di_args_bad(state, "both '%s' and -m '%s': wanted one of them", args->path,
                               args->engine.model);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&di_engine_argp, 0, "Model and engine:", 2}, {NULL}};

static const struct argp inspect_argp = {
    .options = options,
    .parser = parse_inspect,
    .args_doc = "[DIR|FILE]",
    .doc = "Prints the config, the tensors and every problem of a checkpoint directory or of one "
           ".safetensors file; without either, of the model that -m names.",
    .children = children,
};

di_exit di_cmd_inspect(int argc, char **argv)
{
    inspect_args args = {.path = NULL};
    char *model_path = NULL;
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&inspect_argp, 1, argc, argv, &args, &code)) {
        code = di_app_check_options(&args.engine);
        if (code == DI_EXIT_OK && args.path == NULL)
            code = di_app_model_path(&args.engine, &model_path);
        if (code == DI_EXIT_OK) {
            const di_status status = di_inspect(args.path != NULL ? args.path : model_path,
                                                &args.engine.options, &args.inspect, stdout);
            code = di_app_flush();
            if (status != DI_OK && code == DI_EXIT_OK)
                code = di_app_fail_status(status, NULL);
        }
    }
    free(model_path);
    di_engine_args_free(&args.engine);
    return code;
}
