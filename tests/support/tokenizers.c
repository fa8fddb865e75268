#include "tokenizers.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "xz.h"

di_status di_test_read(const char *path, di_buf *out)
{
    char full[1024];
    snprintf(full, sizeof full, "%s/%s", DI_TEST_DATA, path);
    const size_t n = strlen(full);
    if (n > 3 && strcmp(full + n - 3, ".xz") == 0)
        return di_test_xz_read(full, out);
    return di_file_read(full, SIZE_MAX / 2, out);
}

di_tokenizer *di_test_tokenizer(const char *path)
{
    DI_BUF_AUTO json = {0};
    di_tokenizer *tokenizer;
    if (di_test_read(path, &json) == DI_OK &&
        di_tokenizer_load(di_buf_str(&json), json.len, path, &tokenizer) == DI_OK)
        return tokenizer;
    fprintf(stderr, "%s\n", di_last_error());
    return NULL;
}

json_t *di_test_json(const char *path)
{
    DI_BUF_AUTO text = {0};
    if (di_test_read(path, &text) != DI_OK) {
        fprintf(stderr, "%s\n", di_last_error());
        return NULL;
    }
    json_error_t error;
    json_t *value = json_loadb(text.data, text.len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (!value)
        fprintf(stderr, "%s: line %d: %s\n", path, error.line, error.text);
    return value;
}

di_status di_test_json_ids(const json_t *array, di_ids *out)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        DI_TRY(di_ids_push(out, (int32_t)json_integer_value(json_array_get(array, i))));
    return DI_OK;
}

uint32_t di_test_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 32);
}
