/* UTF-8 as Unicode defines it: shortest form only, no surrogates, nothing above U+10FFFF. */
#ifndef DI_TEXT_UTF8_H
#define DI_TEXT_UTF8_H

#include "base/buf.h"

typedef enum di_utf8_kind {
    DI_UTF8_CHAR,    /* *len bytes are one character */
    DI_UTF8_INVALID, /* *len >= 1 bytes can start no character, whatever follows */
    DI_UTF8_CUT      /* all n bytes left are the beginning of a character */
} di_utf8_kind;

/* Looks at the n >= 1 bytes at p. An invalid sequence is as long as Unicode's "maximal subpart":
 * each one becomes one U+FFFD. */
di_utf8_kind di_utf8_next(const char *p, size_t n, size_t *len);

/* Code point of the character at p; returns its bytes, 0 if the n bytes do not start with one. */
size_t di_utf8_decode(const char *p, size_t n, uint32_t *code);

/* How many of the n bytes at p, counted from the start, are whole valid characters. */
size_t di_utf8_valid_prefix(const char *p, size_t n);

/* Appends text to out with each invalid or cut sequence replaced by one U+FFFD. */
DI_WARN_UNUSED di_status di_utf8_append_lossy(di_buf *out, const char *text, size_t len);

#define DI_UTF8_REPLACEMENT "\xef\xbf\xbd"

#endif
