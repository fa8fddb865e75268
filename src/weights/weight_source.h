/* Where a pass gets weights that need not be in memory: routed experts and Engram rows. Without a
 * cache they are read in place from the mapping and asked for ahead (read_ahead.h); with one,
 * experts are read into its slots (expert_cache.h). The results are the same, bit by bit. A source
 * belongs to one runner; one thread at a time calls all but the statistics. Where one may be NULL,
 * all weights are in memory. */
#ifndef DI_WEIGHTS_WEIGHT_SOURCE_H
#define DI_WEIGHTS_WEIGHT_SOURCE_H

#include "weights/bind.h"

typedef struct di_weight_source di_weight_source;

/* Counts since the source was opened. A use is an expert that a layer of a pass wants. */
typedef struct di_weight_stats {
    uint64_t n_hits;     /* uses that found the expert in memory */
    uint64_t n_misses;   /* uses that had to read it, or to ask for it */
    uint64_t bytes_read; /* into the cache; without one, by the process, as the system counts it */
    uint64_t wait_ns;    /* passes waited for the cache; without one unknown: 0 */
} di_weight_stats;

/* cache_bytes 0: no cache. DI_ERR_ARGUMENT if it is less than di_weight_cache_least. weights is
 * borrowed. */
DI_WARN_UNUSED di_status di_weight_source_open(const di_weights *weights, int64_t cache_bytes,
                                               di_weight_source **out);
void di_weight_source_close(di_weight_source *source); /* NULL is fine */

/* Bytes of one slot, and of the smallest cache: the experts of a token in one layer. */
DI_WARN_UNUSED di_status di_weight_cache_slot(const di_weights *weights, int64_t *bytes);
int64_t di_weight_cache_least(const di_weights *weights, int64_t slot_bytes);

/* A pass begins. What a failed one still held is given back. */
void di_weight_source_begin(di_weight_source *source);
/* The rows [n] of an Engram layer, index in the config's list, that the pass will read. */
void di_weight_source_ask_rows(di_weight_source *source, int engram_index, const int64_t *rows,
                               int64_t n);
/* The layer's experts ids [n], distinct, that the pass will acquire next, in this order. */
void di_weight_source_ask(di_weight_source *source, const di_layer_weights *layer,
                          const int32_t *ids, int64_t n);
/* Waits until the first of them is there; then *n_got of them, from it on, are, and experts[i]
 * points to each until it is released. DI_ERR_RUNTIME if one cannot be read; then nothing is
 * held. */
DI_WARN_UNUSED di_status di_weight_source_acquire(di_weight_source *source,
                                                  const di_layer_weights *layer, const int32_t *ids,
                                                  int64_t n, const di_expert_weights **experts,
                                                  int64_t *n_got);
void di_weight_source_release(di_weight_source *source, const di_layer_weights *layer,
                              const int32_t *ids, int64_t n);

void di_weight_source_get_stats(di_weight_source *source, di_weight_stats *out);

#endif
