/* What the subcommands share: exit codes, the one error line, signals, standard streams, files. */
#ifndef DI_APPS_APP_H
#define DI_APPS_APP_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "deepinfer/deepinfer.h"
#include "deepinfer/tools.h"

#define DI_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Exit codes of every subcommand (docs/cli.md). Commands return them; nobody but main exits. */
typedef enum di_exit {
    DI_EXIT_OK = 0,
    DI_EXIT_USAGE = 2,         /* an option, argument or environment variable is wrong */
    DI_EXIT_INPUT = 3,         /* a file, model, prompt or message is not what it must be */
    DI_EXIT_RUNTIME = 4,       /* memory, computing or writing failed */
    DI_EXIT_INTERRUPTED = 130, /* SIGINT or SIGTERM; what was done until then is printed */
    DI_EXIT_PIPE = 141         /* whoever read stdout has gone; nothing is printed */
} di_exit;

di_exit di_exit_of_status(di_status status);
/* The code of a run of several requests: the first failure's. */
di_exit di_exit_first(di_exit so_far, di_exit next);

/* Prints "deepinfer: ..." on stderr as one line (control bytes become '?') and returns `code`. */
di_exit di_app_fail(di_exit code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for a failed library call: its error text, after "context: " unless that is NULL. */
di_exit di_app_fail_status(di_status status, const char *context);
/* A line on stderr that is no error. */
void di_app_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Opens fds 0 to 2 if the caller closed them, and takes the signals that would end
 * the process without a word or too early. */
void di_app_setup(void);
/* True once SIGINT or SIGTERM has come since the last di_app_clear_interrupt. A second one before
 * the first is cleared ends the process. */
bool di_app_interrupted(void);
void di_app_clear_interrupt(void);
/* Whether those signals end a blocking read with EINTR; elsewhere system calls are restarted. */
void di_app_reads_interruptible(bool interruptible);
/* A file that is removed if a signal ends the process; NULL: none. The text is borrowed. */
void di_app_set_temporary(const char *path);

/* Flushes stdout: DI_EXIT_OK, DI_EXIT_PIPE in silence, or DI_EXIT_RUNTIME with an error line. */
di_exit di_app_flush(void);
bool di_app_stdout_is_tty(void);

/* Whole file, or stdin if `path` is "-". *data is malloc'ed and NUL-terminated. */
di_exit di_app_read_file(const char *path, char **data, size_t *bytes);
/* What to call a file in error texts: "stdin" for "-". */
const char *di_app_file_name(const char *path);

_Noreturn void di_app_out_of_memory(void);
/* malloc and reallocarray that end the process with DI_EXIT_RUNTIME if there is no memory: for the
 * program's own small things. */
void *di_app_alloc(size_t bytes);
void *di_app_resize(void *memory, size_t n, size_t item_bytes);
void *di_app_grow(void *memory, size_t n, size_t item_bytes); /* room for n + 1 items */
char *di_app_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Of `words`, the one `word` is most likely a misspelling of; NULL if none is near. */
const char *di_app_nearest(const char *word, const char *const *words, size_t n_words);

/* A file written beside its place and moved there when it is whole. */
typedef struct di_out_file {
    FILE *file;
    char *path;
    char *temporary;
} di_out_file;
di_exit di_out_file_open(const char *path, di_out_file *out);
di_exit di_out_file_commit(di_out_file *out);
void di_out_file_abandon(di_out_file *out); /* after commit or failed open: does nothing */

#endif
