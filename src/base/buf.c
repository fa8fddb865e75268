#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

di_status di_grow(void **array, size_t *cap, size_t need, size_t elem_bytes)
{
    if (need <= *cap)
        return DI_OK;
    size_t fresh_cap = *cap < 16 ? 16 : *cap + *cap / 2;
    if (fresh_cap < need)
        fresh_cap = need;
    size_t bytes;
    if (__builtin_mul_overflow(fresh_cap, elem_bytes, &bytes))
        return di_fail(DI_ERR_MEMORY, "out of memory: %zu elements of %zu bytes", need, elem_bytes);
    void *fresh = realloc(*array, bytes);
    if (!fresh)
        return di_fail_memory(bytes, "a growing array");
    *array = fresh;
    *cap = fresh_cap;
    return DI_OK;
}

di_status di_buf_reserve(di_buf *buf, size_t extra)
{
    size_t need;
    if (__builtin_add_overflow(buf->len, extra, &need) || __builtin_add_overflow(need, 1, &need))
        return di_fail(DI_ERR_MEMORY, "out of memory: a text of more than %zu bytes", buf->len);
    return DI_GROW(&buf->data, &buf->cap, need);
}

di_status di_buf_append(di_buf *buf, const void *data, size_t len)
{
    if (len >= buf->cap - buf->len) /* with room there is one byte more, for the NUL */
        DI_TRY(di_buf_reserve(buf, len));
    if (len)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = 0;
    return DI_OK;
}

di_status di_buf_puts(di_buf *buf, const char *s)
{
    return di_buf_append(buf, s, strlen(s));
}

di_status di_buf_printf(di_buf *buf, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    const di_status status = di_buf_reserve(buf, len < 0 ? 0 : (size_t)len);
    if (status == DI_OK && len >= 0) {
        vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, again);
        buf->len += (size_t)len;
    }
    va_end(again);
    return status;
}

void di_buf_clear(di_buf *buf)
{
    buf->len = 0;
    if (buf->data)
        buf->data[0] = 0;
}

void di_buf_free(di_buf *buf)
{
    free(buf->data);
    *buf = (di_buf){0};
}

const char *di_buf_str(const di_buf *buf)
{
    return buf->data ? buf->data : "";
}
