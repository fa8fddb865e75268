/* Line by line filters: one JSON object in, one out. */
#ifndef DI_APPS_LINES_H
#define DI_APPS_LINES_H

#include <jansson.h>

#include "app.h"

/* Answers one line on stdout. A failure is DI_EXIT_INPUT with *error (malloc'ed) set: then
 * {"error": ...} is written in its place and told on stderr; any other code ends the filter. */
typedef di_exit (*di_line_fn)(void *user, const json_t *object, char **error);

/* The same with the line itself, which need not be JSON. */
typedef di_exit (*di_raw_line_fn)(void *user, const char *line, size_t bytes, char **error);
di_exit di_raw_lines_filter(const char *path, di_raw_line_fn fn, void *user);

/* Every line of `path` (NULL or "-": stdin) through fn; empty lines are skipped. The first
 * failure's code. */
di_exit di_lines_filter(const char *path, di_line_fn fn, void *user);

#endif
