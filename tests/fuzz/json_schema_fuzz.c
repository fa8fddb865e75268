/* Any text as a JSON schema, after a byte of options: refused with one line, or a grammar that a
 * matcher can run: bytes that it forces are accepted. */
#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema.h"
#include "grammar/matcher.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_status(di_status status)
{
    if (status != DI_OK && (strchr(di_last_error(), '\n') != NULL || *di_last_error() == 0))
        abort();
}

/* Writes what is forced, and where there is a choice the first byte that goes. */
static void walk(di_grammar *grammar)
{
    static const char bytes[] = "{}[]\",:0123456789.-eEtrufalsn\\ abcxyz_\n";
    di_acceptor *acceptor;
    di_matcher *matcher;
    DI_BUF_AUTO forced = {0};
    if (di_acceptor_create(grammar, NULL, &acceptor) != DI_OK)
        return;
    if (di_matcher_create(acceptor, &matcher) == DI_OK) {
        for (int i = 0; i < 64; i++) {
            bool accepted = false;
            di_buf_clear(&forced);
            if (di_matcher_forced(matcher, 64, &forced) != DI_OK)
                break;
            if (forced.len > 0) {
                if (di_matcher_accept(matcher, forced.data, forced.len, &accepted) == DI_OK &&
                    !accepted)
                    abort();
                continue;
            }
            for (size_t k = 0; k < sizeof bytes - 1 && !accepted; k++)
                if (di_matcher_accept(matcher, &bytes[(k + (size_t)i) % (sizeof bytes - 1)], 1,
                                      &accepted) != DI_OK)
                    break;
            if (!accepted)
                break;
        }
        di_matcher_destroy(matcher);
    }
    di_acceptor_unref(acceptor);
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
    di_grammar *grammar;
    DI_BUF_AUTO lines = {0};
    uint32_t root;
    if (size == 0 || di_grammar_builder_create(&limits, &builder) != DI_OK)
        return 0;
    di_status status =
        di_json_schema_parse(builder, (const char *)data + 1, size - 1, &options, &lines, &root);
    check_status(status);
    if (status == DI_OK) {
        status = di_grammar_build(builder, root, &grammar);
        check_status(status);
        if (status == DI_OK) {
            walk(grammar);
            di_grammar_unref(grammar);
        }
    }
    di_grammar_builder_destroy(builder);
    return 0;
}
