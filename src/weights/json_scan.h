/* Reads JSON text front to back without building a tree, for files with a fixed shape and up to 100
 * MB of it (safetensors headers, shard indices): memory stays at one string however hostile the
 * text. */
#ifndef DI_WEIGHTS_JSON_SCAN_H
#define DI_WEIGHTS_JSON_SCAN_H

#include <stdbool.h>

#include "base/buf.h"

typedef struct di_json_scan {
    const char *text, *end;
    const char *at;      /* next byte to read */
    const char *name;    /* file, for errors */
    const char *context; /* what is being read, for errors: "tensor x"; NULL = nothing to say */
    di_buf string;       /* the last string, decoded */
} di_json_scan;

#define DI_JSON_SCAN_AUTO __attribute__((cleanup(di_json_scan_free))) di_json_scan

void di_json_scan_free(di_json_scan *scan);

/* DI_ERR_INPUT "NAME: CONTEXT: byte N of the JSON text: found ..., wanted WANTED". */
DI_WARN_UNUSED di_status di_json_scan_fail(const di_json_scan *scan, const char *wanted);

/* Skips white space, then takes `c` if it is next. */
bool di_json_scan_take(di_json_scan *scan, char c);
/* The same, or an error. */
DI_WARN_UNUSED di_status di_json_scan_expect(di_json_scan *scan, char c);
/* A string into scan->string. Has to be UTF-8 without NUL. */
DI_WARN_UNUSED di_status di_json_scan_string(di_json_scan *scan);
/* A whole number >= 0 below 2^64, without sign, fraction or exponent. */
DI_WARN_UNUSED di_status di_json_scan_count(di_json_scan *scan, uint64_t *out);
/* Any value, checked and left out. */
DI_WARN_UNUSED di_status di_json_scan_skip(di_json_scan *scan);
/* Within an object whose '{' was taken: takes the next key and its colon, or the closing '}' (then
 * *has_key is false). The key is in scan->string.  */
DI_WARN_UNUSED di_status di_json_scan_key(di_json_scan *scan, bool is_first, bool *has_key);
/* Only white space may follow. */
DI_WARN_UNUSED di_status di_json_scan_end(di_json_scan *scan);

#endif
