#include "hub_list.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LISTING_BYTES = 64 << 20 };

/* Sizes are added up: this keeps the sum of very many files far from overflow. */
static const int64_t max_file_bytes = INT64_C(1) << 44;

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const di_hub_file *)a)->name, ((const di_hub_file *)b)->name);
}

/* Sets size and etag from the keys of a large file ("lfs") or a small one, where they are given. */
static di_status take_content(const json_t *sibling, const char *listing, di_hub_file *file,
                              di_hub_error *error)
{
    const json_t *lfs = json_object_get(sibling, "lfs");
    const bool is_large = json_is_object(lfs);
    const json_t *size = json_object_get(is_large ? lfs : sibling, "size");
    const char *etag = json_string_value(is_large ? json_object_get(lfs, "sha256")
                                                  : json_object_get(sibling, "blobId"));
    file->size = -1;
    if (json_is_integer(size)) {
        file->size = json_integer_value(size);
        if (file->size < 0 || file->size > max_file_bytes)
            return di_hub_fail(error, DI_ERR_INPUT, "%s: %s: found a size of %lld bytes", listing,
                               file->name, (long long)file->size);
    }
    if (!etag)
        return DI_OK;
    const size_t wanted_len = is_large ? 64 : 40;
    if (strlen(etag) != wanted_len || strspn(etag, "0123456789abcdef") != wanted_len)
        return di_hub_fail(error, DI_ERR_INPUT,
                           "%s: %s: found checksum \"%.80s\", wanted %zu hex "
                           "digits",
                           listing, file->name, etag, wanted_len);
    return di_hub_format(error, file->etag, sizeof file->etag, "%s", etag);
}

static di_status take_siblings(const json_t *siblings, const char *name, di_hub_listing *out,
                               di_hub_error *error)
{
    size_t i;
    json_t *sibling;
    json_array_foreach(siblings, i, sibling)
    {
        const char *file_name = json_string_value(json_object_get(sibling, "rfilename"));
        if (!file_name)
            return di_hub_fail(error, DI_ERR_INPUT, "%s: siblings[%zu]: found no \"rfilename\"",
                               name, i);
        if (!di_hub_is_file_name(file_name))
            continue;
        di_hub_file *file = di_hub_files_add(&out->files);
        if (!file)
            return di_hub_fail(error, DI_ERR_MEMORY, "out of memory for the files of %s", name);
        DI_HUB_TRY(di_hub_format(error, file->name, sizeof file->name, "%s", file_name));
        DI_HUB_TRY(take_content(sibling, name, file, error));
    }
    if (out->files.n)
        qsort(out->files.items, out->files.n, sizeof *out->files.items, compare_names);
    return DI_OK;
}

static di_status take_listing(const json_t *root, const char *name, di_hub_listing *out,
                              di_hub_error *error)
{
    const char *commit = json_string_value(json_object_get(root, "sha"));
    if (!commit || !di_hub_is_commit(commit))
        return di_hub_fail(error, DI_ERR_INPUT, "%s: found no commit in \"sha\"", name);
    const json_t *siblings = json_object_get(root, "siblings");
    if (!json_is_array(siblings))
        return di_hub_fail(error, DI_ERR_INPUT, "%s: found no list of files in \"siblings\"", name);
    DI_HUB_TRY(di_hub_format(error, out->commit, sizeof out->commit, "%s", commit));
    return take_siblings(siblings, name, out, error);
}

di_status di_hub_listing_parse(const char *text, size_t len, const char *name, di_hub_listing *out,
                               di_hub_error *error)
{
    json_error_t where;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return di_hub_fail(error, DI_ERR_INPUT, "%s: line %d: %s", name, where.line, where.text);
    di_hub_listing listing = {0};
    const di_status status = take_listing(root, name, &listing, error);
    json_decref(root);
    if (status != DI_OK) {
        di_hub_listing_free(&listing);
        return status;
    }
    *out = listing;
    return DI_OK;
}

void di_hub_listing_free(di_hub_listing *listing)
{
    di_hub_files_free(&listing->files);
}

const di_hub_file *di_hub_listing_find(const di_hub_listing *listing, const char *name)
{
    size_t low = 0, high = listing->files.n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(listing->files.items[middle].name, name);
        if (order == 0)
            return &listing->files.items[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

di_status di_hub_list(const di_hub_options *options, const char *repo_id, di_hub_http *http,
                      di_hub_listing *out)
{
    char url[2 * DI_HUB_URL_BYTES], name[DI_HUB_ID_BYTES + 32];
    DI_HUB_TRY(di_hub_format(http->error, url, sizeof url,
                             "%s/api/models/%s/revision/main?blobs=true", options->endpoint,
                             repo_id));
    DI_HUB_TRY(di_hub_format(http->error, name, sizeof name, "list of files of %s", repo_id));
    char *text = NULL;
    size_t len = 0;
    http->label = repo_id;
    di_status status = di_hub_http_text(http, url, MAX_LISTING_BYTES, &text, &len);
    if (status == DI_OK)
        status = di_hub_listing_parse(text, len, name, out, http->error);
    free(text);
    http->label = "";
    return status;
}
