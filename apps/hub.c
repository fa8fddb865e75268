#include "hub.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hub_list.h"
#include "hub_transfer.h"

static const char index_name[] = "model.safetensors.index.json";
static const char single_name[] = "model.safetensors";

static const struct {
    const char *alias, *repo_id;
} aliases[] = {
    {"v4.1-flash", "deepseek-ai/DeepSeek-V4.1-Flash-1017"},
};

const char *di_hub_alias(const char *spec)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (!strcmp(aliases[i].alias, spec))
            return aliases[i].repo_id;
    return NULL;
}

/* A download of one repository. */
typedef struct download {
    di_hub_source source;
    di_hub_http http;      /* for the listing and for what it leaves out */
    di_hub_progress notes; /* of its retries */
    di_hub_listing listing;
    di_hub_files small;  /* config, tokenizer and index; the index last */
    di_hub_files shards; /* weights */
    bool is_sharded;
    di_hub_error *error;
} download;

/* Asks for the size or etag of one file where the listing does not have them. */
static di_status complete_file(download *d, di_hub_file *file)
{
    if (file->size >= 0 && file->etag[0])
        return DI_OK;
    char url[2 * DI_HUB_URL_BYTES + DI_HUB_NAME_BYTES];
    DI_HUB_TRY(di_hub_file_url(&d->source, file->name, url, sizeof url, d->error));
    d->http.label = file->name;
    DI_HUB_TRY(di_hub_http_head(&d->http, url));
    const di_hub_headers *headers = &d->http.headers;
    const char *etag = di_hub_headers_etag(headers);
    const int64_t size = headers->linked_bytes >= 0  ? headers->linked_bytes
                         : headers->http_code == 200 ? headers->content_bytes
                                                     : -1;
    if (size < 0 || !etag[0])
        return di_hub_fail(d->error, DI_ERR_INPUT, "%s/%s: the hub states no %s",
                           d->source.repo->id, file->name, size < 0 ? "size" : "etag");
    if (file->size >= 0 && file->size != size)
        return di_hub_fail(d->error, DI_ERR_INPUT, "%s/%s: found %lld bytes, wanted %lld",
                           d->source.repo->id, file->name, (long long)size, (long long)file->size);
    file->size = size;
    return di_hub_format(d->error, file->etag, sizeof file->etag, "%s", etag);
}

static di_status add_file(download *d, const char *name, bool is_required, di_hub_files *out)
{
    const di_hub_file *listed = di_hub_listing_find(&d->listing, name);
    if (!listed && is_required)
        return di_hub_fail(d->error, DI_ERR_INPUT, "%s has no %s", d->source.repo->id, name);
    if (!listed)
        return DI_OK;
    di_hub_file *file = di_hub_files_add(out);
    if (!file)
        return di_hub_fail(d->error, DI_ERR_MEMORY, "out of memory for the files of %s",
                           d->source.repo->id);
    *file = *listed;
    return complete_file(d, file);
}

static di_status choose_small_files(download *d)
{
    DI_HUB_TRY(add_file(d, "config.json", true, &d->small));
    DI_HUB_TRY(add_file(d, "generation_config.json", false, &d->small));
    DI_HUB_TRY(add_file(d, "tokenizer.json", true, &d->small));
    d->is_sharded = di_hub_listing_find(&d->listing, index_name) != NULL;
    return d->is_sharded ? add_file(d, index_name, true, &d->small) : DI_OK;
}

/* After the index has been fetched. */
static di_status choose_shards(download *d)
{
    if (!d->is_sharded)
        return add_file(d, single_name, true, &d->shards);
    char path[DI_HUB_PATH_BYTES];
    const di_hub_file *index = &d->small.items[d->small.n - 1];
    DI_HUB_TRY(di_hub_blob_path(d->source.repo, index, "", path, d->error));
    di_hub_files names = {0};
    di_status status = di_hub_index_read(path, &names, d->error);
    for (size_t i = 0; status == DI_OK && i < names.n; i++)
        status = add_file(d, names.items[i].name, true, &d->shards);
    di_hub_files_free(&names);
    return status;
}

/* Tells what is to come, and refuses what does not fit on the disk. */
static di_status check_disk(download *d, const di_hub_files *files, bool is_shown)
{
    const di_hub_options *options = d->source.options;
    int64_t total = 0, present = 0, free_bytes;
    for (size_t i = 0; i < files->n; i++) {
        int64_t bytes;
        DI_HUB_TRY(di_hub_blob_present(d->source.repo, &files->items[i], &bytes, d->error));
        if (__builtin_add_overflow(total, files->items[i].size, &total))
            return di_hub_fail(d->error, DI_ERR_INPUT, "%s: found more than 2^63 bytes",
                               d->source.repo->id);
        present += bytes;
    }
    DI_HUB_TRY(di_hub_free_bytes(options, d->source.repo->dir, &free_bytes, d->error));
    const int64_t needed = total - present;
    if (options->progress && is_shown) {
        fprintf(options->progress,
                "%s (%.12s): %zu weight files, %s; to download: %s; free in %s: %s\n",
                d->source.repo->id, d->source.commit, files->n, di_hub_amount_of(total).text,
                di_hub_amount_of(needed).text, options->cache_dir,
                di_hub_amount_of(free_bytes).text);
        fflush(options->progress);
    }
    if (needed > free_bytes)
        return di_hub_fail(
            d->error, DI_ERR_IO, "%s: found %s (%lld bytes) free in %s, wanted %s (%lld bytes)",
            d->source.repo->id, di_hub_amount_of(free_bytes).text, (long long)free_bytes,
            options->cache_dir, di_hub_amount_of(needed).text, (long long)needed);
    return DI_OK;
}

static di_status fetch(download *d, const di_hub_files *files, bool is_shown)
{
    DI_HUB_TRY(check_disk(d, files, is_shown));
    return di_hub_transfer(&d->source, files, is_shown, d->error);
}

/* Once all blobs are in place. config.json comes last, then the reference: whatever happens on the
 * way, a snapshot with a config.json and a reference to it has all its files. */
static di_status publish(download *d)
{
    const char *commit = d->source.commit;
    for (size_t i = 0; i < d->shards.n; i++)
        DI_HUB_TRY(di_hub_snapshot_link(d->source.repo, commit, &d->shards.items[i], d->error));
    for (size_t i = d->small.n; i-- > 0;)
        DI_HUB_TRY(di_hub_snapshot_link(d->source.repo, commit, &d->small.items[i], d->error));
    return di_hub_ref_write(d->source.repo, commit, d->error);
}

static di_status run_download(download *d)
{
    DI_HUB_TRY(di_hub_http_open(d->source.options, d->error, &d->http));
    d->http.progress = &d->notes;
    DI_HUB_TRY(di_hub_list(d->source.options, d->source.repo->id, &d->http, &d->listing));
    d->source.commit = d->listing.commit;
    DI_HUB_TRY(di_hub_repo_create(d->source.repo, d->source.commit, d->error));
    DI_HUB_TRY(choose_small_files(d));
    DI_HUB_TRY(fetch(d, &d->small, false));
    DI_HUB_TRY(choose_shards(d));
    DI_HUB_TRY(fetch(d, &d->shards, true));
    return publish(d);
}

static di_status download_repo(const di_hub_options *options, const di_hub_repo *repo,
                               di_hub_error *error)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT))
        return di_hub_fail(error, DI_ERR_RUNTIME, "libcurl cannot be initialised");
    download d = {.source = {.options = options, .repo = repo}, .error = error};
    di_hub_progress_begin(&d.notes, options, 0, false);
    const di_status status = run_download(&d);
    di_hub_progress_end(&d.notes);
    if (d.http.curl)
        di_hub_http_close(&d.http);
    di_hub_listing_free(&d.listing);
    di_hub_files_free(&d.small);
    di_hub_files_free(&d.shards);
    curl_global_cleanup();
    if (status == DI_ERR_CANCELLED)
        return di_hub_fail(error, status,
                           "download of %s interrupted; what has come is kept in %s and the next "
                           "run goes on from there",
                           repo->id, options->cache_dir);
    return status;
}

static di_status resolve_repo(const char *id, const di_hub_options *options, char **dir,
                              di_hub_error *error)
{
    di_hub_repo repo;
    char path[DI_HUB_PATH_BYTES];
    di_hub_error missing;
    DI_HUB_TRY(di_hub_repo_init(options, id, &repo, error));
    if (di_hub_snapshot_find(&repo, path, &missing) != DI_OK) {
        if (options->is_offline)
            return di_hub_fail(error, DI_ERR_IO,
                               "%s is not whole in the cache and HF_HUB_OFFLINE "
                               "forbids to download it: %s",
                               id, missing.text);
        DI_HUB_TRY(download_repo(options, &repo, error));
        DI_HUB_TRY(di_hub_snapshot_find(&repo, path, error));
    }
    *dir = strdup(path);
    return *dir ? DI_OK : di_hub_fail(error, DI_ERR_MEMORY, "out of memory for a path");
}

di_status di_hub_resolve(const char *spec, const di_hub_options *options, char **dir,
                         di_hub_error *error)
{
    struct stat info;
    const bool exists = stat(spec, &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) {
        *dir = strdup(spec);
        return *dir ? DI_OK : di_hub_fail(error, DI_ERR_MEMORY, "out of memory for a path");
    }
    if (exists)
        return di_hub_fail(error, DI_ERR_INPUT, "%s: found a file, wanted a checkpoint directory",
                           spec);
    const char *id = di_hub_alias(spec);
    if (!id && !di_hub_is_repo_id(spec))
        return di_hub_fail(error, DI_ERR_IO,
                           "model \"%.200s\": no such directory, and neither org/name of a "
                           "repository nor a known alias (%s)",
                           spec, aliases[0].alias);
    return resolve_repo(id ? id : spec, options, dir, error);
}
