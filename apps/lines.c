#include "lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "json_out.h"

/* A filter of JSON objects as one of lines. */
typedef struct json_filter {
    di_line_fn fn;
    void *user;
} json_filter;

static di_exit answer_line(void *user, const char *line, size_t bytes, char **error)
{
    const json_filter *filter = user;
    json_error_t problem;
    json_t *object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    if (object == NULL) {
        *error = di_app_text("column %d: %s", problem.column, problem.text);
        return DI_EXIT_INPUT;
    }
    di_exit code = DI_EXIT_INPUT;
    if (json_is_object(object))
        code = filter->fn(filter->user, object, error);
    else
        *error = di_app_text("found an array, wanted an object");
    json_decref(object);
    return code;
}

static di_exit filter_line(const char *line, size_t bytes, size_t number, di_raw_line_fn fn,
                           void *user)
{
    char *error = NULL;
    const di_exit code = fn(user, line, bytes, &error);
    if (error != NULL) {
        fputs("{\"error\": ", stdout);
        di_out_text(stdout, error, strlen(error));
        fputs("}\n", stdout);
        if (code != DI_EXIT_OK)
            di_app_fail(code, "line %zu: %s", number, error);
        free(error);
    }
    return code;
}

static bool is_blank(const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (line[i] == '\0' || strchr(" \t\r\n", line[i]) == NULL)
            return false;
    return true;
}

static di_exit filter_stream(FILE *in, const char *name, di_raw_line_fn fn, void *user)
{
    char *line = NULL;
    size_t capacity = 0;
    di_exit code = DI_EXIT_OK;
    di_app_reads_interruptible(true);
    for (size_t number = 1; !di_app_interrupted(); number++) {
        errno = 0;
        const ssize_t n = getline(&line, &capacity, in);
        if (n < 0) {
            if (ferror(in) && !di_app_interrupted())
                code = di_exit_first(
                    code, di_app_fail(DI_EXIT_INPUT, "%s: cannot read: %s", name, strerror(errno)));
            break;
        }
        if (!is_blank(line, (size_t)n))
            code = di_exit_first(code, filter_line(line, (size_t)n, number, fn, user));
        /* Whoever writes line by line may wait for the answer. */
        const di_exit written = di_app_flush();
        if (written != DI_EXIT_OK) {
            code = written;
            break;
        }
    }
    di_app_reads_interruptible(false);
    free(line);
    return di_app_interrupted() ? DI_EXIT_INTERRUPTED : code;
}

di_exit di_raw_lines_filter(const char *path, di_raw_line_fn fn, void *user)
{
    if (path == NULL || strcmp(path, "-") == 0)
        return filter_stream(stdin, "stdin", fn, user);
    FILE *in = fopen(path, "rb");
    if (in == NULL)
        return di_app_fail(DI_EXIT_INPUT, "%s: cannot open: %s", path, strerror(errno));
    const di_exit code = filter_stream(in, path, fn, user);
    fclose(in);
    return code;
}

di_exit di_lines_filter(const char *path, di_line_fn fn, void *user)
{
    json_filter filter = {fn, user};
    return di_raw_lines_filter(path, answer_line, &filter);
}
