#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static di_status fail_open(const char *path, int error)
{
    struct stat link;
    if (error == ENOENT && lstat(path, &link) == 0 && S_ISLNK(link.st_mode)) {
        char target[PATH_MAX];
        const ssize_t n = readlink(path, target, sizeof target - 1);
        target[n < 0 ? 0 : n] = 0;
        return di_fail(DI_ERR_IO, "%s: symbolic link to %s, which does not exist", path, target);
    }
    return di_fail(DI_ERR_IO, "%s: %s", path, strerror(error));
}

static di_status open_regular(const char *path, int *fd, size_t *size)
{
    const int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f < 0)
        return fail_open(path, errno);
    struct stat st;
    if (fstat(f, &st) != 0) {
        const int error = errno;
        close(f);
        return di_fail(DI_ERR_IO, "%s: %s", path, strerror(error));
    }
    if (!S_ISREG(st.st_mode)) {
        close(f);
        return di_fail(DI_ERR_IO, "%s: found %s, wanted a regular file", path,
                       S_ISDIR(st.st_mode) ? "a directory" : "a special file");
    }
    *fd = f;
    *size = (size_t)st.st_size;
    return DI_OK;
}

di_status di_mapping_open(const char *path, di_mapping *out)
{
    int fd = -1;
    size_t size = 0;
    DI_TRY(open_regular(path, &fd, &size));
    void *data = NULL;
    if (size) {
        data = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) {
            const int error = errno;
            close(fd);
            return di_fail(DI_ERR_IO, "%s: cannot map %zu bytes: %s", path, size, strerror(error));
        }
    }
    *out = (di_mapping){.data = data, .size = size, .fd = fd};
    return DI_OK;
}

void di_mapping_close(di_mapping *mapping)
{
    if (mapping->data)
        munmap((void *)mapping->data, mapping->size);
    if (mapping->fd >= 0)
        close(mapping->fd);
    *mapping = (di_mapping){.fd = -1};
}

di_status di_mapping_check(const di_mapping *mapping, const char *path)
{
    struct stat st;
    if (fstat(mapping->fd, &st) != 0)
        return di_fail(DI_ERR_RUNTIME, "%s: %s", path, strerror(errno));
    if ((size_t)st.st_size < mapping->size)
        return di_fail(DI_ERR_RUNTIME, "%s: cut while in use: found %zu bytes, wanted %zu", path,
                       (size_t)st.st_size, mapping->size);
    return DI_OK;
}

static di_status read_all(int fd, const char *path, size_t max_bytes, di_buf *out)
{
    const size_t start = out->len;
    for (;;) {
        DI_TRY(di_buf_reserve(out, 64 * 1024));
        const ssize_t n = read(fd, out->data + out->len, 64 * 1024);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return di_fail(DI_ERR_IO, "%s: %s", path, strerror(errno));
        out->len += (size_t)n;
        out->data[out->len] = 0;
        if (n == 0)
            return DI_OK;
        if (out->len - start > max_bytes)
            return di_fail(DI_ERR_INPUT, "%s: found more than %zu bytes, the limit for this file",
                           path, max_bytes);
    }
}

di_status di_file_read(const char *path, size_t max_bytes, di_buf *out)
{
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, "standard input", max_bytes, out);
    int fd = -1;
    size_t size = 0;
    DI_TRY(open_regular(path, &fd, &size)); /* a pipe without a writer would hang */
    const di_status status = read_all(fd, path, max_bytes, out);
    close(fd);
    return status;
}

bool di_path_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool di_path_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}
