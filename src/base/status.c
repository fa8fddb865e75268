#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ERROR_TEXT_BYTES = 1024 };

static _Thread_local char error_text[ERROR_TEXT_BYTES];

/* The text is printed as one line on terminals and in logs: file names, tensor names and client
 * input inside it must not be able to break that line or send escape sequences. */
static void make_single_line(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f)
            *p = '?';
}

void di_error_format(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char fresh[ERROR_TEXT_BYTES]; /* the arguments may point into error_text */
    vsnprintf(fresh, sizeof fresh, fmt, args);
    va_end(args);
    make_single_line(fresh);
    memcpy(error_text, fresh, sizeof fresh);
}

void di_error_format_within(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char context[ERROR_TEXT_BYTES];
    vsnprintf(context, sizeof context, fmt, args);
    va_end(args);
    char old[ERROR_TEXT_BYTES];
    memcpy(old, error_text, sizeof old);
    di_error_format("%s: %s", context, old);
}

void di_error_set_text(const char *text)
{
    snprintf(error_text, sizeof error_text, "%s", text);
}

const char *di_last_error(void)
{
    return error_text;
}

const char *di_status_name(di_status status)
{
    switch (status) {
    case DI_OK:
        return "ok";
    case DI_ERR_ARGUMENT:
        return "invalid argument";
    case DI_ERR_INPUT:
        return "invalid input";
    case DI_ERR_IO:
        return "input/output error";
    case DI_ERR_MEMORY:
        return "out of memory";
    case DI_ERR_UNSUPPORTED:
        return "not supported";
    case DI_ERR_RUNTIME:
        return "runtime error";
    case DI_ERR_CANCELLED:
        return "cancelled";
    }
    return "unknown status";
}
