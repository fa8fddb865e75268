/* The regexes of a tokenizer file are written for Oniguruma; here they are compiled by PCRE2. */
#ifndef DI_TEXT_SPLIT_PATTERN_H
#define DI_TEXT_SPLIT_PATTERN_H

#include "base/buf.h"

/* Appends to out a PCRE2 pattern (for PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, newline = LF) that
 * matches what Oniguruma matches with `pattern`. Whatever the two libraries read differently is
 * either rewritten or refused (DI_ERR_UNSUPPORTED, naming the construct and its byte offset). */
DI_WARN_UNUSED di_status di_split_pattern_translate(const char *pattern, size_t len, di_buf *out);

#endif
