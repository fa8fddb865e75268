#include "batch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static di_exit fail_errno(const di_batch_output *out, di_exit code, const char *what)
{
    return di_app_fail(code, "%s: cannot %s: %s", out->path, what, strerror(errno));
}

static void count_status(di_batch_output *out, int http_status)
{
    out->n_bad += http_status >= 400 && http_status < 500;
    out->n_broken += http_status >= 500;
}

/* ------------------------------------------------------------------------------ what is there */

static di_exit mark_result(di_batch_output *out, const di_batch_input *input, size_t number,
                           const di_api_batch_result *result)
{
    di_batch_item *item = di_batch_input_find(input, result->custom_id, result->line);
    static const char hint[] = "give another -o, or --overwrite to begin anew";
    const char *id = result->custom_id != NULL ? result->custom_id : "";
    if (item == NULL)
        return di_app_fail(DI_EXIT_INPUT,
                           "%s: line %zu: found a result of \"%s\" (line %zu), which is not in %s: "
                           "%s",
                           out->path, number, id, result->line, input->name, hint);
    if (item->hash != result->hash)
        return di_app_fail(DI_EXIT_INPUT,
                           "%s: line %zu: found a result of another request \"%s\" than line %zu "
                           "of %s holds: %s",
                           out->path, number, id, item->line, input->name, hint);
    if (item->is_done)
        return di_app_fail(DI_EXIT_INPUT, "%s: line %zu: found a second result of \"%s\"",
                           out->path, number, id);
    item->is_done = true;
    out->n_kept++;
    count_status(out, result->http_status);
    return DI_EXIT_OK;
}

static di_exit read_line(di_batch_output *out, const di_batch_input *input, size_t number,
                         const char *line, size_t bytes)
{
    di_api_batch_result result;
    if (di_api_batch_result_read(line, bytes, &result) != DI_OK)
        return di_app_fail(DI_EXIT_INPUT, "%s: line %zu: not a result of this program: %s",
                           out->path, number, di_last_error());
    const di_exit code = mark_result(out, input, number, &result);
    di_free((void *)result.custom_id);
    return code;
}

/* Whether the bytes behind the last newline are the beginning of a result: only that is cut. */
static bool is_torn_result(const char *text, size_t bytes)
{
    static const char start[] = DI_API_BATCH_RESULT_START;
    const size_t n = bytes < sizeof start - 1 ? bytes : sizeof start - 1;
    return memcmp(text, start, n) == 0;
}

static di_exit read_lines(di_batch_output *out, const di_batch_input *input, const char *data,
                          size_t bytes)
{
    size_t number = 0;
    size_t at = 0;
    while (at < bytes) {
        const char *newline = memchr(data + at, '\n', bytes - at);
        number++;
        if (newline == NULL)
            break;
        const size_t n = (size_t)(newline - data) - at;
        const di_exit code = read_line(out, input, number, data + at, n);
        if (code != DI_EXIT_OK)
            return code;
        at += n + 1;
    }
    if (!is_torn_result(data + at, bytes - at))
        return di_app_fail(DI_EXIT_INPUT, "%s: line %zu: not a result of this program", out->path,
                           number);
    out->bytes = (int64_t)at;
    if (at == bytes)
        return DI_EXIT_OK;
    di_app_note("%s: cutting off the unfinished line %zu", out->path, number);
    if (ftruncate(out->fd, out->bytes) != 0)
        return fail_errno(out, DI_EXIT_RUNTIME, "cut");
    return DI_EXIT_OK;
}

/* ------------------------------------------------------------------------------------ opening */

static bool is_same_file(const struct stat *info, const char *input_name)
{
    struct stat other;
    return stat(input_name, &other) == 0 && other.st_dev == info->st_dev &&
           other.st_ino == info->st_ino;
}

static di_exit check_file(const di_batch_output *out, const di_batch_input *input)
{
    struct stat info;
    if (fstat(out->fd, &info) != 0)
        return fail_errno(out, DI_EXIT_USAGE, "write");
    if (!S_ISREG(info.st_mode))
        return di_app_fail(DI_EXIT_USAGE, "%s: cannot write: it is not a regular file", out->path);
    if (is_same_file(&info, input->name))
        return di_app_fail(DI_EXIT_USAGE, "%s: it is the requests file too", out->path);
    if (flock(out->fd, LOCK_EX | LOCK_NB) != 0)
        return di_app_fail(DI_EXIT_USAGE, "%s: another run is writing it", out->path);
    return DI_EXIT_OK;
}

static di_exit take_over(di_batch_output *out, bool is_fresh, const di_batch_input *input)
{
    di_exit code = check_file(out, input);
    if (code != DI_EXIT_OK)
        return code;
    if (is_fresh)
        return ftruncate(out->fd, 0) == 0 ? DI_EXIT_OK : fail_errno(out, DI_EXIT_RUNTIME, "cut");
    char *data = NULL;
    size_t bytes = 0;
    code = di_app_read_file(out->path, &data, &bytes);
    if (code == DI_EXIT_OK)
        code = read_lines(out, input, data, bytes);
    free(data);
    return code;
}

di_exit di_batch_output_open(const char *path, bool is_fresh, const di_batch_input *input,
                             di_batch_output *out)
{
    *out = (di_batch_output){.path = path};
    out->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (out->fd < 0)
        return fail_errno(out, DI_EXIT_USAGE, "write");
    const di_exit code = take_over(out, is_fresh, input);
    if (code != DI_EXIT_OK)
        di_batch_output_close(out);
    return code;
}

void di_batch_output_close(di_batch_output *out)
{
    if (out->fd >= 0)
        close(out->fd);
    out->fd = -1;
}

/* ------------------------------------------------------------------------------------ writing */

static bool write_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        data += n;
        bytes -= (size_t)n;
    }
    return true;
}

di_exit di_batch_output_add(di_batch_output *out, const di_api_batch_result *result)
{
    char *line = NULL;
    size_t bytes = 0;
    const di_status status = di_api_batch_result_write(result, &line, &bytes);
    if (status != DI_OK)
        return di_app_fail_status(status, out->path);
    di_exit code = DI_EXIT_OK;
    if (write_all(out->fd, line, bytes) && fdatasync(out->fd) == 0) {
        out->bytes += (int64_t)bytes;
        count_status(out, result->http_status);
    } else {
        code = fail_errno(out, DI_EXIT_RUNTIME, "write");
        if (ftruncate(out->fd, out->bytes) != 0)
            di_app_note("%s: its last line is unfinished", out->path);
    }
    di_free(line);
    return code;
}
