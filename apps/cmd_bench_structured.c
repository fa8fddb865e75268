/* deepinfer bench structured: how long constraints take. */
#include "commands.h"
#include "model.h"

typedef struct structured_args {
    di_engine_args engine; /* only which model's tokenizer */
    const char *tokenizer;
    const char *json;
    di_bench_structured_options bench;
} structured_args;

enum { KEY_ROWS = 0x900, KEY_ROUNDS, KEY_JSON, KEY_TOKENIZER };

static const struct argp_option options[] = {
    {"jsonl", KEY_ROWS, "FILE", 0,
     "lines as deepinfer check --jsonl reads, and \"accept\": true or false; default: a dozen "
     "grammars of its own"},
    {"rounds", KEY_ROUNDS, "N", 0,
     "do all of it N times, for the shortest time of each call; default 5"},
    {"tokenizer", KEY_TOKENIZER, "FILE", 0, "whose tokens to mask: a tokenizer.json (or -m's)"},
    {"model", 'm', "MODEL", 0, "checkpoint whose tokenizer to use"},
    {"json", KEY_JSON, "FILE", 0, "write the results there too"},
    {NULL},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    structured_args *args = state->input;
    int64_t value = 0;
    error_t error;
    switch (key) {
    case KEY_ROWS:
        args->bench.rows = arg;
        return 0;
    case KEY_ROUNDS:
        error = di_args_i64(state, "--rounds", arg, 1, 1000, &value);
        args->bench.n_rounds = (int)value;
        return error;
    case KEY_TOKENIZER:
        args->tokenizer = arg;
        return 0;
    case 'm':
        args->engine.model = arg;
        return 0;
    case KEY_JSON:
        args->json = arg;
        return 0;
    case ARGP_KEY_END:
        if (args->tokenizer != NULL && args->engine.model != NULL)
            return di_args_bad(state, "both --tokenizer and -m: wanted one of them");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp structured_argp = {
    .options = options,
    .parser = parse,
    .doc =
        "Times preparing a vocabulary, compiling regular expressions, JSON schemas and EBNF "
        "grammars, and for each token of their texts the mask before it and reading it, on one "
        "thread: medians, 99th percentiles and the longest, and the memory that a grammar takes.",
};

static bool go_on(void *user)
{
    (void)user;
    return !di_app_interrupted();
}

static di_exit run(structured_args *args, di_out_file *json)
{
    di_tokenizer *tokenizer = NULL;
    di_exit code = di_app_tokenizer_open(&args->engine, args->tokenizer, &tokenizer);
    if (code == DI_EXIT_OK && args->json != NULL)
        code = di_out_file_open(args->json, json);
    if (code == DI_EXIT_OK) {
        args->bench.json = json->file;
        const di_status status = di_bench_structured(tokenizer, &args->bench, stdout);
        code = di_app_flush();
        if (status != DI_OK && code == DI_EXIT_OK)
            code = di_app_interrupted() ? DI_EXIT_INTERRUPTED : di_app_fail_status(status, NULL);
    }
    if (code == DI_EXIT_OK && args->json != NULL)
        code = di_out_file_commit(json);
    di_tokenizer_close(tokenizer);
    return code;
}

di_exit di_cmd_bench_structured(int argc, char **argv)
{
    structured_args args = {.bench.go_on = go_on};
    di_out_file json = {NULL};
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&structured_argp, 0, argc, argv, &args, &code))
        code = run(&args, &json);
    di_out_file_abandon(&json);
    di_engine_args_free(&args.engine);
    return code;
}
