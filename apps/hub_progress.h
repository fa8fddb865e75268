/* What the user sees of a download: a bar on a terminal, else a line now and then, and notes. Bytes
 * are counted by several threads; the drawing is done by one. */
#ifndef DI_APPS_HUB_PROGRESS_H
#define DI_APPS_HUB_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>

#include "hub_error.h"

typedef struct di_hub_progress {
    FILE *out; /* NULL: silent */
    bool is_tty;
    bool is_shown; /* show amounts; notes are always given */
    int64_t total_bytes;
    _Atomic int64_t done_bytes;     /* in place or in an .incomplete */
    _Atomic int64_t received_bytes; /* came over the network this time */
    pthread_mutex_t mutex;          /* of `out` and what follows */
    int64_t start_ns, drawn_ns;
    bool has_bar; /* the cursor is behind a bar */
} di_hub_progress;

void di_hub_progress_begin(di_hub_progress *progress, const di_hub_options *options,
                           int64_t total_bytes, bool is_shown);
/* Draws the bar or prints the line if it is time for it. */
void di_hub_progress_draw(di_hub_progress *progress);
void di_hub_progress_note(di_hub_progress *progress, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Draws the last state and ends the line. */
void di_hub_progress_end(di_hub_progress *progress);

/* "510.3 GB", decimal units. */
typedef struct di_hub_amount {
    char text[24];
} di_hub_amount;
di_hub_amount di_hub_amount_of(int64_t bytes);

int64_t di_hub_clock_ns(void);

#endif
