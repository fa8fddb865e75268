/* deepinfer eval: perplexity of texts, exact match of tasks, what a truncated prefill changes. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "eval.h"
#include "model.h"

enum {
    KEY_CTX = 0x400,
    KEY_STRIDE,
    KEY_LIMIT,
    KEY_JSON,
    KEY_MAX_TOKENS,
    KEY_BATCH,
    KEY_PROMPT,
    KEY_PREDICT
};

static const struct argp_child children[] = {{&di_engine_argp, 0, "Model and engine:", 2}, {NULL}};

/* ------------------------------------------------------------------------------------------ ppl */

static const struct argp_option ppl_options[] = {
    {"ctx", KEY_CTX, "N", 0,
     "tokens predicted by one window; default: 2048, or the context limit if that is less"},
    {"stride", KEY_STRIDE, "N", 0, "tokens from one window to the next; default: --ctx"},
    {"limit", KEY_LIMIT, "N", 0, "only the first N tokens of each text"},
    {"json", KEY_JSON, NULL, 0, "one JSON object instead of a table"},
    {NULL},
};

static error_t parse_ppl(int key, char *arg, struct argp_state *state)
{
    di_eval_ppl_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->engine;
        return 0;
    case KEY_CTX:
        return di_args_i64(state, "--ctx", arg, 1, INT32_MAX, &args->window);
    case KEY_STRIDE:
        return di_args_i64(state, "--stride", arg, 1, INT32_MAX, &args->stride);
    case KEY_LIMIT:
        return di_args_i64(state, "--limit", arg, 1, INT64_MAX, &args->limit);
    case KEY_JSON:
        args->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        di_text_list_add(&args->files, arg);
        return 0;
    case ARGP_KEY_END:
        if (args->files.n == 0)
            return di_args_bad(state, "a text FILE is missing");
        if (args->window != 0 && args->stride > args->window)
            return di_args_bad(state, "--stride %lld is more than --ctx %lld",
                               (long long)args->stride, (long long)args->window);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp ppl_argp = {
    .options = ppl_options,
    .parser = parse_ppl,
    .args_doc = "FILE...",
    .doc = "Prints how well the model predicts texts: perplexity by token, bits by byte.\vEvery "
           "file is a text of its own (- for stdin). A window is the begin-of-sentence token and "
           "the text's next tokens; each token is counted once.",
    .children = children,
};

static di_exit run_ppl(int argc, char **argv)
{
    di_eval_ppl_args args = {.window = 0};
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&ppl_argp, INT16_MAX, argc, argv, &args, &code)) {
        code = di_app_check_options(&args.engine);
        if (code == DI_EXIT_OK)
            code = di_eval_ppl(&args);
    }
    di_text_list_free(&args.files);
    di_engine_args_free(&args.engine);
    return code;
}

/* ---------------------------------------------------------------------------------------- tasks */

static const struct argp_option tasks_options[] = {
    {"limit", KEY_LIMIT, "N", 0, "only the first N tasks of each file"},
    {"max-tokens", KEY_MAX_TOKENS, "N", 0, "most tokens of an answer; default 256"},
    {"batch", KEY_BATCH, "N", 0, "requests at once; the answers do not depend on it; default 64"},
    {"output", 'o', "FILE", 0, "write every answer there, a JSON object a line"},
    {"json", KEY_JSON, NULL, 0, "one JSON object instead of a table"},
    {NULL},
};

static error_t parse_tasks(int key, char *arg, struct argp_state *state)
{
    di_eval_tasks_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->engine;
        return 0;
    case KEY_LIMIT:
        return di_args_i64(state, "--limit", arg, 1, INT64_MAX, &args->limit);
    case KEY_MAX_TOKENS:
        return di_args_i64(state, "--max-tokens", arg, 1, INT64_MAX, &args->max_tokens);
    case KEY_BATCH:
        return di_args_i64(state, "--batch", arg, 1, 65536, &args->batch);
    case 'o':
        args->output = arg;
        return 0;
    case KEY_JSON:
        args->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        di_text_list_add(&args->files, arg);
        return 0;
    case ARGP_KEY_END:
        if (args->files.n == 0)
            return di_args_bad(state, "a tasks FILE is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp tasks_argp = {
    .options = tasks_options,
    .parser = parse_tasks,
    .args_doc = "FILE...",
    .doc = "Lets the model answer tasks and prints how many answers are right, by kind of task.\v"
           "A file has a JSON object a line (- for stdin): \"messages\", \"expected\" and perhaps "
           "\"accept\", \"task\" and \"id\". Answers are greedy.",
    .children = children,
};

static di_exit run_tasks(int argc, char **argv)
{
    di_eval_tasks_args args = {.max_tokens = 256, .batch = 64};
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&tasks_argp, INT16_MAX, argc, argv, &args, &code)) {
        code = di_app_check_options(&args.engine);
        if (code == DI_EXIT_OK)
            code = di_eval_tasks(&args);
    }
    di_text_list_free(&args.files);
    di_engine_args_free(&args.engine);
    return code;
}

/* ------------------------------------------------------------------------------------------- kl */

static const struct argp_option kl_options[] = {
    {"prompt", KEY_PROMPT, "N", 0, "tokens of a prompt; default 1024"},
    {"predict", KEY_PREDICT, "N", 0, "tokens predicted after each; default 64"},
    {"limit", KEY_LIMIT, "N", 0, "only the first N tokens of each text"},
    {"json", KEY_JSON, NULL, 0, "one JSON object instead of a table"},
    {NULL},
};

static error_t parse_kl(int key, char *arg, struct argp_state *state)
{
    di_eval_kl_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->engine;
        return 0;
    case KEY_PROMPT:
        return di_args_i64(state, "--prompt", arg, 1, INT32_MAX, &args->prompt);
    case KEY_PREDICT:
        return di_args_i64(state, "--predict", arg, 1, 65536, &args->predict);
    case KEY_LIMIT:
        return di_args_i64(state, "--limit", arg, 1, INT64_MAX, &args->limit);
    case KEY_JSON:
        args->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        di_text_list_add(&args->files, arg);
        return 0;
    case ARGP_KEY_END:
        if (args->files.n == 0)
            return di_args_bad(state, "a text FILE is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp kl_argp = {
    .options = kl_options,
    .parser = parse_kl,
    .args_doc = "FILE...",
    .doc = "Prints how far predictions with --prefill-truncation are from those without.\vThe "
           "texts (- for stdin) are cut into windows: a prompt, which is prefilled, and tokens "
           "that are predicted after it, each from the text's own before it.",
    .children = children,
};

static di_exit run_kl(int argc, char **argv)
{
    di_eval_kl_args args = {.prompt = 1024, .predict = 64};
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&kl_argp, INT16_MAX, argc, argv, &args, &code)) {
        code = di_app_check_options(&args.engine);
        if (code == DI_EXIT_OK)
            code = di_eval_kl(&args);
    }
    di_text_list_free(&args.files);
    di_engine_args_free(&args.engine);
    return code;
}

/* -------------------------------------------------------------------------------- which of them */

static void print_help(void)
{
    fputs("Usage: deepinfer eval ppl [OPTION...] FILE...\n"
          "       deepinfer eval tasks [OPTION...] FILE...\n"
          "       deepinfer eval kl [OPTION...] FILE...\n"
          "Measures a model.\n\n"
          "  ppl    perplexity and bits per byte of texts\n"
          "  tasks  exact match over tasks, one JSON object a line\n"
          "  kl     what a truncated prefill changes of the predictions after it\n\n"
          "`deepinfer eval ppl --help` and so on list the options.\n",
          stdout);
}

static di_exit run_kind(di_exit (*run)(int, char **), int argc, char **argv)
{
    char *name = di_app_text("%s %s", argv[0], argv[1]);
    char *shown = argv[1];
    argv[1] = name;
    const di_exit code = run(argc - 1, argv + 1);
    argv[1] = shown;
    free(name);
    return code;
}

di_exit di_cmd_eval(int argc, char **argv)
{
    static const char *const kinds[] = {"ppl", "tasks", "kl"};
    if (argc < 2)
        return di_app_fail(DI_EXIT_USAGE, "eval: what is missing, wanted ppl, tasks or kl");
    const char *kind = argv[1];
    if (strcmp(kind, "--help") == 0 || strcmp(kind, "-h") == 0) {
        print_help();
        return DI_EXIT_OK;
    }
    if (strcmp(kind, "ppl") == 0)
        return run_kind(run_ppl, argc, argv);
    if (strcmp(kind, "tasks") == 0)
        return run_kind(run_tasks, argc, argv);
    if (strcmp(kind, "kl") == 0)
        return run_kind(run_kl, argc, argv);
    const char *nearest = di_app_nearest(kind, kinds, DI_COUNT(kinds));
    if (nearest != NULL)
        return di_app_fail(DI_EXIT_USAGE, "eval: found '%s', did you mean '%s'?", kind, nearest);
    return di_app_fail(DI_EXIT_USAGE, "eval: found '%s', wanted ppl, tasks or kl", kind);
}
