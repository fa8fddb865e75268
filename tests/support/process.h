/* Runs the built program as a user does: arguments, stdin, exit code, stdout, stderr. */
#ifndef DI_TEST_PROCESS_H
#define DI_TEST_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct di_process {
    pid_t pid;
    int out_fd, err_fd; /* -1 once at their end; err_fd is -1 too on a terminal */
    int in_fd;          /* of a terminal; else -1 */
    char *out;          /* what it wrote so far, NUL-terminated; on a terminal stderr too */
    size_t out_bytes;
    char *err;
    size_t err_bytes;
    int code; /* exit code, or 128 + signal; set by di_process_wait */
} di_process;

typedef struct di_process_options {
    const char *const *args; /* after the program's name, NULL at the end */
    const char *in;          /* stdin; NULL: empty */
    size_t in_bytes;         /* 0: strlen(in) */
    const char *env;         /* one NAME=VALUE to add to a bare environment, or NULL */
    const char *out_path;    /* stdout goes there instead, as /dev/full */
    bool is_terminal;        /* stdin, stdout and stderr are a terminal */
} di_process_options;

/* Fails the running test if the program cannot be started. */
void di_process_start(const di_process_options *options, di_process *process);
/* Reads until stdout holds `text` or is at its end: whether it holds it. Gives up and fails the
 * test after two minutes without a byte. */
bool di_process_read_until(di_process *process, const char *text);
/* Reads the rest and waits for the end. */
void di_process_wait(di_process *process);
void di_process_free(di_process *process);

/* start and wait. */
void di_process_run(const di_process_options *options, di_process *process);
#define di_process_run_args(process, ...)                                                          \
    di_process_run(&(di_process_options){.args = (const char *const[]){__VA_ARGS__, NULL}}, process)

#endif
