/* Values of a schema: members, comparison, text. */
#include <string.h>

#include "grammar/json_schema_dom.h"

const di_sj_value *di_sj_member(const di_sj_value *value, const char *key, size_t len)
{
    if (value->type != DI_SJ_OBJECT)
        return NULL;
    for (uint32_t i = 0; i < value->n; i++)
        if (value->items[i].key_len == len && memcmp(value->items[i].key, key, len) == 0)
            return &value->items[i];
    return NULL;
}

const di_sj_value *di_sj_get(const di_sj_value *value, const char *key)
{
    return di_sj_member(value, key, strlen(key));
}

bool di_sj_is_text(const di_sj_value *value, const char *text)
{
    return value->type == DI_SJ_STRING && value->len == strlen(text) &&
           memcmp(value->text, text, value->len) == 0;
}

const char *di_sj_type_name(const di_sj_value *value)
{
    static const char *const names[] = {"null",     "false",    "true",     "a number",
                                        "a string", "an array", "an object"};
    return names[value->type];
}

/* value = 0.DIGITS * 10^exponent, digits without zeros at either end; none for zero. */
typedef struct decimal {
    const char *digits; /* with the decimal point still inside */
    const char *end;
    int64_t exponent;
    uint32_t n; /* digits */
    bool is_negative;
} decimal;

enum { EXPONENT_MOST = 1000000000 };

static int64_t read_exponent(const char *p)
{
    const bool is_negative = *p == '-';
    int64_t value = 0;
    if (*p == '-' || *p == '+')
        p++;
    for (; *p != 0; p++)
        if (value < EXPONENT_MOST)
            value = value * 10 + (*p - '0');
    return is_negative ? -value : value;
}

static decimal read_decimal(const char *text)
{
    decimal d = {.is_negative = *text == '-'};
    const char *p = text + d.is_negative;
    const char *end = p + strcspn(p, "eE");
    const char *point = memchr(p, '.', (size_t)(end - p));
    d.exponent = (point != NULL ? point : end) - p;
    if (*end != 0)
        d.exponent += read_exponent(end + 1);
    for (; p < end && (*p == '0' || *p == '.'); p++)
        d.exponent -= *p == '0';
    while (end > p && (end[-1] == '0' || end[-1] == '.'))
        end--;
    d.digits = p;
    d.end = end;
    d.n = (uint32_t)(end - p);
    if (d.n > 0 && memchr(p, '.', d.n) != NULL)
        d.n--;
    if (d.n == 0)
        return (decimal){.digits = p, .end = p};
    return d;
}

static char next_digit(const char **p, const char *end)
{
    if (*p < end && **p == '.')
        ++*p;
    return *p < end ? *(*p)++ : '0';
}

static int compare_magnitude(decimal a, decimal b)
{
    if (a.n == 0 || b.n == 0)
        return (a.n > 0) - (b.n > 0);
    if (a.exponent != b.exponent)
        return a.exponent < b.exponent ? -1 : 1;
    while (a.digits < a.end || b.digits < b.end) {
        const char x = next_digit(&a.digits, a.end), y = next_digit(&b.digits, b.end);
        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

int di_sj_number_compare(const char *a, const char *b)
{
    const decimal x = read_decimal(a), y = read_decimal(b);
    if (x.is_negative != y.is_negative)
        return x.is_negative ? -1 : 1;
    const int order = compare_magnitude(x, y);
    return x.is_negative ? -order : order;
}

bool di_sj_number_is_integer(const char *text)
{
    const decimal d = read_decimal(text);
    return (int64_t)d.n <= d.exponent || d.n == 0;
}

/* Digits and `zeros` more zeros, modulo m (or as they are: m = 0). */
static unsigned __int128 digits_modulo(decimal d, int64_t zeros, unsigned __int128 m)
{
    unsigned __int128 value = 0;
    const int64_t n = d.n + zeros;
    for (int64_t i = 0; i < n; i++) {
        value = value * 10 + (unsigned)(next_digit(&d.digits, d.end) - '0');
        if (m != 0)
            value %= m;
    }
    return value;
}

bool di_sj_number_is_multiple(const char *a, const char *b, bool *known)
{
    enum { DIGITS_MOST = 36, ZEROS_MOST = 4096 };
    const decimal x = read_decimal(a), y = read_decimal(b);
    const int64_t last_x = x.exponent - x.n, last_y = y.exponent - y.n;
    const int64_t least = last_x < last_y ? last_x : last_y;
    *known = true;
    if (x.n == 0)
        return true;
    if (y.n == 0 || y.n + (last_y - least) > DIGITS_MOST || last_x - least > ZEROS_MOST) {
        *known = false;
        return false;
    }
    const unsigned __int128 divisor = digits_modulo(y, last_y - least, 0);
    return digits_modulo(x, last_x - least, divisor) == 0;
}

/* As ECMAScript's Number.prototype.toString, but with every digit that was written. */
di_status di_sj_number_write(const char *text, di_buf *out)
{
    enum { PLAIN_MOST = 21, PLAIN_LEAST = -6 };
    decimal d = read_decimal(text);
    if (d.n == 0)
        return di_buf_puts(out, "0");
    if (d.is_negative)
        DI_TRY(di_buf_puts(out, "-"));
    const bool is_plain = d.exponent <= PLAIN_MOST && d.exponent > PLAIN_LEAST;
    const int64_t whole = is_plain ? d.exponent : 1; /* digits before the point */
    if (whole <= 0)
        DI_TRY(di_buf_puts(out, "0."));
    for (int64_t i = whole; i < 0; i++)
        DI_TRY(di_buf_puts(out, "0"));
    for (int64_t i = 0; i < (whole > (int64_t)d.n ? whole : (int64_t)d.n); i++) {
        const char digit = next_digit(&d.digits, d.end);
        if (i == whole && whole > 0)
            DI_TRY(di_buf_puts(out, "."));
        DI_TRY(di_buf_append(out, &digit, 1));
    }
    if (is_plain)
        return DI_OK;
    const long long exponent = (long long)d.exponent - 1;
    return di_buf_printf(out, "e%s%lld", exponent > 0 ? "+" : "", exponent);
}

bool di_sj_equal(const di_sj_value *a, const di_sj_value *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case DI_SJ_NUMBER:
        return di_sj_number_compare(a->text, b->text) == 0;
    case DI_SJ_STRING:
        return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
    case DI_SJ_ARRAY:
    case DI_SJ_OBJECT:
        break;
    case DI_SJ_NULL:
    case DI_SJ_FALSE:
    case DI_SJ_TRUE:
        return true;
    }
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const di_sj_value *x = &a->items[i];
        const di_sj_value *y =
            a->type == DI_SJ_ARRAY ? &b->items[i] : di_sj_member(b, x->key, x->key_len);
        if (y == NULL || !di_sj_equal(x, y))
            return false;
    }
    return true;
}

di_status di_sj_pointer(const di_sj_value *value, di_buf *out)
{
    if (value->parent == NULL)
        return di_buf_puts(out, "#");
    DI_TRY(di_sj_pointer(value->parent, out));
    if (value->key == NULL)
        return di_buf_printf(out, "/%u", value->index);
    DI_TRY(di_buf_puts(out, "/"));
    for (uint32_t i = 0; i < value->key_len; i++) {
        const char c = value->key[i];
        if (c == '~' || c == '/')
            DI_TRY(di_buf_puts(out, c == '~' ? "~0" : "~1"));
        else
            DI_TRY(di_buf_append(out, &c, 1));
    }
    return DI_OK;
}

di_status di_sj_write_string(const char *text, size_t len, di_buf *out)
{
    static const char *const short_escapes[128] = {
        ['\b'] = "\\b", ['\f'] = "\\f", ['\n'] = "\\n",  ['\r'] = "\\r",
        ['\t'] = "\\t", ['"'] = "\\\"", ['\\'] = "\\\\",
    };
    DI_TRY(di_buf_puts(out, "\""));
    size_t first = 0;
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool is_short = c < 128 && short_escapes[c] != NULL;
        if (c >= 0x20 && !is_short)
            continue;
        DI_TRY(di_buf_append(out, text + first, i - first));
        first = i + 1;
        if (is_short)
            DI_TRY(di_buf_puts(out, short_escapes[c]));
        else
            DI_TRY(di_buf_printf(out, "\\u%04x", c));
    }
    DI_TRY(di_buf_append(out, text + first, len - first));
    return di_buf_puts(out, "\"");
}

di_status di_sj_write(const di_sj_value *value, di_buf *out)
{
    static const char *const words[] = {"null", "false", "true"};
    if (value->type <= DI_SJ_TRUE)
        return di_buf_puts(out, words[value->type]);
    if (value->type == DI_SJ_NUMBER)
        return di_sj_number_write(value->text, out);
    if (value->type == DI_SJ_STRING)
        return di_sj_write_string(value->text, value->len, out);
    const bool is_object = value->type == DI_SJ_OBJECT;
    DI_TRY(di_buf_puts(out, is_object ? "{" : "["));
    for (uint32_t i = 0; i < value->n; i++) {
        const di_sj_value *item = &value->items[i];
        if (i > 0)
            DI_TRY(di_buf_puts(out, ","));
        if (is_object) {
            DI_TRY(di_sj_write_string(item->key, item->key_len, out));
            DI_TRY(di_buf_puts(out, ":"));
        }
        DI_TRY(di_sj_write(item, out));
    }
    return di_buf_puts(out, is_object ? "}" : "]");
}
