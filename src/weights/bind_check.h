/* Compares a checkpoint with what its configuration asks for, slots or not. */
#ifndef DI_WEIGHTS_BIND_CHECK_H
#define DI_WEIGHTS_BIND_CHECK_H

#include "weights/checkpoint_dir.h"
#include "weights/weight_list.h"

typedef struct di_part_totals {
    uint64_t n_tensors, bytes;
} di_part_totals;

typedef struct di_bind_result {
    di_part_totals parts[DI_N_PARTS]; /* of the tensors found */
    uint64_t copied_bytes;
} di_bind_result;

/* Looks up every tensor; whatever is missing, unexpected or wrong goes to `problems`. With `slots`
 * the good ones are bound; what has to be copied is taken from `arena`. Fails for lack of memory
 * only. */
DI_WARN_UNUSED di_status di_bind(const di_checkpoint *checkpoint, const di_config *config,
                                 di_weights *slots, di_arena *arena, di_problems *problems,
                                 di_bind_result *out);

#endif
