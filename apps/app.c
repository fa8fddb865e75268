#define _GNU_SOURCE /* vasprintf */
#include "app.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

di_exit di_exit_of_status(di_status status)
{
    switch (status) {
    case DI_OK:
        return DI_EXIT_OK;
    case DI_ERR_ARGUMENT:
        return DI_EXIT_USAGE;
    case DI_ERR_INPUT:
    case DI_ERR_IO:
    case DI_ERR_UNSUPPORTED:
        return DI_EXIT_INPUT;
    case DI_ERR_MEMORY:
    case DI_ERR_RUNTIME:
        return DI_EXIT_RUNTIME;
    case DI_ERR_CANCELLED:
        return DI_EXIT_INTERRUPTED;
    }
    return DI_EXIT_RUNTIME;
}

di_exit di_exit_first(di_exit so_far, di_exit next)
{
    return so_far == DI_EXIT_OK || next == DI_EXIT_INTERRUPTED || next == DI_EXIT_PIPE ? next
                                                                                       : so_far;
}

/* ------------------------------------------------------------------------------------- messages */

__attribute__((format(printf, 1, 0))) static void print_line(const char *fmt, va_list args)
{
    char *line = NULL;
    if (vasprintf(&line, fmt, args) < 0) {
        fputs("deepinfer: out of memory\n", stderr);
        return;
    }
    for (char *c = line; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    fprintf(stderr, "deepinfer: %s\n", line);
    free(line);
}

di_exit di_app_fail(di_exit code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_line(fmt, args);
    va_end(args);
    return code;
}

void di_app_note(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_line(fmt, args);
    va_end(args);
}

di_exit di_app_fail_status(di_status status, const char *context)
{
    const char *text = di_last_error();
    if (text[0] == '\0')
        text = di_status_name(status);
    if (context != NULL)
        return di_app_fail(di_exit_of_status(status), "%s: %s", context, text);
    return di_app_fail(di_exit_of_status(status), "%s", text);
}

/* -------------------------------------------------------------------------------------- signals */

static volatile sig_atomic_t interrupts;
static const char *volatile temporary_path;

static void remove_temporary(void)
{
    const char *path = temporary_path;
    if (path != NULL)
        unlink(path);
}

static void on_interrupt(int number)
{
    if (interrupts == 0) {
        interrupts = 1;
        return;
    }
    remove_temporary();
    signal(number, SIG_DFL);
    raise(number); /* delivered when this handler returns */
}

/* A page of a mapped file that is not there any more: the file was cut, or its disk failed. */
static void on_bus_error(int number)
{
    static const char text[] =
        "deepinfer: a model file was cut or became unreadable while mapped\n";
    (void)number;
    const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
    remove_temporary();
    _exit(DI_EXIT_RUNTIME);
}

static void take_signal(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void di_app_setup(void)
{
    /* A closed standard stream must not become the descriptor of a model file. Read-only: writing
     * to a closed stdout stays an error. */
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            _exit(DI_EXIT_RUNTIME);
    di_app_reads_interruptible(false);
    take_signal(SIGBUS, on_bus_error, 0);
    take_signal(SIGPIPE, SIG_IGN, 0); /* these two become errors of the write */
    take_signal(SIGXFSZ, SIG_IGN, 0);
}

bool di_app_interrupted(void)
{
    return interrupts != 0;
}

void di_app_reads_interruptible(bool interruptible)
{
    take_signal(SIGINT, on_interrupt, interruptible ? 0 : SA_RESTART);
    take_signal(SIGTERM, on_interrupt, interruptible ? 0 : SA_RESTART);
}

void di_app_clear_interrupt(void)
{
    interrupts = 0;
}

void di_app_set_temporary(const char *path)
{
    temporary_path = path;
}

/* ---------------------------------------------------------------------------- streams and files */

di_exit di_app_flush(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return DI_EXIT_OK;
    static bool reported;
    static bool is_pipe;
    if (!reported) {
        /* The write that failed may have been an earlier one, its errno lost. */
        const int error = errno;
        struct pollfd reader = {.fd = STDOUT_FILENO, .events = POLLOUT};
        const bool is_gone = poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0;
        reported = true;
        is_pipe = error == EPIPE || is_gone;
        if (!is_pipe)
            di_app_fail(DI_EXIT_RUNTIME, "cannot write to stdout: %s",
                        error != 0 ? strerror(error) : "write error");
    }
    return is_pipe ? DI_EXIT_PIPE : DI_EXIT_RUNTIME;
}

bool di_app_stdout_is_tty(void)
{
    return isatty(STDOUT_FILENO) == 1;
}

const char *di_app_file_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "stdin" : path;
}

static di_exit read_to_end(FILE *file, const char *name, char **data, size_t *bytes)
{
    size_t n = 0;
    size_t capacity = 1 << 16;
    char *buffer = di_app_alloc(capacity);
    for (;;) {
        errno = 0;
        n += fread(buffer + n, 1, capacity - 1 - n, file);
        if (ferror(file)) {
            const int error = errno;
            free(buffer);
            if (error == EINTR && di_app_interrupted())
                return DI_EXIT_INTERRUPTED;
            return di_app_fail(DI_EXIT_INPUT, "%s: cannot read: %s", name, strerror(error));
        }
        if (feof(file))
            break;
        buffer = di_app_grow(buffer, capacity, 1);
        capacity *= 2;
    }
    buffer[n] = '\0';
    *data = buffer;
    *bytes = n;
    return DI_EXIT_OK;
}

static di_exit read_stream(FILE *file, const char *name, char **data, size_t *bytes)
{
    di_app_reads_interruptible(true);
    const di_exit code = read_to_end(file, name, data, bytes);
    di_app_reads_interruptible(false);
    return code;
}

di_exit di_app_read_file(const char *path, char **data, size_t *bytes)
{
    if (strcmp(path, "-") == 0)
        return read_stream(stdin, "stdin", data, bytes);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return di_app_fail(DI_EXIT_INPUT, "%s: cannot open: %s", path, strerror(errno));
    const di_exit code = read_stream(file, path, data, bytes);
    fclose(file);
    return code;
}

_Noreturn void di_app_out_of_memory(void)
{
    static const char text[] = "deepinfer: out of memory\n";
    const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
    remove_temporary();
    _exit(DI_EXIT_RUNTIME);
}

void *di_app_alloc(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL)
        di_app_out_of_memory();
    return memory;
}

void *di_app_resize(void *memory, size_t n, size_t item_bytes)
{
    void *resized = reallocarray(memory, n > 0 ? n : 1, item_bytes);
    if (resized == NULL)
        di_app_out_of_memory();
    return resized;
}

void *di_app_grow(void *memory, size_t n, size_t item_bytes)
{
    /* Powers of two only: a list is moved log(n) times. */
    if (memory != NULL && (n & (n - 1)) != 0)
        return memory;
    return di_app_resize(memory, n == 0 ? 1 : 2 * n, item_bytes);
}

char *di_app_text(const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        di_app_out_of_memory();
    va_end(args);
    return text;
}

di_exit di_out_file_open(const char *path, di_out_file *out)
{
    *out = (di_out_file){NULL};
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return di_app_fail(DI_EXIT_USAGE, "%s: cannot write: it is not a regular file", path);
    char *temporary = di_app_text("%s.tmp.%ld", path, (long)getpid());
    FILE *file = fopen(temporary, "wbx");
    if (file == NULL) {
        const int error = errno;
        free(temporary);
        return di_app_fail(DI_EXIT_USAGE, "%s: cannot write: %s", path, strerror(error));
    }
    *out = (di_out_file){.file = file, .path = di_app_text("%s", path), .temporary = temporary};
    di_app_set_temporary(temporary);
    return DI_EXIT_OK;
}

di_exit di_out_file_commit(di_out_file *out)
{
    const bool failed_before = ferror(out->file) != 0;
    bool failed = fflush(out->file) != 0 || failed_before || fsync(fileno(out->file)) != 0;
    int error = errno;
    failed = fclose(out->file) != 0 || failed;
    out->file = NULL;
    if (!failed && rename(out->temporary, out->path) != 0) {
        failed = true;
        error = errno;
    }
    di_exit code = DI_EXIT_OK;
    if (failed)
        code = di_app_fail(DI_EXIT_RUNTIME, "%s: cannot write: %s", out->path, strerror(error));
    else
        out->temporary[0] = '\0';
    di_out_file_abandon(out);
    return code;
}

void di_out_file_abandon(di_out_file *out)
{
    if (out->file != NULL)
        fclose(out->file);
    di_app_set_temporary(NULL);
    if (out->temporary != NULL && out->temporary[0] != '\0')
        unlink(out->temporary);
    free(out->temporary);
    free(out->path);
    *out = (di_out_file){NULL};
}

/* ------------------------------------------------------------------------------------- spelling */

enum { MAX_WORD = 40 };

/* Edits (insert, delete, replace, swap of neighbours) from a to b. */
static size_t edit_distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t rows[3][MAX_WORD + 1];
    for (size_t j = 0; j <= n_b; j++)
        rows[1][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t *row = rows[(i + 1) % 3];
        const size_t *above = rows[i % 3];
        const size_t *above2 = rows[(i + 2) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && above2[j - 2] + 1 < best)
                best = above2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[(n_a + 1) % 3][n_b];
}

const char *di_app_nearest(const char *word, const char *const *words, size_t n_words)
{
    const size_t n = strlen(word);
    if (n == 0 || n > MAX_WORD)
        return NULL;
    const char *nearest = NULL;
    size_t best = n / 3 + 2; /* farther is no misspelling */
    for (size_t i = 0; i < n_words; i++) {
        const size_t n_other = strlen(words[i]);
        if (n_other > MAX_WORD)
            continue;
        const size_t distance = edit_distance(word, n, words[i], n_other);
        if (distance < best && distance < n) {
            best = distance;
            nearest = words[i];
        }
    }
    return nearest;
}
