#define _GNU_SOURCE /* O_DIRECT */

#include "weights/shard_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"

/* The same file as the mapping's, or -1: something else may be in its place by now, and not every
 * file system reads past its cache. */
static int open_direct(const di_safetensors *shard)
{
    const int fd = open(shard->path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK);
    struct stat mapped, opened;
    if (fd < 0)
        return -1;
    if (fstat(shard->mapping.fd, &mapped) == 0 && fstat(fd, &opened) == 0 &&
        mapped.st_dev == opened.st_dev && mapped.st_ino == opened.st_ino)
        return fd;
    close(fd);
    return -1;
}

di_status di_shard_reader_open(const di_weights *weights, di_shard_reader *out)
{
    size_t n;
    const di_safetensors *shards = di_weights_shards(weights, &n);
    int *fds = calloc(n + 1, sizeof *fds);
    if (!fds)
        return di_fail_memory(n * sizeof *fds, "the weight cache's files");
    for (size_t i = 0; i < n; i++)
        fds[i] = open_direct(&shards[i]);
    *out = (di_shard_reader){weights, fds, n};
    return DI_OK;
}

void di_shard_reader_close(di_shard_reader *reader)
{
    for (size_t i = 0; i < reader->n_shards; i++)
        if (reader->direct_fds[i] >= 0)
            close(reader->direct_fds[i]);
    free(reader->direct_fds);
    *reader = (di_shard_reader){NULL};
}

/* Reads until `bytes` are there or the file ends; false with errno if the system refuses. */
static bool read_some(int fd, int64_t offset, int64_t bytes, unsigned char *to, int64_t *n_read)
{
    *n_read = 0;
    while (*n_read < bytes) {
        const ssize_t n =
            pread(fd, to + *n_read, (size_t)(bytes - *n_read), (off_t)(offset + *n_read));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        if (n == 0)
            return true;
        *n_read += n;
    }
    return true;
}

di_status di_shard_read(const di_shard_reader *reader, const di_expert_range *range, int64_t first,
                        int64_t bytes, unsigned char *to, int64_t *bytes_read)
{
    size_t n_shards;
    const size_t index = (size_t)(range->shard - di_weights_shards(reader->weights, &n_shards));
    const int direct = reader->direct_fds[index];
    const int64_t offset = range->offset + first;
    const int64_t needed = di_min_i64(bytes, range->wanted - first);
    int64_t n = 0, n_more = 0;
    /* A direct read may be refused, or end between two multiples: the rest is read through the
     * page cache. */
    if (direct < 0 || !read_some(direct, offset, bytes, to, &n) || n < needed) {
        if (!read_some(range->shard->mapping.fd, offset + n, bytes - n, to + n, &n_more))
            return di_fail(DI_ERR_RUNTIME, "%s: cannot read %lld bytes at %lld: %s",
                           range->shard->path, (long long)(bytes - n), (long long)(offset + n),
                           strerror(errno));
    }
    *bytes_read += n + n_more;
    if (n + n_more < needed)
        return di_fail(DI_ERR_RUNTIME, "%s: cut while in use: found %lld bytes, wanted %lld",
                       range->shard->path, (long long)(offset + n + n_more),
                       (long long)(offset + needed));
    return DI_OK;
}
