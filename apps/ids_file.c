#include "ids_file.h"

#include <stdlib.h>

#include "json_out.h"

di_exit di_app_json_parse(const char *text, size_t bytes, const char *name, json_t **out)
{
    json_error_t error;
    json_t *value =
        json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (value == NULL)
        return di_app_fail(DI_EXIT_INPUT, "%s: line %d, column %d: %s", name, error.line,
                           error.column, error.text);
    *out = value;
    return DI_EXIT_OK;
}

di_exit di_app_json_load(const char *path, json_t **out)
{
    char *text = NULL;
    size_t bytes = 0;
    di_exit code = di_app_read_file(path, &text, &bytes);
    if (code != DI_EXIT_OK)
        return code;
    code = di_app_json_parse(text, bytes, di_app_file_name(path), out);
    free(text);
    return code;
}

di_exit di_app_json_ids(const json_t *value, const char *name, int32_t **ids, size_t *n_ids)
{
    if (!json_is_array(value))
        return di_app_fail(DI_EXIT_INPUT, "%s: found no array, wanted an array of token ids", name);
    const size_t n = json_array_size(value);
    int32_t *list = di_app_alloc(n * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(value, i);
        const json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id > INT32_MAX) {
            free(list);
            return di_app_fail(DI_EXIT_INPUT, "%s: item %zu is no token id", name, i);
        }
        list[i] = (int32_t)id;
    }
    *ids = list;
    *n_ids = n;
    return DI_EXIT_OK;
}

json_t *di_app_json_string(const char *text, size_t bytes)
{
    if (bytes == 0)
        return json_string("");
    if (di_out_is_utf8(text, bytes))
        return json_stringn(text, bytes);
    char *repaired = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&repaired, &n);
    json_t *value = NULL;
    if (out != NULL) {
        di_out_text(out, text, bytes);
        fclose(out);
        value = json_loadb(repaired, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    }
    free(repaired);
    return value;
}
