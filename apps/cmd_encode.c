/* deepinfer encode and parse: the chat format without a model. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "ids_file.h"
#include "json_out.h"
#include "lines.h"
#include "args.h"

typedef struct encode_args {
    const char *file;
    bool is_jsonl;
    bool is_thinking;
} encode_args;

enum { KEY_JSONL = 0x400, KEY_THINKING };

static const struct argp_option encode_options[] = {
    {"jsonl", KEY_JSONL, NULL, 0,
     "one chat on each line in, {\"prompt\": ...} or {\"error\": ...} out"},
    {NULL},
};

static const struct argp_option parse_options[] = {
    {"jsonl", KEY_JSONL, NULL, 0,
     "lines {\"text\", \"thinking_mode\"} in, {\"message\": ...} or {\"error\": ...} out"},
    {"thinking", KEY_THINKING, NULL, 0, "the completion begins with the model's thinking"},
    {NULL},
};

static error_t parse_encode(int key, char *arg, struct argp_state *state)
{
    encode_args *args = state->input;
    switch (key) {
    case KEY_JSONL:
        args->is_jsonl = true;
        return 0;
    case KEY_THINKING:
        args->is_thinking = true;
        return 0;
    case ARGP_KEY_ARG:
        args->file = arg;
        return 0;
    case ARGP_KEY_END:
        if (args->is_jsonl && args->is_thinking)
            return di_args_bad(state, "--thinking: with --jsonl each line has its thinking_mode");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp encode_argp = {
    .options = encode_options,
    .parser = parse_encode,
    .args_doc = "[FILE]",
    .doc = "Prints the prompt text of a chat: of a JSON array of messages, or of an object with "
           "\"messages\", \"tools\", \"thinking_mode\" and so on, in FILE or on stdin.",
};

static const struct argp parse_argp = {
    .options = parse_options,
    .parser = parse_encode,
    .args_doc = "[FILE]",
    .doc = "Prints the message that a completion's text in FILE or on stdin stands for, as JSON. "
           "The text must be whole, its end-of-sentence token included.",
};

/* A refusal is a line's answer, not a failure of the filter. */
static di_exit refuse(di_status status, char **error)
{
    *error = di_app_text("%s", di_last_error());
    const di_exit code = di_exit_of_status(status);
    return code == DI_EXIT_USAGE || code == DI_EXIT_INPUT ? DI_EXIT_OK : code;
}

static di_exit encode_line(void *user, const json_t *object, char **error)
{
    (void)user;
    if (json_object_get(object, "messages") == NULL) {
        *error = di_app_text("wanted {\"messages\": [...]}");
        return DI_EXIT_INPUT;
    }
    char *request = json_dumps(object, JSON_COMPACT);
    char *prompt = NULL;
    size_t bytes = 0;
    const di_status status = di_chat_encode_json(request, strlen(request), &prompt, &bytes);
    free(request);
    if (status != DI_OK)
        return refuse(status, error);
    fputs("{\"prompt\": ", stdout);
    di_out_text(stdout, prompt, bytes);
    fputs("}\n", stdout);
    di_free(prompt);
    return DI_EXIT_OK;
}

static di_exit parse_line(void *user, const json_t *object, char **error)
{
    (void)user;
    const json_t *text = json_object_get(object, "text");
    const json_t *mode = json_object_get(object, "thinking_mode");
    if (!json_is_string(text) || (mode != NULL && !json_is_string(mode))) {
        *error = di_app_text("wanted {\"text\": \"...\", \"thinking_mode\": \"...\"}");
        return DI_EXIT_INPUT;
    }
    char *message = NULL;
    const di_status status =
        di_chat_parse_text(json_string_value(text), json_string_length(text),
                           mode != NULL ? json_string_value(mode) : "chat", &message);
    if (status != DI_OK)
        return refuse(status, error);
    printf("{\"message\": %s}\n", message);
    di_free(message);
    return DI_EXIT_OK;
}

/* What the library refuses here came from the file. */
static di_exit fail_input(const char *name, di_status status)
{
    if (status == DI_ERR_ARGUMENT)
        return di_app_fail(DI_EXIT_INPUT, "%s: %s", name, di_last_error());
    return di_app_fail_status(status, name);
}

static di_exit encode_file(const char *path)
{
    json_t *request = NULL;
    const di_exit code = di_app_json_load(path, &request);
    if (code != DI_EXIT_OK)
        return code;
    if (json_is_array(request))
        request = json_pack("{s:o}", "messages", request);
    char *text = json_dumps(request, JSON_COMPACT | JSON_ENCODE_ANY);
    char *prompt = NULL;
    size_t bytes = 0;
    const di_status status = di_chat_encode_json(text, strlen(text), &prompt, &bytes);
    free(text);
    json_decref(request);
    if (status != DI_OK)
        return fail_input(di_app_file_name(path), status);
    fwrite(prompt, 1, bytes, stdout);
    if (di_app_stdout_is_tty())
        putchar('\n');
    di_free(prompt);
    return DI_EXIT_OK;
}

static di_exit parse_file(const char *path, bool is_thinking)
{
    char *text = NULL;
    size_t bytes = 0;
    const di_exit code = di_app_read_file(path, &text, &bytes);
    if (code != DI_EXIT_OK)
        return code;
    char *message = NULL;
    const di_status status =
        di_chat_parse_text(text, bytes, is_thinking ? "thinking" : "chat", &message);
    free(text);
    if (status != DI_OK)
        return fail_input(di_app_file_name(path), status);
    puts(message);
    di_free(message);
    return DI_EXIT_OK;
}

di_exit di_cmd_encode(int argc, char **argv)
{
    encode_args args = {.file = NULL};
    di_exit code = DI_EXIT_OK;
    if (!di_args_parse(&encode_argp, 1, argc, argv, &args, &code))
        return code;
    if (args.is_jsonl)
        return di_lines_filter(args.file, encode_line, NULL);
    return encode_file(args.file != NULL ? args.file : "-");
}

di_exit di_cmd_parse(int argc, char **argv)
{
    encode_args args = {.file = NULL};
    di_exit code = DI_EXIT_OK;
    if (!di_args_parse(&parse_argp, 1, argc, argv, &args, &code))
        return code;
    if (args.is_jsonl)
        return di_lines_filter(args.file, parse_line, NULL);
    return parse_file(args.file != NULL ? args.file : "-", args.is_thinking);
}
