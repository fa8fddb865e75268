/* Reads parts of experts from the shards into memory, past the page cache where the file system
 * allows it, since what is read is kept by whoever reads it. */
#ifndef DI_WEIGHTS_SHARD_READER_H
#define DI_WEIGHTS_SHARD_READER_H

#include "weights/expert_place.h"

typedef struct di_shard_reader {
    const di_weights *weights;
    int *direct_fds; /* [n_shards]: opened with O_DIRECT, or -1 */
    size_t n_shards;
} di_shard_reader;

/* weights is borrowed. */
DI_WARN_UNUSED di_status di_shard_reader_open(const di_weights *weights, di_shard_reader *out);
void di_shard_reader_close(di_shard_reader *reader);

/* A part of a range of an expert: `bytes` from `first` on, multiples of DI_IO_ALIGN, to `to`, which
 * is aligned to it. The range's bytes beyond `wanted` need not be there. DI_ERR_RUNTIME names the
 * file. Free for all threads. */
DI_WARN_UNUSED di_status di_shard_read(const di_shard_reader *reader, const di_expert_range *range,
                                       int64_t first, int64_t bytes, unsigned char *to,
                                       int64_t *bytes_read);

#endif
