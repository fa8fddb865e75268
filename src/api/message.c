/* A completion's text as a chat message. */
#include <string.h>

#include "api/writer.h"
#include "base/strmap.h"
#include "text/completion.h"
#include "text/encoding_json.h"

typedef struct parts {
    di_buf reasoning, content, calls;
    size_t n_calls;
    uint64_t salt;
    di_status status;
} parts;

static di_status add_call(parts *p, const char *name, const char *arguments, size_t len)
{
    const uint64_t seed[] = {p->salt, p->n_calls};
    DI_TRY(di_buf_printf(
        &p->calls, "%s{\"id\": \"call_%016llx\", \"type\": \"function\", \"function\": {\"name\": ",
        p->n_calls ? ", " : "", (unsigned long long)di_hash_bytes(seed, sizeof seed)));
    DI_TRY(di_json_write_string(name, strlen(name), &p->calls));
    DI_TRY(di_buf_puts(&p->calls, ", \"arguments\": "));
    DI_TRY(di_json_write_string(arguments, len, &p->calls));
    p->n_calls++;
    return di_buf_puts(&p->calls, "}}");
}

static bool add_part(void *user, di_delta_kind kind, const char *name, const char *text, size_t len)
{
    parts *p = user;
    if (kind == DI_DELTA_TOOL_CALL)
        p->status = add_call(p, name, text, len);
    else
        p->status =
            di_buf_append(kind == DI_DELTA_REASONING ? &p->reasoning : &p->content, text, len);
    return p->status == DI_OK;
}

static di_status split(const di_result *result, bool is_thinking, parts *p)
{
    di_completion_parser *parser;
    DI_TRY(di_completion_parser_create(is_thinking, DI_COMPLETION_LENIENT, add_part, p, &parser));
    di_status status = di_completion_parser_push(parser, result->text, result->text_bytes);
    if (status == DI_OK)
        status = di_completion_parser_finish(parser);
    di_completion_parser_free(parser);
    return p->status != DI_OK ? p->status : status;
}

/* content is null if there are calls and nothing else, as OpenAI has it. */
static di_status write_message(const parts *p, bool is_thinking, di_buf *out)
{
    DI_TRY(di_buf_puts(out, "{\"role\": \"assistant\", \"content\": "));
    if (p->n_calls && !p->content.len)
        DI_TRY(di_buf_puts(out, "null"));
    else
        DI_TRY(di_json_write_string(di_buf_str(&p->content), p->content.len, out));
    if (is_thinking || p->reasoning.len) {
        DI_TRY(di_buf_puts(out, ", \"reasoning_content\": "));
        DI_TRY(di_json_write_string(di_buf_str(&p->reasoning), p->reasoning.len, out));
    }
    if (p->n_calls)
        DI_TRY(di_buf_printf(out, ", \"tool_calls\": [%s]", di_buf_str(&p->calls)));
    return di_buf_puts(out, "}");
}

di_status di_api_message_append(const di_result *result, bool is_thinking, uint64_t salt,
                                bool *has_calls, di_buf *out)
{
    parts p = {.salt = salt};
    di_status status = split(result, is_thinking, &p);
    if (status == DI_OK)
        status = write_message(&p, is_thinking, out);
    *has_calls = p.n_calls > 0;
    di_buf_free(&p.reasoning);
    di_buf_free(&p.content);
    di_buf_free(&p.calls);
    return status;
}
