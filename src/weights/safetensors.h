/* One .safetensors file: 8 bytes of header length, a JSON header naming dtype, shape and byte range
 * of every tensor, then the bytes. Read strictly: whatever does not fit together exactly (an
 * unknown dtype, a size that is not shape times dtype, a hole, an overlap, a byte too few or too
 * many, a name twice) is an error that names file and tensor. */
#ifndef DI_WEIGHTS_SAFETENSORS_H
#define DI_WEIGHTS_SAFETENSORS_H

#include "base/arena.h"
#include "base/file.h"
#include "core/tensor.h"

typedef struct di_safetensors_entry {
    const char *name;
    di_tensor tensor; /* data points into the mapping */
} di_safetensors_entry;

typedef struct di_safetensors {
    const char *path;
    di_safetensors_entry *entries; /* ascending by name (strcmp) */
    size_t n_entries;
    uint64_t payload_bytes;
    di_mapping mapping; /* fd -1 if the bytes are the caller's */
    di_arena arena;
} di_safetensors;

/* Maps the file and reads its header; the payload is not touched. */
DI_WARN_UNUSED di_status di_safetensors_open(const char *path, di_safetensors *out);
/* The same for a file that is in memory already; data must outlive *out. name is for errors. */
DI_WARN_UNUSED di_status di_safetensors_from_memory(const void *data, size_t size, const char *name,
                                                    di_safetensors *out);
void di_safetensors_close(di_safetensors *file);

/* NULL if there is no such tensor. */
const di_tensor *di_safetensors_find(const di_safetensors *file, const char *name);

#endif
