#include "weights/shard_index.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strmap.h"
#include "weights/json_scan.h"
#include "weights/name_pool.h"

enum { MAX_INDEX_BYTES = 100000000 };

typedef struct index_reader {
    di_shard_index *index;
    di_json_scan scan;
    di_shard_index_entry *entries;
    size_t n, cap;
    di_strmap shards; /* file name -> number */
    const char **files;
    size_t files_cap;
    di_name_pool names;
    char context[160]; /* of scan */
} index_reader;

/* The last string scanned, kept in the arena. */
static di_status keep_string(index_reader *r, const char **out)
{
    return di_name_pool_keep(&r->names, di_buf_str(&r->scan.string), r->scan.string.len, out);
}

static bool is_plain_file_name(const char *name)
{
    return *name && strlen(name) <= NAME_MAX && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           !strchr(name, '/') && !strchr(name, '\\');
}

static di_status read_file_name(index_reader *r, const char *tensor, int32_t *shard)
{
    DI_TRY(di_json_scan_string(&r->scan));
    const char *file = di_buf_str(&r->scan.string);
    if (!is_plain_file_name(file))
        return di_fail(DI_ERR_INPUT,
                       "%s: weight_map: found \"%.128s\" for tensor %s, wanted a plain file name",
                       r->scan.name, file, tensor);
    int64_t number;
    if (di_strmap_get(&r->shards, file, r->scan.string.len, &number)) {
        *shard = (int32_t)number;
        return DI_OK;
    }
    if (r->shards.n == DI_MAX_SHARDS)
        return di_fail(DI_ERR_INPUT, "%s: weight_map: found more than %d files", r->scan.name,
                       DI_MAX_SHARDS);
    *shard = (int32_t)r->shards.n;
    DI_TRY(DI_GROW(&r->files, &r->files_cap, r->shards.n + 1));
    DI_TRY(keep_string(r, &r->files[*shard]));
    return di_strmap_put(&r->shards, file, r->scan.string.len, *shard, NULL);
}

static di_status read_weight_map(index_reader *r)
{
    bool has_key;
    DI_TRY(di_json_scan_expect(&r->scan, '{'));
    for (bool is_first = true;; is_first = false) {
        DI_TRY(di_json_scan_key(&r->scan, is_first, &has_key));
        if (!has_key)
            return DI_OK;
        DI_TRY(DI_GROW(&r->entries, &r->cap, r->n + 1));
        di_shard_index_entry *e = &r->entries[r->n];
        DI_TRY(keep_string(r, &e->tensor));
        snprintf(r->context, sizeof r->context, "weight_map: tensor %s", e->tensor);
        r->scan.context = r->context;
        DI_TRY(read_file_name(r, e->tensor, &e->shard));
        r->scan.context = NULL;
        r->n++;
    }
}

/* total_size is checked against the files; anything else in there is a remark. */
static di_status read_metadata(index_reader *r)
{
    bool has_key;
    DI_TRY(di_json_scan_expect(&r->scan, '{'));
    for (bool is_first = true;; is_first = false) {
        DI_TRY(di_json_scan_key(&r->scan, is_first, &has_key));
        if (!has_key)
            return DI_OK;
        if (strcmp(di_buf_str(&r->scan.string), "total_size") != 0) {
            DI_TRY(di_json_scan_skip(&r->scan));
            continue;
        }
        if (r->index->has_total_size)
            return di_fail(DI_ERR_INPUT, "%s: metadata: found total_size twice", r->scan.name);
        r->scan.context = "metadata.total_size";
        DI_TRY(di_json_scan_count(&r->scan, &r->index->total_size));
        r->scan.context = NULL;
        r->index->has_total_size = true;
    }
}

static di_status read_index(index_reader *r)
{
    bool has_key, has_map = false, has_metadata = false;
    DI_TRY(di_json_scan_expect(&r->scan, '{'));
    for (bool is_first = true;; is_first = false) {
        DI_TRY(di_json_scan_key(&r->scan, is_first, &has_key));
        if (!has_key)
            break;
        const char *key = di_buf_str(&r->scan.string);
        const bool is_map = strcmp(key, "weight_map") == 0;
        const bool is_metadata = strcmp(key, "metadata") == 0;
        if ((is_map && has_map) || (is_metadata && has_metadata))
            return di_fail(DI_ERR_INPUT, "%s: found %s twice", r->scan.name, key);
        has_map |= is_map;
        has_metadata |= is_metadata;
        DI_TRY(is_map        ? read_weight_map(r)
               : is_metadata ? read_metadata(r)
                             : di_json_scan_skip(&r->scan));
    }
    DI_TRY(di_json_scan_end(&r->scan));
    if (r->n == 0)
        return di_fail(DI_ERR_INPUT, "%s: found no weight_map with tensors", r->scan.name);
    return DI_OK;
}

static int compare_entries(const void *a, const void *b)
{
    const di_shard_index_entry *x = a, *y = b;
    return strcmp(x->tensor, y->tensor);
}

/* From the reader's growing arrays into the index. */
static di_status finish_index(index_reader *r)
{
    di_shard_index *index = r->index;
    qsort(r->entries, r->n, sizeof *r->entries, compare_entries);
    for (size_t i = 1; i < r->n; i++)
        if (strcmp(r->entries[i - 1].tensor, r->entries[i].tensor) == 0)
            return di_fail(DI_ERR_INPUT, "%s: weight_map: found tensor %s twice", r->scan.name,
                           r->entries[i].tensor);
    DI_TRY(DI_ARENA_NEW(&index->arena, r->n, &index->entries));
    memcpy(index->entries, r->entries, r->n * sizeof *r->entries);
    index->n_entries = r->n;
    DI_TRY(DI_ARENA_NEW(&index->arena, r->shards.n, &index->files));
    memcpy(index->files, r->files, r->shards.n * sizeof *r->files);
    index->n_files = (int32_t)r->shards.n;
    return DI_OK;
}

di_status di_shard_index_parse(const char *text, size_t len, const char *name, di_shard_index *out)
{
    di_shard_index index = {0};
    index_reader r = {
        .index = &index,
        .names = {.arena = &index.arena},
        .scan = {.text = text, .at = text, .end = text + len, .name = name},
    };
    di_status status = read_index(&r);
    if (status == DI_OK)
        status = finish_index(&r);
    if (status == DI_OK)
        *out = index;
    else
        di_shard_index_free(&index);
    free(r.entries);
    free(r.files);
    di_strmap_free(&r.shards);
    di_json_scan_free(&r.scan);
    return status;
}

di_status di_shard_index_load(const char *path, di_shard_index *out)
{
    DI_BUF_AUTO text = {0};
    DI_TRY(di_file_read(path, MAX_INDEX_BYTES, &text));
    return di_shard_index_parse(di_buf_str(&text), text.len, path, out);
}

const di_shard_index_entry *di_shard_index_find(const di_shard_index *index, const char *tensor)
{
    const di_shard_index_entry key = {.tensor = tensor};
    if (!index->n_entries)
        return NULL;
    return bsearch(&key, index->entries, index->n_entries, sizeof key, compare_entries);
}

void di_shard_index_free(di_shard_index *index)
{
    di_arena_free(&index->arena);
    *index = (di_shard_index){0};
}
