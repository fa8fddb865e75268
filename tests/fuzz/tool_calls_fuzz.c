/* Any text as tools to call, after a byte of options: refused with one line, or a grammar of which
 * a text that ends is read back as calls. */
#include <stdlib.h>
#include <string.h>

#include "grammar/matcher.h"
#include "grammar/tool_calls.h"
#include "text/completion.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_status(di_status status)
{
    if (status != DI_OK && (strchr(di_last_error(), '\n') != NULL || *di_last_error() == 0))
        abort();
}

static bool count_call(void *user, di_delta_kind kind, const char *name, const char *text,
                       size_t len)
{
    (void)text;
    if (kind != DI_DELTA_TOOL_CALL || name == NULL || len < 2)
        abort();
    ++*(int *)user;
    return true;
}

static void check_calls(const di_buf *text)
{
    di_completion_parser *parser;
    int n_calls = 0;
    if (di_completion_parser_create(false, DI_COMPLETION_STRICT, count_call, &n_calls, &parser) !=
        DI_OK)
        return;
    if (di_completion_parser_push(parser, di_buf_str(text), text->len) != DI_OK ||
        di_completion_parser_finish(parser) != DI_OK || n_calls == 0)
        abort();
    di_completion_parser_free(parser);
}

/* Reads one of the bytes, begun with another one each time; what closes tags and JSON comes first
 * when the text is long. */
static bool step(di_matcher *matcher, size_t turn, di_buf *text)
{
    static const char bytes[] = "<\"/}]>\n{[:,0-1.eEtrufalsn\\ abcxyz_";
    const size_t n = sizeof bytes - 1, window = turn > 100 ? 7 : n;
    for (size_t i = 0; i < n; i++) {
        bool accepted = false;
        const char *byte = &bytes[i < window ? (i + turn * 5) % window : i];
        if (di_matcher_accept(matcher, byte, 1, &accepted) != DI_OK)
            return false;
        if (accepted)
            return di_buf_append(text, byte, 1) == DI_OK;
    }
    return false;
}

static void walk(di_matcher *matcher)
{
    DI_BUF_AUTO text = {0};
    DI_BUF_AUTO forced = {0};
    for (size_t turn = 0; turn < 300 && !di_matcher_may_end(matcher); turn++) {
        bool accepted = false;
        di_buf_clear(&forced);
        if (di_matcher_forced(matcher, 64, &forced) != DI_OK)
            return;
        if (forced.len == 0) {
            if (!step(matcher, turn, &text))
                return;
            continue;
        }
        if (di_matcher_accept(matcher, forced.data, forced.len, &accepted) == DI_OK && !accepted)
            abort();
        if (!accepted || di_buf_append(&text, forced.data, forced.len) != DI_OK)
            return;
    }
    if (di_matcher_may_end(matcher))
        check_calls(&text);
}

static void run(di_grammar_builder *builder, uint32_t root)
{
    di_grammar *grammar;
    di_acceptor *acceptor;
    di_matcher *matcher;
    const di_status status = di_grammar_build(builder, root, &grammar);
    check_status(status);
    if (status != DI_OK)
        return;
    if (di_acceptor_create(grammar, NULL, &acceptor) == DI_OK) {
        if (di_matcher_create(acceptor, &matcher) == DI_OK) {
            walk(matcher);
            di_matcher_destroy(matcher);
        }
        di_acceptor_unref(acceptor);
    }
    di_grammar_unref(grammar);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const di_grammar_limits limits = {.max_states = 20000, .max_depth = 60};
    const uint8_t bits = size > 0 ? data[0] : 0;
    const di_json_schema_options options = {
        .fixed_layout = bits & 1,
        .indent = bits & 2 ? 2 : -1,
        .max_whitespace = bits & 4 ? 3 : DI_WHITESPACE_UNBOUNDED,
        .strict = (bits & 8) != 0,
        .any_order = (bits & 16) != 0,
        .lenient = (bits & 32) != 0,
    };
    di_grammar_builder *builder;
    DI_BUF_AUTO lines = {0};
    uint32_t root;
    if (size == 0 || di_grammar_builder_create(&limits, &builder) != DI_OK)
        return 0;
    const di_status status =
        di_tool_calls_parse(builder, (const char *)data + 1, size - 1, &options, &lines, &root);
    check_status(status);
    if (status == DI_OK)
        run(builder, root);
    di_grammar_builder_destroy(builder);
    return 0;
}
