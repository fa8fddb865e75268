#define _GNU_SOURCE /* memmem */
#include <stdio.h>
#include <string.h>

#include "text/completion.h"
#include "text/encoding_json.h"
#include "text/encoding_tools.h"

typedef struct message {
    di_buf reasoning;
    di_buf content;
    di_buf calls;     /* JSON, separated by ", " */
    di_status status; /* of the callback, with its error text */
    char error[256];
} message;

static di_status add_call(message *m, const char *name, const char *arguments, size_t len)
{
    size_t space_len, begin;
    DI_TRY(di_tool_name_split(name, strlen(name), "completion", &space_len, &begin));
    if (m->calls.len)
        DI_TRY(di_buf_puts(&m->calls, ", "));
    DI_TRY(di_buf_puts(&m->calls, "{\"type\": \"function\", \"function\": {\"name\": "));
    DI_TRY(di_json_write_string(name + begin, strlen(name + begin), &m->calls));
    DI_TRY(di_buf_puts(&m->calls, ", \"arguments\": "));
    DI_TRY(di_json_write_string(arguments, len, &m->calls));
    DI_TRY(di_buf_puts(&m->calls, "}"));
    if (begin) {
        DI_TRY(di_buf_puts(&m->calls, ", \"namespace\": "));
        DI_TRY(di_json_write_string(name, space_len, &m->calls));
    }
    return di_buf_puts(&m->calls, "}");
}

static bool add_delta(void *user, di_delta_kind kind, const char *name, const char *text,
                      size_t len)
{
    message *m = user;
    switch (kind) {
    case DI_DELTA_REASONING:
        m->status = di_buf_append(&m->reasoning, text, len);
        break;
    case DI_DELTA_CONTENT:
        m->status = di_buf_append(&m->content, text, len);
        break;
    case DI_DELTA_TOOL_CALL:
        m->status = add_call(m, name, text, len);
        break;
    }
    if (m->status != DI_OK)
        snprintf(m->error, sizeof m->error, "%s", di_last_error());
    return m->status == DI_OK;
}

/* The encoder's own marks never stand in a text that it wrote. */
static di_status check_no_marks(const char *what, const di_buf *text)
{
    static const char *const marks[] = {DI_CHAT_BOS, DI_CHAT_EOS, DI_CHAT_THINK, DI_CHAT_THINK_END,
                                        DI_CHAT_DSML};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *found = memmem(di_buf_str(text), text->len, marks[i], strlen(marks[i]));
        if (found)
            return di_fail(DI_ERR_INPUT, "completion: found %s in the %s, at its byte %zu",
                           marks[i], what, (size_t)(found - text->data));
    }
    return DI_OK;
}

static di_status write_message(const message *m, di_buf *out)
{
    DI_TRY(di_buf_puts(out, "{\"role\": \"assistant\", \"content\": "));
    DI_TRY(di_json_write_string(di_buf_str(&m->content), m->content.len, out));
    DI_TRY(di_buf_puts(out, ", \"reasoning_content\": "));
    DI_TRY(di_json_write_string(di_buf_str(&m->reasoning), m->reasoning.len, out));
    DI_TRY(di_buf_puts(out, ", \"tool_calls\": ["));
    DI_TRY(di_buf_append(out, di_buf_str(&m->calls), m->calls.len));
    return di_buf_puts(out, "]}");
}

static di_status parse(di_completion_parser *parser, const char *text, size_t len, message *m)
{
    di_status status = di_completion_parser_push(parser, text, len);
    if (status == DI_OK)
        status = di_completion_parser_finish(parser);
    if (m->status != DI_OK) /* says more than that the callback stopped */
        return di_fail(m->status, "%s", m->error);
    DI_TRY(status);
    DI_TRY(check_no_marks("reasoning", &m->reasoning));
    return check_no_marks("content", &m->content);
}

di_status di_completion_parse(const char *text, size_t len, bool is_thinking, di_buf *message_json)
{
    message m = {0};
    di_completion_parser *parser;
    DI_TRY(di_completion_parser_create(is_thinking, DI_COMPLETION_STRICT, add_delta, &m, &parser));
    di_status status = parse(parser, text, len, &m);
    if (status == DI_OK)
        status = write_message(&m, message_json);
    di_completion_parser_free(parser);
    di_buf_free(&m.reasoning);
    di_buf_free(&m.content);
    di_buf_free(&m.calls);
    return status;
}
