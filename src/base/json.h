/* JSON files and texts through jansson, strictly: duplicate keys are errors, and errors name the
 * file, line and column. */
#ifndef DI_BASE_JSON_H
#define DI_BASE_JSON_H

#include <jansson.h>

#include "base/status.h"

/* *out is a new reference. Only objects and arrays unless any_value. `name` is for error texts. */
DI_WARN_UNUSED di_status di_json_parse(const char *text, size_t len, const char *name,
                                       bool any_value, json_t **out);
DI_WARN_UNUSED di_status di_json_load(const char *path, size_t max_bytes, json_t **out);

/* "a string", "an integer", ... for "found %s, wanted %s". */
const char *di_json_type_name(const json_t *value);

#endif
