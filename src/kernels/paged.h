/* Paged stores of quantized rows (KV cache entries). A block holds block_len entries: first all
 * their codes, then all their scales; blocks of one store lie block_bytes apart. */
#ifndef DI_KERNELS_PAGED_H
#define DI_KERNELS_PAGED_H

#include <stdint.h>

#include "base/inline.h"

typedef struct di_paged {
    const uint8_t *data; /* block 0 */
    int64_t block_bytes;
    int64_t scales_offset; /* of the first scale within a block */
    int32_t block_len;
    int32_t code_bytes, scale_bytes; /* of one entry */
} di_paged;

typedef struct di_paged_out {
    uint8_t *data;
    int64_t block_bytes, scales_offset;
    int32_t block_len;
    int32_t code_bytes, scale_bytes;
} di_paged_out;

DI_DEVICE_INLINE const uint8_t *di_paged_codes(const di_paged *p, int64_t slot)
{
    return p->data + slot / p->block_len * p->block_bytes + slot % p->block_len * p->code_bytes;
}

DI_DEVICE_INLINE const uint8_t *di_paged_scales(const di_paged *p, int64_t slot)
{
    return p->data + slot / p->block_len * p->block_bytes + p->scales_offset +
           slot % p->block_len * p->scale_bytes;
}

/* Slot of entry `index` through a block table. */
DI_DEVICE_INLINE int64_t di_paged_slot(const int32_t *block_table, int32_t block_len, int64_t index)
{
    return (int64_t)block_table[index / block_len] * block_len + index % block_len;
}

#endif
