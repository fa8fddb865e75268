/* Growable array of token ids. */
#ifndef DI_CORE_IDS_H
#define DI_CORE_IDS_H

#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"

typedef struct di_ids {
    int32_t *data; /* NULL until the first push; owned, di_ids_free */
    size_t len;
    size_t cap;
} di_ids;

DI_WARN_UNUSED static inline di_status di_ids_push(di_ids *ids, int32_t id)
{
    if (ids->len == ids->cap)
        DI_TRY(DI_GROW(&ids->data, &ids->cap, ids->len + 1));
    ids->data[ids->len++] = id;
    return DI_OK;
}

static inline void di_ids_free(di_ids *ids)
{
    free(ids->data);
    *ids = (di_ids){0};
}

#define DI_IDS_AUTO __attribute__((cleanup(di_ids_free))) di_ids

#endif
