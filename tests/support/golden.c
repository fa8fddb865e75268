#include "golden.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/json.h"
#include "xz.h"

static void require(di_status status)
{
    if (status != DI_OK)
        fail_msg("%s", di_last_error());
}

void di_golden_open(const char *name, di_golden *out)
{
    char path[4096];
    *out = (di_golden){.bytes = {0}};
    snprintf(path, sizeof path, "%s/golden/%s/golden.safetensors.xz", DI_TEST_DATA, name);
    require(di_test_xz_read(path, &out->bytes));
    require(di_safetensors_from_memory(out->bytes.data, out->bytes.len, path, &out->vectors));
    snprintf(path, sizeof path, "%s/golden/%s/golden.json", DI_TEST_DATA, name);
    require(di_json_load(path, 1 << 24, &out->json));
    snprintf(path, sizeof path, "%s/golden/%s", DI_TEST_DATA, name);
    require(di_model_open(path, NULL, &out->model));
}

void di_golden_close(di_golden *golden)
{
    di_model_close(golden->model);
    json_decref(golden->json);
    di_safetensors_close(&golden->vectors);
    di_buf_free(&golden->bytes);
}

__attribute__((format(printf, 2, 0))) static const di_tensor *find(const di_golden *golden,
                                                                   const char *fmt, va_list args)
{
    char name[256];
    vsnprintf(name, sizeof name, fmt, args);
    return di_safetensors_find(&golden->vectors, name);
}

const di_tensor *di_golden_find(const di_golden *golden, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const di_tensor *t = find(golden, fmt, args);
    va_end(args);
    return t;
}

static const void *typed(const di_tensor *t, di_dtype dtype, int64_t *n, const char *fmt)
{
    if (!t)
        return NULL;
    if (t->dtype != dtype)
        fail_msg("%s: dtype %s", fmt, di_dtype_name(t->dtype));
    if (n)
        *n = (int64_t)(t->bytes / di_dtype_bytes(dtype));
    return t->data;
}

#define TYPED_GETTER(name, type, dtype)                                                            \
    const type *name(const di_golden *golden, int64_t *n, const char *fmt, ...)                    \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, fmt);                                                                       \
        const di_tensor *t = find(golden, fmt, args);                                              \
        va_end(args);                                                                              \
        return typed(t, dtype, n, fmt);                                                            \
    }
TYPED_GETTER(di_golden_f32, float, DI_F32)
TYPED_GETTER(di_golden_i32, int32_t, DI_I32)
TYPED_GETTER(di_golden_i64, int64_t, DI_I64)

int64_t di_golden_prefill(const di_golden *golden, int index)
{
    return json_integer_value(
        json_array_get(json_object_get(golden->json, "prefill"), (size_t)index));
}

int di_golden_n_cases(const di_golden *golden)
{
    return (int)json_array_size(json_object_get(golden->json, "prefill"));
}

bool di_golden_has_image(const di_golden *golden, int index)
{
    return di_golden_find(golden, "case%d.token_types", index) != NULL;
}

double di_golden_floor(const di_golden *golden, int index, const char *key)
{
    char name[32];
    snprintf(name, sizeof name, "case%d", index);
    return json_number_value(
        json_object_get(json_object_get(json_object_get(golden->json, "floor"), name), key));
}
