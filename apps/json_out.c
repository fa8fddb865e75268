#include "json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Length of the well-formed character at text[0], or 0; then *bad is the length of the longest
 * beginning of a character, at least 1: it is replaced as a whole (as Unicode recommends). */
static size_t character_bytes(const unsigned char *text, size_t bytes, size_t *bad)
{
    const unsigned char first = text[0];
    *bad = 1;
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    const size_t n = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    /* The second byte's range excludes overlong forms, surrogates and what is past U+10FFFF. */
    const unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    for (size_t i = 1; i < n; i++) {
        const bool is_good =
            i < bytes && text[i] >= (i == 1 ? low : 0x80) && text[i] <= (i == 1 ? high : 0xbf);
        if (!is_good)
            return 0;
        *bad = i + 1;
    }
    return n;
}

bool di_utf8_is_valid(const char *text, size_t bytes)
{
    size_t bad = 0;
    for (size_t i = 0; i < bytes;) {
        const size_t n = character_bytes((const unsigned char *)text + i, bytes - i, &bad);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

static void put_ascii(FILE *out, unsigned char c)
{
    switch (c) {
    case '"':
    case '\\':
        fprintf(out, "\\%c", c);
        return;
    case '\n':
        fputs("\\n", out);
        return;
    case '\r':
        fputs("\\r", out);
        return;
    case '\t':
        fputs("\\t", out);
        return;
    default:
        if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
}

void di_json_text(FILE *out, const char *text, size_t bytes)
{
    size_t bad = 0;
    fputc('"', out);
    for (size_t i = 0; i < bytes;) {
        const size_t n = character_bytes((const unsigned char *)text + i, bytes - i, &bad);
        if (n == 1)
            put_ascii(out, (unsigned char)text[i]);
        else if (n > 1)
            fwrite(text + i, 1, n, out);
        else
            fputs("\xef\xbf\xbd", out);
        i += n == 0 ? bad : n;
    }
    fputc('"', out);
}

void di_json_ids(FILE *out, const int32_t *ids, size_t n_ids)
{
    fputc('[', out);
    for (size_t i = 0; i < n_ids; i++)
        fprintf(out, "%s%" PRId32, i > 0 ? ", " : "", ids[i]);
    fputc(']', out);
}

void di_json_float(FILE *out, float value)
{
    if (!isfinite(value)) {
        fputs("null", out);
        return;
    }
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    fputs(text, out);
}
