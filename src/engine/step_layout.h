/* The first part of a step on the device: from what the host knows and what the slots hold to the
 * batch of the pass. */
#ifndef DI_ENGINE_STEP_LAYOUT_H
#define DI_ENGINE_STEP_LAYOUT_H

#include "engine/step.h"
#include "spec/planner.h"

/* Decides how many drafts of each sequence are verified, fills the step's batch and what layout
 * sets of its sequences and jobs, and takes the slots' tokens and drafts. order: scratch for as
 * many sequences. Fails only without memory, or if a slot is not what the step takes it for. */
DI_WARN_UNUSED di_status di_step_lay_out(const di_runner *runner, di_draft_order *order,
                                         di_step *step);

/* DI_ERR_RUNTIME if the slot has had other turns since. */
DI_WARN_UNUSED di_status di_slot_check(const di_slot_ref *ref);

#endif
