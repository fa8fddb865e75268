/* The input of one forward pass: rows (tokens) of one or more sequences, struct-of-arrays. Made in
 * the step arena by the engine, read by the model. Rows of a sequence are consecutive and
 * ascending. */
#ifndef DI_CORE_BATCH_H
#define DI_CORE_BATCH_H

#include <stdint.h>

/* KV groups: entries of equal ratio that share a block table. 0 = the sliding windows of all
 * layers, then one group per compression ratio of the model (kv/layout.h). */
enum { DI_MAX_KV_GROUPS = 3 };

/* Most tokens of one sequence that a pass verifies beside the one it would compute anyway. */
enum { DI_MAX_DRAFTS = 7 };

/* Pending tokens that a ratio-2 compressor keeps: of the pairs that the rows of a verification
 * touch (DI_MAX_DRAFTS + 1 rows), so that the sequence can go on from any of them. */
enum { DI_PENDING_PAIRS = 4 };

typedef struct di_batch_seq {
    const int32_t *block_tables[DI_MAX_KV_GROUPS];
    const int32_t *engram_ids; /* [context_len]: compressed token ids from position 0 */
    int32_t window_floor;      /* positions below it are in no window (after a replay), else 0 */
    int32_t decoder_start;     /* where the prompt's rows begin that all layers compute
                                  (core/truncation.h); 0 = all of them. Rows whose logits are wanted
                                  must be among them */
    float *compressor_state;   /* [n ratio-2 sources, DI_PENDING_PAIRS, 2, head_dim]: k and gate of
                                  the first token of pair p at p % DI_PENDING_PAIRS; read for a
                                  first row at an odd position; updated */
} di_batch_seq;

typedef struct di_batch {
    int32_t n_rows, n_seqs, n_logit_rows;
    const int32_t *token_ids;               /* [n_rows] */
    const int32_t *positions;               /* [n_rows] */
    const int32_t *row_seq;                 /* [n_rows]: index into seqs */
    const int32_t *cu_seqlens_q;            /* [n_seqs + 1]: first row of each sequence */
    const int64_t *slots[DI_MAX_KV_GROUPS]; /* [n_rows]: where the row's entry goes; -1 = the row
                                               completes no entry of this group */
    const int32_t *logit_rows; /* [n_logit_rows]: rows whose logits are wanted, ascending */
    const di_batch_seq *seqs;  /* [n_seqs] */
} di_batch;

#endif
