#include "batch.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 24 };
static const int64_t ns_per_s = 1000000000;
static const int64_t tty_every_ns = 200000000;
static const int64_t line_every_ns = 10000000000;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * ns_per_s + now.tv_nsec;
}

static double seconds_since_start(const di_batch_progress *p)
{
    const double seconds = (double)(now_ns() - p->started_ns) / (double)ns_per_s;
    return seconds > 1e-6 ? seconds : 1e-6;
}

void di_batch_progress_start(di_batch_progress *progress)
{
    progress->is_tty = isatty(STDERR_FILENO) == 1;
    progress->started_ns = now_ns();
    progress->shown_ns = progress->started_ns;
}

static void show_bar(di_batch_progress *p, double rate)
{
    char bar[BAR_WIDTH + 1];
    const size_t n_full = p->n_total > 0 ? BAR_WIDTH * p->n_done / p->n_total : BAR_WIDTH;
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', n_full);
    bar[BAR_WIDTH] = '\0';
    fprintf(stderr, "\r\033[K[%s] %zu/%zu, %zu failed, %" PRIu64 " tokens, %.1f tokens/s", bar,
            p->n_done, p->n_total, p->n_failed, p->n_new_tokens, rate);
    fflush(stderr);
    p->is_shown = true;
}

void di_batch_progress_update(di_batch_progress *progress)
{
    const int64_t now = now_ns();
    const int64_t pause = progress->is_tty ? tty_every_ns : line_every_ns;
    if (progress->is_quiet || now - progress->shown_ns < pause)
        return;
    progress->shown_ns = now;
    const double rate = (double)progress->n_new_tokens / seconds_since_start(progress);
    if (progress->is_tty)
        show_bar(progress, rate);
    else
        di_app_note("%zu of %zu requests done, %zu failed, %" PRIu64 " new tokens, %.1f tokens/s",
                    progress->n_done, progress->n_total, progress->n_failed, progress->n_new_tokens,
                    rate);
}

void di_batch_progress_clear(di_batch_progress *progress)
{
    if (progress->is_shown)
        fputs("\r\033[K", stderr);
    progress->is_shown = false;
}

void di_batch_progress_finish(di_batch_progress *progress, size_t n_kept)
{
    di_batch_progress_clear(progress);
    if (progress->is_quiet)
        return;
    const double seconds = seconds_since_start(progress);
    di_app_note("%zu of %zu requests done, %zu failed, %zu kept from before; %" PRIu64
                " prompt and %" PRIu64 " new tokens in %.1f s, %.1f tokens/s",
                progress->n_done, progress->n_total, progress->n_failed, n_kept,
                progress->n_prompt_tokens, progress->n_new_tokens, seconds,
                (double)progress->n_new_tokens / seconds);
}
