#include "generate.h"

#include <stdlib.h>

static void fail(di_outcome *outcome, di_status status, const char *error)
{
    if (error == NULL || error[0] == '\0')
        error = di_status_name(status);
    outcome->error = di_app_text("%s", error);
    outcome->code = status == DI_ERR_ARGUMENT ? DI_EXIT_INPUT : di_exit_of_status(status);
}

typedef struct generation {
    di_engine *engine;
    di_request_id id;
    di_output_fn fn;
    void *user;
    di_outcome *outcome;
    bool is_cancelled;
    int32_t n_running; /* samples that have not given their last output */
} generation;

static void cancel(generation *self)
{
    if (!self->is_cancelled)
        di_engine_cancel(self->engine, self->id);
    self->is_cancelled = true;
}

/* The first failed sample says why. */
static void keep_failure(di_outcome *outcome, const di_output *output)
{
    if (outcome->error == NULL)
        fail(outcome, output->status, output->error);
}

/* Hands on what the last step gave. */
static void drain(generation *self)
{
    di_output output;
    while (di_engine_poll(self->engine, &output)) {
        if (output.id != self->id)
            continue;
        if (output.finish_reason == DI_FINISH_ERROR)
            keep_failure(self->outcome, &output);
        else if (self->fn != NULL && !self->fn(self->user, &output))
            cancel(self);
        if (output.finish_reason != DI_FINISH_NONE)
            self->n_running--;
    }
}

static di_status run_steps(generation *self)
{
    while (self->n_running > 0) {
        if (di_app_interrupted())
            cancel(self);
        bool has_work = false;
        const di_status status = di_engine_step(self->engine, &has_work);
        if (status != DI_OK)
            return status;
        drain(self);
        if (!has_work && self->n_running > 0)
            return DI_ERR_RUNTIME; /* the engine lost the request: never a silent end */
    }
    return DI_OK;
}

void di_app_generate(di_engine *engine, const di_request *request, di_output_fn fn, void *user,
                     di_outcome *outcome)
{
    *outcome = (di_outcome){NULL};
    generation self = {.engine = engine,
                       .fn = fn,
                       .user = user,
                       .outcome = outcome,
                       .n_running = request->sampling.max_tokens == 0 ? 1 : request->sampling.n};
    di_status status = di_engine_submit(engine, request, &self.id);
    if (status == DI_OK)
        status = run_steps(&self);
    if (status == DI_OK)
        status = di_engine_take_result(engine, self.id, &outcome->result);
    if (status != DI_OK && outcome->error == NULL)
        fail(outcome, status, di_last_error());
    if (outcome->error != NULL) {
        di_result_free(outcome->result);
        outcome->result = NULL;
    } else if (outcome->result->finish_reason == DI_FINISH_CANCELLED) {
        outcome->code = DI_EXIT_INTERRUPTED;
    }
}

void di_outcome_free(di_outcome *outcome)
{
    di_result_free(outcome->result);
    free(outcome->error);
    *outcome = (di_outcome){NULL};
}
