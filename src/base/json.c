#include "base/json.h"

#include "base/file.h"

di_status di_json_parse(const char *text, size_t len, const char *name, bool any_value,
                        json_t **out)
{
    json_error_t error;
    const size_t flags = JSON_REJECT_DUPLICATES | (any_value ? JSON_DECODE_ANY : 0);
    json_t *value = json_loadb(text, len, flags, &error);
    if (!value)
        return di_fail(DI_ERR_INPUT, "%s: line %d, column %d: not valid JSON: %s", name, error.line,
                       error.column, error.text);
    *out = value;
    return DI_OK;
}

di_status di_json_load(const char *path, size_t max_bytes, json_t **out)
{
    DI_BUF_AUTO text = {0};
    DI_TRY(di_file_read(path, max_bytes, &text));
    return di_json_parse(di_buf_str(&text), text.len, path, false, out);
}

const char *di_json_type_name(const json_t *value)
{
    if (!value)
        return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a fractional number";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "an unknown value";
}
