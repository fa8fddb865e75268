#include "hub_progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <time.h>

enum { BAR_CELLS = 20 }; /* the whole line stays under 80 columns */
static const int64_t bar_interval_ns = 100000000;
static const int64_t line_interval_ns = 10000000000;

int64_t di_hub_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

di_hub_amount di_hub_amount_of(int64_t bytes)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB"};
    di_hub_amount amount;
    if (bytes < 1000) {
        snprintf(amount.text, sizeof amount.text, "%" PRId64 " B", bytes);
        return amount;
    }
    double value = (double)bytes / 1000;
    size_t unit = 0;
    while (value >= 999.95 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1000;
        unit++;
    }
    snprintf(amount.text, sizeof amount.text, "%.1f %s", value, units[unit]);
    return amount;
}

void di_hub_progress_begin(di_hub_progress *progress, const di_hub_options *options,
                           int64_t total_bytes, bool is_shown)
{
    *progress = (di_hub_progress){
        .out = options->progress,
        .is_tty = options->is_progress_tty,
        .is_shown = is_shown,
        .total_bytes = total_bytes,
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .start_ns = di_hub_clock_ns(),
    };
    progress->drawn_ns = progress->start_ns;
}

/* "1:02:03" left at this rate, or "" while there is none. */
static void format_rest(char *text, size_t bytes, int64_t rest_bytes, double bytes_per_s)
{
    text[0] = 0;
    const double rest_s = bytes_per_s > 0 ? (double)rest_bytes / bytes_per_s : -1;
    if (rest_s < 0 || rest_s > 1e6)
        return;
    const int s = (int)rest_s;
    if (s >= 3600)
        snprintf(text, bytes, ", %d:%02d:%02d left", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, bytes, ", %d:%02d left", s / 60, s % 60);
}

static void draw(di_hub_progress *progress, int64_t now_ns)
{
    const int64_t done = atomic_load(&progress->done_bytes);
    const int64_t total = progress->total_bytes;
    const double share = total > 0 ? (double)done / (double)total : 1;
    const double elapsed_s = (double)(now_ns - progress->start_ns) / 1e9;
    const double rate =
        elapsed_s > 0 ? (double)atomic_load(&progress->received_bytes) / elapsed_s : 0;
    char rest[48];
    format_rest(rest, sizeof rest, total - done, rate);

    progress->drawn_ns = now_ns;
    if (progress->is_tty) {
        char bar[BAR_CELLS + 1];
        for (int i = 0; i < BAR_CELLS; i++)
            bar[i] = (double)i < share * BAR_CELLS ? '#' : '.';
        bar[BAR_CELLS] = 0;
        fprintf(progress->out, "\r[%s] ", bar);
    }
    fprintf(progress->out, "%3d%% %s of %s, %s/s%s", (int)(share * 100),
            di_hub_amount_of(done).text, di_hub_amount_of(total).text,
            di_hub_amount_of((int64_t)rate).text, rest);
    fputs(progress->is_tty ? "\033[K" : "\n", progress->out);
    fflush(progress->out);
    progress->has_bar = progress->is_tty;
}

void di_hub_progress_draw(di_hub_progress *progress)
{
    if (!progress->out || !progress->is_shown)
        return;
    const int64_t now_ns = di_hub_clock_ns();
    pthread_mutex_lock(&progress->mutex);
    if (now_ns - progress->drawn_ns >= (progress->is_tty ? bar_interval_ns : line_interval_ns))
        draw(progress, now_ns);
    pthread_mutex_unlock(&progress->mutex);
}

void di_hub_progress_note(di_hub_progress *progress, const char *fmt, ...)
{
    if (!progress->out)
        return;
    di_hub_error line; /* for its cleaning of control bytes */
    char text[sizeof line.text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    di_hub_fail(&line, DI_OK, "%s", text);
    pthread_mutex_lock(&progress->mutex);
    fprintf(progress->out, "%s%s\n", progress->has_bar ? "\r\033[K" : "", line.text);
    fflush(progress->out);
    progress->has_bar = false;
    pthread_mutex_unlock(&progress->mutex);
}

void di_hub_progress_end(di_hub_progress *progress)
{
    if (progress->out && progress->is_shown) {
        pthread_mutex_lock(&progress->mutex);
        draw(progress, di_hub_clock_ns());
        if (progress->has_bar)
            fputc('\n', progress->out);
        fflush(progress->out);
        progress->has_bar = false;
        pthread_mutex_unlock(&progress->mutex);
    }
    pthread_mutex_destroy(&progress->mutex);
}
