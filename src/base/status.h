/* Errors. A fallible function returns di_status (DI_OK = 0), is warn-unused, and sets its outputs
 * only on success. Whoever decides an error says it once, with di_fail("found ..., wanted ...");
 * everyone above passes it on with DI_TRY. The text belongs to the calling thread. */
#ifndef DI_BASE_STATUS_H
#define DI_BASE_STATUS_H

#include "deepinfer/deepinfer.h"

#define DI_WARN_UNUSED    __attribute__((warn_unused_result))
#define DI_PRINTF(fmt, a) __attribute__((format(printf, fmt, a)))

/* Sets this thread's error text and returns `code`. One line, no trailing full stop or newline;
 * control bytes of the formatted text are replaced so that the line stays one line. */
#define di_fail(code, ...) (di_error_format(__VA_ARGS__), (code))
void di_error_format(const char *fmt, ...) DI_PRINTF(1, 2);

/* Puts "context: " before the current error text and returns `code`. For a caller that alone knows
 * which file or request the failed call was about. */
#define di_fail_within(code, ...) (di_error_format_within(__VA_ARGS__), (code))
void di_error_format_within(const char *fmt, ...) DI_PRINTF(1, 2);

/* Out of memory, naming what the bytes were for. */
#define di_fail_memory(bytes, what)                                                                \
    di_fail(DI_ERR_MEMORY, "out of memory: %zu bytes for %s", (size_t)(bytes), (what))

/* Carries an error from one thread to another: the receiving thread's text becomes `text`. */
void di_error_set_text(const char *text);

#define DI_TRY(call)                                                                               \
    do {                                                                                           \
        const di_status di_try_status_ = (call);                                                   \
        if (di_try_status_ != DI_OK)                                                               \
            return di_try_status_;                                                                 \
    } while (0)

#endif
