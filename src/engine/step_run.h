/* A step on the device: layout, forward pass, sampling and verification, drafts. */
#ifndef DI_ENGINE_STEP_RUN_H
#define DI_ENGINE_STEP_RUN_H

#include "engine/step.h"
#include "sample/mask_ahead.h"
#include "spec/planner.h"

typedef struct di_step_runner {
    di_runner *runner;
    di_sampler_workspace workspace;
    di_mask_ahead *masks;
    di_draft_order order;
    di_ids forced; /* scratch */
    di_buf bytes;  /* scratch */
} di_step_runner;

DI_WARN_UNUSED di_status di_step_runner_init(di_runner *runner, di_step_runner *out);
void di_step_runner_free(di_step_runner *r);

/* Runs a step and fills its results. Never fails as such: the step says what did. */
void di_step_run(di_step_runner *r, di_step *step);

/* step_draft.c: drafts behind the tokens that the step's jobs sampled. What goes wrong costs drafts
 * only. */
void di_step_draft(di_step_runner *r, di_step *step);

#endif
