/* The chat format's part of deepinfer/tools.h. */
#include <stdlib.h>

#include "deepinfer/tools.h"
#include "text/completion.h"
#include "text/encoding.h"

struct di_completion_stream {
    di_completion_parser *parser;
};

di_status di_chat_encode_json(const char *request_json, size_t bytes, char **prompt,
                              size_t *prompt_bytes)
{
    if (!request_json || !prompt || !prompt_bytes)
        return di_fail(DI_ERR_ARGUMENT,
                       "di_chat_encode_json: found NULL, wanted a request and outputs");
    di_chat_prompt rendered = {0};
    DI_TRY(di_chat_render_text(request_json, bytes, &rendered));
    *prompt = rendered.text.data;
    *prompt_bytes = rendered.text.len;
    rendered.text = (di_buf){0};
    di_chat_prompt_free(&rendered);
    return DI_OK;
}

di_status di_chat_parse_text(const char *text, size_t bytes, const char *thinking_mode,
                             char **message_json)
{
    bool is_thinking;
    if ((!text && bytes) || !message_json)
        return di_fail(DI_ERR_ARGUMENT,
                       "di_chat_parse_text: found NULL, wanted a text and an output");
    DI_TRY(di_chat_mode_parse(thinking_mode, &is_thinking));
    di_buf message = {0};
    const di_status status = di_completion_parse(text, bytes, is_thinking, &message);
    if (status != DI_OK) {
        di_buf_free(&message);
        return status;
    }
    *message_json = message.data;
    return DI_OK;
}

di_status di_completion_open(const char *thinking_mode, di_delta_fn fn, void *user,
                             di_completion_stream **out)
{
    bool is_thinking;
    if (!fn || !out)
        return di_fail(DI_ERR_ARGUMENT,
                       "di_completion_open: found NULL, wanted a callback and an output");
    DI_TRY(di_chat_mode_parse(thinking_mode, &is_thinking));
    di_completion_stream *stream = malloc(sizeof *stream);
    if (!stream)
        return di_fail_memory(sizeof *stream, "a completion stream");
    const di_status status =
        di_completion_parser_create(is_thinking, DI_COMPLETION_LENIENT, fn, user, &stream->parser);
    if (status != DI_OK) {
        free(stream);
        return status;
    }
    *out = stream;
    return DI_OK;
}

di_status di_completion_push(di_completion_stream *stream, const char *text, size_t bytes)
{
    if (!stream || (!text && bytes))
        return di_fail(DI_ERR_ARGUMENT,
                       "di_completion_push: found NULL, wanted a stream and a text");
    return di_completion_parser_push(stream->parser, text, bytes);
}

di_status di_completion_finish(di_completion_stream *stream)
{
    if (!stream)
        return di_fail(DI_ERR_ARGUMENT, "di_completion_finish: found NULL, wanted a stream");
    return di_completion_parser_finish(stream->parser);
}

void di_completion_close(di_completion_stream *stream)
{
    if (stream)
        di_completion_parser_free(stream->parser);
    free(stream);
}
