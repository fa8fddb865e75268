/* Bytes as a completion. First byte: bit 0 thinking, the others seed the cuts. The stream must give
 * the same whole, byte by byte and cut anywhere, and what the strict parser accepts must agree with
 * it. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "text/completion.h"
#include "text/encoding_json.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

/* Runs of text joined; each event starts with its kind. */
typedef struct events {
    di_buf all;
    di_buf reasoning;
    di_buf content;
    di_buf calls; /* {"name": ..., "arguments": ...}, ... */
    int last;
} events;

static bool add(void *user, di_delta_kind kind, const char *name, const char *text, size_t len)
{
    events *e = user;
    check(len > 0);
    if (kind == DI_DELTA_TOOL_CALL || e->last != (int)kind)
        check(di_buf_append(&e->all, (char[]){(char)('0' + kind)}, 1) == DI_OK);
    check(di_buf_append(&e->all, text, len) == DI_OK);
    e->last = (int)kind;
    if (kind != DI_DELTA_TOOL_CALL)
        return di_buf_append(kind == DI_DELTA_REASONING ? &e->reasoning : &e->content, text, len) ==
               DI_OK;
    di_arena arena = {0};
    const di_jval *arguments;
    check(di_jval_parse(&arena, text, len, DI_JSYNTAX, &arguments) == DI_OK);
    check(arguments->kind == DI_JOBJECT);
    di_arena_free(&arena);
    check(di_buf_printf(&e->all, "(%s)", name) == DI_OK);
    check(di_buf_puts(&e->calls, e->calls.len ? ", " : "") == DI_OK);
    check(di_json_write_string(name, strlen(name), &e->calls) == DI_OK);
    check(di_buf_puts(&e->calls, " ") == DI_OK);
    return di_json_write_string(text, len, &e->calls) == DI_OK;
}

/* step 0: pieces of lengths from the seed. */
static void run(const char *text, size_t len, bool is_thinking, size_t step, uint32_t seed,
                events *out)
{
    di_completion_parser *parser;
    *out = (events){.last = -1};
    check(di_completion_parser_create(is_thinking, DI_COMPLETION_LENIENT, add, out, &parser) ==
          DI_OK);
    for (size_t at = 0, n; at < len; at += n) {
        seed = seed * 1664525u + 1013904223u;
        n = step ? step : 1 + (seed >> 24) % 40;
        n = n < len - at ? n : len - at;
        char *piece = malloc(n); /* exact size: reads beyond it are seen */
        check(piece != NULL);
        memcpy(piece, text + at, n);
        check(di_completion_parser_push(parser, piece, n) == DI_OK);
        free(piece);
    }
    check(di_completion_parser_finish(parser) == DI_OK);
    check(di_completion_parser_work(parser) <= 1000 + 200 * len);
    di_completion_parser_free(parser);
}

static void free_events(events *e)
{
    di_buf_free(&e->all);
    di_buf_free(&e->reasoning);
    di_buf_free(&e->content);
    di_buf_free(&e->calls);
}

static bool is_equal(const di_buf *a, const di_buf *b)
{
    return a->len == b->len && memcmp(di_buf_str(a), di_buf_str(b), a->len) == 0;
}

/* The stream's events as the strict parser's message. */
static void check_strict(const char *text, size_t len, bool is_thinking, const events *whole)
{
    DI_BUF_AUTO message = {0}, wanted = {0};
    if (di_completion_parse(text, len, is_thinking, &message) != DI_OK) {
        check(di_last_error()[0] != 0);
        return;
    }
    check(di_buf_puts(&wanted, "{\"role\": \"assistant\", \"content\": ") == DI_OK);
    check(di_json_write_string(di_buf_str(&whole->content), whole->content.len, &wanted) == DI_OK);
    check(di_buf_puts(&wanted, ", \"reasoning_content\": ") == DI_OK);
    check(di_json_write_string(di_buf_str(&whole->reasoning), whole->reasoning.len, &wanted) ==
          DI_OK);
    check(di_buf_puts(&wanted, ", \"tool_calls\": [") == DI_OK);
    check(message.len > wanted.len && memcmp(message.data, wanted.data, wanted.len) == 0);
    json_t *parsed = json_loadb(message.data, message.len, JSON_ALLOW_NUL, NULL);
    check(parsed != NULL);
    DI_BUF_AUTO calls = {0};
    size_t i;
    json_t *call;
    json_array_foreach(json_object_get(parsed, "tool_calls"), i, call)
    {
        const json_t *function = json_object_get(call, "function");
        const json_t *space = json_object_get(call, "namespace");
        const json_t *arguments = json_object_get(function, "arguments");
        DI_BUF_AUTO name = {0};
        if (space)
            check(di_buf_printf(&name, "%s::", json_string_value(space)) == DI_OK);
        check(di_buf_puts(&name, json_string_value(json_object_get(function, "name"))) == DI_OK);
        check(di_buf_puts(&calls, i ? ", " : "") == DI_OK);
        check(di_json_write_string(di_buf_str(&name), name.len, &calls) == DI_OK);
        check(di_buf_puts(&calls, " ") == DI_OK);
        check(di_json_write_string(json_string_value(arguments), json_string_length(arguments),
                                   &calls) == DI_OK);
    }
    check(is_equal(&calls, &whole->calls));
    json_decref(parsed);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    if (size == 0)
        return 0;
    const bool is_thinking = data[0] & 1;
    const char *text = (const char *)data + 1;
    const size_t len = size - 1;
    events whole, bytes, cut;
    run(text, len, is_thinking, len + 1, 0, &whole);
    run(text, len, is_thinking, 1, 0, &bytes);
    run(text, len, is_thinking, 0, data[0], &cut);
    check(is_equal(&whole.all, &bytes.all));
    check(is_equal(&whole.all, &cut.all));
    check_strict(text, len, is_thinking, &whole);
    free_events(&whole);
    free_events(&bytes);
    free_events(&cut);
    return 0;
}
