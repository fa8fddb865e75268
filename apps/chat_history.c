#include "chat_history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ids_file.h"
#include "prompt.h"

static json_t *messages_of(const di_history *history)
{
    return json_object_get(history->request, "messages");
}

static bool has_role(const json_t *message, const char *role)
{
    const char *text = json_string_value(json_object_get(message, "role"));
    return text != NULL && strcmp(text, role) == 0;
}

static bool has_system(const di_history *history)
{
    return has_role(json_array_get(messages_of(history), 0), "system");
}

void di_history_init(di_history *history)
{
    history->request = json_pack("{s:[]}", "messages");
}

void di_history_free(di_history *history)
{
    json_decref(history->request);
    history->request = NULL;
}

bool di_history_is_empty(const di_history *history)
{
    return json_array_size(messages_of(history)) == (has_system(history) ? 1 : 0);
}

void di_history_add(di_history *history, json_t *message)
{
    json_array_append_new(messages_of(history), message);
}

static json_t *make_message(const char *role, const char *text, size_t bytes)
{
    json_t *content = json_stringn(text, bytes);
    return content != NULL ? json_pack("{s:s, s:o}", "role", role, "content", content) : NULL;
}

bool di_history_add_user(di_history *history, const char *text, size_t bytes)
{
    json_t *message = make_message("user", text, bytes);
    if (message != NULL)
        di_history_add(history, message);
    return message != NULL;
}

bool di_history_set_system(di_history *history, const char *text)
{
    json_t *message = NULL;
    if (text[0] != '\0') {
        message = make_message("system", text, strlen(text));
        if (message == NULL)
            return false;
    }
    json_t *messages = messages_of(history);
    if (has_system(history))
        json_array_remove(messages, 0);
    if (message != NULL)
        json_array_insert_new(messages, 0, message);
    return true;
}

void di_history_clear(di_history *history)
{
    json_t *messages = messages_of(history);
    const size_t n_kept = has_system(history) ? 1 : 0;
    while (json_array_size(messages) > n_kept)
        json_array_remove(messages, json_array_size(messages) - 1);
}

json_t *di_history_take_answer(di_history *history)
{
    json_t *messages = messages_of(history);
    const size_t n = json_array_size(messages);
    json_t *last = n > 0 ? json_array_get(messages, n - 1) : NULL;
    if (!has_role(last, "assistant"))
        return NULL;
    json_incref(last);
    json_array_remove(messages, n - 1);
    return last;
}

bool di_history_undo(di_history *history)
{
    json_t *messages = messages_of(history);
    for (size_t i = json_array_size(messages); i-- > 0;) {
        if (!has_role(json_array_get(messages, i), "user"))
            continue;
        while (json_array_size(messages) > i)
            json_array_remove(messages, json_array_size(messages) - 1);
        return true;
    }
    return false;
}

static json_t *request_with_mode(const di_history *history, bool is_thinking, const char *effort)
{
    json_t *request = json_copy(history->request);
    di_prompt_set_mode(request, is_thinking, effort);
    return request;
}

char *di_history_request(const di_history *history, bool is_thinking, const char *effort)
{
    json_t *request = request_with_mode(history, is_thinking, effort);
    char *text = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    return text;
}

di_exit di_history_save(const di_history *history, const char *path, bool is_thinking,
                        const char *effort)
{
    di_out_file out;
    const di_exit code = di_out_file_open(path, &out);
    if (code != DI_EXIT_OK)
        return code;
    json_t *request = request_with_mode(history, is_thinking, effort);
    json_dumpf(request, out.file, JSON_INDENT(1));
    fputc('\n', out.file);
    json_decref(request);
    return di_out_file_commit(&out);
}

/* Only what the encoder takes may become the history: the next turn would fail otherwise. */
static di_exit check_request(const json_t *request, const char *path)
{
    if (!json_is_array(json_object_get(request, "messages")))
        return di_app_fail(DI_EXIT_INPUT,
                           "%s: wanted an array of messages or an object with \"messages\"", path);
    char *text = json_dumps(request, JSON_COMPACT);
    char *prompt = NULL;
    size_t bytes = 0;
    const di_status status = di_chat_encode_json(text, strlen(text), &prompt, &bytes);
    free(text);
    di_free(prompt);
    return status == DI_OK ? DI_EXIT_OK : di_app_fail_status(status, path);
}

/* Takes the mode out of the request: the chat has its own. */
static void take_mode(json_t *request, bool *is_thinking, char **effort)
{
    const char *mode = json_string_value(json_object_get(request, "thinking_mode"));
    const json_t *value = json_object_get(request, "reasoning_effort");
    if (mode != NULL)
        *is_thinking = strcmp(mode, "thinking") == 0;
    if (json_is_integer(value) || json_is_string(value)) {
        free(*effort);
        *effort = json_is_integer(value)
                      ? di_app_text("%" JSON_INTEGER_FORMAT, json_integer_value(value))
                      : di_app_text("%s", json_string_value(value));
    }
    json_object_del(request, "thinking_mode");
    json_object_del(request, "reasoning_effort");
}

di_exit di_history_load(di_history *history, const char *path, bool *is_thinking, char **effort)
{
    json_t *request = NULL;
    di_exit code = di_app_json_load(path, &request);
    if (code != DI_EXIT_OK)
        return code;
    if (json_is_array(request))
        request = json_pack("{s:o}", "messages", request);
    code = check_request(request, path);
    if (code != DI_EXIT_OK) {
        json_decref(request);
        return code;
    }
    take_mode(request, is_thinking, effort);
    json_decref(history->request);
    history->request = request;
    return DI_EXIT_OK;
}
