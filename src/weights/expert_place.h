/* Where the tensors of a routed expert are in the shards. */
#ifndef DI_WEIGHTS_EXPERT_PLACE_H
#define DI_WEIGHTS_EXPERT_PLACE_H

#include "weights/bind.h"
#include "weights/safetensors.h"

/* What offsets, sizes and addresses of direct reads are multiples of: a page. */
enum { DI_IO_ALIGN = 4096, DI_EXPERT_TENSORS = 6 };

/* Bytes that lie together in a shard, widened to multiples of DI_IO_ALIGN. */
typedef struct di_expert_range {
    const di_safetensors *shard;
    int64_t offset, bytes; /* may reach beyond the file's end */
    int64_t wanted;        /* bytes from offset on that must be there */
    int64_t at;            /* place in the slot of the expert */
} di_expert_range;

typedef struct di_expert_place {
    di_expert_range ranges[DI_EXPERT_TENSORS];
    int n_ranges;
    int64_t positions[DI_EXPERT_TENSORS]; /* in the slot: codes, scales of w1, w2, w3 */
    int64_t slot_bytes;                   /* of all ranges */
} di_expert_place;

/* Experts of all layers, the draft blocks' behind the others; di_layer_weights.first_expert is a
 * layer's first number. */
int64_t di_experts_count(const di_weights *weights);
const di_expert_weights *di_experts_get(const di_weights *weights, int64_t number);

/* DI_ERR_UNSUPPORTED if a tensor is in no shard. */
DI_WARN_UNUSED di_status di_expert_place_find(const di_weights *weights, int64_t number,
                                              di_expert_place *out);
/* The expert as it is in a slot that holds its ranges. */
void di_expert_place_view(const di_expert_place *place, const di_expert_weights *expert,
                          const unsigned char *slot, di_expert_weights *out);

#endif
