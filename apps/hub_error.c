#include "hub_error.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

di_status di_hub_fail(di_hub_error *error, di_status status, const char *fmt, ...)
{
    char text[sizeof error->text]; /* the arguments may point into the old text */
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f)
            *p = '?';
    memcpy(error->text, text, sizeof text);
    return status;
}

di_status di_hub_fail_errno(di_hub_error *error, const char *what, const char *path)
{
    return di_hub_fail(error, DI_ERR_IO, "%s %s: %s", what, path, strerror(errno));
}

di_status di_hub_format(di_hub_error *error, char *out, size_t out_bytes, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int len = vsnprintf(out, out_bytes, fmt, args);
    va_end(args);
    if (len < 0 || (size_t)len >= out_bytes)
        return di_hub_fail(error, DI_ERR_ARGUMENT, "found a name of %d bytes, wanted under %zu: %s",
                           len, out_bytes, out);
    return DI_OK;
}

bool di_hub_is_interrupted(const di_hub_options *options)
{
    return options->is_interrupted && options->is_interrupted();
}
