/* Sampling parameters at admission: checked once, so that a step need not. */
#ifndef DI_SAMPLE_PARAMS_H
#define DI_SAMPLE_PARAMS_H

#include "base/arena.h"

/* DI_ERR_ARGUMENT for the first value out of its range, naming field, found and wanted. */
DI_WARN_UNUSED di_status di_sampling_params_check(const di_sampling_params *params,
                                                  int32_t vocab_size);

/* A copy that owns everything it points to, in the arena. `params` was checked. */
DI_WARN_UNUSED di_status di_sampling_params_copy(const di_sampling_params *params, di_arena *arena,
                                                 di_sampling_params *out);

#endif
