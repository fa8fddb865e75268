/* A checkpoint directory: where its files are, its configuration, its shards opened as one set. */
#ifndef DI_WEIGHTS_CHECKPOINT_DIR_H
#define DI_WEIGHTS_CHECKPOINT_DIR_H

#include "core/config.h"
#include "weights/problems.h"
#include "weights/safetensors.h"

/* Appends the directory with the files: `path` itself, or, if it is a Hugging Face cache entry
 * ("models--org--name"), the snapshot that refs/main names. */
DI_WARN_UNUSED di_status di_checkpoint_resolve(const char *path, di_buf *out);

/* DIR/config.json. */
DI_WARN_UNUSED di_status di_checkpoint_read_config(const char *dir, di_config *out);
/* DIR/generation_config.json; the defaults if there is none. */
DI_WARN_UNUSED di_status di_checkpoint_read_generation_config(const char *dir,
                                                              const di_config *config,
                                                              di_generation_config *out);

typedef struct di_checkpoint_tensor {
    const char *name;
    const di_tensor *tensor; /* NULL: named by the index, but its file has a problem or lacks it */
} di_checkpoint_tensor;

typedef struct di_checkpoint {
    const char *dir;
    di_safetensors *shards; /* those that opened */
    size_t n_shards;
    di_checkpoint_tensor *tensors; /* ascending by name (strcmp) */
    size_t n_tensors;
    size_t n_strays; /* tensors of the shards that the index does not give to them: not used */
    uint64_t payload_bytes; /* of the tensors */
    bool has_index;
    di_arena arena, index_arena; /* index_arena: the names of the index */
} di_checkpoint;

/* Opens the shards that model.safetensors.index.json names or, without an index, model.safetensors.
 * What is wrong with them goes to `problems`; the tensors of the rest are there all the same. Fails
 * only for lack of memory. Free with di_checkpoint_close in any case of success. */
DI_WARN_UNUSED di_status di_checkpoint_open(const char *dir, di_problems *problems,
                                            di_checkpoint *out);
void di_checkpoint_close(di_checkpoint *checkpoint);

/* NULL if there is none of that name. */
const di_checkpoint_tensor *di_checkpoint_find(const di_checkpoint *checkpoint, const char *name);

#endif
