#include "hub_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char hex_digits[] = "0123456789abcdef";
static const char name_bytes[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";

enum { MAX_INDEX_BYTES = 1 << 30 };

di_hub_file *di_hub_files_add(di_hub_files *files)
{
    if (files->n == files->cap) {
        const size_t cap = files->cap ? 2 * files->cap : 16;
        di_hub_file *items = realloc(files->items, cap * sizeof *items);
        if (!items)
            return NULL;
        files->items = items;
        files->cap = cap;
    }
    di_hub_file *item = &files->items[files->n++];
    *item = (di_hub_file){0};
    return item;
}

void di_hub_files_free(di_hub_files *files)
{
    free(files->items);
    *files = (di_hub_files){0};
}

/* ------------------------------------------------------------------------------------- names */

static bool is_plain(const char *text, size_t len)
{
    return len > 0 && text[0] != '.' && text[0] != '-' && strspn(text, name_bytes) >= len;
}

bool di_hub_is_repo_id(const char *text)
{
    const char *slash = strchr(text, '/');
    return slash && strlen(text) < DI_HUB_ID_BYTES && is_plain(text, (size_t)(slash - text)) &&
           is_plain(slash + 1, strlen(slash + 1)) && !strstr(text, "..") && !strstr(text, "--");
}

bool di_hub_is_file_name(const char *text)
{
    return is_plain(text, strlen(text)) && strlen(text) < DI_HUB_NAME_BYTES;
}

bool di_hub_is_etag(const char *text)
{
    return is_plain(text, strlen(text)) && strlen(text) < DI_HUB_ETAG_BYTES;
}

bool di_hub_is_commit(const char *text)
{
    const size_t len = strlen(text);
    return len >= 7 && len < DI_HUB_COMMIT_BYTES && strspn(text, hex_digits) == len;
}

di_status di_hub_repo_init(const di_hub_options *options, const char *id, di_hub_repo *out,
                           di_hub_error *error)
{
    if (!options->cache_dir[0])
        return di_hub_fail(error, DI_ERR_ARGUMENT,
                           "%s: no folder to keep models in; set HF_HUB_CACHE, HF_HOME or HOME",
                           id);
    char folder[DI_HUB_ID_BYTES + 16];
    const char *slash = strchr(id, '/');
    DI_HUB_TRY(di_hub_format(error, folder, sizeof folder, "models--%.*s--%s", (int)(slash - id),
                             id, slash + 1));
    DI_HUB_TRY(di_hub_format(error, out->id, sizeof out->id, "%s", id));
    DI_HUB_TRY(
        di_hub_format(error, out->dir, sizeof out->dir, "%s/%s", options->cache_dir, folder));
    return di_hub_format(error, out->locks, sizeof out->locks, "%s/.locks/%s", options->cache_dir,
                         folder);
}

static di_status make_dirs(const char *path, di_hub_error *error)
{
    char part[DI_HUB_PATH_BYTES];
    DI_HUB_TRY(di_hub_format(error, part, sizeof part, "%s", path));
    for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = 0;
        if (mkdir(part, 0777) && errno != EEXIST)
            return di_hub_fail_errno(error, "cannot create", part);
        if (!slash)
            return DI_OK;
        *slash = '/';
    }
}

di_status di_hub_repo_create(const di_hub_repo *repo, const char *commit, di_hub_error *error)
{
    char path[DI_HUB_PATH_BYTES];
    DI_HUB_TRY(di_hub_format(error, path, sizeof path, "%s/blobs", repo->dir));
    DI_HUB_TRY(make_dirs(path, error));
    DI_HUB_TRY(di_hub_format(error, path, sizeof path, "%s/refs", repo->dir));
    DI_HUB_TRY(make_dirs(path, error));
    DI_HUB_TRY(di_hub_format(error, path, sizeof path, "%s/snapshots/%s", repo->dir, commit));
    DI_HUB_TRY(make_dirs(path, error));
    return make_dirs(repo->locks, error);
}

/* -------------------------------------------------------------------------------- completeness */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const di_hub_file *)a)->name, ((const di_hub_file *)b)->name);
}

static di_status add_shard_names(const char *path, const json_t *weight_map, di_hub_files *out,
                                 di_hub_error *error)
{
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)weight_map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (!name || !di_hub_is_file_name(name))
            return di_hub_fail(error, DI_ERR_INPUT,
                               "%s: weight_map of %.200s: found %s%.200s, wanted a plain file name",
                               path, tensor, name ? "" : "no string", name ? name : "");
        if (out->n && !strcmp(out->items[out->n - 1].name, name))
            continue;
        di_hub_file *file = di_hub_files_add(out);
        if (!file)
            return di_hub_fail(error, DI_ERR_MEMORY, "out of memory for the names in %s", path);
        DI_HUB_TRY(di_hub_format(error, file->name, sizeof file->name, "%s", name));
    }
    if (out->n)
        qsort(out->items, out->n, sizeof *out->items, compare_names);
    size_t n = 0;
    for (size_t i = 0; i < out->n; i++)
        if (n == 0 || strcmp(out->items[n - 1].name, out->items[i].name))
            out->items[n++] = out->items[i];
    out->n = n;
    return DI_OK;
}

di_status di_hub_index_read(const char *path, di_hub_files *out, di_hub_error *error)
{
    struct stat info;
    if (stat(path, &info))
        return di_hub_fail_errno(error, "cannot read", path);
    if (info.st_size > MAX_INDEX_BYTES)
        return di_hub_fail(error, DI_ERR_INPUT, "%s: found %lld bytes, wanted at most %d", path,
                           (long long)info.st_size, MAX_INDEX_BYTES);
    json_error_t where;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return di_hub_fail(error, DI_ERR_INPUT, "%s: line %d: %s", path, where.line, where.text);
    const json_t *weight_map = json_object_get(root, "weight_map");
    di_status status;
    if (json_is_object(weight_map) && json_object_size(weight_map) > 0)
        status = add_shard_names(path, weight_map, out, error);
    else
        status =
            di_hub_fail(error, DI_ERR_INPUT, "%s: found no tensors, wanted \"weight_map\"", path);
    json_decref(root);
    return status;
}

static di_status read_ref(const di_hub_repo *repo, char *commit, di_hub_error *error)
{
    char path[DI_HUB_PATH_BYTES];
    DI_HUB_TRY(di_hub_format(error, path, sizeof path, "%s/refs/main", repo->dir));
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return di_hub_fail_errno(error, "cannot read", path);
    const ssize_t n = read(fd, commit, DI_HUB_COMMIT_BYTES - 1);
    close(fd);
    commit[n < 0 ? 0 : n] = 0;
    commit[strcspn(commit, "\r\n")] = 0;
    if (!di_hub_is_commit(commit))
        return di_hub_fail(error, DI_ERR_IO, "%s: found no commit", path);
    return DI_OK;
}

/* The file itself, behind the link. */
static di_status require_file(const char *dir, const char *name, di_hub_error *error)
{
    char path[DI_HUB_PATH_BYTES];
    DI_HUB_TRY(di_hub_format(error, path, sizeof path, "%s/%s", dir, name));
    struct stat info;
    if (stat(path, &info))
        return di_hub_fail_errno(error, "missing", path);
    if (!S_ISREG(info.st_mode))
        return di_hub_fail(error, DI_ERR_IO, "%s: found no regular file", path);
    return DI_OK;
}

static di_status require_weights(const char *dir, di_hub_error *error)
{
    char path[DI_HUB_PATH_BYTES];
    DI_HUB_TRY(di_hub_format(error, path, sizeof path, "%s/model.safetensors.index.json", dir));
    if (access(path, F_OK))
        return require_file(dir, "model.safetensors", error);
    di_hub_files shards = {0};
    di_status status = di_hub_index_read(path, &shards, error);
    for (size_t i = 0; status == DI_OK && i < shards.n; i++)
        status = require_file(dir, shards.items[i].name, error);
    di_hub_files_free(&shards);
    return status;
}

di_status di_hub_snapshot_find(const di_hub_repo *repo, char *dir, di_hub_error *error)
{
    char commit[DI_HUB_COMMIT_BYTES];
    DI_HUB_TRY(read_ref(repo, commit, error));
    DI_HUB_TRY(di_hub_format(error, dir, DI_HUB_PATH_BYTES, "%s/snapshots/%s", repo->dir, commit));
    DI_HUB_TRY(require_file(dir, "config.json", error));
    DI_HUB_TRY(require_file(dir, "tokenizer.json", error));
    return require_weights(dir, error);
}

/* --------------------------------------------------------------------------------------- blobs */

di_status di_hub_blob_path(const di_hub_repo *repo, const di_hub_file *file, const char *suffix,
                           char *out, di_hub_error *error)
{
    return di_hub_format(error, out, DI_HUB_PATH_BYTES, "%s/blobs/%s%s", repo->dir, file->etag,
                         suffix);
}

di_status di_hub_blob_is_whole(const di_hub_repo *repo, const di_hub_file *file, bool *is_whole,
                               di_hub_error *error)
{
    char path[DI_HUB_PATH_BYTES];
    struct stat info;
    DI_HUB_TRY(di_hub_blob_path(repo, file, "", path, error));
    *is_whole = stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == file->size;
    return DI_OK;
}

di_status di_hub_blob_present(const di_hub_repo *repo, const di_hub_file *file, int64_t *bytes,
                              di_hub_error *error)
{
    bool is_whole;
    DI_HUB_TRY(di_hub_blob_is_whole(repo, file, &is_whole, error));
    *bytes = is_whole ? file->size : 0;
    if (is_whole)
        return DI_OK;
    char path[DI_HUB_PATH_BYTES];
    struct stat info;
    DI_HUB_TRY(di_hub_blob_path(repo, file, ".incomplete", path, error));
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size <= file->size)
        *bytes = info.st_size;
    return DI_OK;
}

di_status di_hub_blob_try_lock(const di_hub_repo *repo, const di_hub_file *file, int *fd,
                               di_hub_error *error)
{
    char path[DI_HUB_PATH_BYTES];
    DI_HUB_TRY(di_hub_format(error, path, sizeof path, "%s/%s.lock", repo->locks, file->etag));
    const int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0)
        return di_hub_fail_errno(error, "cannot create", path);
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
        *fd = lock;
        return DI_OK;
    }
    const bool is_taken = errno == EWOULDBLOCK || errno == EINTR;
    const di_status status = is_taken ? DI_OK : di_hub_fail_errno(error, "cannot lock", path);
    close(lock);
    *fd = -1;
    return status;
}

/* ------------------------------------------------------------------------------------- snapshot */

/* A name of this thread's own. */
static di_status temporary_path(const char *folder, char *out, di_hub_error *error)
{
    return di_hub_format(error, out, DI_HUB_PATH_BYTES, "%s/.new.%ld.%lx", folder, (long)getpid(),
                         (unsigned long)pthread_self());
}

/* Moves what was made under a temporary name to its place. */
static di_status put_in_place(const char *temporary, const char *path, di_hub_error *error)
{
    if (rename(temporary, path) == 0)
        return DI_OK;
    const di_status status = di_hub_fail_errno(error, "cannot create", path);
    unlink(temporary);
    return status;
}

di_status di_hub_snapshot_link(const di_hub_repo *repo, const char *commit, const di_hub_file *file,
                               di_hub_error *error)
{
    char folder[DI_HUB_PATH_BYTES], path[DI_HUB_PATH_BYTES], temporary[DI_HUB_PATH_BYTES];
    char target[DI_HUB_ETAG_BYTES + 16];
    DI_HUB_TRY(di_hub_format(error, target, sizeof target, "../../blobs/%s", file->etag));
    DI_HUB_TRY(di_hub_format(error, path, sizeof path, "%s/snapshots/%s/%s", repo->dir, commit,
                             file->name));
    DI_HUB_TRY(di_hub_format(error, folder, sizeof folder, "%s/snapshots/%s", repo->dir, commit));
    DI_HUB_TRY(temporary_path(folder, temporary, error));
    unlink(temporary);
    if (symlink(target, temporary))
        return di_hub_fail_errno(error, "cannot link", temporary);
    return put_in_place(temporary, path, error);
}

di_status di_hub_ref_write(const di_hub_repo *repo, const char *commit, di_hub_error *error)
{
    char folder[DI_HUB_PATH_BYTES], path[DI_HUB_PATH_BYTES], temporary[DI_HUB_PATH_BYTES];
    DI_HUB_TRY(di_hub_format(error, folder, sizeof folder, "%s/refs", repo->dir));
    DI_HUB_TRY(di_hub_format(error, path, sizeof path, "%s/main", folder));
    DI_HUB_TRY(temporary_path(folder, temporary, error));
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return di_hub_fail_errno(error, "cannot create", temporary);
    const size_t len = strlen(commit);
    const bool is_written = write(fd, commit, len) == (ssize_t)len && fsync(fd) == 0;
    if (close(fd) || !is_written) {
        const di_status status = di_hub_fail_errno(error, "cannot write", temporary);
        unlink(temporary);
        return status;
    }
    return put_in_place(temporary, path, error);
}

di_status di_hub_free_bytes(const di_hub_options *options, const char *dir, int64_t *out,
                            di_hub_error *error)
{
    struct statvfs info;
    if (options->free_bytes >= 0) {
        *out = options->free_bytes;
        return DI_OK;
    }
    if (statvfs(dir, &info))
        return di_hub_fail_errno(error, "cannot ask for the free space of", dir);
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)info.f_bavail, (uint64_t)info.f_frsize, &bytes) ||
        bytes > INT64_MAX)
        bytes = INT64_MAX;
    *out = (int64_t)bytes;
    return DI_OK;
}
