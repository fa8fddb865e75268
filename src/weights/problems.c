#include "weights/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 4, LINE_BYTES = 1024 };

static di_status add_line(di_problems *problems, di_status status, const char *line)
{
    if (problems->n < DI_KEPT_PROBLEMS)
        DI_TRY(di_buf_printf(&problems->text, "%s\n", line));
    if (problems->n++ == 0)
        problems->first = status;
    return DI_OK;
}

di_status di_problems_add(di_problems *problems, di_status status, const char *fmt, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    di_error_format("%s", line);
    return add_line(problems, status, di_last_error());
}

di_status di_problems_add_error(di_problems *problems, di_status status)
{
    if (status == DI_ERR_MEMORY)
        return status;
    return add_line(problems, status, di_last_error());
}

di_status di_problems_status(const di_problems *problems)
{
    if (problems->n == 0)
        return DI_OK;
    DI_BUF_AUTO shown = {0};
    const char *line = di_buf_str(&problems->text);
    for (size_t i = 0; i < problems->n && i < SHOWN; i++) {
        const char *end = strchr(line, '\n');
        DI_TRY(di_buf_printf(&shown, "%s%.*s", i ? "; " : "", (int)(end - line), line));
        line = end + 1;
    }
    if (problems->n == 1)
        return di_fail(problems->first, "%s", shown.data);
    return di_fail(problems->first, "%zu problems: %s%s", problems->n, shown.data,
                   problems->n > SHOWN ? "; ..." : "");
}

void di_problems_free(di_problems *problems)
{
    di_buf_free(&problems->text);
    *problems = (di_problems){0};
}
