/* JSON values of a request body, checked. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/reader.h"

enum { MAX_NUMBER_DIGITS = 48 };

di_status di_api_read_bool(const char *name, const di_jval *value, bool *out)
{
    if (value->kind != DI_JTRUE && value->kind != DI_JFALSE)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted true or false", name,
                       di_jval_describe(value).text);
    *out = value->kind == DI_JTRUE;
    return DI_OK;
}

/* False if it is no integer or beyond int64. */
static bool to_integer(const di_jval *value, int64_t *out)
{
    char digits[MAX_NUMBER_DIGITS];
    if (value->kind != DI_JINT || value->len >= sizeof digits)
        return false;
    memcpy(digits, value->text, value->len);
    digits[value->len] = '\0';
    errno = 0;
    *out = strtoll(digits, NULL, 10);
    return errno == 0;
}

di_status di_api_read_integer(const char *name, const di_jval *value, int64_t low, int64_t high,
                              int64_t *out)
{
    int64_t integer;
    if (to_integer(value, &integer) && integer >= low && integer <= high) {
        *out = integer;
        return DI_OK;
    }
    const di_jdescription found = di_jval_describe(value);
    if (high == INT64_MAX)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted an integer, %lld or more", name,
                       found.text, (long long)low);
    return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted an integer from %lld to %lld", name,
                   found.text, (long long)low, (long long)high);
}

/* False if it is no number. Integers beyond double become infinite. */
static bool to_number(const di_jval *value, double *out)
{
    if (value->kind == DI_JREAL)
        *out = value->real;
    else if (value->kind != DI_JINT)
        return false;
    else if (value->len >= MAX_NUMBER_DIGITS)
        *out = value->text[0] == '-' ? -INFINITY : INFINITY;
    else {
        char digits[MAX_NUMBER_DIGITS];
        memcpy(digits, value->text, value->len);
        digits[value->len] = '\0';
        *out = strtod(digits, NULL);
    }
    return true;
}

di_status di_api_read_number(const char *name, const di_jval *value, double low, double high,
                             double *out)
{
    double number;
    if (to_number(value, &number) && isfinite(number) && number >= low && number <= high) {
        *out = number;
        return DI_OK;
    }
    return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted a number from %g to %g", name,
                   di_jval_describe(value).text, low, high);
}

di_status di_api_read_text(di_arena *arena, const char *name, const di_jval *value,
                           const char **out)
{
    if (value->kind != DI_JSTRING)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted a string", name,
                       di_jval_describe(value).text);
    if (value->len && memchr(value->text, '\0', value->len))
        return di_fail(DI_ERR_ARGUMENT, "%s: found a NUL character in it, wanted a text without",
                       name);
    char *copy;
    DI_TRY(DI_ARENA_NEW(arena, value->len + 1, &copy));
    if (value->len)
        memcpy(copy, value->text, value->len);
    copy[value->len] = '\0';
    *out = copy;
    return DI_OK;
}

size_t di_api_count(const di_jval *array)
{
    size_t n = 0;
    for (const di_jval *item = array->first; item; item = item->next)
        n++;
    return n;
}

di_status di_api_read_ids(di_api_reader *reader, const char *name, const di_jval *value,
                          const int32_t **ids, size_t *n_ids)
{
    if (value->kind != DI_JARRAY)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted an array of token ids", name,
                       di_jval_describe(value).text);
    const size_t n = di_api_count(value);
    int32_t *list;
    DI_TRY(DI_ARENA_NEW(reader->arena, n, &list));
    size_t i = 0;
    for (const di_jval *item = value->first; item; item = item->next, i++) {
        int64_t id;
        if (!to_integer(item, &id) || id < 0 || id >= reader->vocab_size)
            return di_fail(DI_ERR_ARGUMENT, "%s[%zu]: found %s, wanted a token id from 0 to %d",
                           name, i, di_jval_describe(item).text, (int)reader->vocab_size - 1);
        list[i] = (int32_t)id;
    }
    *ids = list;
    *n_ids = n;
    return DI_OK;
}
