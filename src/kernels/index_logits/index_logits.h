/* Indexer scores (model spec 4.4): s_j = bf16(sum over heads of bf16(w_h * relu(bf16(q_h . k_j)))),
 * for the n_visible[row] first entries of a row's sequence; scores beyond them are not written.
 * Keys are Q4i entries of the KV cache; dim is a multiple of 32.
 *
 * q . k: queries and keys are e2m1 values times a power of two for 32 channels, so a group's part
 * is an exact integer times two powers of two; q . k = the groups' parts, added in ascending order
 * by fused multiply-adds ((integer * unit of q) * unit of k + sum). Items: n_rows *
 * ceil(max_visible / DI_INDEX_TILE), item = row * tiles + tile. */
#ifndef DI_KERNELS_INDEX_LOGITS_H
#define DI_KERNELS_INDEX_LOGITS_H

#include "base/fp.h"
#include "kernels/paged.h"

enum { DI_INDEX_TILE = 64 }; /* entries of one item */

typedef struct di_index_logits_args {
    const di_bf16 *q; /* [n_rows, n_heads, dim], rounded by quantize_q4i */
    const di_bf16 *w; /* [n_rows, n_heads]: weights_proj's output */
    float w_scale;    /* w_h = bf16(w * w_scale): dim^-.5 * n_heads^-.5 */
    di_paged keys;
    const int32_t *const *block_tables; /* [n_rows] */
    const int32_t *n_visible;           /* [n_rows] */
    di_bf16 *scores;                    /* [n_rows, max_visible] */
    int64_t n_heads, dim, max_visible;
} di_index_logits_args;

#endif
