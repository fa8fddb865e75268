#include "hub_blob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "hub_digest.h"

enum {
    READ_BYTES = 1 << 20,
    PROGRESS_BYTES = 1 << 20, /* a connection that gave so much before it broke has not failed */
    HTTP_RANGE_REFUSED = 416
};

typedef struct blob {
    const di_hub_source *source;
    const di_hub_file *file;
    di_hub_http *http;
    char path[DI_HUB_PATH_BYTES]; /* of the .incomplete */
    int fd;
    int64_t len; /* bytes of it that are written and in the digest */
    di_hub_digest digest;
} blob;

static void count(blob *b, int64_t bytes)
{
    b->len += bytes;
    atomic_fetch_add(&b->http->progress->done_bytes, bytes);
}

static di_status start_over(blob *b, di_hub_error *error)
{
    count(b, -b->len);
    if (ftruncate(b->fd, 0))
        return di_hub_fail_errno(error, "cannot empty", b->path);
    return di_hub_digest_begin(&b->digest, b->file, error);
}

/* Takes what an earlier attempt has left into the digest. */
static di_status take_earlier_part(blob *b)
{
    di_hub_error *error = b->http->error;
    const off_t size = lseek(b->fd, 0, SEEK_END);
    if (size < 0)
        return di_hub_fail_errno(error, "cannot read", b->path);
    DI_HUB_TRY(di_hub_digest_begin(&b->digest, b->file, error));
    if (size > b->file->size)
        return start_over(b, error);
    char *bytes = malloc(READ_BYTES);
    if (!bytes)
        return di_hub_fail(error, DI_ERR_MEMORY, "out of memory: %d bytes", READ_BYTES);
    di_status status = DI_OK;
    while (status == DI_OK && b->len < size) {
        const ssize_t n = pread(b->fd, bytes, READ_BYTES, b->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            status = di_hub_fail_errno(error, "cannot read", b->path);
        else if (!di_hub_digest_add(&b->digest, bytes, (size_t)n))
            status = di_hub_fail(error, DI_ERR_RUNTIME, "%s: checksum failed", b->file->name);
        else
            count(b, n);
        if (status == DI_OK)
            status = di_hub_http_sleep(b->http, 0);
    }
    free(bytes);
    return status;
}

/* -------------------------------------------------------------------------------------- the body
 */

/* An etag of the server that is a digest of the same kind, but of other content. */
static bool is_other_digest(const char *found, const char *wanted)
{
    const size_t len = strlen(found);
    return len == strlen(wanted) && (len == 40 || len == 64) && strcasecmp(found, wanted);
}

static di_status check_headers(const blob *b, const di_hub_headers *headers, di_hub_error *error)
{
    const char *name = b->http->label, *etag = di_hub_headers_etag(headers);
    if (headers->linked_bytes >= 0 && headers->linked_bytes != b->file->size)
        return di_hub_fail(error, DI_ERR_INPUT, "%s: found a size of %lld bytes, wanted %lld", name,
                           (long long)headers->linked_bytes, (long long)b->file->size);
    if (is_other_digest(etag, b->file->etag))
        return di_hub_fail(error, DI_ERR_INPUT, "%s: found etag %s, wanted %s", name, etag,
                           b->file->etag);
    if (headers->commit[0] && strcmp(headers->commit, b->source->commit))
        return di_hub_fail(error, DI_ERR_INPUT, "%s: found commit %s, wanted %s", name,
                           headers->commit, b->source->commit);
    return DI_OK;
}

/* Decides from the headers where the body belongs: behind what we have, or, if the server takes no
 * ranges, at the beginning. */
static di_status on_begin(void *user, const di_hub_headers *headers, di_hub_error *error)
{
    blob *b = user;
    const char *name = b->http->label;
    DI_HUB_TRY(check_headers(b, headers, error));
    if (headers->http_code == 206) {
        const bool is_rest = headers->range_begin == b->len &&
                             (headers->range_total < 0 || headers->range_total == b->file->size);
        if (!is_rest)
            return di_hub_fail(error, DI_ERR_INPUT,
                               "%s: found bytes from %lld of %lld, wanted from %lld of %lld", name,
                               (long long)headers->range_begin, (long long)headers->range_total,
                               (long long)b->len, (long long)b->file->size);
        return DI_OK;
    }
    if (headers->content_bytes >= 0 && headers->content_bytes != b->file->size)
        return di_hub_fail(error, DI_ERR_INPUT, "%s: found %lld bytes, wanted %lld", name,
                           (long long)headers->content_bytes, (long long)b->file->size);
    return b->len > 0 ? start_over(b, error) : DI_OK;
}

static di_status on_bytes(void *user, const char *data, size_t len, di_hub_error *error)
{
    blob *b = user;
    if ((uint64_t)len > (uint64_t)(b->file->size - b->len))
        return di_hub_fail(error, DI_ERR_INPUT, "%s: found more than %lld bytes", b->http->label,
                           (long long)b->file->size);
    if (!di_hub_digest_add(&b->digest, data, len))
        return di_hub_fail(error, DI_ERR_RUNTIME, "%s: checksum failed", b->http->label);
    for (size_t done = 0; done < len;) {
        const ssize_t n = pwrite(b->fd, data + done, len - done, b->len + (int64_t)done);
        if (n < 0 && errno != EINTR)
            return di_hub_fail_errno(error, "cannot write", b->path);
        done += n > 0 ? (size_t)n : 0;
    }
    count(b, (int64_t)len);
    atomic_fetch_add(&b->http->progress->received_bytes, (int64_t)len);
    return DI_OK;
}

/* -------------------------------------------------------------------------------------- the file
 */

/* Asks for the rest until the file has its size. */
static di_status receive(blob *b, const char *url)
{
    const di_hub_sink sink = {on_begin, on_bytes, b};
    b->http->n_failures = 0;
    while (b->len < b->file->size) {
        const int64_t before = b->len;
        bool is_transient;
        di_status status = di_hub_http_get(b->http, url, b->len, &sink, &is_transient);
        if (status == DI_OK && b->len == b->file->size)
            break;
        if (status == DI_OK) {
            is_transient = true;
            status = di_hub_fail(b->http->error, DI_ERR_IO, "%s: found %lld bytes, wanted %lld",
                                 b->http->label, (long long)b->len, (long long)b->file->size);
        } else if (b->http->headers.http_code == HTTP_RANGE_REFUSED && b->len > 0) {
            is_transient = true;
            DI_HUB_TRY(start_over(b, b->http->error));
        }
        if (!is_transient)
            return status;
        if (b->len - before >= PROGRESS_BYTES)
            b->http->n_failures = 0;
        DI_HUB_TRY(di_hub_http_wait(b->http, status));
    }
    return DI_OK;
}

/* Wrong content is emptied at once. If part of it was there before, that part may be the wrong one:
 * the whole is then fetched anew, once. */
static di_status receive_and_check(blob *b, const char *url)
{
    DI_HUB_TRY(take_earlier_part(b));
    const bool had_part = b->len > 0;
    DI_HUB_TRY(receive(b, url));
    di_status status = di_hub_digest_check(&b->digest, b->http->error);
    if (status == DI_ERR_INPUT && had_part) {
        di_hub_progress_note(b->http->progress, "%s; fetching all of it again",
                             b->http->error->text);
        DI_HUB_TRY(start_over(b, b->http->error));
        DI_HUB_TRY(receive(b, url));
        status = di_hub_digest_check(&b->digest, b->http->error);
    }
    if (status != DI_OK) {
        count(b, -b->len);
        unlink(b->path);
        return status;
    }
    return fsync(b->fd) ? di_hub_fail_errno(b->http->error, "cannot write", b->path) : DI_OK;
}

static di_status fetch_locked(const di_hub_source *source, const di_hub_file *file,
                              di_hub_http *http)
{
    char url[2 * DI_HUB_URL_BYTES + DI_HUB_NAME_BYTES], path[DI_HUB_PATH_BYTES];
    di_hub_error *error = http->error;
    DI_HUB_TRY(di_hub_file_url(source, file->name, url, sizeof url, error));
    DI_HUB_TRY(di_hub_blob_path(source->repo, file, "", path, error));
    blob b = {.source = source, .file = file, .http = http};
    DI_HUB_TRY(di_hub_blob_path(source->repo, file, ".incomplete", b.path, error));
    bool is_whole;
    DI_HUB_TRY(di_hub_blob_is_whole(source->repo, file, &is_whole, error));
    if (is_whole) {
        count(&b, file->size);
        return DI_OK;
    }
    b.fd = open(b.path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (b.fd < 0)
        return di_hub_fail_errno(error, "cannot create", b.path);
    di_status status = receive_and_check(&b, url);
    di_hub_digest_free(&b.digest);
    if (close(b.fd) && status == DI_OK)
        status = di_hub_fail_errno(error, "cannot write", b.path);
    if (status == DI_OK && rename(b.path, path))
        status = di_hub_fail_errno(error, "cannot create", path);
    return status;
}

di_status di_hub_blob_fetch(const di_hub_source *source, const di_hub_file *file, di_hub_http *http)
{
    char label[DI_HUB_ID_BYTES + DI_HUB_NAME_BYTES];
    DI_HUB_TRY(
        di_hub_format(http->error, label, sizeof label, "%s/%s", source->repo->id, file->name));
    http->label = label;
    int lock;
    di_status status = di_hub_blob_try_lock(source->repo, file, &lock, http->error);
    if (status == DI_OK && lock < 0)
        di_hub_progress_note(http->progress, "%s: another download has it, waiting", label);
    while (status == DI_OK && lock < 0) {
        status = di_hub_http_sleep(http, 50);
        if (status == DI_OK)
            status = di_hub_blob_try_lock(source->repo, file, &lock, http->error);
    }
    if (status == DI_OK) {
        status = fetch_locked(source, file, http);
        close(lock);
    }
    http->label = "";
    return status;
}
