/* A model of a given shape without a checkpoint: random weights in memory, for the real forward
 * pass.
 *
 * Routed experts share a pool: expert e of a layer is a place in it, of which no two of a layer
 * begin less than a part of an expert apart, so that a step that takes one byte for two experts
 * takes it twice from memory. The embedding is the head's memory. */
#ifndef DI_BENCH_SYNTHETIC_H
#define DI_BENCH_SYNTHETIC_H

#include "bench/memory.h"
#include "engine/model.h"

typedef struct di_synthetic {
    di_model model;
    di_bench_memory dense, expert_codes, expert_scales;
    int64_t n_pool_experts; /* experts that the pool has room for */
    int64_t expert_bytes;   /* codes and scales of one */
} di_synthetic;

/* n_pool_experts: 0 = by the caches' size; never more than the model has. */
DI_WARN_UNUSED di_status di_synthetic_init(const di_config *config, int64_t n_pool_experts,
                                           di_synthetic *out);
void di_synthetic_free(di_synthetic *synthetic);

/* The layers of a model to run when only n of them fit: of the kinds that it has most of, each with
 * the layers whose entries it reads. layers [n]: ascending; fewer than n is DI_ERR_ARGUMENT. */
DI_WARN_UNUSED di_status di_synthetic_pick(const di_config *config, int n, int *layers);
/* The configuration of these layers alone; Engram tables of at most 512 MiB. */
void di_synthetic_reduce(const di_config *config, const int *layers, int n, di_config *out);

/* Layers that do the same work. */
bool di_synthetic_is_same_kind(const di_config *config, int a, int b);
bool di_synthetic_has_engram(const di_config *config, int layer);

#endif
