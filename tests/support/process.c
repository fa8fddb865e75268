#define _GNU_SOURCE /* memfd_create, posix_openpt */

#include "process.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGS = 64, SILENCE_MS = 120 * 1000 };

static int input_file(const di_process_options *options)
{
    const int fd = memfd_create("stdin", MFD_CLOEXEC);
    assert_true(fd >= 0);
    const char *in = options->in != NULL ? options->in : "";
    const size_t n = options->in_bytes > 0 ? options->in_bytes : strlen(in);
    assert_int_equal(write(fd, in, n), n);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static _Noreturn void exec_program(const di_process_options *options)
{
    static const char program[] = DI_TEST_BUILD "/deepinfer";
    const char *argv[MAX_ARGS] = {"deepinfer"};
    for (size_t i = 0; options->args[i] != NULL && i + 2 < MAX_ARGS; i++)
        argv[i + 1] = options->args[i];
    const char *env[] = {"PATH=/usr/bin:/bin", "HOME=/nonexistent", "HF_HUB_OFFLINE=1",
                         options->env, NULL};
    static const int taken[] = {SIGINT, SIGTERM, SIGPIPE};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        signal(taken[i], SIG_DFL);
    execve(program, (char *const *)argv, (char *const *)env);
    _exit(127);
}

static void start_on_terminal(const di_process_options *options, di_process *process)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    char *name = strdup(ptsname(master));
    assert_non_null(name);
    process->pid = fork();
    assert_true(process->pid >= 0);
    if (process->pid == 0) {
        setsid();
        const int slave = open(name, O_RDWR);
        for (int fd = 0; fd <= STDERR_FILENO; fd++)
            dup2(slave, fd);
        exec_program(options);
    }
    free(name);
    process->in_fd = master;
    process->out_fd = master;
}

static void start_on_pipes(const di_process_options *options, di_process *process)
{
    int out[2], err[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    const int in = input_file(options);
    process->pid = fork();
    assert_true(process->pid >= 0);
    if (process->pid == 0) {
        dup2(in, STDIN_FILENO);
        dup2(options->out_path != NULL ? open(options->out_path, O_WRONLY) : out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        exec_program(options);
    }
    close(in);
    close(out[1]);
    close(err[1]);
    process->out_fd = out[0];
    process->err_fd = err[0];
}

void di_process_start(const di_process_options *options, di_process *process)
{
    *process = (di_process){.out_fd = -1, .err_fd = -1, .in_fd = -1, .code = -1};
    process->out = calloc(1, 1);
    process->err = calloc(1, 1);
    if (options->is_terminal)
        start_on_terminal(options, process);
    else
        start_on_pipes(options, process);
}

/* One read; at the end the descriptor becomes -1 (a terminal whose program is gone gives EIO). */
static void read_piece(int *fd, char **text, size_t *bytes)
{
    char piece[4096];
    const ssize_t n = read(*fd, piece, sizeof piece);
    if (n <= 0) {
        close(*fd);
        *fd = -1;
        return;
    }
    *text = realloc(*text, *bytes + (size_t)n + 1);
    assert_non_null(*text);
    memcpy(*text + *bytes, piece, (size_t)n);
    *bytes += (size_t)n;
    (*text)[*bytes] = '\0';
}

/* False when both are at their end. */
static bool read_some(di_process *process)
{
    struct pollfd fds[2] = {{.fd = process->out_fd, .events = POLLIN},
                            {.fd = process->err_fd, .events = POLLIN}};
    if (fds[0].fd < 0 && fds[1].fd < 0)
        return false;
    const int n_ready = poll(fds, 2, SILENCE_MS);
    if (n_ready == 0) {
        kill(process->pid, SIGKILL);
        fail_msg("the program is silent; stderr: %s", process->err);
    }
    if (fds[0].fd >= 0 && fds[0].revents != 0)
        read_piece(&process->out_fd, &process->out, &process->out_bytes);
    if (fds[1].fd >= 0 && fds[1].revents != 0)
        read_piece(&process->err_fd, &process->err, &process->err_bytes);
    return true;
}

bool di_process_read_until(di_process *process, const char *text)
{
    while (memmem(process->out, process->out_bytes, text, strlen(text)) == NULL)
        if (process->out_fd < 0 || !read_some(process))
            return false;
    return true;
}

void di_process_wait(di_process *process)
{
    while (read_some(process))
        continue;
    int status = 0;
    assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
    process->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void di_process_free(di_process *process)
{
    if (process->out_fd >= 0)
        close(process->out_fd);
    if (process->err_fd >= 0)
        close(process->err_fd);
    free(process->out);
    free(process->err);
    *process = (di_process){.out_fd = -1, .err_fd = -1, .in_fd = -1};
}

void di_process_run(const di_process_options *options, di_process *process)
{
    di_process_start(options, process);
    di_process_wait(process);
}
