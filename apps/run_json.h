/* How `run` writes a result: one JSON object, or a listing of log probabilities. */
#ifndef DI_APPS_RUN_JSON_H
#define DI_APPS_RUN_JSON_H

#include <jansson.h>

#include "app.h"

typedef struct di_run_report {
    size_t index;
    const di_model *model;
    const di_result *result;
    bool has_samples; /* one of several: its number is told */
    const char *echo; /* the prompt's text, or NULL */
    size_t echo_bytes;
    const json_t *message; /* of a chat, or NULL */
} di_run_report;

/* One line on stdout. */
void di_run_write_json(const di_run_report *report);
void di_run_write_json_error(size_t index, const char *error);
/* One line a position on stdout, prompt first. */
void di_run_write_logprobs(const di_run_report *report);

#endif
