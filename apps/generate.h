/* One request from submission to its result, with Ctrl-C. */
#ifndef DI_APPS_GENERATE_H
#define DI_APPS_GENERATE_H

#include "app.h"

/* Called for each output of the request. Return false to cancel it. */
typedef bool (*di_output_fn)(void *user, const di_output *output);

typedef struct di_outcome {
    di_result *result; /* of all samples; NULL if one of them failed */
    char *error;       /* then why, malloc'ed */
    di_exit code;      /* of a failure; DI_EXIT_INTERRUPTED if cancelled, with a result */
} di_outcome;

/* Runs `request` to its end. SIGINT cancels it between two steps: the result holds what was made.
 * Whatever is wrong with the request itself is DI_EXIT_INPUT. */
void di_app_generate(di_engine *engine, const di_request *request, di_output_fn fn, void *user,
                     di_outcome *outcome);
void di_outcome_free(di_outcome *outcome);

#endif
