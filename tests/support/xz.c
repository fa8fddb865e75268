#include "xz.h"

#include <lzma.h>
#include <string.h>

#include "base/file.h"

enum { STEP_BYTES = 256 * 1024 };

static di_status decompress(lzma_stream *stream, const char *path, di_buf *out)
{
    for (;;) {
        DI_TRY(di_buf_reserve(out, STEP_BYTES));
        stream->next_out = (uint8_t *)out->data + out->len;
        stream->avail_out = STEP_BYTES;
        const lzma_ret rc = lzma_code(stream, LZMA_FINISH);
        out->len += STEP_BYTES - stream->avail_out;
        out->data[out->len] = 0;
        if (rc == LZMA_STREAM_END)
            return DI_OK;
        if (rc != LZMA_OK)
            return di_fail(DI_ERR_INPUT, "%s: not a whole .xz file (liblzma error %d)", path, rc);
    }
}

di_status di_test_xz_read(const char *path, di_buf *out)
{
    DI_BUF_AUTO packed = {0};
    DI_TRY(di_file_read(path, SIZE_MAX / 2, &packed));
    lzma_stream stream = LZMA_STREAM_INIT;
    if (lzma_stream_decoder(&stream, UINT64_MAX, LZMA_CONCATENATED) != LZMA_OK)
        return di_fail(DI_ERR_MEMORY, "%s: no memory for a .xz decoder", path);
    stream.next_in = (const uint8_t *)packed.data;
    stream.avail_in = packed.len;
    const di_status status = decompress(&stream, path, out);
    lzma_end(&stream);
    return status;
}

bool di_test_next_line(const di_buf *text, size_t *at, const char **line, size_t *len)
{
    while (*at < text->len && text->data[*at] == '\n')
        ++*at;
    if (*at >= text->len)
        return false;
    const char *end = memchr(text->data + *at, '\n', text->len - *at);
    *line = text->data + *at;
    *len = end ? (size_t)(end - *line) : text->len - *at;
    *at += *len;
    return true;
}
