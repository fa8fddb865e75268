#include "weights/safetensors.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "weights/json_scan.h"
#include "weights/name_pool.h"

enum {
    LENGTH_BYTES = 8,
    MAX_HEADER_BYTES = 100000000, /* as in the format's own library */
    MIN_HEADER_BYTES = 2,         /* "{}" */
};

typedef struct raw_entry {
    di_safetensors_entry entry; /* tensor.data is set once the ranges are known to fit */
    uint64_t begin;             /* of its bytes in the payload */
} raw_entry;

/* A header being read. */
typedef struct header {
    di_safetensors *file;
    di_json_scan scan;
    char context[128]; /* of scan */
    raw_entry *entries;
    size_t n, cap;
    di_name_pool names;
    const unsigned char *payload;
    uint64_t payload_size; /* bytes there are in the file */
} header;

/* --------------------------------------------------------------------- one tensor's JSON entry */

#define FAIL_TENSOR(h, name, ...)                                                                  \
    (di_error_format(__VA_ARGS__),                                                                 \
     di_fail_within(DI_ERR_INPUT, "%s: tensor %s", (h)->file->path, (name)))

static di_status read_dtype(header *h, di_safetensors_entry *e)
{
    DI_TRY(di_json_scan_string(&h->scan));
    if (di_dtype_from_name(di_buf_str(&h->scan.string), h->scan.string.len, &e->tensor.dtype))
        return DI_OK;
    return FAIL_TENSOR(h, e->name, "found dtype \"%.32s\", wanted one of the safetensors dtypes",
                       di_buf_str(&h->scan.string));
}

static di_status read_shape(header *h, di_safetensors_entry *e)
{
    DI_TRY(di_json_scan_expect(&h->scan, '['));
    e->tensor.rank = 0;
    if (di_json_scan_take(&h->scan, ']'))
        return DI_OK;
    do {
        uint64_t n;
        DI_TRY(di_json_scan_count(&h->scan, &n));
        if (n > INT64_MAX)
            return FAIL_TENSOR(h, e->name, "found dimension %llu, wanted at most 2^63 - 1",
                               (unsigned long long)n);
        if (e->tensor.rank == DI_MAX_RANK)
            return FAIL_TENSOR(h, e->name, "found more than %d dimensions", DI_MAX_RANK);
        e->tensor.shape[e->tensor.rank++] = (int64_t)n;
    } while (di_json_scan_take(&h->scan, ','));
    return di_json_scan_expect(&h->scan, ']');
}

static di_status read_offsets(header *h, uint64_t range[2])
{
    DI_TRY(di_json_scan_expect(&h->scan, '['));
    DI_TRY(di_json_scan_count(&h->scan, &range[0]));
    DI_TRY(di_json_scan_expect(&h->scan, ','));
    DI_TRY(di_json_scan_count(&h->scan, &range[1]));
    return di_json_scan_expect(&h->scan, ']');
}

/* Bytes of shape times dtype against the byte range. */
static di_status check_size(const header *h, di_safetensors_entry *e, const uint64_t range[2])
{
    uint64_t bytes = di_dtype_bytes(e->tensor.dtype);
    bool fits = true, is_empty = false;
    for (int i = 0; i < e->tensor.rank; i++)
        is_empty |= e->tensor.shape[i] == 0;
    for (int i = 0; i < e->tensor.rank && !is_empty; i++)
        fits = fits && di_mul_u64(bytes, (uint64_t)e->tensor.shape[i], &bytes);
    bytes = is_empty ? 0 : bytes;
    if (!fits)
        return FAIL_TENSOR(h, e->name, "its shape has more than 2^64 bytes");
    if (range[1] < range[0])
        return FAIL_TENSOR(h, e->name, "found data_offsets [%llu,%llu], wanted begin before end",
                           (unsigned long long)range[0], (unsigned long long)range[1]);
    if (range[1] - range[0] != bytes)
        return FAIL_TENSOR(
            h, e->name, "found %llu bytes in data_offsets, wanted %llu for its shape and dtype %s",
            (unsigned long long)(range[1] - range[0]), (unsigned long long)bytes,
            di_dtype_name(e->tensor.dtype));
    e->tensor.bytes = (size_t)bytes;
    return DI_OK;
}

/* {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}, each exactly once, in any order. */
static di_status read_entry(header *h, di_safetensors_entry *e, uint64_t *begin)
{
    static const char *const keys[3] = {"dtype", "shape", "data_offsets"};
    unsigned seen = 0;
    uint64_t range[2] = {0, 0};
    bool has_key;
    snprintf(h->context, sizeof h->context, "tensor %s", e->name);
    h->scan.context = h->context;
    DI_TRY(di_json_scan_expect(&h->scan, '{'));
    for (bool is_first = true;; is_first = false) {
        DI_TRY(di_json_scan_key(&h->scan, is_first, &has_key));
        if (!has_key)
            break;
        unsigned key = 0;
        while (key < 3 && strcmp(di_buf_str(&h->scan.string), keys[key]) != 0)
            key++;
        if (key == 3)
            return FAIL_TENSOR(h, e->name, "found key \"%.64s\", wanted dtype, shape, data_offsets",
                               di_buf_str(&h->scan.string));
        if (seen & 1u << key)
            return FAIL_TENSOR(h, e->name, "found %s twice", keys[key]);
        seen |= 1u << key;
        DI_TRY(key == 0 ? read_dtype(h, e) : key == 1 ? read_shape(h, e) : read_offsets(h, range));
    }
    for (unsigned key = 0; key < 3; key++)
        if (!(seen & 1u << key))
            return FAIL_TENSOR(h, e->name, "found no %s", keys[key]);
    h->scan.context = NULL;
    *begin = range[0];
    return check_size(h, e, range);
}

/* ------------------------------------------------------------------------------ the whole header
 */

static di_status read_metadata(header *h)
{
    bool has_key;
    h->scan.context = "__metadata__";
    DI_TRY(di_json_scan_expect(&h->scan, '{'));
    for (bool is_first = true;; is_first = false) {
        DI_TRY(di_json_scan_key(&h->scan, is_first, &has_key));
        if (!has_key)
            break;
        DI_TRY(di_json_scan_string(&h->scan));
    }
    h->scan.context = NULL;
    return DI_OK;
}

static di_status read_entries(header *h)
{
    bool has_key, has_metadata = false;
    DI_TRY(di_json_scan_expect(&h->scan, '{'));
    for (bool is_first = true;; is_first = false) {
        DI_TRY(di_json_scan_key(&h->scan, is_first, &has_key));
        if (!has_key)
            return di_json_scan_end(&h->scan);
        if (strcmp(di_buf_str(&h->scan.string), "__metadata__") == 0) {
            if (has_metadata)
                return di_fail(DI_ERR_INPUT, "%s: found __metadata__ twice", h->file->path);
            has_metadata = true;
            DI_TRY(read_metadata(h));
            continue;
        }
        DI_TRY(DI_GROW(&h->entries, &h->cap, h->n + 1));
        raw_entry *e = &h->entries[h->n];
        memset(e, 0, sizeof *e);
        DI_TRY(di_name_pool_keep(&h->names, di_buf_str(&h->scan.string), h->scan.string.len,
                                 &e->entry.name));
        DI_TRY(read_entry(h, &e->entry, &e->begin));
        h->n++;
    }
}

typedef struct range {
    uint64_t begin, bytes;
    size_t entry;
} range;

static int compare_ranges(const void *a, const void *b)
{
    const range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The ranges, in order, have to follow each other from 0 to the end of the file. */
static di_status walk_ranges(const header *h, const range *ranges)
{
    uint64_t at = 0;
    for (size_t i = 0; i < h->n; i++) {
        const range *r = &ranges[i];
        const char *name = h->entries[r->entry].entry.name;
        if (r->begin < at)
            return FAIL_TENSOR(h, name, "its bytes from %llu overlap those of tensor %s to %llu",
                               (unsigned long long)r->begin,
                               h->entries[ranges[i - 1].entry].entry.name, (unsigned long long)at);
        if (r->begin > at)
            return FAIL_TENSOR(h, name,
                               "found its bytes from %llu, wanted from %llu: nothing may "
                               "lie between tensors",
                               (unsigned long long)r->begin, (unsigned long long)at);
        if (r->bytes > UINT64_MAX - at)
            return FAIL_TENSOR(h, name, "its bytes end behind 2^64");
        at += r->bytes;
        if (at > h->payload_size)
            return FAIL_TENSOR(h, name,
                               "the file is cut: found %llu bytes of tensor data, wanted %llu up "
                               "to the end of this tensor",
                               (unsigned long long)h->payload_size, (unsigned long long)at);
    }
    if (at != h->payload_size)
        return di_fail(DI_ERR_INPUT,
                       "%s: found %llu bytes of tensor data, wanted %llu: the rest "
                       "belongs to no tensor",
                       h->file->path, (unsigned long long)h->payload_size, (unsigned long long)at);
    return DI_OK;
}

static di_status check_ranges(const header *h)
{
    range *ranges = calloc(h->n ? h->n : 1, sizeof *ranges);
    if (!ranges)
        return di_fail_memory(h->n * sizeof *ranges, "the byte ranges of a header");
    for (size_t i = 0; i < h->n; i++)
        ranges[i] = (range){h->entries[i].begin, h->entries[i].entry.tensor.bytes, i};
    qsort(ranges, h->n, sizeof *ranges, compare_ranges);
    const di_status status = walk_ranges(h, ranges);
    free(ranges);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    const di_safetensors_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Before the ranges: two entries of one name would otherwise be reported as an overlap. */
static di_status sort_entries(header *h)
{
    if (h->n)
        qsort(h->entries, h->n, sizeof *h->entries, compare_names);
    for (size_t i = 1; i < h->n; i++) {
        const char *name = h->entries[i].entry.name;
        if (strcmp(h->entries[i - 1].entry.name, name) == 0)
            return FAIL_TENSOR(h, name, "the name stands twice in the header");
    }
    return DI_OK;
}

static di_status keep_entries(const header *h)
{
    di_safetensors *file = h->file;
    DI_TRY(DI_ARENA_NEW(&file->arena, h->n, &file->entries));
    for (size_t i = 0; i < h->n; i++) {
        file->entries[i] = h->entries[i].entry;
        file->entries[i].tensor.data = h->payload + h->entries[i].begin;
        file->payload_bytes += file->entries[i].tensor.bytes;
    }
    file->n_entries = h->n;
    return DI_OK;
}

static di_status parse_header(di_safetensors *file, const char *json, size_t json_len,
                              const unsigned char *payload, uint64_t payload_size)
{
    header h = {
        .file = file,
        .names = {.arena = &file->arena},
        .scan = {.text = json, .at = json, .end = json + json_len, .name = file->path},
        .payload = payload,
        .payload_size = payload_size,
    };
    di_status status = read_entries(&h);
    if (status == DI_OK)
        status = sort_entries(&h);
    if (status == DI_OK)
        status = check_ranges(&h);
    if (status == DI_OK)
        status = keep_entries(&h);
    free(h.entries);
    di_json_scan_free(&h.scan);
    return status;
}

/* -------------------------------------------------------------------------------- the file itself
 */

static bool starts_with(const unsigned char *data, size_t size, const char *prefix)
{
    const size_t n = strlen(prefix);
    if (size < n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (tolower(data[i]) != prefix[i])
            return false;
    return true;
}

/* What a file is that has no safetensors header: the usual failed downloads. NULL: no idea. */
static const char *foreign_kind(const unsigned char *data, size_t size)
{
    while (size && isspace(*data)) {
        data++;
        size--;
    }
    if (starts_with(data, size, "version https://git-lfs"))
        return "a Git LFS pointer (fetch the file itself with git lfs pull)";
    if (starts_with(data, size, "<!doctype") || starts_with(data, size, "<html") ||
        starts_with(data, size, "<?xml"))
        return "an HTML or XML page";
    if (starts_with(data, size, "pk\003\004"))
        return "a ZIP archive";
    if (starts_with(data, size, "{"))
        return "JSON text";
    return NULL;
}

/* The header length, checked against the file. `start` are its first bytes, start_size of them. */
static di_status check_length(const char *path, const unsigned char *start, size_t start_size,
                              uint64_t file_size, size_t *out)
{
    const char *kind = foreign_kind(start, start_size);
    uint64_t len = 0;
    for (size_t i = 0; i < LENGTH_BYTES && i < start_size; i++)
        len |= (uint64_t)start[i] << (8 * i);
    const bool fits = file_size >= LENGTH_BYTES && len >= MIN_HEADER_BYTES &&
                      len <= MAX_HEADER_BYTES && len <= file_size - LENGTH_BYTES;
    if (fits) {
        *out = (size_t)len;
        return DI_OK;
    }
    if (kind)
        return di_fail(DI_ERR_INPUT, "%s: found %s, wanted a safetensors file", path, kind);
    if (file_size < LENGTH_BYTES)
        return di_fail(DI_ERR_INPUT,
                       "%s: found %llu bytes, wanted at least %d: not a safetensors "
                       "file",
                       path, (unsigned long long)file_size, LENGTH_BYTES);
    if (len < MIN_HEADER_BYTES || len > MAX_HEADER_BYTES)
        return di_fail(DI_ERR_INPUT,
                       "%s: found a header of %llu bytes, wanted %d to %d: not a "
                       "safetensors file",
                       path, (unsigned long long)len, MIN_HEADER_BYTES, MAX_HEADER_BYTES);
    return di_fail(DI_ERR_INPUT,
                   "%s: the file is cut: found %llu bytes behind the header length, "
                   "wanted a header of %llu",
                   path, (unsigned long long)(file_size - LENGTH_BYTES), (unsigned long long)len);
}

static di_status read_exactly(int fd, const char *path, void *out, size_t bytes, uint64_t offset)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = pread(fd, (char *)out + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return di_fail(DI_ERR_IO, "%s: %s", path, strerror(errno));
        if (n == 0)
            return di_fail(DI_ERR_IO, "%s: found %zu bytes at offset %llu, wanted %zu", path, done,
                           (unsigned long long)offset, bytes);
        done += (size_t)n;
    }
    return DI_OK;
}

/* The header is read, not mapped: a file that is cut meanwhile gives an error instead of a fault.
 */
static di_status read_file(di_safetensors *file)
{
    unsigned char start[64] = {0};
    const size_t size = file->mapping.size;
    const size_t start_size = size < sizeof start ? size : sizeof start;
    size_t len;
    DI_TRY(read_exactly(file->mapping.fd, file->path, start, start_size, 0));
    DI_TRY(check_length(file->path, start, start_size, size, &len));
    char *json = malloc(len);
    if (!json)
        return di_fail_memory(len, "a safetensors header");
    di_status status = read_exactly(file->mapping.fd, file->path, json, len, LENGTH_BYTES);
    if (status == DI_OK)
        status = parse_header(file, json, len, file->mapping.data + LENGTH_BYTES + len,
                              size - LENGTH_BYTES - len);
    free(json);
    return status;
}

static di_status open_into(const char *path, di_safetensors *file)
{
    char *name;
    DI_TRY(di_arena_strdup(&file->arena, path, &name));
    file->path = name;
    DI_TRY(di_mapping_open(path, &file->mapping));
    return read_file(file);
}

di_status di_safetensors_open(const char *path, di_safetensors *out)
{
    di_safetensors file = {.mapping = {.fd = -1}};
    const di_status status = open_into(path, &file);
    if (status == DI_OK)
        *out = file;
    else
        di_safetensors_close(&file);
    return status;
}

static di_status parse_memory(const unsigned char *data, size_t size, const char *name,
                              di_safetensors *file)
{
    char *path;
    size_t len;
    DI_TRY(di_arena_strdup(&file->arena, name, &path));
    file->path = path;
    DI_TRY(check_length(path, data, size, size, &len));
    return parse_header(file, (const char *)data + LENGTH_BYTES, len, data + LENGTH_BYTES + len,
                        size - LENGTH_BYTES - len);
}

di_status di_safetensors_from_memory(const void *data, size_t size, const char *name,
                                     di_safetensors *out)
{
    di_safetensors file = {.mapping = {.fd = -1}};
    const di_status status = parse_memory(data, size, name, &file);
    if (status == DI_OK)
        *out = file;
    else
        di_safetensors_close(&file);
    return status;
}

void di_safetensors_close(di_safetensors *file)
{
    if (file->mapping.fd >= 0)
        di_mapping_close(&file->mapping);
    di_arena_free(&file->arena);
    *file = (di_safetensors){.mapping = {.fd = -1}};
}

const di_tensor *di_safetensors_find(const di_safetensors *file, const char *name)
{
    const di_safetensors_entry key = {.name = name};
    const di_safetensors_entry *hit =
        bsearch(&key, file->entries, file->n_entries, sizeof key, compare_names);
    return hit ? &hit->tensor : NULL;
}
