#include "json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"

/* `text` with U+FFFD for what is not UTF-8. Free with di_free. */
static char *repair(const char *text, size_t bytes, size_t *out_bytes)
{
    char *repaired = NULL;
    if (di_utf8_replace_invalid(bytes > 0 ? text : "", bytes, &repaired, out_bytes) != DI_OK)
        di_app_out_of_memory();
    return repaired;
}

bool di_out_is_utf8(const char *text, size_t bytes)
{
    size_t n = 0;
    char *repaired = repair(text, bytes, &n);
    const bool is_same = n == bytes && memcmp(repaired, bytes > 0 ? text : "", n) == 0;
    di_free(repaired);
    return is_same;
}

static void put_byte(FILE *out, unsigned char c)
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

void di_out_text(FILE *out, const char *text, size_t bytes)
{
    size_t n = 0;
    char *repaired = repair(text, bytes, &n);
    fputc('"', out);
    for (size_t i = 0; i < n; i++)
        put_byte(out, (unsigned char)repaired[i]);
    fputc('"', out);
    di_free(repaired);
}

void di_out_ids(FILE *out, const int32_t *ids, size_t n_ids)
{
    fputc('[', out);
    for (size_t i = 0; i < n_ids; i++)
        fprintf(out, "%s%" PRId32, i > 0 ? ", " : "", ids[i]);
    fputc(']', out);
}

void di_out_float(FILE *out, float value)
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
