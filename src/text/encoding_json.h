/* JSON as the reference encoder's json module reads and writes it. jansson would lose what the
 * prompt must repeat byte for byte: integers beyond 64 bits (the maximum of a uint64 in a tool
 * schema), NUL in strings, NaN, and the shortest spelling of fractional numbers. */
#ifndef DI_TEXT_ENCODING_JSON_H
#define DI_TEXT_ENCODING_JSON_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"

typedef enum di_jkind {
    DI_JNULL,
    DI_JFALSE,
    DI_JTRUE,
    DI_JINT,
    DI_JREAL,
    DI_JSTRING,
    DI_JARRAY,
    DI_JOBJECT,
} di_jkind;

typedef struct di_jval {
    di_jkind kind;
    const char *key; /* member of an object, else NULL; not NUL-terminated, like text */
    size_t key_len;
    const char *text; /* DI_JSTRING: the decoded string; DI_JINT: its digits */
    size_t len;
    double real;
    struct di_jval *first; /* DI_JARRAY, DI_JOBJECT: first child; the others follow through next */
    struct di_jval *next;
} di_jval;

typedef enum di_jrules {
    DI_JSTRICT, /* RFC 8259: duplicate keys, lone surrogates and numbers beyond double are errors */
    DI_JSYNTAX, /* what the grammar of RFC 8259 allows, nested at most DI_JSON_MAX_DEPTH deep */
    DI_JPYTHON, /* the last duplicate wins; a lone surrogate is read as U+FFFD; NaN and Infinity */
} di_jrules;

enum { DI_JSON_MAX_DEPTH = 500, DI_JSON_MAX_INT_DIGITS = 4300 /* Python's limit */ };

/* The tree lives in the arena and points into `text`, which must outlive it. */
DI_WARN_UNUSED di_status di_jval_parse(di_arena *arena, const char *text, size_t len,
                                       di_jrules rules, const di_jval **out);

/* Member of an object; NULL if `object` is NULL or no object, or has no such member. */
const di_jval *di_jval_get(const di_jval *object, const char *key);
/* As di_jval_get, but a member that is null counts as missing. */
const di_jval *di_jval_get_set(const di_jval *object, const char *key);
bool di_jval_is_string(const di_jval *value, const char *s);
/* Python's bool(value): not null, false, 0, "", [] or {}; NULL is false. */
bool di_jval_is_truthy(const di_jval *value);

/* For "found %s": the value if it is short, else its type. */
typedef struct di_jdescription {
    char text[96];
} di_jdescription;
di_jdescription di_jval_describe(const di_jval *value);

/* Appends the value with ", " and ": " between its parts and everything but control characters,
 * quotes and backslashes unescaped. */
DI_WARN_UNUSED di_status di_jval_write(const di_jval *value, di_buf *out);
/* Appends a quoted string. Bytes that are not UTF-8 become U+FFFD. */
DI_WARN_UNUSED di_status di_json_write_string(const char *text, size_t len, di_buf *out);
/* Appends the shortest spelling that reads back as x: 1.5, 100000.0, 1e-05, 1e+16, NaN, -Infinity.
 */
DI_WARN_UNUSED di_status di_json_write_real(double x, di_buf *out);

#endif
