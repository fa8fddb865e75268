#include "core/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "core/config_keys.h"

typedef struct reader {
    const char *name; /* of the file, for errors */
    json_t *root;
    di_config *config;
} reader;

/* "section.key", with the leading dot left out at the top level. */
#define PATH_FMT       "%s%s%s"
#define PATH_ARGS(row) (row)->section, *(row)->section ? "." : "", (row)->key

/* ------------------------------------------------------------------------------- error texts */

enum { SHOWN_BYTES = 60 };

/* The value as JSON, cut to SHOWN_BYTES: what an error shows as found. */
static void show_value(const json_t *value, char out[SHOWN_BYTES + 4])
{
    if (!value || json_is_object(value)) {
        snprintf(out, SHOWN_BYTES, "%s", di_json_type_name(value));
        return;
    }
    const size_t flags = JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII;
    const size_t n = json_dumpb(value, out, SHOWN_BYTES, flags);
    if (n > SHOWN_BYTES)
        memcpy(out + SHOWN_BYTES, "...", 4);
    else
        out[n] = 0;
}

static di_status fail_value(const reader *r, const di_config_key *row, const json_t *value,
                            const char *wanted)
{
    char shown[SHOWN_BYTES + 4];
    show_value(value, shown);
    return di_fail(DI_ERR_INPUT, "%s: " PATH_FMT ": found %s, wanted %s", r->name, PATH_ARGS(row),
                   shown, wanted);
}

static di_status fail_number(const reader *r, const di_config_key *row, const json_t *value,
                             const char *what)
{
    char wanted[96];
    snprintf(wanted, sizeof wanted, "%s from %.12g to %.12g", what, row->min, row->max);
    return fail_value(r, row, value, wanted);
}

/* ------------------------------------------------------------------------------ plain values */

static void *field_of(const reader *r, const di_config_key *row)
{
    return (char *)r->config + row->field;
}

static di_status read_integer(const reader *r, const di_config_key *row, const json_t *value)
{
    const json_int_t v = json_integer_value(value);
    if (!json_is_integer(value) || (double)v < row->min || (double)v > row->max)
        return fail_number(r, row, value, "an integer");
    if (row->kind == DI_KEY_INT)
        *(int *)field_of(r, row) = (int)v;
    else if (row->kind == DI_KEY_INT32)
        *(int32_t *)field_of(r, row) = (int32_t)v;
    else
        *(int64_t *)field_of(r, row) = v;
    return DI_OK;
}

static di_status read_real(const reader *r, const di_config_key *row, const json_t *value)
{
    const double v = json_number_value(value);
    if (!json_is_number(value) || !(v >= row->min && v <= row->max))
        return fail_number(r, row, value, "a number");
    *(double *)field_of(r, row) = v;
    return DI_OK;
}

static di_status read_text(const reader *r, const di_config_key *row, const json_t *value)
{
    const char *text = json_string_value(value);
    if (text && strcmp(text, row->only) == 0)
        return DI_OK;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"%s\"", row->only);
    return fail_value(r, row, value, wanted);
}

/* ------------------------------------------------------------------- lists and special values */

/* An array of integers in [row_min, row_max], at most max_n of them; ascending if asked. */
typedef struct int_list {
    int64_t values[DI_MAX_LAYERS + DI_MAX_DRAFT_BLOCKS];
    int n;
} int_list;

static di_status read_list(const reader *r, const di_config_key *row, const json_t *value,
                           const int64_t limits[3], int_list *out)
{
    char wanted[128];
    snprintf(wanted, sizeof wanted, "an array of at most %lld integers from %lld to %lld",
             (long long)limits[2], (long long)limits[0], (long long)limits[1]);
    if (!json_is_array(value) || json_array_size(value) > (size_t)limits[2])
        return fail_value(r, row, value, wanted);
    out->n = (int)json_array_size(value);
    for (int i = 0; i < out->n; i++) {
        const json_t *item = json_array_get(value, (size_t)i);
        const json_int_t v = json_integer_value(item);
        if (!json_is_integer(item) || v < limits[0] || v > limits[1])
            return fail_value(r, row, item, wanted);
        out->values[i] = v;
    }
    return DI_OK;
}

/* Ascending, distinct layer numbers. */
static di_status read_layers(const reader *r, const di_config_key *row, const json_t *value,
                             int64_t max_n, int_list *out)
{
    const int64_t limits[3] = {0, r->config->n_layers - 1, max_n};
    DI_TRY(read_list(r, row, value, limits, out));
    for (int i = 1; i < out->n; i++)
        if (out->values[i] <= out->values[i - 1])
            return fail_value(r, row, value, "ascending layer numbers");
    return DI_OK;
}

static di_status read_ratios(const reader *r, const di_config_key *row, const json_t *value)
{
    di_config *c = r->config;
    const int n = c->n_layers + c->n_draft_blocks;
    int_list list;
    DI_TRY(read_list(r, row, value, (const int64_t[]){0, 2, DI_MAX_LAYERS + DI_MAX_DRAFT_BLOCKS},
                     &list));
    if (list.n != n)
        return di_fail(DI_ERR_INPUT,
                       "%s: " PATH_FMT ": found %d entries, wanted %d (num_hidden_layers %d and "
                       "num_nextn_predict_layers %d)",
                       r->name, PATH_ARGS(row), list.n, n, c->n_layers, c->n_draft_blocks);
    for (int i = 0; i < n; i++) {
        if (i >= c->n_layers && list.values[i] != 0)
            return fail_value(r, row, value, "ratio 0 for the draft blocks at its end");
        c->compress_ratios[i] = (int)list.values[i];
    }
    return DI_OK;
}

static di_status read_sources(const reader *r, const di_config_key *row, const json_t *value,
                              bool *is_source)
{
    int_list list;
    DI_TRY(read_layers(r, row, value, r->config->n_layers, &list));
    for (int i = 0; i < list.n; i++)
        is_source[list.values[i]] = true;
    return DI_OK;
}

static di_status read_candidate_source(const reader *r, const di_config_key *row,
                                       const json_t *value)
{
    const json_int_t v = json_integer_value(value);
    r->config->candidate_source = -1;
    if (!value || json_is_null(value))
        return DI_OK;
    if (!json_is_integer(value) || v < 0 || v >= r->config->n_layers)
        return fail_value(r, row, value, "null or a layer number");
    r->config->candidate_source = (int)v;
    return DI_OK;
}

static di_status read_engram_layers(const reader *r, const di_config_key *row, const json_t *value)
{
    int_list list;
    DI_TRY(read_layers(r, row, value, DI_MAX_ENGRAM_LAYERS, &list));
    for (int i = 0; i < list.n; i++)
        r->config->engram_layer_ids[i] = (int)list.values[i];
    r->config->n_engram_layers = list.n;
    return DI_OK;
}

static di_status read_engram_rows(const reader *r, const di_config_key *row, const json_t *value)
{
    int_list list;
    DI_TRY(read_list(r, row, value, (const int64_t[]){1, INT64_C(1) << 40, DI_MAX_ENGRAM_LAYERS},
                     &list));
    if (list.n != r->config->n_engram_layers)
        return fail_value(r, row, value, "one entry for each of engram_layer_ids");
    memcpy(r->config->engram_num_embeddings, list.values, (size_t)list.n * sizeof list.values[0]);
    return DI_OK;
}

static di_status read_draft_targets(const reader *r, const di_config_key *row, const json_t *value)
{
    int_list list;
    DI_TRY(read_layers(r, row, value, r->config->n_layers, &list));
    if (list.n == 0)
        return fail_value(r, row, value, "at least one layer number");
    for (int i = 0; i < list.n; i++)
        r->config->dspark_target_layer_ids[i] = (int)list.values[i];
    r->config->n_dspark_targets = list.n;
    return DI_OK;
}

static di_status read_block_size(const reader *r, const di_config_key *row, const json_t *value)
{
    const bool ok = json_array_size(value) == 2 && json_is_integer(json_array_get(value, 0)) &&
                    json_is_integer(json_array_get(value, 1)) &&
                    json_integer_value(json_array_get(value, 0)) == 32 &&
                    json_integer_value(json_array_get(value, 1)) == 32;
    return ok ? DI_OK : fail_value(r, row, value, "[32,32]");
}

static di_status read_architectures(const reader *r, const di_config_key *row, const json_t *value)
{
    if (!value)
        return DI_OK;
    const char *only = json_string_value(json_array_get(value, 0));
    if (json_array_size(value) != 1 || !only || strcmp(only, "DeepseekV41ForCausalLM") != 0)
        return fail_value(r, row, value, "[\"DeepseekV41ForCausalLM\"]");
    return DI_OK;
}

static di_status read_section(const reader *r, const di_config_key *row, const json_t *value)
{
    const bool is_optional = row->need == DI_NEED_NEVER;
    if (is_optional && (!value || json_is_null(value)))
        return DI_OK;
    if (!json_is_object(value))
        return fail_value(r, row, value, is_optional ? "an object or null" : "an object");
    if (strcmp(row->key, "vision_config") == 0)
        r->config->has_vision = true;
    return DI_OK;
}

static di_status read_rope_type(const reader *r, const di_config_key *row, const json_t *value)
{
    const char *type = json_string_value(value);
    const bool is_alias = strcmp(row->key, "type") == 0;
    if (is_alias && !value)
        return DI_OK;
    const bool is_yarn = type && strcmp(type, "yarn") == 0;
    if (!is_yarn && (!type || strcmp(type, "default") != 0))
        return fail_value(r, row, value, "\"yarn\" or \"default\"");
    if (is_alias && is_yarn != r->config->rope_scaling.is_yarn)
        return fail_value(r, row, value, "the same as rope_type");
    r->config->rope_scaling.is_yarn = is_yarn;
    return DI_OK;
}

static di_status read_wh_ratio(const reader *r, const di_config_key *row, const json_t *value)
{
    const double v = json_number_value(value);
    if (!value || json_is_null(value))
        return DI_OK;
    if (!json_is_number(value) || !(v >= 1e-6 && v <= 1e6))
        return fail_value(r, row, value, "null or a number from 1e-06 to 1000000");
    r->config->vision.max_wh_ratio = v;
    return DI_OK;
}

/* Without images it may be left out, but a text-only config may still name it. */
static di_status read_image_token(const reader *r, const di_config_key *row, const json_t *value)
{
    if (!value && !r->config->has_vision)
        return DI_OK;
    const di_config_key as_number = {row->section, row->key, DI_KEY_INT32, row->need,
                                     row->field,   row->min, row->max};
    return read_integer(r, &as_number, value);
}

static di_status read_kv_sources(const reader *r, const di_config_key *row, const json_t *value)
{
    return read_sources(r, row, value, r->config->is_kv_source);
}

static di_status read_index_sources(const reader *r, const di_config_key *row, const json_t *value)
{
    return read_sources(r, row, value, r->config->is_index_source);
}

static di_status read_custom(const reader *r, const di_config_key *row, const json_t *value)
{
    static const struct {
        const char *key;
        di_status (*read)(const reader *r, const di_config_key *row, const json_t *value);
    } readers[] = {
        {"architectures", read_architectures},
        {"text_config", read_section},
        {"quantization_config", read_section},
        {"vision_config", read_section},
        {"rope_scaling", read_section},
        {"rope_type", read_rope_type},
        {"type", read_rope_type},
        {"compress_ratios", read_ratios},
        {"kv_source_layer_ids", read_kv_sources},
        {"index_source_layer_ids", read_index_sources},
        {"candidate_source_layer_id", read_candidate_source},
        {"engram_layer_ids", read_engram_layers},
        {"engram_num_embeddings", read_engram_rows},
        {"dspark_target_layer_ids", read_draft_targets},
        {"weight_block_size", read_block_size},
        {"max_wh_ratio", read_wh_ratio},
        {"image_token_id", read_image_token},
    };
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++)
        if (strcmp(readers[i].key, row->key) == 0)
            return readers[i].read(r, row, value);
    return di_fail(DI_ERR_UNSUPPORTED, "%s: " PATH_FMT " has no reader", r->name, PATH_ARGS(row));
}

/* --------------------------------------------------------------------------------- the table */

static bool condition_holds(const di_config *c, di_config_need need)
{
    bool is_compressed = false;
    for (int i = 0; i < c->n_layers; i++)
        is_compressed |= c->compress_ratios[i] > 0;
    switch (need) {
    case DI_NEED_ALWAYS:
    case DI_NEED_NEVER:
        return true;
    case DI_NEED_COMPRESSED:
        return is_compressed;
    case DI_NEED_CANDIDATES:
        return c->candidate_source >= 0;
    case DI_NEED_ENGRAM:
        return c->n_engram_layers > 0;
    case DI_NEED_DRAFT:
        return c->n_draft_blocks > 0;
    case DI_NEED_VISION:
        return c->has_vision;
    case DI_NEED_YARN:
        return c->rope_scaling.is_yarn;
    }
    return true;
}

static const json_t *section_of(const json_t *root, const char *section)
{
    if (!*section)
        return root;
    if (strcmp(section, "text_config.rope_scaling") == 0)
        return json_object_get(json_object_get(root, "text_config"), "rope_scaling");
    return json_object_get(root, section);
}

static di_status read_key(const reader *r, const di_config_key *row)
{
    const json_t *section = section_of(r->root, row->section);
    if (!json_is_object(section) || !condition_holds(r->config, row->need))
        return DI_OK;
    const json_t *value = json_object_get(section, row->key);
    if (row->kind == DI_KEY_CUSTOM)
        return read_custom(r, row, value);
    if (!value && row->need == DI_NEED_NEVER)
        return DI_OK;
    switch (row->kind) {
    case DI_KEY_INT:
    case DI_KEY_INT32:
    case DI_KEY_INT64:
        return read_integer(r, row, value);
    case DI_KEY_REAL:
        return read_real(r, row, value);
    case DI_KEY_TEXT:
        return read_text(r, row, value);
    case DI_KEY_BOOL:
        if (!json_is_boolean(value))
            return fail_value(r, row, value, "true or false");
        *(bool *)field_of(r, row) = json_is_true(value);
        return DI_OK;
    case DI_KEY_FALSE:
        return json_is_false(value) ? DI_OK : fail_value(r, row, value, "false");
    case DI_KEY_ONE:
        return json_is_integer(value) && json_integer_value(value) == 1
                   ? DI_OK
                   : fail_value(r, row, value, "1");
    case DI_KEY_CUSTOM:
        break;
    }
    return DI_OK;
}

/* What holds where a key may be left out. */
static void set_fallbacks(di_config *config)
{
    memset(config, 0, sizeof *config);
    config->gate_temp = 1.0;
    config->n_shared_experts = 1;
    config->candidate_source = -1;
    config->image_token_id = -1;
}

di_status di_config_parse(const char *text, size_t len, const char *name, di_config *out)
{
    json_t *root;
    DI_TRY(di_json_parse(text, len, name, false, &root));
    di_config *config = malloc(sizeof *config);
    if (!config) {
        json_decref(root);
        return di_fail_memory(sizeof *config, "the configuration");
    }
    set_fallbacks(config);
    const reader r = {.name = name, .root = root, .config = config};
    di_status status = DI_OK;
    if (!json_is_object(root))
        status =
            di_fail(DI_ERR_INPUT, "%s: found %s, wanted an object", name, di_json_type_name(root));
    for (size_t i = 0; i < di_n_config_keys && status == DI_OK; i++)
        status = read_key(&r, &di_config_keys[i]);
    if (status == DI_OK)
        status = di_config_check(name, config);
    if (status == DI_OK)
        *out = *config;
    free(config);
    json_decref(root);
    return status;
}

/* ------------------------------------------------------------------------------ unknown keys */

static bool is_known(const char *section, const char *key)
{
    for (size_t i = 0; i < di_n_config_keys; i++)
        if (strcmp(di_config_keys[i].section, section) == 0 &&
            strcmp(di_config_keys[i].key, key) == 0)
            return true;
    return false;
}

static di_status list_unknown(json_t *root, const char *section, di_buf *out)
{
    json_t *object = (json_t *)section_of(root, section);
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (!is_known(section, key))
            DI_TRY(di_buf_printf(out, "%s%s%s\n", section, *section ? "." : "", key));
    }
    return DI_OK;
}

di_status di_config_unknown_keys(const char *text, size_t len, const char *name, di_buf *out)
{
    static const char *const sections[] = {"", "text_config", "text_config.rope_scaling",
                                           "quantization_config", "vision_config"};
    json_t *root;
    DI_TRY(di_json_parse(text, len, name, false, &root));
    di_status status = DI_OK;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0] && status == DI_OK; i++)
        status = list_unknown(root, sections[i], out);
    json_decref(root);
    return status;
}
