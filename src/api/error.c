/* Errors as OpenAI's clients know them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/reader.h"
#include "api/writer.h"

typedef struct error_class {
    int http_status;
    const char *type, *code;
} error_class;

static error_class classify(di_status status)
{
    switch (status) {
    case DI_OK:
    case DI_ERR_ARGUMENT:
    case DI_ERR_INPUT:
        return (error_class){400, "invalid_request_error", "invalid_value"};
    case DI_ERR_UNSUPPORTED:
        return (error_class){400, "invalid_request_error", "unsupported_value"};
    case DI_ERR_CANCELLED:
        return (error_class){408, "timeout_error", "timeout"};
    case DI_ERR_MEMORY:
        return (error_class){503, "server_error", "out_of_memory"};
    case DI_ERR_IO:
    case DI_ERR_RUNTIME:
        break;
    }
    return (error_class){500, "server_error", "internal_error"};
}

/* Error texts begin with the field they are about: "logit_bias[2]: found ...". */
static void set_param(di_api_error *error)
{
    const size_t n = strspn(error->message, "abcdefghijklmnopqrstuvwxyz_");
    const bool ends_there = error->message[n] && strchr(":[.", error->message[n]);
    if (ends_there && n < sizeof error->param && di_api_field_exists(error->message, n))
        snprintf(error->param, sizeof error->param, "%.*s", (int)n, error->message);
}

void di_api_error_set(di_status status, const char *text, di_api_error *out)
{
    const error_class class = classify(status);
    *out = (di_api_error){.http_status = class.http_status, .type = class.type, .code = class.code};
    snprintf(out->message, sizeof out->message, "%s",
             text && *text ? text : di_status_name(status));
    if (out->http_status == 400)
        set_param(out);
}

static di_status write_text(const char *text, di_buf *out)
{
    return text && *text ? di_json_write_string(text, strlen(text), out) : di_buf_puts(out, "null");
}

di_status di_api_error_append(const di_api_error *error, di_buf *out)
{
    DI_TRY(di_buf_puts(out, "{\"error\": {\"message\": "));
    DI_TRY(di_json_write_string(error->message, strlen(error->message), out));
    DI_TRY(di_buf_puts(out, ", \"type\": "));
    DI_TRY(write_text(error->type, out));
    DI_TRY(di_buf_puts(out, ", \"param\": "));
    DI_TRY(write_text(error->param, out));
    DI_TRY(di_buf_puts(out, ", \"code\": "));
    DI_TRY(write_text(error->code, out));
    return di_buf_puts(out, "}}");
}

di_status di_api_error_write(const di_api_error *error, char **json, size_t *bytes)
{
    if (!error || !json || !bytes)
        return di_fail(DI_ERR_ARGUMENT,
                       "di_api_error_write: found NULL, wanted an error and outputs");
    di_buf out = {0};
    return di_api_give_out(di_api_error_append(error, &out), &out, json, bytes);
}

di_status di_api_give_out(di_status status, di_buf *buf, char **json, size_t *bytes)
{
    if (status != DI_OK) {
        di_buf_free(buf);
        return status;
    }
    *json = buf->data;
    *bytes = buf->len;
    return DI_OK;
}
