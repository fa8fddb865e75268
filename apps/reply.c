#include "reply.h"

#include <stdlib.h>
#include <string.h>

#include "ids_file.h"

typedef struct text_buffer {
    char *data;
    size_t n;
    size_t capacity;
} text_buffer;

typedef enum part { PART_NONE, PART_REASONING, PART_CONTENT, PART_TOOL_CALL } part;

struct di_reply {
    di_completion_stream *stream;
    bool is_shown;
    bool is_tty;
    bool is_thinking;
    part last;
    char last_byte; /* printed; '\n' at the beginning */
    text_buffer reasoning;
    text_buffer content;
    json_t *tool_calls;
};

static void append(text_buffer *buffer, const char *text, size_t bytes)
{
    if (buffer->capacity - buffer->n < bytes) {
        buffer->capacity = 2 * (buffer->n + bytes);
        buffer->data = di_app_resize(buffer->data, buffer->capacity, 1);
    }
    if (bytes > 0)
        memcpy(buffer->data + buffer->n, text, bytes);
    buffer->n += bytes;
}

static void show(di_reply *reply, const char *text, size_t bytes)
{
    if (!reply->is_shown || bytes == 0)
        return;
    fwrite(text, 1, bytes, stdout);
    reply->last_byte = text[bytes - 1];
}

static void show_text(di_reply *reply, const char *text)
{
    show(reply, text, strlen(text));
}

static void end_line(di_reply *reply)
{
    if (reply->last_byte != '\n')
        show_text(reply, "\n");
}

/* What stands between the parts. */
static void turn_to(di_reply *reply, part next)
{
    if (reply->last == next && next != PART_TOOL_CALL)
        return;
    if (reply->last == PART_REASONING) {
        if (reply->is_tty)
            show_text(reply, "\033[0m");
        end_line(reply);
        show_text(reply, reply->is_tty ? "\n" : "</think>\n");
    }
    if (next == PART_REASONING)
        show_text(reply, reply->is_tty ? "\033[2m" : "<think>\n");
    if (next == PART_TOOL_CALL)
        end_line(reply);
    reply->last = next;
}

static void add_tool_call(di_reply *reply, const char *name, const char *text, size_t bytes)
{
    json_t *function = json_object();
    json_object_set_new(function, "name", di_app_json_string(name, strlen(name)));
    json_object_set_new(function, "arguments", di_app_json_string(text, bytes));
    json_t *call = json_object();
    json_object_set_new(call, "type", json_string("function"));
    json_object_set_new(call, "function", function);
    json_array_append_new(reply->tool_calls, call);
    show_text(reply, "[tool call] ");
    show_text(reply, name);
    show_text(reply, " ");
    show(reply, text, bytes);
    show_text(reply, "\n");
}

static bool on_delta(void *user, di_delta_kind kind, const char *name, const char *text,
                     size_t text_bytes)
{
    di_reply *reply = user;
    switch (kind) {
    case DI_DELTA_REASONING:
        turn_to(reply, PART_REASONING);
        append(&reply->reasoning, text, text_bytes);
        show(reply, text, text_bytes);
        break;
    case DI_DELTA_CONTENT:
        turn_to(reply, PART_CONTENT);
        append(&reply->content, text, text_bytes);
        show(reply, text, text_bytes);
        break;
    case DI_DELTA_TOOL_CALL:
        turn_to(reply, PART_TOOL_CALL);
        add_tool_call(reply, name, text, text_bytes);
        break;
    }
    return true;
}

di_exit di_reply_open(bool is_thinking, bool is_shown, di_reply **out)
{
    di_reply *reply = di_app_alloc(sizeof *reply);
    *reply = (di_reply){.is_shown = is_shown,
                        .is_tty = is_shown && di_app_stdout_is_tty(),
                        .is_thinking = is_thinking,
                        .last_byte = '\n',
                        .tool_calls = json_array()};
    const di_status status =
        di_completion_open(is_thinking ? "thinking" : "chat", on_delta, reply, &reply->stream);
    if (status != DI_OK) {
        di_reply_close(reply);
        return di_app_fail_status(status, NULL);
    }
    *out = reply;
    return DI_EXIT_OK;
}

di_exit di_reply_push(di_reply *reply, const char *text, size_t bytes)
{
    const di_status status = di_completion_push(reply->stream, text, bytes);
    return status == DI_OK ? DI_EXIT_OK : di_app_fail_status(status, "completion");
}

di_exit di_reply_finish(di_reply *reply, json_t **message)
{
    const di_status status = di_completion_finish(reply->stream);
    if (status != DI_OK)
        return di_app_fail_status(status, "completion");
    turn_to(reply, PART_NONE);
    end_line(reply);
    json_t *object = json_object();
    json_object_set_new(object, "role", json_string("assistant"));
    json_object_set_new(object, "content",
                        di_app_json_string(reply->content.data, reply->content.n));
    if (reply->is_thinking)
        json_object_set_new(object, "reasoning_content",
                            di_app_json_string(reply->reasoning.data, reply->reasoning.n));
    if (json_array_size(reply->tool_calls) > 0)
        json_object_set(object, "tool_calls", reply->tool_calls);
    *message = object;
    return DI_EXIT_OK;
}

void di_reply_close(di_reply *reply)
{
    if (reply == NULL)
        return;
    di_completion_close(reply->stream);
    json_decref(reply->tool_calls);
    free(reply->reasoning.data);
    free(reply->content.data);
    free(reply);
}
