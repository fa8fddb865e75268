/* deepinfer tokenize and detokenize. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "ids_file.h"
#include "json_out.h"
#include "lines.h"
#include "model.h"

typedef struct tokenize_args {
    di_engine_args engine;
    const char *tokenizer;
    const char *file;
    di_text_list words; /* positional */
    bool is_jsonl;
    int parse_special; /* -1: not said */
    bool skip_special;
} tokenize_args;

typedef struct tokenize_job {
    const tokenize_args *args;
    di_tokenizer *tokenizer;
    bool parse_special;
} tokenize_job;

enum { KEY_TOKENIZER = 0x400, KEY_JSONL, KEY_PARSE, KEY_NO_PARSE, KEY_SKIP };

#define COMMON_OPTIONS                                                                             \
    {"model", 'm', "MODEL", 0, "checkpoint whose tokenizer to use (see deepinfer run --help)"},    \
        {"tokenizer", KEY_TOKENIZER, "FILE", 0, "a tokenizer.json, or its directory"},             \
    {                                                                                              \
        "file", 'f', "FILE", 0, "read from a file, - for stdin"                                    \
    }

static const struct argp_option tokenize_options[] = {
    COMMON_OPTIONS,
    {"jsonl", KEY_JSONL, NULL, 0,
     "lines {\"text\": ...} in, {\"ids\": [...]} out; special tokens "
     "are parsed unless --no-parse-special"},
    {"parse-special", KEY_PARSE, NULL, 0, "texts of special tokens become those tokens"},
    {"no-parse-special", KEY_NO_PARSE, NULL, 0, "they stay text (the default without --jsonl)"},
    {NULL},
};

static const struct argp_option detokenize_options[] = {
    COMMON_OPTIONS,
    {"jsonl", KEY_JSONL, NULL, 0, "lines {\"ids\": [...]} in, {\"text\": ...} out"},
    {"skip-special", KEY_SKIP, NULL, 0, "leave special tokens out"},
    {NULL},
};

static error_t check_sources(const tokenize_args *args, struct argp_state *state)
{
    if (args->words.n > 0 && args->file != NULL)
        return di_args_bad(state, "both '%s' and -f '%s': wanted one of them", args->words.items[0],
                           args->file);
    if (args->words.n > 0 && args->is_jsonl)
        return di_args_bad(state, "--jsonl reads -f FILE or stdin, not '%s'", args->words.items[0]);
    if (args->tokenizer != NULL && args->engine.model != NULL)
        return di_args_bad(state, "both --tokenizer and -m: wanted one of them");
    return 0;
}

static error_t parse_tokenize(int key, char *arg, struct argp_state *state)
{
    tokenize_args *args = state->input;
    switch (key) {
    case 'm':
        args->engine.model = arg;
        return 0;
    case KEY_TOKENIZER:
        args->tokenizer = arg;
        return 0;
    case 'f':
        args->file = arg;
        return 0;
    case KEY_JSONL:
        args->is_jsonl = true;
        return 0;
    case KEY_PARSE:
    case KEY_NO_PARSE:
        args->parse_special = key == KEY_PARSE;
        return 0;
    case KEY_SKIP:
        args->skip_special = true;
        return 0;
    case ARGP_KEY_ARG:
        di_text_list_add(&args->words, arg);
        return 0;
    case ARGP_KEY_END:
        return check_sources(args, state);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp tokenize_argp = {
    .options = tokenize_options,
    .parser = parse_tokenize,
    .args_doc = "[TEXT...]",
    .doc = "Prints the token ids of each TEXT, or of a file or stdin as a whole, as a JSON array.",
};

static const struct argp detokenize_argp = {
    .options = detokenize_options,
    .parser = parse_tokenize,
    .args_doc = "[ID...]",
    .doc = "Prints the text of token ids: of the IDs, or of a JSON array in a file or on stdin.",
};

/* ------------------------------------------------------------------------------------- to ids */

static di_exit print_ids(const tokenize_job *job, const char *text, size_t bytes)
{
    int32_t *ids = NULL;
    size_t n_ids = 0;
    const di_status status =
        di_tokenizer_encode_text(job->tokenizer, text, bytes, job->parse_special, &ids, &n_ids);
    if (status != DI_OK)
        return di_app_fail_status(status, NULL);
    di_out_ids(stdout, ids, n_ids);
    putchar('\n');
    di_free(ids);
    return DI_EXIT_OK;
}

static di_exit tokenize_line(void *user, const json_t *object, char **error)
{
    const tokenize_job *job = user;
    const json_t *text = json_object_get(object, "text");
    if (!json_is_string(text)) {
        *error = di_app_text("wanted {\"text\": \"...\"}");
        return DI_EXIT_INPUT;
    }
    int32_t *ids = NULL;
    size_t n_ids = 0;
    const di_status status =
        di_tokenizer_encode_text(job->tokenizer, json_string_value(text), json_string_length(text),
                                 job->parse_special, &ids, &n_ids);
    if (status != DI_OK) {
        *error = di_app_text("%s", di_last_error());
        return di_exit_of_status(status);
    }
    fputs("{\"ids\": ", stdout);
    di_out_ids(stdout, ids, n_ids);
    fputs("}\n", stdout);
    di_free(ids);
    return DI_EXIT_OK;
}

static di_exit tokenize_all(const tokenize_job *job)
{
    const tokenize_args *args = job->args;
    di_exit code = DI_EXIT_OK;
    if (args->is_jsonl)
        return di_lines_filter(args->file, tokenize_line, (void *)job);
    for (size_t i = 0; i < args->words.n; i++)
        code =
            di_exit_first(code, print_ids(job, args->words.items[i], strlen(args->words.items[i])));
    if (args->words.n > 0)
        return code;
    char *text = NULL;
    size_t bytes = 0;
    code = di_app_read_file(args->file != NULL ? args->file : "-", &text, &bytes);
    if (code != DI_EXIT_OK)
        return code;
    code = print_ids(job, text, bytes);
    free(text);
    return code;
}

/* ------------------------------------------------------------------------------------ to text */

static di_exit print_text(const tokenize_job *job, const int32_t *ids, size_t n_ids)
{
    char *text = NULL;
    size_t bytes = 0;
    const di_status status =
        di_tokenizer_decode_ids(job->tokenizer, ids, n_ids, job->args->skip_special, &text, &bytes);
    if (status == DI_ERR_ARGUMENT) /* an id that is no token: the input's fault, not the options' */
        return di_app_fail(DI_EXIT_INPUT, "%s", di_last_error());
    if (status != DI_OK)
        return di_app_fail_status(status, NULL);
    fwrite(text, 1, bytes, stdout);
    if (di_app_stdout_is_tty() && (bytes == 0 || text[bytes - 1] != '\n'))
        putchar('\n');
    di_free(text);
    return DI_EXIT_OK;
}

static di_exit detokenize_line(void *user, const json_t *object, char **error)
{
    const tokenize_job *job = user;
    const json_t *list = json_object_get(object, "ids");
    if (!json_is_array(list)) {
        *error = di_app_text("wanted {\"ids\": [...]}");
        return DI_EXIT_INPUT;
    }
    const size_t n_ids = json_array_size(list);
    int32_t *ids = di_app_alloc(n_ids * sizeof *ids);
    char *text = NULL;
    size_t bytes = 0;
    di_status status = DI_OK;
    for (size_t i = 0; i < n_ids && *error == NULL; i++) {
        const json_t *item = json_array_get(list, i);
        const json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id > INT32_MAX)
            *error = di_app_text("ids: item %zu is no token id", i);
        ids[i] = (int32_t)id;
    }
    if (*error == NULL) {
        status = di_tokenizer_decode_ids(job->tokenizer, ids, n_ids, job->args->skip_special, &text,
                                         &bytes);
        if (status != DI_OK)
            *error = di_app_text("%s", di_last_error());
    }
    free(ids);
    if (*error != NULL)
        return status == DI_OK || status == DI_ERR_ARGUMENT ? DI_EXIT_INPUT
                                                            : di_exit_of_status(status);
    fputs("{\"text\": ", stdout);
    di_out_text(stdout, text, bytes);
    fputs("}\n", stdout);
    di_free(text);
    return DI_EXIT_OK;
}

static di_exit detokenize_words(const tokenize_job *job)
{
    const di_text_list *words = &job->args->words;
    int32_t *ids = di_app_alloc(words->n * sizeof *ids);
    di_exit code = DI_EXIT_OK;
    for (size_t i = 0; i < words->n && code == DI_EXIT_OK; i++) {
        int64_t id = 0;
        char *error = NULL;
        if (!di_args_parse_i64(words->items[i], 0, INT32_MAX, &id, &error))
            code = di_app_fail(DI_EXIT_USAGE, "token id: %s", error);
        free(error);
        ids[i] = (int32_t)id;
    }
    if (code == DI_EXIT_OK)
        code = print_text(job, ids, words->n);
    free(ids);
    return code;
}

static di_exit detokenize_all(const tokenize_job *job)
{
    const tokenize_args *args = job->args;
    if (args->is_jsonl)
        return di_lines_filter(args->file, detokenize_line, (void *)job);
    if (args->words.n > 0)
        return detokenize_words(job);
    const char *path = args->file != NULL ? args->file : "-";
    json_t *value = NULL;
    di_exit code = di_app_json_load(path, &value);
    if (code != DI_EXIT_OK)
        return code;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    code = di_app_json_ids(value, di_app_file_name(path), &ids, &n_ids);
    json_decref(value);
    if (code == DI_EXIT_OK)
        code = print_text(job, ids, n_ids);
    free(ids);
    return code;
}

static di_exit run_tokenizer(int argc, char **argv, const struct argp *argp,
                             di_exit (*fn)(const tokenize_job *job))
{
    tokenize_args args = {.parse_special = -1};
    tokenize_job job = {.args = &args};
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(argp, INT32_MAX, argc, argv, &args, &code)) {
        job.parse_special = args.parse_special == -1 ? args.is_jsonl : args.parse_special == 1;
        code = di_app_tokenizer_open(&args.engine, args.tokenizer, &job.tokenizer);
        if (code == DI_EXIT_OK)
            code = fn(&job);
    }
    di_tokenizer_close(job.tokenizer);
    di_text_list_free(&args.words);
    return code;
}

di_exit di_cmd_tokenize(int argc, char **argv)
{
    return run_tokenizer(argc, argv, &tokenize_argp, tokenize_all);
}

di_exit di_cmd_detokenize(int argc, char **argv)
{
    return run_tokenizer(argc, argv, &detokenize_argp, detokenize_all);
}
