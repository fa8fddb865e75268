/* Bytes as a regular expression and a text: byte 0 options, then the pattern up to a NUL, then the
 * text. Refused with one line and a position, or a grammar that accepts the text if and only if the
 * oracle does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expr_oracle.h"
#include "grammar/regex.h"
#include "grammar_run.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { MAX_PATTERN = 60, MAX_TEXT = 40 }; /* of what is matched: the oracle is slow */

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    if (size == 0)
        return 0;
    const di_regex_options options = {.mode = data[0] & 1 ? DI_REGEX_SEARCH : DI_REGEX_FULL,
                                      .dot_is_no_newline = data[0] & 2,
                                      .ignore_case = data[0] & 4};
    const unsigned char *nul = memchr(data + 1, 0, size - 1);
    const size_t n_pattern = nul ? (size_t)(nul - data) - 1 : size - 1;
    char *pattern = malloc(n_pattern ? n_pattern : 1); /* exact size: reads beyond it are seen */
    check(pattern != NULL);
    memcpy(pattern, data + 1, n_pattern);
    const char *text = nul ? (const char *)nul + 1 : "";
    const size_t len = nul ? size - n_pattern - 2 : 0;
    const di_grammar_limits limits = {.max_states = 20000};
    di_arena arena = {0};
    const di_expr *expr = NULL;
    const di_status status = di_regex_parse(&arena, pattern, n_pattern, &options, &expr);
    if (status != DI_OK) {
        check(status == DI_ERR_INPUT || status == DI_ERR_UNSUPPORTED);
        check(strncmp(di_last_error(), "regular expression", 18) == 0);
        check(!strchr(di_last_error(), '\n') && !expr);
    } else if (n_pattern <= MAX_PATTERN && len <= MAX_TEXT) {
        bool is_match;
        if (di_test_expr_accepts(&limits, expr, text, len, &is_match) == DI_OK)
            check(is_match == di_expr_oracle(expr, NULL, 0, text, len));
    }
    di_arena_free(&arena);
    free(pattern);
    return 0;
}
