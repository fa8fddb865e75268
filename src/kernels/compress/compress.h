/* The ratio-2 compressor's pooling (model spec 4.3): per channel, latent = k0 w0 + k1 w1 with
 * w = softmax over the group's two gate values; bf16. Items: groups. */
#ifndef DI_KERNELS_COMPRESS_H
#define DI_KERNELS_COMPRESS_H

#include "base/fp.h"

typedef struct di_compress_pool_args {
    const float *k, *gate; /* [n_groups * 2, dim]: consecutive tokens */
    di_bf16 *latent;       /* [n_groups, dim] */
    int64_t dim;
} di_compress_pool_args;

#endif
