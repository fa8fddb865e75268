/* The parts of `deepinfer batch`: the requests file, the results file, the run, the progress. */
#ifndef DI_APPS_BATCH_H
#define DI_APPS_BATCH_H

#include "app.h"

/* ------------------------------------------------------------------------------ requests file */

typedef struct di_batch_item {
    const char *text; /* the line, without its newline */
    size_t bytes;
    size_t line;     /* its number, from 1 */
    char *custom_id; /* NULL: the line has none that can be read */
    uint64_t hash;
    bool is_done; /* its result is in the results file */
} di_batch_item;

typedef struct di_batch_input {
    const char *name; /* for error texts */
    char *data;
    di_batch_item *items; /* one a line that is not blank, in order */
    size_t n;
    size_t *by_id; /* items with a custom_id, sorted by it */
    size_t n_by_id;
} di_batch_input;

/* Reads the whole file ("-": stdin). A bad line is an item like others; a custom_id that is there
 * twice is DI_EXIT_INPUT. Free in any case. */
di_exit di_batch_input_load(const char *path, di_batch_input *out);
void di_batch_input_free(di_batch_input *input);
/* The item of a result: by custom_id, or without one by line. NULL if there is none. */
di_batch_item *di_batch_input_find(const di_batch_input *input, const char *custom_id, size_t line);

/* ------------------------------------------------------------------------------- results file */

typedef struct di_batch_output {
    const char *path;
    int fd; /* -1 = not open; locked against other runs */
    int64_t bytes;
    size_t n_kept;          /* results that were there already */
    size_t n_bad, n_broken; /* results of all runs with status 4xx, and with 5xx */
} di_batch_output;

/* Opens or makes the file and marks the items whose results it holds. A torn last line is cut off.
 * Results that do not belong to the input are DI_EXIT_INPUT, and nothing is changed then.
 * is_fresh: what the file holds is dropped. */
di_exit di_batch_output_open(const char *path, bool is_fresh, const di_batch_input *input,
                             di_batch_output *out);
/* Appends one result; it is on the disk when this returns. On failure the file is as before. */
di_exit di_batch_output_add(di_batch_output *out, const di_api_batch_result *result);
void di_batch_output_close(di_batch_output *out);

/* ----------------------------------------------------------------------------------- progress */

typedef struct di_batch_progress {
    bool is_quiet, is_tty, is_shown;
    size_t n_total, n_done, n_failed; /* requests, of all runs */
    uint64_t n_prompt_tokens;         /* of this run */
    uint64_t n_new_tokens;
    int64_t started_ns, shown_ns;
} di_batch_progress;

void di_batch_progress_start(di_batch_progress *progress);
/* Shows how far it is, if the last time is long enough ago. */
void di_batch_progress_update(di_batch_progress *progress);
/* Takes the bar away, for a line of text to follow. */
void di_batch_progress_clear(di_batch_progress *progress);
/* The last line: counts, time, rate. */
void di_batch_progress_finish(di_batch_progress *progress, size_t n_kept);

/* ---------------------------------------------------------------------------------------- run */

typedef struct di_batch_run {
    const di_model *model;
    di_engine *engine;
    const char *model_name; /* in responses to requests that name none */
    size_t max_seqs;        /* sequences to keep in the engine, waiting ones included */
    di_batch_input *input;
    di_batch_output *output;
    di_batch_progress *progress;
} di_batch_run;

/* Answers every item that is not done. DI_EXIT_OK whether or not requests failed. */
di_exit di_batch_run_all(di_batch_run *run);

#endif
