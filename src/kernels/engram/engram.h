/* Engram: hashed n-gram memory (model spec 4.6). Items of all three: rows (tokens). */
#ifndef DI_KERNELS_ENGRAM_H
#define DI_KERNELS_ENGRAM_H

#include "base/fp.h"

/* Table rows of each token's n-grams ending there: for order k + 1 (k = 1 .. max_ngram - 1) and
 * head a, column (k - 1) * n_heads + a. A position before the sequence counts as pad_id. */
typedef struct di_engram_hash_args {
    const int32_t *const *history; /* [n]: compressed ids of the row's sequence, from position 0 */
    const int32_t *positions;      /* [n] */
    const int64_t *multipliers;    /* [max_ngram] */
    const int64_t *primes;         /* [max_ngram - 1, n_heads] */
    const int64_t *offsets;        /* [(max_ngram - 1) * n_heads] */
    int64_t *rows;                 /* [n, (max_ngram - 1) * n_heads], offset included */
    int64_t max_ngram, n_heads;
    int32_t pad_id;
} di_engram_hash_args;

/* bf16(e4m3 * 2^(scale - 127)) of the n_columns rows of a token, one after another. dim is a
 * multiple of 32. */
typedef struct di_engram_gather_args {
    const uint8_t *codes, *scales; /* [n_table_rows, dim], [n_table_rows, dim / 32] */
    const int64_t *rows;           /* [n, n_columns] */
    di_bf16 *y;                    /* [n, n_columns * dim] */
    int64_t n_columns, dim;
} di_engram_gather_args;

/* h_j += sigmoid(signed sqrt of the scaled, normalised product of h_j and key_j) * value; a product
 * of 0 counts as positive. */
typedef struct di_engram_gate_args {
    di_bf16 *h;                         /* [n, hc, dim], in place */
    const di_bf16 *kv;                  /* [n, hc + 1, dim]: the keys, then the value */
    const di_bf16 *q_weight, *k_weight; /* [hc, dim] */
    int64_t dim;
    int hc;
    float norm_eps;
} di_engram_gate_args;

#endif
