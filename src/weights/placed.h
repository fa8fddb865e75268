/* Weights that every pass streams (linears, experts, head), copied from the files into large pages,
 * each worker's part on its own node: option weights=copy. What is only looked up (embeddings,
 * Engram tables), small, or read by no pass (vision) stays in the mapping. */
#ifndef DI_WEIGHTS_PLACED_H
#define DI_WEIGHTS_PLACED_H

#include "base/team.h"
#include "weights/bind.h"

typedef struct di_placed_weights di_placed_weights;

/* What is copied beside the backbone. */
typedef struct di_placed_parts {
    bool has_experts; /* routed experts; without, they are left to a weight cache */
    bool has_drafter; /* draft blocks; without, no pass reads them */
} di_placed_parts;

/* Bytes of the copy. */
DI_WARN_UNUSED di_status di_placed_bytes(const di_config *config, di_placed_parts parts,
                                         int64_t *bytes);

/* Reads them with the team's workers and points the slots of `weights` to the copy, which must
 * outlive their use. DI_ERR_MEMORY if this machine has less memory; then nothing has changed. */
DI_WARN_UNUSED di_status di_weights_place(di_weights *weights, const di_team *team,
                                          di_placed_parts parts, di_placed_weights **out);
void di_placed_weights_free(di_placed_weights *placed); /* NULL is fine */

#endif
