/* Growable byte string, always NUL-terminated once something was appended; may hold NUL bytes. */
#ifndef DI_BASE_BUF_H
#define DI_BASE_BUF_H

#include "base/status.h"

typedef struct di_buf {
    char *data; /* NULL until the first append; owned, di_buf_free */
    size_t len;
    size_t cap;
} di_buf;

DI_WARN_UNUSED di_status di_buf_reserve(di_buf *buf, size_t extra);
DI_WARN_UNUSED di_status di_buf_append(di_buf *buf, const void *data, size_t len);
DI_WARN_UNUSED di_status di_buf_puts(di_buf *buf, const char *s);
DI_WARN_UNUSED di_status di_buf_printf(di_buf *buf, const char *fmt, ...) DI_PRINTF(2, 3);
void di_buf_clear(di_buf *buf);
void di_buf_free(di_buf *buf);
/* Never NULL: "" for an empty buffer. Valid until the next append. */
const char *di_buf_str(const di_buf *buf);

#define DI_BUF_AUTO __attribute__((cleanup(di_buf_free))) di_buf

/* Grows *array (capacity *cap elements) so that element `need - 1` exists. */
DI_WARN_UNUSED di_status di_grow(void **array, size_t *cap, size_t need, size_t elem_bytes);
#define DI_GROW(array, cap, need) di_grow((void **)(array), (cap), (need), sizeof **(array))

#endif
