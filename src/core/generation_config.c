/* generation_config.json: what the checkpoint's makers sample with. Every key is optional, null
 * counts as left out, and keys that are not named here are ignored. */
#include "base/json.h"
#include "core/config.h"

void di_generation_config_defaults(const di_config *config, di_generation_config *out)
{
    *out = (di_generation_config){
        .temperature = 1.0,
        .top_p = 1.0,
        .repetition_penalty = 1.0,
        .eos_ids = {config->eos_token_id},
        .n_eos = 1,
    };
}

static const json_t *present(const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);
    return json_is_null(value) ? NULL : value;
}

static di_status read_real(const json_t *root, const char *name, const char *key,
                           const double limits[2], double *out)
{
    const json_t *value = present(root, key);
    if (!value)
        return DI_OK;
    const double v = json_number_value(value);
    if (!json_is_number(value) || !(v >= limits[0] && v <= limits[1])) {
        if (json_is_number(value))
            return di_fail(DI_ERR_INPUT, "%s: %s: found %.12g, wanted a number from %g to %g", name,
                           key, v, limits[0], limits[1]);
        return di_fail(DI_ERR_INPUT, "%s: %s: found %s, wanted a number from %g to %g", name, key,
                       di_json_type_name(value), limits[0], limits[1]);
    }
    *out = v;
    return DI_OK;
}

static di_status read_integer(const json_t *value, const char *name, const char *key,
                              const int64_t limits[2], int32_t *out)
{
    const json_int_t v = json_integer_value(value);
    if (json_is_integer(value) && v >= limits[0] && v <= limits[1]) {
        *out = (int32_t)v;
        return DI_OK;
    }
    if (json_is_integer(value))
        return di_fail(DI_ERR_INPUT, "%s: %s: found %lld, wanted an integer from %lld to %lld",
                       name, key, (long long)v, (long long)limits[0], (long long)limits[1]);
    return di_fail(DI_ERR_INPUT, "%s: %s: found %s, wanted an integer from %lld to %lld", name, key,
                   di_json_type_name(value), (long long)limits[0], (long long)limits[1]);
}

static di_status read_eos(const json_t *root, const char *name, const di_config *config,
                          di_generation_config *out)
{
    const json_t *value = present(root, "eos_token_id");
    const int64_t limits[2] = {0, config->vocab_size - 1};
    if (!value)
        return DI_OK;
    if (!json_is_array(value)) {
        out->n_eos = 1;
        return read_integer(value, name, "eos_token_id", limits, &out->eos_ids[0]);
    }
    const size_t n = json_array_size(value);
    if (n < 1 || n > DI_MAX_EOS)
        return di_fail(DI_ERR_INPUT, "%s: eos_token_id: found %zu ids, wanted 1 to %d", name, n,
                       DI_MAX_EOS);
    for (size_t i = 0; i < n; i++)
        DI_TRY(
            read_integer(json_array_get(value, i), name, "eos_token_id", limits, &out->eos_ids[i]));
    out->n_eos = (int)n;
    return DI_OK;
}

static di_status read_all(const json_t *root, const char *name, const di_config *config,
                          di_generation_config *out)
{
    const json_t *do_sample = present(root, "do_sample");
    const json_t *top_k = present(root, "top_k");
    DI_TRY(read_real(root, name, "temperature", (const double[]){0, 1e6}, &out->temperature));
    DI_TRY(read_real(root, name, "top_p", (const double[]){0, 1}, &out->top_p));
    DI_TRY(read_real(root, name, "min_p", (const double[]){0, 1}, &out->min_p));
    DI_TRY(read_real(root, name, "repetition_penalty", (const double[]){1e-6, 1e6},
                     &out->repetition_penalty));
    if (top_k)
        DI_TRY(read_integer(top_k, name, "top_k", (const int64_t[]){-1, INT32_MAX}, &out->top_k));
    if (out->top_k < 0)
        out->top_k = 0;
    if (do_sample && !json_is_boolean(do_sample))
        return di_fail(DI_ERR_INPUT, "%s: do_sample: found %s, wanted true or false", name,
                       di_json_type_name(do_sample));
    if (json_is_false(do_sample))
        out->temperature = 0;
    return read_eos(root, name, config, out);
}

di_status di_generation_config_parse(const char *text, size_t len, const char *name,
                                     const di_config *config, di_generation_config *out)
{
    json_t *root;
    DI_TRY(di_json_parse(text, len, name, false, &root));
    di_generation_config fresh;
    di_generation_config_defaults(config, &fresh);
    di_status status;
    if (json_is_object(root))
        status = read_all(root, name, config, &fresh);
    else
        status =
            di_fail(DI_ERR_INPUT, "%s: found %s, wanted an object", name, di_json_type_name(root));
    if (status == DI_OK)
        *out = fresh;
    json_decref(root);
    return status;
}
