/* Token embedding into all hyper-connection streams (model spec 4.1). Items: rows. */
#ifndef DI_KERNELS_EMBED_H
#define DI_KERNELS_EMBED_H

#include "base/fp.h"

typedef struct di_embed_args {
    const di_bf16 *table;     /* [vocab, dim] */
    const int32_t *token_ids; /* [n] */
    di_bf16 *h;               /* [n, hc, dim] */
    int64_t dim;
    int hc;
} di_embed_args;

#endif
