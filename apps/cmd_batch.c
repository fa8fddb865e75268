/* deepinfer batch: a file of requests in, a file of results out (docs/batch.md). */
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "batch.h"
#include "commands.h"
#include "model.h"
#include "stats.h"

enum { KEY_OVERWRITE = 0x400, KEY_STATS, DEFAULT_MAX_SEQS = 256 };

typedef struct batch_args {
    di_engine_args engine;
    const char *input, *output;
    bool is_fresh, is_quiet, has_stats;
} batch_args;

static const struct argp_option options[] = {
    {"input", 'i', "FILE", 0, "requests, one JSON object a line; -: stdin"},
    {"output", 'o', "FILE", 0,
     "results, one JSON object a line, in the order they are done. What an earlier run has written "
     "there is kept and not done again"},
    {"overwrite", KEY_OVERWRITE, NULL, 0, "drop what the output file holds"},
    {"quiet", 'q', NULL, 0, "no progress on stderr"},
    {"stats", KEY_STATS, NULL, 0, "at the end what the engine has done, on stderr"},
    {NULL},
};

static error_t check_files(const batch_args *args, struct argp_state *state)
{
    if (args->input == NULL)
        return di_args_bad(state, "no requests: give -i FILE");
    if (args->output == NULL)
        return di_args_bad(state, "no file for the results: give -o FILE");
    return 0;
}

static error_t parse_batch(int key, char *arg, struct argp_state *state)
{
    batch_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->engine;
        return 0;
    case 'i':
        args->input = arg;
        return 0;
    case 'o':
        args->output = arg;
        return 0;
    case KEY_OVERWRITE:
        args->is_fresh = true;
        return 0;
    case 'q':
        args->is_quiet = true;
        return 0;
    case KEY_STATS:
        args->has_stats = true;
        return 0;
    case ARGP_KEY_END:
        return check_files(args, state);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&di_engine_argp, 0, "Model and engine:", 1},
    {NULL},
};

static const struct argp batch_argp = {
    .options = options,
    .parser = parse_batch,
    .doc = "Answers a file of requests in OpenAI's batch format.\vA request that fails has an "
           "error in its result, and the others go on. The exit code is 0 if every result in the "
           "output file is an answer, 3 if some requests were refused, 4 if some failed while "
           "running. After an interruption the same command goes on where it stopped.",
    .children = children,
};

/* The last part of the path: what the model is called in responses. */
static const char *model_name(char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static bool has_work(const di_batch_input *input)
{
    for (size_t i = 0; i < input->n; i++)
        if (!input->items[i].is_done)
            return true;
    return false;
}

static di_exit run_with_model(const batch_args *args, di_batch_run *run, char *path)
{
    di_model *model = NULL;
    di_status status = di_model_open(path, &args->engine.options, &model);
    if (status == DI_OK)
        status = di_engine_create(model, &args->engine.options, &run->engine);
    di_exit code;
    if (status == DI_OK) {
        const int max_seqs = args->engine.options.max_seqs;
        run->model = model;
        run->model_name = model_name(path);
        /* As many again wait, so that the engine is never short of the next one. */
        run->max_seqs = 2 * (size_t)(max_seqs > 0 ? max_seqs : DEFAULT_MAX_SEQS);
        di_batch_progress_start(run->progress);
        code = di_batch_run_all(run);
        di_batch_progress_finish(run->progress, run->output->n_kept);
        if (args->has_stats)
            di_app_print_stats(run->engine);
    } else {
        code = di_app_fail_status(status, NULL);
    }
    di_engine_destroy(run->engine);
    di_model_close(model);
    return code;
}

static di_exit run_batch(const batch_args *args, di_batch_input *input, di_batch_output *output)
{
    di_batch_progress progress = {.is_quiet = args->is_quiet,
                                  .n_total = input->n,
                                  .n_done = output->n_kept,
                                  .n_failed = output->n_bad + output->n_broken};
    di_batch_run run = {.input = input, .output = output, .progress = &progress};
    di_exit code = DI_EXIT_OK;
    if (has_work(input)) {
        char *path = NULL;
        code = di_app_model_path(&args->engine, &path);
        if (code == DI_EXIT_OK)
            code = run_with_model(args, &run, path);
        free(path);
    } else {
        di_batch_progress_start(&progress);
        di_batch_progress_finish(&progress, output->n_kept);
    }
    if (code != DI_EXIT_OK)
        return code;
    if (output->n_broken > 0)
        return DI_EXIT_RUNTIME;
    return output->n_bad > 0 ? DI_EXIT_INPUT : DI_EXIT_OK;
}

di_exit di_cmd_batch(int argc, char **argv)
{
    batch_args args = {.input = NULL};
    di_batch_input input = {NULL};
    di_batch_output output = {.fd = -1};
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&batch_argp, 0, argc, argv, &args, &code)) {
        code = di_app_check_options(&args.engine);
        if (code == DI_EXIT_OK)
            code = di_batch_input_load(args.input, &input);
        if (code == DI_EXIT_OK)
            code = di_batch_output_open(args.output, args.is_fresh, &input, &output);
        if (code == DI_EXIT_OK)
            code = run_batch(&args, &input, &output);
    }
    di_batch_output_close(&output);
    di_batch_input_free(&input);
    di_engine_args_free(&args.engine);
    return code;
}
