/* Regular expressions: the dialect of ECMAScript with the u flag, as JSON Schema asks for, without
 * what a finite automaton cannot do (lookaround, back-references, \b): those are
 * DI_ERR_UNSUPPORTED, a malformed pattern is DI_ERR_INPUT, both with the position (in code points,
 * from 0) and what was found. docs/structured-output.md lists the constructs. */
#ifndef DI_GRAMMAR_REGEX_H
#define DI_GRAMMAR_REGEX_H

#include "grammar/expr.h"

typedef enum di_regex_mode {
    DI_REGEX_FULL,   /* the whole text matches; `^` first and `$` last change nothing */
    DI_REGEX_SEARCH, /* a part of the text matches, as in JSON Schema's `pattern` */
} di_regex_mode;

typedef struct di_regex_options {
    di_regex_mode mode;
    uint32_t max_depth;     /* nested groups; 0 = 200 */
    bool dot_is_no_newline; /* `.` does not match \n, \r, U+2028, U+2029 (ECMAScript) */
    bool ignore_case;       /* simple case folding of ASCII and of what utf8proc folds one to one */
} di_regex_options;

DI_WARN_UNUSED di_status di_regex_parse(di_arena *arena, const char *pattern, size_t len,
                                        const di_regex_options *options, const di_expr **out);

#endif
