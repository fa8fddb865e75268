/* Bytes as a grammar in EBNF, up to a NUL, and a text. Refused with one line that has a line and a
 * column, or a grammar that accepts the text if and only if the oracle does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expr_oracle.h"
#include "grammar/ebnf_parts.h"
#include "grammar_run.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { MAX_GRAMMAR = 160, MAX_TEXT = 24 }; /* of what is matched: the oracle is slow */

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

/* The rules once more, for the oracle. */
static bool oracle(const char *grammar, size_t n_grammar, uint32_t root, const char *text,
                   size_t len)
{
    di_grammar_builder *builder;
    di_ebnf_parser p = {0};
    check(di_grammar_builder_create(NULL, &builder) == DI_OK);
    check(di_ebnf_rules(&p, builder, grammar, n_grammar) == DI_OK);
    const di_expr **bodies = calloc(p.n_rules, sizeof *bodies);
    check(bodies != NULL);
    for (size_t i = 0; i < p.n_rules; i++)
        bodies[p.rules[i].rule] = p.rules[i].expr;
    const bool is_match = di_expr_oracle(bodies[root], bodies, (uint32_t)p.n_rules, text, len);
    free(bodies);
    di_ebnf_parser_free(&p);
    di_grammar_builder_destroy(builder);
    return is_match;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    const unsigned char *nul = memchr(data, 0, size);
    const size_t n_grammar = nul ? (size_t)(nul - data) : size;
    char *grammar = malloc(n_grammar ? n_grammar : 1); /* exact size: reads beyond it are seen */
    check(grammar != NULL);
    memcpy(grammar, data, n_grammar);
    const char *text = nul ? (const char *)nul + 1 : "";
    const size_t len = nul ? size - n_grammar - 1 : 0;
    const di_grammar_limits limits = {.max_states = 20000};
    di_grammar_builder *builder;
    uint32_t root;
    check(di_grammar_builder_create(&limits, &builder) == DI_OK);
    const di_status status = di_ebnf_parse(builder, grammar, n_grammar, NULL, &root);
    if (status != DI_OK) {
        int line, column, n = 0;
        check(status == DI_ERR_INPUT || status == DI_ERR_UNSUPPORTED);
        check(!strchr(di_last_error(), '\n'));
        check(sscanf(di_last_error(), "EBNF, line %d, column %d: %n", &line, &column, &n) == 2);
        check(n > 0 && line > 0 && column > 0);
    } else if (n_grammar <= MAX_GRAMMAR && len <= MAX_TEXT) {
        bool is_match;
        if (di_test_grammar_accepts(builder, root, text, len, &is_match) == DI_OK)
            check(is_match == oracle(grammar, n_grammar, root, text, len));
    }
    di_grammar_builder_destroy(builder);
    free(grammar);
    return 0;
}
