/* Attention of each query over its window and its selected compressed entries, with a sink logit
 * per head in the denominator only (model spec 4.2). Keys are values. Probabilities stay fp32. Key
 * order: window entries by position, then compressed entries by index. Scores are lanes16 sums over
 * the channels; a channel of the output is a chain of fused multiply-adds over the keys. Items:
 * n_rows * n_heads, item = row * n_heads + head. head_dim is a multiple of 32. */
#ifndef DI_KERNELS_SPARSE_ATTENTION_H
#define DI_KERNELS_SPARSE_ATTENTION_H

#include <stdbool.h>

#include "base/fp.h"
#include "kernels/paged.h"

typedef struct di_sparse_attention_args {
    const di_bf16 *q;  /* [n_rows, n_heads, head_dim] */
    const float *sink; /* [n_heads] */
    di_bf16 *out;      /* [n_rows, n_heads, head_dim] */
    int64_t n_heads, head_dim;
    float scale; /* head_dim^-.5 */

    di_paged window;                     /* Q8 entries, one a position */
    const int32_t *const *window_tables; /* [n_rows] block tables */
    const int32_t *positions;            /* [n_rows] of the queries */
    int64_t window_len;                  /* keys: positions max(0, t - window_len + 1) .. t */
    const int32_t *window_floors;        /* [n_rows]: no window key below it; or NULL */

    di_paged compressed;  /* Q4kv entries; unused if indices is NULL */
    bool has_q8_selected; /* they are Q8 entries, as the window's (keys of a draft block) */
    const int32_t *const *compressed_tables; /* [n_rows] */
    const int32_t *indices;                  /* [n_rows, index_stride], counts[row] of them */
    const int32_t *counts;                   /* [n_rows] */
    int64_t index_stride;

    float *scratch;         /* per worker: di_sparse_attention_scratch, aligned to 64 bytes */
    int64_t scratch_stride; /* floats from one worker's scratch to the next one's */
} di_sparse_attention_args;

enum { DI_ATTENTION_HEADS = 64 }; /* heads that a kernel may take at once */

/* Floats of one worker's scratch: the decoded keys, and queries and probabilities of some heads. A
 * multiple of 16. */
static inline int64_t di_sparse_attention_scratch(int64_t window_len, int64_t index_stride,
                                                  int64_t head_dim)
{
    const int64_t n_keys = (window_len + index_stride + 15) / 16 * 16;
    return n_keys * head_dim + DI_ATTENTION_HEADS * (head_dim + n_keys);
}

#endif
