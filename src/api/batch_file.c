/* Lines of batch files and of results files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/reader.h"
#include "api/writer.h"
#include "base/strmap.h"

static const char *const endpoint_paths[] = {
    [DI_API_CHAT_COMPLETIONS] = "/v1/chat/completions",
    [DI_API_COMPLETIONS] = "/v1/completions",
};

typedef struct line_box {
    di_api_batch_line line; /* first: di_api_batch_line_free gets its address */
    di_arena arena;
    di_buf body;
} line_box;

/* ---------------------------------------------------------------------------------- batch file */

static di_status find_endpoint(const di_jval *url, di_api_endpoint *out)
{
    for (size_t i = 0; i < sizeof endpoint_paths / sizeof *endpoint_paths; i++) {
        if (di_jval_is_string(url, endpoint_paths[i])) {
            *out = (di_api_endpoint)i;
            return DI_OK;
        }
    }
    return di_fail(DI_ERR_INPUT, "url: found %s, wanted /v1/chat/completions or /v1/completions",
                   di_jval_describe(url).text);
}

static di_status read_custom_id(line_box *box, const di_jval *root)
{
    const di_jval *id = di_jval_get_set(root, "custom_id");
    if (!id)
        return di_fail(DI_ERR_INPUT, "custom_id: found none, wanted a string");
    const char *text;
    DI_TRY(di_api_read_text(&box->arena, "custom_id", id, &text));
    if (!*text)
        return di_fail(DI_ERR_INPUT, "custom_id: found an empty text, wanted a text");
    box->line.custom_id = text;
    return DI_OK;
}

static di_status check_members(const di_jval *root)
{
    static const char *const names[] = {"custom_id", "method", "url", "body"};
    for (const di_jval *m = root->first; m; m = m->next) {
        bool is_known = false;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            is_known = is_known || (m->key_len == strlen(names[i]) &&
                                    memcmp(m->key, names[i], m->key_len) == 0);
        if (!is_known)
            return di_fail(DI_ERR_INPUT,
                           "%.*s: found a field that a batch line does not have, wanted custom_id, "
                           "method, url and body",
                           (int)(m->key_len < 40 ? m->key_len : 40), m->key);
    }
    return DI_OK;
}

static di_status read_line(line_box *box, const char *text, size_t bytes)
{
    const di_jval *root;
    DI_TRY(di_jval_parse(&box->arena, text, bytes, DI_JSTRICT, &root));
    if (root->kind != DI_JOBJECT)
        return di_fail(DI_ERR_INPUT, "found %s, wanted an object", di_jval_describe(root).text);
    DI_TRY(read_custom_id(box, root));
    DI_TRY(check_members(root));
    const di_jval *method = di_jval_get(root, "method"), *body = di_jval_get(root, "body");
    if (!di_jval_is_string(method, "POST"))
        return di_fail(DI_ERR_INPUT, "method: found %s, wanted POST",
                       di_jval_describe(method).text);
    DI_TRY(find_endpoint(di_jval_get(root, "url"), &box->line.endpoint));
    if (!body || body->kind != DI_JOBJECT)
        return di_fail(DI_ERR_INPUT, "body: found %s, wanted an object",
                       di_jval_describe(body).text);
    return di_jval_write(body, &box->body);
}

/* Spelling of the JSON does not count, the order of fields does. */
static uint64_t hash_request(const line_box *box)
{
    const char *path = endpoint_paths[box->line.endpoint];
    const uint64_t parts[] = {di_hash_bytes(path, strlen(path)),
                              di_hash_bytes(di_buf_str(&box->body), box->body.len)};
    return di_hash_bytes(parts, sizeof parts);
}

static void settle_line(line_box *box, di_status status, const char *text, size_t bytes)
{
    di_api_batch_line *line = &box->line;
    line->is_bad = status != DI_OK;
    if (line->is_bad) {
        di_api_error_set(status, di_last_error(), &line->error);
        line->error.code = "invalid_line";
        line->hash = di_hash_bytes(text, bytes);
        return;
    }
    line->body = di_buf_str(&box->body);
    line->body_bytes = box->body.len;
    line->hash = hash_request(box);
}

di_status di_api_batch_line_read(const char *line, size_t bytes, di_api_batch_line **out)
{
    if ((!line && bytes) || !out)
        return di_fail(DI_ERR_ARGUMENT,
                       "di_api_batch_line_read: found NULL, wanted a line and an output");
    line_box *box = calloc(1, sizeof *box);
    if (!box)
        return di_fail_memory(sizeof *box, "a batch line");
    box->arena.chunk_bytes = 4096;
    const di_status status = read_line(box, line, bytes);
    if (status == DI_ERR_MEMORY) {
        di_api_batch_line_free(&box->line);
        return status;
    }
    settle_line(box, status, line, bytes);
    *out = &box->line;
    return DI_OK;
}

void di_api_batch_line_free(di_api_batch_line *line)
{
    if (!line)
        return;
    line_box *box = (line_box *)line;
    di_arena_free(&box->arena);
    di_buf_free(&box->body);
    free(box);
}

/* -------------------------------------------------------------------------------- results file */

static di_status write_response(const di_api_batch_result *r, di_buf *out)
{
    if (!r->custom_id)
        return di_buf_puts(out, "null");
    DI_TRY(di_buf_printf(out, "{\"status_code\": %d, \"request_id\": \"req_", r->http_status));
    DI_TRY(di_api_random_digits(out));
    DI_TRY(di_buf_puts(out, "\", \"body\": "));
    DI_TRY(r->error ? di_api_error_append(r->error, out)
                    : di_buf_append(out, r->body, r->body_bytes));
    return di_buf_puts(out, "}");
}

static di_status write_error(const di_api_error *error, di_buf *out)
{
    if (!error)
        return di_buf_puts(out, "null");
    DI_TRY(di_buf_puts(out, "{\"code\": "));
    const char *code = error->code ? error->code : error->type;
    DI_TRY(di_json_write_string(code, strlen(code), out));
    DI_TRY(di_buf_puts(out, ", \"message\": "));
    DI_TRY(di_json_write_string(error->message, strlen(error->message), out));
    return di_buf_puts(out, "}");
}

static di_status append_result(const di_api_batch_result *r, di_buf *out)
{
    DI_TRY(di_buf_puts(out, DI_API_BATCH_RESULT_START));
    DI_TRY(di_api_random_digits(out));
    DI_TRY(di_buf_puts(out, "\", \"custom_id\": "));
    DI_TRY(r->custom_id ? di_json_write_string(r->custom_id, strlen(r->custom_id), out)
                        : di_buf_puts(out, "null"));
    DI_TRY(di_buf_printf(
        out, ", \"line\": %zu, \"request_hash\": \"%016" PRIx64 "\", \"response\": ", r->line,
        r->hash));
    DI_TRY(write_response(r, out));
    DI_TRY(di_buf_puts(out, ", \"error\": "));
    DI_TRY(write_error(r->error, out));
    return di_buf_puts(out, "}\n");
}

di_status di_api_batch_result_write(const di_api_batch_result *result, char **json, size_t *bytes)
{
    if (!result || !json || !bytes)
        return di_fail(DI_ERR_ARGUMENT,
                       "di_api_batch_result_write: found NULL, wanted a result and outputs");
    di_buf out = {0};
    return di_api_give_out(append_result(result, &out), &out, json, bytes);
}

static di_status read_hash(const di_jval *value, uint64_t *out)
{
    char digits[17];
    if (!value || value->kind != DI_JSTRING || value->len != 16)
        return di_fail(DI_ERR_INPUT, "request_hash: found %s, wanted 16 hexadecimal digits",
                       di_jval_describe(value).text);
    memcpy(digits, value->text, 16);
    digits[16] = '\0';
    if (strspn(digits, "0123456789abcdef") != 16)
        return di_fail(DI_ERR_INPUT, "request_hash: found %s, wanted 16 hexadecimal digits",
                       di_jval_describe(value).text);
    *out = strtoull(digits, NULL, 16);
    return DI_OK;
}

static di_status read_result(di_arena *arena, const char *line, size_t bytes,
                             di_api_batch_result *out)
{
    const di_jval *root;
    int64_t number = 0, http_status = 400;
    DI_TRY(di_jval_parse(arena, line, bytes, DI_JSTRICT, &root));
    if (root->kind != DI_JOBJECT)
        return di_fail(DI_ERR_INPUT, "found %s, wanted an object", di_jval_describe(root).text);
    const di_jval *id = di_jval_get_set(root, "custom_id"), *n = di_jval_get_set(root, "line");
    const di_jval *response = di_jval_get_set(root, "response");
    if (id)
        DI_TRY(di_api_read_text(arena, "custom_id", id, &out->custom_id));
    if (!n)
        return di_fail(DI_ERR_INPUT, "line: found none, wanted a line number");
    DI_TRY(di_api_read_integer("line", n, 1, INT64_MAX, &number));
    DI_TRY(read_hash(di_jval_get_set(root, "request_hash"), &out->hash));
    if (response) {
        const di_jval *code = di_jval_get_set(response, "status_code");
        if (!code)
            return di_fail(DI_ERR_INPUT, "response: found no status_code, wanted one");
        DI_TRY(di_api_read_integer("response.status_code", code, 100, 599, &http_status));
    }
    out->line = (size_t)number;
    out->http_status = (int)http_status;
    return DI_OK;
}

di_status di_api_batch_result_read(const char *line, size_t bytes, di_api_batch_result *out)
{
    if ((!line && bytes) || !out)
        return di_fail(DI_ERR_ARGUMENT,
                       "di_api_batch_result_read: found NULL, wanted a line and an output");
    di_arena arena = {0};
    di_api_batch_result result = {.custom_id = NULL};
    di_status status = read_result(&arena, line, bytes, &result);
    if (status == DI_OK && result.custom_id) {
        char *copy = strdup(result.custom_id);
        if (!copy)
            status = di_fail_memory(strlen(result.custom_id) + 1, "a custom_id");
        result.custom_id = copy;
    }
    di_arena_free(&arena);
    if (status == DI_OK)
        *out = result;
    return status;
}
