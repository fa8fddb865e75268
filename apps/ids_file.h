/* JSON input of the program: files, and token ids in them. */
#ifndef DI_APPS_IDS_FILE_H
#define DI_APPS_IDS_FILE_H

#include <jansson.h>

#include "app.h"

/* Any JSON value of a text; on failure the error line names `name`. */
di_exit di_app_json_parse(const char *text, size_t bytes, const char *name, json_t **out);
di_exit di_app_json_load(const char *path, json_t **out); /* "-": stdin */
/* An array of token ids. *ids is malloc'ed. `name` is for the error line. */
di_exit di_app_json_ids(const json_t *value, const char *name, int32_t **ids, size_t *n_ids);
/* A JSON string of any bytes: invalid UTF-8 becomes U+FFFD. */
json_t *di_app_json_string(const char *text, size_t bytes);

#endif
