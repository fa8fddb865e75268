/* model.safetensors.index.json: which shard holds which tensor. */
#ifndef DI_WEIGHTS_SHARD_INDEX_H
#define DI_WEIGHTS_SHARD_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct di_shard_index_entry {
    const char *tensor;
    int32_t shard; /* into files */
} di_shard_index_entry;

typedef struct di_shard_index {
    di_shard_index_entry *entries; /* ascending by tensor (strcmp) */
    size_t n_entries;
    const char **files; /* plain file names, in order of first use */
    int32_t n_files;
    bool has_total_size;
    uint64_t total_size; /* metadata.total_size: payload bytes of all tensors */
    di_arena arena;
} di_shard_index;

enum { DI_MAX_SHARDS = 4096 };

/* A file name that leads out of the directory, or is none, is refused here, before anything opens
 * it. */
DI_WARN_UNUSED di_status di_shard_index_parse(const char *text, size_t len, const char *name,
                                              di_shard_index *out);
DI_WARN_UNUSED di_status di_shard_index_load(const char *path, di_shard_index *out);
/* NULL if the index does not name the tensor. */
const di_shard_index_entry *di_shard_index_find(const di_shard_index *index, const char *tensor);
void di_shard_index_free(di_shard_index *index);

#endif
