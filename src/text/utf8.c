#include "text/utf8.h"

#include <stdint.h>
#include <string.h>

#include "deepinfer/tools.h"

/* Bytes of the character that `lead` starts, and the range its second byte must be in; 0 if it
 * starts none. */
static size_t lead_length(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xbf;
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2)
        return 0;
    if (lead < 0xe0)
        return 2;
    if (lead < 0xf0) {
        if (lead == 0xe0)
            *low = 0xa0;
        else if (lead == 0xed)
            *high = 0x9f;
        return 3;
    }
    if (lead == 0xf0)
        *low = 0x90;
    else if (lead == 0xf4)
        *high = 0x8f;
    return lead <= 0xf4 ? 4 : 0;
}

di_utf8_kind di_utf8_next(const char *p, size_t n, size_t *len)
{
    const unsigned char *s = (const unsigned char *)p;
    unsigned char low, high;
    const size_t want = lead_length(s[0], &low, &high);
    size_t got = 1;
    for (; got < want && got < n; got++) {
        if (s[got] < low || s[got] > high)
            break;
        low = 0x80;
        high = 0xbf;
    }
    *len = got;
    if (got == want)
        return DI_UTF8_CHAR;
    return want && got == n ? DI_UTF8_CUT : DI_UTF8_INVALID;
}

size_t di_utf8_decode(const char *p, size_t n, uint32_t *code)
{
    size_t len;
    if (n == 0 || di_utf8_next(p, n, &len) != DI_UTF8_CHAR)
        return 0;
    static const unsigned char lead_mask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t value = (unsigned char)p[0] & lead_mask[len];
    for (size_t i = 1; i < len; i++)
        value = value << 6 | ((unsigned char)p[i] & 0x3f);
    *code = value;
    return len;
}

size_t di_utf8_valid_prefix(const char *p, size_t n)
{
    size_t at = 0;
    while (at < n) {
        uint64_t word;
        if (n - at >= sizeof word) {
            memcpy(&word, p + at, sizeof word);
            if (!(word & 0x8080808080808080u)) {
                at += sizeof word;
                continue;
            }
        }
        size_t len;
        if (di_utf8_next(p + at, n - at, &len) != DI_UTF8_CHAR)
            break;
        at += len;
    }
    return at;
}

di_status di_utf8_append_lossy(di_buf *out, const char *text, size_t len)
{
    if (!len)
        return di_buf_append(out, "", 0); /* NUL-terminates also when there is no text */
    while (len) {
        const size_t valid = di_utf8_valid_prefix(text, len);
        if (valid)
            DI_TRY(di_buf_append(out, text, valid));
        text += valid;
        len -= valid;
        if (!len)
            break;
        size_t bad;
        di_utf8_next(text, len, &bad);
        DI_TRY(di_buf_append(out, DI_UTF8_REPLACEMENT, sizeof DI_UTF8_REPLACEMENT - 1));
        text += bad;
        len -= bad;
    }
    return DI_OK;
}

di_status di_utf8_replace_invalid(const char *text, size_t text_bytes, char **out,
                                  size_t *out_bytes)
{
    di_buf buf = {0};
    const di_status status = di_utf8_append_lossy(&buf, text, text_bytes);
    if (status != DI_OK) {
        di_buf_free(&buf);
        return status;
    }
    *out = buf.data;
    *out_bytes = buf.len;
    return DI_OK;
}
