/* A member of a JSON object as it is written: numbers keep their digits, members their order. */
#ifndef DI_APPS_JSON_SLICE_H
#define DI_APPS_JSON_SLICE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct di_json_slice {
    const char *text; /* into the object's text */
    size_t bytes;
} di_json_slice;

/* False if the object has no member of this name, or ends before its value does. The text need not
 * be valid JSON: whoever reads the value says what is wrong with it. `name` is without escapes. */
bool di_json_member(const char *object, size_t bytes, const char *name, di_json_slice *value);

#endif
