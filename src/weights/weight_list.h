/* Every tensor a configuration asks for (model spec 2): name, dtype, shape, and the slot of
 * di_weights that it fills. The only place where tensor names stand; the binder, the
 * test-checkpoint writer and inspect all walk this list. */
#ifndef DI_WEIGHTS_WEIGHT_LIST_H
#define DI_WEIGHTS_WEIGHT_LIST_H

#include "weights/bind.h"

/* What a weight is stored as. The quantized ones are two tensors, NAME.weight and NAME.scale. */
typedef enum di_weight_kind {
    DI_WEIGHT_KIND_BF16,   /* BF16 matrix: di_bf16_matrix */
    DI_WEIGHT_KIND_VECTOR, /* BF16 vector: const di_bf16 * */
    DI_WEIGHT_KIND_NORM,   /* BF16 vector, F32 allowed: di_norm_weight */
    DI_WEIGHT_KIND_F32,    /* F32 vector or matrix, BF16 allowed and widened: const float * */
    DI_WEIGHT_KIND_F8,     /* F8_E4M3, F8_E8M0 scale per 32x32: di_qweight */
    DI_WEIGHT_KIND_F4,     /* I8 (two FP4 codes), F8_E8M0 scale per row and 32: di_qweight */
    DI_WEIGHT_KIND_TABLE,  /* F8_E4M3, F8_E8M0 scale per row and 32: di_engram_weights */
} di_weight_kind;

/* Which part of the model a tensor belongs to, for sums. */
typedef enum di_weight_part {
    DI_PART_EMBEDDING, /* embed, head, norm */
    DI_PART_ATTENTION, /* with compressor and indexer */
    DI_PART_HYPER_CONNECTION,
    DI_PART_GATE,
    DI_PART_EXPERTS,
    DI_PART_SHARED_EXPERT,
    DI_PART_ENGRAM,
    DI_PART_DRAFT, /* everything of the draft blocks, their experts included */
    DI_PART_VISION,
    DI_N_PARTS
} di_weight_part;

const char *di_weight_part_name(di_weight_part part);

typedef struct di_weight_tensor {
    const char *name; /* valid during the call */
    di_weight_part part;
    di_weight_kind kind;
    bool is_scale;
    di_dtype dtype;      /* as released; kinds NORM and F32 allow another one */
    int rank;            /* 1 or 2 */
    int64_t shape[2];    /* of this tensor, as stored */
    int64_t n_out, n_in; /* of the weight it belongs to; a vector is [n_out, 1] */
    void *slot;          /* the field of di_weights; NULL if the walk had none */
} di_weight_tensor;

bool di_weight_accepts(const di_weight_tensor *tensor, di_dtype dtype);

typedef di_status (*di_weight_fn)(void *user, const di_weight_tensor *tensor);

/* Calls fn for every tensor, layer by layer; stops at its first failure. `slots` may be NULL; else
 * all its arrays and the structs a layer of its kind has must be there. */
DI_WARN_UNUSED di_status di_weight_list(const di_config *config, di_weights *slots, di_weight_fn fn,
                                        void *user);

/* Total number of tensors and of bytes as released. */
DI_WARN_UNUSED di_status di_weight_totals(const di_config *config, uint64_t *n_tensors,
                                          uint64_t *payload_bytes);

#endif
