#include "weights/checkpoint_dir.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "weights/shard_index.h"

enum { MAX_CONFIG_BYTES = 1 << 20, MAX_REF_BYTES = 4096 };

/* ----------------------------------------------------------------------------------- the place */

static di_status join(const char *dir, const char *file, di_buf *out)
{
    const size_t n = strlen(dir);
    return di_buf_printf(out, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", file);
}

/* Something of that name is there, a dangling link included. */
static bool has_name(const char *dir, const char *file, di_status *status)
{
    DI_BUF_AUTO path = {0};
    struct stat st;
    *status = join(dir, file, &path);
    return *status == DI_OK && lstat(path.data, &st) == 0;
}

/* The revision in refs/main, without the white space around it. */
static di_status read_ref(const char *path, di_buf *text)
{
    DI_TRY(di_file_read(path, MAX_REF_BYTES, text));
    while (text->len && isspace((unsigned char)text->data[text->len - 1]))
        text->data[--text->len] = 0;
    bool is_plain = text->len > 0 && text->data[0] != '.' && strlen(text->data) == text->len;
    for (size_t i = 0; i < text->len; i++)
        is_plain =
            is_plain && (isalnum((unsigned char)text->data[i]) || strchr("._-", text->data[i]));
    if (!is_plain)
        return di_fail(DI_ERR_INPUT, "%s: found \"%.64s\", wanted a revision", path,
                       di_buf_str(text));
    return DI_OK;
}

static di_status resolve_cache_entry(const char *path, di_buf *out)
{
    DI_BUF_AUTO ref_path = {0};
    DI_BUF_AUTO revision = {0};
    DI_BUF_AUTO relative = {0};
    DI_BUF_AUTO snapshot = {0};
    DI_TRY(join(path, "refs/main", &ref_path));
    DI_TRY(read_ref(ref_path.data, &revision));
    DI_TRY(di_buf_printf(&relative, "snapshots/%s", revision.data));
    DI_TRY(join(path, relative.data, &snapshot));
    if (!di_path_is_dir(snapshot.data))
        return di_fail(DI_ERR_IO, "%s: names revision %s, but there is no directory %s",
                       ref_path.data, revision.data, snapshot.data);
    return di_buf_append(out, snapshot.data, snapshot.len);
}

di_status di_checkpoint_resolve(const char *path, di_buf *out)
{
    struct stat st;
    di_status status = DI_OK;
    if (stat(path, &st) != 0)
        return di_fail(DI_ERR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return di_fail(DI_ERR_IO, "%s: found a file, wanted a checkpoint directory", path);
    const bool has_config = has_name(path, "config.json", &status);
    DI_TRY(status);
    const bool has_snapshots = has_name(path, "snapshots", &status);
    DI_TRY(status);
    if (!has_config && has_snapshots)
        return resolve_cache_entry(path, out);
    return di_buf_puts(out, path);
}

/* -------------------------------------------------------------------------- its configuration */

di_status di_checkpoint_read_config(const char *dir, di_config *out)
{
    DI_BUF_AUTO path = {0};
    DI_BUF_AUTO text = {0};
    DI_TRY(join(dir, "config.json", &path));
    DI_TRY(di_file_read(path.data, MAX_CONFIG_BYTES, &text));
    return di_config_parse(di_buf_str(&text), text.len, path.data, out);
}

di_status di_checkpoint_read_generation_config(const char *dir, const di_config *config,
                                               di_generation_config *out)
{
    DI_BUF_AUTO path = {0};
    DI_BUF_AUTO text = {0};
    di_status status;
    const bool is_there = has_name(dir, "generation_config.json", &status);
    DI_TRY(status);
    if (!is_there) {
        di_generation_config_defaults(config, out);
        return DI_OK;
    }
    DI_TRY(join(dir, "generation_config.json", &path));
    DI_TRY(di_file_read(path.data, MAX_CONFIG_BYTES, &text));
    return di_generation_config_parse(di_buf_str(&text), text.len, path.data, config, out);
}

/* ---------------------------------------------------------------------------------- its shards */

static int compare_tensors(const void *a, const void *b)
{
    const di_checkpoint_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

const di_checkpoint_tensor *di_checkpoint_find(const di_checkpoint *checkpoint, const char *name)
{
    const di_checkpoint_tensor key = {.name = name};
    if (!checkpoint->n_tensors)
        return NULL;
    return bsearch(&key, checkpoint->tensors, checkpoint->n_tensors, sizeof key, compare_tensors);
}

/* Opens shard files[i] into of_file[i], which stays NULL if there is a problem with it. */
static di_status open_shards(di_checkpoint *c, const char *const *files, size_t n,
                             di_problems *problems, const di_safetensors **of_file)
{
    DI_TRY(DI_ARENA_ZNEW(&c->arena, n, &c->shards));
    for (size_t i = 0; i < n; i++) {
        DI_BUF_AUTO path = {0};
        DI_TRY(join(c->dir, files[i], &path));
        di_safetensors *shard = &c->shards[c->n_shards];
        const di_status status = di_safetensors_open(path.data, shard);
        of_file[i] = status == DI_OK ? shard : NULL;
        c->n_shards += status == DI_OK;
        if (status != DI_OK)
            DI_TRY(di_problems_add_error(problems, status));
    }
    return DI_OK;
}

/* The index decides which file a tensor is taken from; a file that lacks it is a problem. */
static di_status take_indexed(di_checkpoint *c, const di_shard_index *index, di_problems *problems,
                              const di_safetensors *const *of_file)
{
    size_t in_files = 0, n_found = 0;
    for (size_t i = 0; i < c->n_shards; i++)
        in_files += c->shards[i].n_entries;
    DI_TRY(DI_ARENA_NEW(&c->arena, index->n_entries, &c->tensors));
    for (size_t i = 0; i < index->n_entries; i++) {
        const di_shard_index_entry *e = &index->entries[i];
        const di_safetensors *file = of_file[e->shard];
        const di_tensor *tensor = file ? di_safetensors_find(file, e->tensor) : NULL;
        c->tensors[c->n_tensors++] = (di_checkpoint_tensor){e->tensor, tensor};
        n_found += tensor != NULL;
        c->payload_bytes += tensor ? tensor->bytes : 0;
        if (file && !tensor)
            DI_TRY(di_problems_add(problems, DI_ERR_INPUT,
                                   "%s: found no tensor %s, which the index places in this file",
                                   file->path, e->tensor));
    }
    c->n_strays = in_files - n_found;
    if (index->has_total_size && n_found == index->n_entries &&
        c->payload_bytes != index->total_size)
        DI_TRY(di_problems_add(problems, DI_ERR_INPUT,
                               "%s/model.safetensors.index.json: metadata.total_size: found %llu, "
                               "wanted %llu, the bytes of its tensors",
                               c->dir, (unsigned long long)index->total_size,
                               (unsigned long long)c->payload_bytes));
    return DI_OK;
}

static di_status open_indexed(di_checkpoint *c, const di_shard_index *index, di_problems *problems)
{
    const di_safetensors **of_file = calloc((size_t)index->n_files, sizeof *of_file);
    if (!of_file)
        return di_fail_memory((size_t)index->n_files * sizeof *of_file, "the list of shards");
    di_status status = open_shards(c, index->files, (size_t)index->n_files, problems, of_file);
    if (status == DI_OK)
        status = take_indexed(c, index, problems, of_file);
    free(of_file);
    return status;
}

static di_status open_single(di_checkpoint *c, di_problems *problems)
{
    static const char *const files[] = {"model.safetensors"};
    const di_safetensors *file = NULL;
    DI_TRY(open_shards(c, files, 1, problems, &file));
    if (!file)
        return DI_OK;
    DI_TRY(DI_ARENA_NEW(&c->arena, file->n_entries, &c->tensors));
    for (size_t i = 0; i < file->n_entries; i++)
        c->tensors[i] = (di_checkpoint_tensor){file->entries[i].name, &file->entries[i].tensor};
    c->n_tensors = file->n_entries;
    c->payload_bytes = file->payload_bytes;
    return DI_OK;
}

static di_status open_any(di_checkpoint *c, di_problems *problems)
{
    DI_BUF_AUTO path = {0};
    di_status status;
    c->has_index = has_name(c->dir, "model.safetensors.index.json", &status);
    DI_TRY(status);
    const bool has_single = has_name(c->dir, "model.safetensors", &status);
    DI_TRY(status);
    if (!c->has_index && !has_single)
        return di_problems_add(problems, DI_ERR_IO,
                               "%s: found neither model.safetensors.index.json nor "
                               "model.safetensors",
                               c->dir);
    if (!c->has_index)
        return open_single(c, problems);
    di_shard_index index;
    DI_TRY(join(c->dir, "model.safetensors.index.json", &path));
    status = di_shard_index_load(path.data, &index);
    if (status != DI_OK)
        return di_problems_add_error(problems, status);
    c->index_arena = index.arena; /* the tensors' names point into it */
    return open_indexed(c, &index, problems);
}

di_status di_checkpoint_open(const char *dir, di_problems *problems, di_checkpoint *out)
{
    di_checkpoint c = {0};
    char *copy;
    di_status status = di_arena_strdup(&c.arena, dir, &copy);
    if (status == DI_OK) {
        c.dir = copy;
        status = open_any(&c, problems);
    }
    if (status == DI_OK)
        *out = c;
    else
        di_checkpoint_close(&c);
    return status;
}

void di_checkpoint_close(di_checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->n_shards; i++)
        di_safetensors_close(&checkpoint->shards[i]);
    di_arena_free(&checkpoint->index_arena);
    di_arena_free(&checkpoint->arena);
    *checkpoint = (di_checkpoint){0};
}
