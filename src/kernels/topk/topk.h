/* Selection over index scores (model spec 4.4). Ties go to the lowest index; +0 and -0 are equal; a
 * NaN score comes last. Items of both: rows. k >= 1; n_visible may be 0. */
#ifndef DI_KERNELS_TOPK_H
#define DI_KERNELS_TOPK_H

#include <stdint.h>

#include "base/fp.h"

/* Candidate blocks whose keys a vector kernel holds on its stack; rows with more go to the
 * reference. */
enum { DI_TOPK_BLOCK_LIMIT = 32768 };

/* The k largest of a row's n_visible scores (all of them if fewer), as ascending indices. With
 * `candidates`, only entries of a set block are eligible. */
typedef struct di_topk_args {
    const di_bf16 *scores; /* [n_rows, score_stride] */
    int64_t score_stride;
    const int32_t *n_visible; /* [n_rows] */
    const uint8_t
        *candidates; /* [n_rows, candidate_stride], 0 or 1 a block of block_size; or NULL */
    int64_t candidate_stride, block_size;
    int32_t *indices; /* [n_rows, k]: counts[row] of them are written */
    int32_t *counts;  /* [n_rows] */
    int64_t k;
} di_topk_args;

/* Marks a row's k blocks with the largest maximum over their visible entries; the block of the
 * newest visible entry is always one of them. */
typedef struct di_candidate_blocks_args {
    const di_bf16 *scores; /* [n_rows, score_stride] */
    int64_t score_stride;
    const int32_t *n_visible; /* [n_rows] */
    uint8_t *candidates; /* [n_rows, candidate_stride]: every block up to the newest is written,
                            none beyond */
    int64_t candidate_stride, block_size, k;
} di_candidate_blocks_args;

#endif
