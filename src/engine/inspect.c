/* di_inspect: what is in a checkpoint, and everything that is wrong with it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "core/config_keys.h"
#include "deepinfer/tools.h"
#include "engine/memplan.h"
#include "weights/bind_check.h"
#include "weights/scale_check.h"
#include "weights/shard_index.h"
#include "weights/tensor_print.h"

enum { DEFAULT_VALUES = 64, MAX_CONFIG_BYTES = 1 << 20 };

static double to_gib(uint64_t bytes)
{
    return (double)bytes / (1024.0 * 1024.0 * 1024.0);
}

/* ----------------------------------------------------------------------------- the configuration
 */

static void print_role(const di_config *c, int layer, FILE *out)
{
    const int kv = c->kv_source[layer], index = c->index_source[layer];
    fprintf(out, "ratio %d: ", c->compress_ratios[layer]);
    if (c->compress_ratios[layer] == 0)
        fputs("window only", out);
    else if (kv == layer)
        fputs("own compressed KV, own top-k", out);
    else if (index == layer)
        fprintf(out, "KV of layer %d, own top-k", kv);
    else
        fprintf(out, "KV of layer %d, top-k of layer %d", kv, index);
    if (c->candidate_source == layer)
        fputs(", candidate blocks", out);
    fputc('\n', out);
}

static bool has_same_role(const di_config *c, int a, int b)
{
    const bool a_is_source = c->index_source[a] == a, b_is_source = c->index_source[b] == b;
    return !a_is_source && !b_is_source && c->compress_ratios[a] == c->compress_ratios[b] &&
           c->kv_source[a] == c->kv_source[b] && c->index_source[a] == c->index_source[b];
}

static void print_layers(const di_config *c, FILE *out)
{
    for (int first = 0, next; first < c->n_layers; first = next) {
        char range[32];
        next = first + 1;
        while (next < c->n_layers && has_same_role(c, first, next))
            next++;
        if (next == first + 1)
            snprintf(range, sizeof range, "%d", first);
        else
            snprintf(range, sizeof range, "%d-%d", first, next - 1);
        fprintf(out, "  layer %-8s ", range);
        print_role(c, first, out);
    }
    for (int i = 0; i < c->n_engram_layers; i++)
        fprintf(out, "  layer %-8d engram table of %lld rows\n", c->engram_layer_ids[i],
                (long long)c->engram_num_embeddings[i]);
    for (int i = 0; i < c->n_dspark_targets; i++)
        fprintf(out, "  layer %-8d read by the draft blocks\n", c->dspark_target_layer_ids[i]);
}

static void print_config(const di_config *c, FILE *out)
{
    fprintf(out,
            "config: %d layers, %d draft blocks, hidden %lld, %lld heads of %lld, %lld experts "
            "(%lld a token), vocabulary %lld, context %lld, %s\n",
            c->n_layers, c->n_draft_blocks, (long long)c->hidden_size, (long long)c->n_heads,
            (long long)c->head_dim, (long long)c->n_routed_experts, (long long)c->n_experts_per_tok,
            (long long)c->vocab_size, (long long)c->max_position_embeddings,
            c->has_vision ? "vision" : "no vision");
    print_layers(c, out);
}

static di_status print_ignored_keys(const char *dir, FILE *out)
{
    DI_BUF_AUTO path = {0};
    DI_BUF_AUTO text = {0};
    DI_BUF_AUTO keys = {0};
    DI_TRY(di_buf_printf(&path, "%s/config.json", dir));
    DI_TRY(di_file_read(path.data, MAX_CONFIG_BYTES, &text));
    DI_TRY(di_config_unknown_keys(di_buf_str(&text), text.len, path.data, &keys));
    if (keys.len == 0)
        return DI_OK;
    fputs("ignored keys of config.json:\n", out);
    char *save = NULL;
    for (char *key = strtok_r(keys.data, "\n", &save); key; key = strtok_r(NULL, "\n", &save)) {
        fputs("  ", out);
        di_name_print(key, out);
        fputc('\n', out);
    }
    return DI_OK;
}

/* ---------------------------------------------------------------------------------- a directory */

static void print_parts(const di_bind_result *result, FILE *out)
{
    for (int part = 0; part < DI_N_PARTS; part++)
        if (result->parts[part].n_tensors)
            fprintf(out, "  %-20s %8llu tensors %16llu bytes\n",
                    di_weight_part_name((di_weight_part)part),
                    (unsigned long long)result->parts[part].n_tensors,
                    (unsigned long long)result->parts[part].bytes);
}

static void print_files(const di_checkpoint *c, FILE *out)
{
    fprintf(out, "files: %zu opened, %zu tensors, %llu bytes (%.2f GiB)\n", c->n_shards,
            c->n_tensors, (unsigned long long)c->payload_bytes, to_gib(c->payload_bytes));
    if (c->n_strays)
        fprintf(out, "  %zu tensors in them are not named by the index and ignored\n", c->n_strays);
}

/* Without a configuration: what the names tell. */
static di_status check_scales(const di_checkpoint *c, di_problems *problems)
{
    DI_BUF_AUTO name = {0};
    for (size_t i = 0; i < c->n_tensors; i++) {
        const di_checkpoint_tensor *t = &c->tensors[i];
        bool is_quantized = false;
        if (t->tensor)
            DI_TRY(di_scale_name(t->name, t->tensor, &name, &is_quantized));
        if (!is_quantized)
            continue;
        const di_checkpoint_tensor *scale = di_checkpoint_find(c, name.data);
        if (!scale)
            DI_TRY(di_problems_add(problems, DI_ERR_INPUT, "%s: missing tensor %s, the scale of %s",
                                   c->dir, name.data, di_dtype_name(t->tensor->dtype)));
        else if (scale->tensor)
            DI_TRY(di_scale_check(c->dir, t->name, t->tensor, scale->tensor, problems));
    }
    return DI_OK;
}

static di_status inspect_tensors(const di_checkpoint *c, const di_config *config,
                                 di_problems *problems, FILE *out)
{
    di_bind_result result;
    print_files(c, out);
    if (!config)
        return check_scales(c, problems);
    DI_TRY(di_bind(c, config, NULL, NULL, problems, &result));
    print_parts(&result, out);
    return DI_OK;
}

/* config is NULL if it could not be read. */
static di_status inspect_weights(const char *dir, const di_config *config, di_problems *problems,
                                 FILE *out)
{
    di_checkpoint checkpoint;
    DI_TRY(di_checkpoint_open(dir, problems, &checkpoint));
    di_status status = DI_OK;
    if (checkpoint.n_tensors) /* else its problems say why */
        status = inspect_tensors(&checkpoint, config, problems, out);
    di_checkpoint_close(&checkpoint);
    return status;
}

static di_status print_problems(const di_problems *problems, FILE *out)
{
    if (problems->n == 0) {
        fputs("no problems\n", out);
        return DI_OK;
    }
    fprintf(out, "problems: %zu\n", problems->n);
    const char *line = di_buf_str(&problems->text);
    for (const char *end; (end = strchr(line, '\n')); line = end + 1)
        fprintf(out, "  %.*s\n", (int)(end - line), line);
    if (problems->n > DI_KEPT_PROBLEMS)
        fprintf(out, "  ... %zu more\n", problems->n - DI_KEPT_PROBLEMS);
    return di_problems_status(problems);
}

static di_status inspect_generation_config(const char *dir, const di_config *config,
                                           di_problems *problems)
{
    di_generation_config generation;
    const di_status status = di_checkpoint_read_generation_config(dir, config, &generation);
    return status == DI_OK ? DI_OK : di_problems_add_error(problems, status);
}

static di_status inspect_dir(const char *dir, const di_options *options, bool has_memplan,
                             FILE *out)
{
    DI_PROBLEMS_AUTO problems = {0};
    di_config *config = malloc(sizeof *config);
    if (!config)
        return di_fail_memory(sizeof *config, "the configuration");
    fputs("checkpoint: ", out);
    di_name_print(dir, out);
    fputc('\n', out);
    di_status status = di_checkpoint_read_config(dir, config);
    const bool has_config = status == DI_OK;
    if (has_config) {
        print_config(config, out);
        status = print_ignored_keys(dir, out);
    } else {
        status = di_problems_add_error(&problems, status);
    }
    if (status == DI_OK && has_config)
        status = inspect_generation_config(dir, config, &problems);
    if (status == DI_OK)
        status = inspect_weights(dir, has_config ? config : NULL, &problems, out);
    if (status == DI_OK && has_config && has_memplan)
        status = di_memplan_print(config, options, out);
    free(config);
    DI_TRY(status);
    return print_problems(&problems, out);
}

/* ----------------------------------------------------------------------------------- one tensor */

static void print_tensor_line(const char *name, const di_tensor *t, FILE *out)
{
    char shape[DI_SHAPE_TEXT_BYTES];
    di_shape_format(t->rank, t->shape, shape);
    di_name_print(name, out);
    fprintf(out, " %s %s\n", di_dtype_name(t->dtype), shape);
}

/* scale NULL: the tensor is no quantized weight, or its scale is not there or does not fit. */
static void print_tensor(const char *name, const di_tensor *tensor, const di_tensor *scale,
                         int64_t n_values, FILE *out)
{
    int64_t wanted[2];
    print_tensor_line(name, tensor, out);
    di_tensor_print_values(tensor, NULL, n_values, out);
    if (!scale || !di_scale_fits(name, tensor, scale, wanted))
        return;
    fputs("dequantized\n", out);
    di_tensor_print_values(tensor, scale, n_values, out);
}

static di_status check_mapping(const di_safetensors *files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        DI_TRY(di_mapping_check(&files[i].mapping, files[i].path));
    return DI_OK;
}

static di_status show_checkpoint_tensor(const di_checkpoint *c, const char *name, int64_t n_values,
                                        FILE *out)
{
    DI_BUF_AUTO scale_name = {0};
    bool is_quantized;
    const di_checkpoint_tensor *hit = di_checkpoint_find(c, name);
    if (!hit || !hit->tensor)
        return di_fail(DI_ERR_INPUT, "%s: found no tensor %s", c->dir, name);
    DI_TRY(di_scale_name(name, hit->tensor, &scale_name, &is_quantized));
    const di_checkpoint_tensor *scale =
        is_quantized ? di_checkpoint_find(c, scale_name.data) : NULL;
    DI_TRY(check_mapping(c->shards, c->n_shards));
    print_tensor(name, hit->tensor, scale ? scale->tensor : NULL, n_values, out);
    return DI_OK;
}

static di_status inspect_dir_tensor(const char *dir, const char *name, int64_t n_values, FILE *out)
{
    DI_PROBLEMS_AUTO problems = {0};
    di_checkpoint checkpoint;
    DI_TRY(di_checkpoint_open(dir, &problems, &checkpoint));
    const di_checkpoint_tensor *hit = di_checkpoint_find(&checkpoint, name);
    /* Other files' problems do not matter here; those that may have hidden the tensor do. */
    di_status status = hit && hit->tensor ? DI_OK : di_problems_status(&problems);
    if (status == DI_OK)
        status = show_checkpoint_tensor(&checkpoint, name, n_values, out);
    di_checkpoint_close(&checkpoint);
    return status;
}

/* --------------------------------------------------------------------------------------- one file
 */

/* The index beside the file, which may place a scale in another file; empty if there is none or it
 * is not readable: then the file has to speak for itself. */
static di_status load_index_beside(const char *path, di_shard_index *out)
{
    const char *slash = strrchr(path, '/');
    DI_BUF_AUTO index_path = {0};
    *out = (di_shard_index){0};
    DI_TRY(di_buf_printf(&index_path, "%.*smodel.safetensors.index.json",
                         slash ? (int)(slash - path + 1) : 0, path));
    if (!di_path_exists(index_path.data))
        return DI_OK;
    const di_status status = di_shard_index_load(index_path.data, out);
    return status == DI_ERR_MEMORY ? status : DI_OK;
}

static di_status check_file_scale(const di_safetensors *file, const di_shard_index *index,
                                  const di_safetensors_entry *e, di_problems *problems)
{
    DI_BUF_AUTO name = {0};
    bool is_quantized;
    DI_TRY(di_scale_name(e->name, &e->tensor, &name, &is_quantized));
    if (!is_quantized)
        return DI_OK;
    const di_tensor *scale = di_safetensors_find(file, name.data);
    if (scale)
        return di_scale_check(file->path, e->name, &e->tensor, scale, problems);
    if (di_shard_index_find(index, name.data))
        return DI_OK;
    return di_problems_add(problems, DI_ERR_INPUT, "%s: missing tensor %s, the scale of %s (%s)",
                           file->path, name.data, e->name, di_dtype_name(e->tensor.dtype));
}

static di_status check_file_scales(const di_safetensors *file, di_problems *problems)
{
    di_shard_index index;
    DI_TRY(load_index_beside(file->path, &index));
    di_status status = DI_OK;
    for (size_t i = 0; i < file->n_entries && status == DI_OK; i++)
        status = check_file_scale(file, &index, &file->entries[i], problems);
    di_shard_index_free(&index);
    return status;
}

static di_status show_file_tensor(const di_safetensors *file, const char *name, int64_t n_values,
                                  FILE *out)
{
    DI_BUF_AUTO scale_name = {0};
    bool is_quantized;
    const di_tensor *tensor = di_safetensors_find(file, name);
    if (!tensor)
        return di_fail(DI_ERR_INPUT, "%s: found no tensor %s", file->path, name);
    DI_TRY(di_scale_name(name, tensor, &scale_name, &is_quantized));
    DI_TRY(check_mapping(file, 1));
    print_tensor(name, tensor, is_quantized ? di_safetensors_find(file, scale_name.data) : NULL,
                 n_values, out);
    return DI_OK;
}

static di_status list_file(const di_safetensors *file, FILE *out)
{
    DI_PROBLEMS_AUTO problems = {0};
    fputs("file: ", out);
    di_name_print(file->path, out);
    fprintf(out, ", %zu tensors, %llu bytes\n", file->n_entries,
            (unsigned long long)file->payload_bytes);
    for (size_t i = 0; i < file->n_entries; i++)
        print_tensor_line(file->entries[i].name, &file->entries[i].tensor, out);
    DI_TRY(check_file_scales(file, &problems));
    return print_problems(&problems, out);
}

static di_status inspect_file(const char *path, const char *tensor, int64_t n_values, FILE *out)
{
    di_safetensors file;
    DI_TRY(di_safetensors_open(path, &file));
    const di_status status =
        tensor ? show_file_tensor(&file, tensor, n_values, out) : list_file(&file, out);
    di_safetensors_close(&file);
    return status;
}

/* ------------------------------------------------------------------------------------- the whole
 */

static di_status inspect_any(const char *path, const di_options *options,
                             const di_inspect_options *inspect, FILE *out)
{
    const int64_t n_values = inspect->n_values ? inspect->n_values : DEFAULT_VALUES;
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        if (inspect->memplan)
            return di_fail(DI_ERR_ARGUMENT, "%s: a memory plan needs a checkpoint directory", path);
        return inspect_file(path, inspect->tensor, n_values, out);
    }
    DI_BUF_AUTO dir = {0};
    DI_TRY(di_checkpoint_resolve(path, &dir));
    if (inspect->tensor)
        return inspect_dir_tensor(dir.data, inspect->tensor, n_values, out);
    return inspect_dir(dir.data, options, inspect->memplan, out);
}

di_status di_inspect(const char *path, const di_options *options, const di_inspect_options *inspect,
                     FILE *out)
{
    static const di_inspect_options defaults = {0};
    if (!path || !out)
        return di_fail(DI_ERR_ARGUMENT, "di_inspect: path and out must not be NULL");
    DI_TRY(inspect_any(path, options, inspect ? inspect : &defaults, out));
    if (fflush(out) != 0 || ferror(out))
        return di_fail(DI_ERR_IO, "%s: its description cannot be written", path);
    return DI_OK;
}
