/* Errors of the downloader: a status, and one line of text in the caller's di_hub_error. */
#ifndef DI_APPS_HUB_ERROR_H
#define DI_APPS_HUB_ERROR_H

#include "hub.h"

#define DI_HUB_TRY(call)                                                                           \
    do {                                                                                           \
        const di_status di_hub_try_status_ = (call);                                               \
        if (di_hub_try_status_ != DI_OK)                                                           \
            return di_hub_try_status_;                                                             \
    } while (0)

/* Sets the text (control bytes become '?') and returns `status`. */
di_status di_hub_fail(di_hub_error *error, di_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* DI_ERR_IO "WHAT PATH: strerror(errno)". */
di_status di_hub_fail_errno(di_hub_error *error, const char *what, const char *path);

/* snprintf into out [out_bytes]; a text that does not fit is an error. */
di_status di_hub_format(di_hub_error *error, char *out, size_t out_bytes, const char *fmt, ...)
    __attribute__((format(printf, 4, 5), warn_unused_result));

/* Whether the user has asked to stop. */
bool di_hub_is_interrupted(const di_hub_options *options);

#endif
