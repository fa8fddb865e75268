#include "prompt.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ids_file.h"

enum {
    KEY_TOKEN_IDS = 0x300,
    KEY_MESSAGES,
    KEY_CHAT,
    KEY_SYSTEM,
    KEY_THINKING,
    KEY_EFFORT,
    KEY_PARSE_SPECIAL
};

static const struct argp_option options[] = {
    {"prompt", 'p', "TEXT", 0, "a prompt (may be repeated, as all of these)"},
    {"file", 'f', "FILE", 0,
     "a prompt from a file, - for stdin; one newline at its end is dropped"},
    {"token-ids", KEY_TOKEN_IDS, "FILE", 0,
     "prompts from a JSON file: an array of token ids, or an array of such arrays"},
    {"messages", KEY_MESSAGES, "FILE", 0,
     "a chat from a JSON file: an array of messages, or an object with \"messages\""},
    {"chat", KEY_CHAT, NULL, 0, "make each text a user's message"},
    {"system", KEY_SYSTEM, "TEXT", 0, "with a system message before it (implies --chat)"},
    {"thinking", KEY_THINKING, NULL, 0, "let the model think first (implies --chat)"},
    {"effort", KEY_EFFORT, "N", 0, "how long: 1 to 100, low, high or max (implies --thinking)"},
    {"parse-special", KEY_PARSE_SPECIAL, NULL, 0,
     "texts of special tokens in a prompt become those tokens"},
    {NULL},
};

bool di_prompt_effort_is_valid(const char *text)
{
    int64_t value = 0;
    char *error = NULL;
    if (strcmp(text, "low") == 0 || strcmp(text, "high") == 0 || strcmp(text, "max") == 0)
        return true;
    const bool is_number = di_args_parse_i64(text, 1, 100, &value, &error);
    free(error);
    return is_number;
}

static error_t check_together(const di_prompt_args *args, struct argp_state *state)
{
    if (!args->is_chat)
        return 0;
    for (size_t i = 0; i < args->n_sources; i++)
        if (args->sources[i].key == KEY_TOKEN_IDS)
            return di_args_bad(state, "--token-ids cannot be used with --chat, --system, "
                                      "--thinking or --effort: ids are used as they are");
    if (args->parse_special)
        return di_args_bad(state, "--parse-special cannot be used with --chat, --system, "
                                  "--thinking or --effort: a message is a user's text");
    return 0;
}

static error_t parse_prompt(int key, char *arg, struct argp_state *state)
{
    di_prompt_args *args = state->input;
    switch (key) {
    case 'p':
    case 'f':
    case KEY_TOKEN_IDS:
    case KEY_MESSAGES:
        args->sources = di_app_grow(args->sources, args->n_sources, sizeof *args->sources);
        args->sources[args->n_sources++] = (di_prompt_source){.key = key, .value = arg};
        return 0;
    case KEY_SYSTEM:
        args->system = arg;
        args->is_chat = true;
        return 0;
    case KEY_EFFORT:
        if (!di_prompt_effort_is_valid(arg))
            return di_args_bad(state, "--effort: '%s' is not 1 to 100, low, high or max", arg);
        args->effort = arg;
        args->is_chat = args->is_thinking = true;
        return 0;
    case KEY_THINKING:
        args->is_chat = args->is_thinking = true;
        return 0;
    case KEY_CHAT:
        args->is_chat = true;
        return 0;
    case KEY_PARSE_SPECIAL:
        args->parse_special = true;
        return 0;
    case ARGP_KEY_END:
        return check_together(args, state);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp di_prompt_argp = {.options = options, .parser = parse_prompt};

void di_prompt_args_free(di_prompt_args *args)
{
    free(args->sources);
    *args = (di_prompt_args){NULL};
}

void di_prompts_free(di_prompt_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->items[i].text);
        free(list->items[i].ids);
        free(list->items[i].messages);
    }
    free(list->items);
    *list = (di_prompt_list){NULL};
}

static void add_prompt(di_prompt_list *list, di_prompt prompt)
{
    list->items = di_app_grow(list->items, list->n, sizeof *list->items);
    list->items[list->n++] = prompt;
}

/* ----------------------------------------------------------------------------------------- chat */

void di_prompt_set_mode(json_t *request, bool is_thinking, const char *effort)
{
    json_object_set_new(request, "thinking_mode", json_string(is_thinking ? "thinking" : "chat"));
    if (!is_thinking || effort == NULL)
        return;
    const bool is_number = effort[0] == '+' || (effort[0] >= '0' && effort[0] <= '9');
    json_object_set_new(request, "reasoning_effort",
                        is_number ? json_integer(strtol(effort, NULL, 10)) : json_string(effort));
}

static void append_message(json_t *messages, const char *role, json_t *content)
{
    json_array_append_new(messages, json_pack("{s:s, s:o}", "role", role, "content", content));
}

static di_exit wrap_as_chat(const di_prompt_args *args, di_prompt *prompt, const char *name)
{
    json_t *content = json_stringn(prompt->text, prompt->text_bytes);
    json_t *system = args->system != NULL ? json_string(args->system) : NULL;
    if (content == NULL || (args->system != NULL && system == NULL)) {
        json_decref(content);
        json_decref(system);
        return di_app_fail(DI_EXIT_INPUT, "%s: a chat message must be UTF-8",
                           content == NULL ? name : "--system");
    }
    json_t *messages = json_array();
    if (system != NULL)
        append_message(messages, "system", system);
    append_message(messages, "user", content);
    json_t *request = json_pack("{s:o}", "messages", messages);
    di_prompt_set_mode(request, args->is_thinking, args->effort);
    prompt->messages = json_dumps(request, JSON_COMPACT);
    prompt->is_thinking = args->is_thinking;
    json_decref(request);
    free(prompt->text);
    prompt->text = NULL;
    return DI_EXIT_OK;
}

static di_exit add_messages(const di_prompt_args *args, const char *path, di_prompt_list *list)
{
    json_t *request = NULL;
    const di_exit code = di_app_json_load(path, &request);
    if (code != DI_EXIT_OK)
        return code;
    if (json_is_array(request))
        request = json_pack("{s:o}", "messages", request);
    if (!json_is_object(request) || json_object_get(request, "messages") == NULL) {
        json_decref(request);
        return di_app_fail(DI_EXIT_INPUT,
                           "%s: wanted an array of messages or an object with \"messages\"",
                           di_app_file_name(path));
    }
    if (args->system != NULL) {
        json_decref(request);
        return di_app_fail(DI_EXIT_USAGE, "--system cannot be used with --messages: put it there");
    }
    if (args->is_thinking)
        di_prompt_set_mode(request, true, args->effort);
    const char *mode = json_string_value(json_object_get(request, "thinking_mode"));
    add_prompt(list, (di_prompt){.messages = json_dumps(request, JSON_COMPACT),
                                 .is_thinking = mode != NULL && strcmp(mode, "thinking") == 0});
    json_decref(request);
    return DI_EXIT_OK;
}

/* ------------------------------------------------------------------------------- texts and ids */

static di_exit add_text(const di_prompt_args *args, char *text, size_t bytes, const char *name,
                        di_prompt_list *list)
{
    di_prompt prompt = {.text = text, .text_bytes = bytes};
    if (bytes == 0)
        prompt.problem = "the prompt is empty";
    const di_exit code =
        args->is_chat && bytes > 0 ? wrap_as_chat(args, &prompt, name) : DI_EXIT_OK;
    if (code != DI_EXIT_OK)
        free(text);
    else
        add_prompt(list, prompt);
    return code;
}

static di_exit add_text_file(const di_prompt_args *args, const char *path, di_prompt_list *list)
{
    char *text = NULL;
    size_t bytes = 0;
    const di_exit code = di_app_read_file(path, &text, &bytes);
    if (code != DI_EXIT_OK)
        return code;
    if (bytes > 0 && text[bytes - 1] == '\n')
        text[--bytes] = '\0';
    return add_text(args, text, bytes, di_app_file_name(path), list);
}

static di_exit add_ids(const json_t *value, const char *name, di_prompt_list *list)
{
    di_prompt prompt = {NULL};
    const di_exit code = di_app_json_ids(value, name, &prompt.ids, &prompt.n_ids);
    if (code != DI_EXIT_OK)
        return code;
    if (prompt.n_ids == 0)
        prompt.problem = "the list of token ids is empty";
    add_prompt(list, prompt);
    return DI_EXIT_OK;
}

static di_exit add_ids_file(const char *path, di_prompt_list *list)
{
    json_t *value = NULL;
    di_exit code = di_app_json_load(path, &value);
    if (code != DI_EXIT_OK)
        return code;
    const char *name = di_app_file_name(path);
    if (!json_is_array(json_array_get(value, 0)))
        code = add_ids(value, name, list);
    else
        for (size_t i = 0; i < json_array_size(value) && code == DI_EXIT_OK; i++) {
            char *item = di_app_text("%s: list %zu", name, i);
            code = add_ids(json_array_get(value, i), item, list);
            free(item);
        }
    json_decref(value);
    return code;
}

static di_exit add_source(const di_prompt_args *args, const di_prompt_source *source,
                          di_prompt_list *list)
{
    switch (source->key) {
    case 'p':
        return add_text(args, di_app_text("%s", source->value), strlen(source->value), "--prompt",
                        list);
    case 'f':
        return add_text_file(args, source->value, list);
    case KEY_TOKEN_IDS:
        return add_ids_file(source->value, list);
    default:
        return add_messages(args, source->value, list);
    }
}

di_exit di_prompts_load(const di_prompt_args *args, di_prompt_list *list)
{
    *list = (di_prompt_list){NULL};
    if (args->n_sources == 0) {
        if (isatty(STDIN_FILENO) == 1)
            return di_app_fail(DI_EXIT_USAGE,
                               "no prompt: give -p, -f, --token-ids or --messages, or pipe a text");
        return add_text_file(args, "-", list);
    }
    di_exit code = DI_EXIT_OK;
    for (size_t i = 0; i < args->n_sources && code == DI_EXIT_OK; i++)
        code = add_source(args, &args->sources[i], list);
    if (code != DI_EXIT_OK)
        di_prompts_free(list);
    return code;
}
