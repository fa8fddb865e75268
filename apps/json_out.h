/* Writing JSON on one line. Text need not be valid: invalid UTF-8 becomes U+FFFD. */
#ifndef DI_APPS_JSON_OUT_H
#define DI_APPS_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

bool di_out_is_utf8(const char *text, size_t bytes);
/* A JSON string, quotes included. */
void di_out_text(FILE *out, const char *text, size_t bytes);
void di_out_ids(FILE *out, const int32_t *ids, size_t n_ids);
/* Shortest text that reads back as the same float; null if it is not finite. */
void di_out_float(FILE *out, float value);

#endif
