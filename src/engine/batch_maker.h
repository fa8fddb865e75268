/* Fills a batch (core/batch.h) from parts of sequences, in one arena. */
#ifndef DI_ENGINE_BATCH_MAKER_H
#define DI_ENGINE_BATCH_MAKER_H

#include "base/arena.h"
#include "kv/cache.h"

/* Tokens first .. first + n - 1 of one sequence. */
typedef struct di_batch_part {
    const di_kv_seq *kv; /* has places for all of them */
    int64_t first, n;
    const int32_t *token_ids; /* [n]; NULL: filled in later, when they are known */
    const int32_t
        *engram_ids; /* compressed ids by position; filled up to the part before the pass */
    float *compressor_state;
    int32_t *const *tables; /* [groups]: where the pass finds the block tables; NULL: in copies of
                               kv's, so that the sequence may change while the pass runs */
    bool wants_all_logits, wants_last_logits;
} di_batch_part;

/* The batch and its arrays while they are filled. */
typedef struct di_batch_maker {
    const di_kv_cache *kv;
    di_arena *arena;
    di_batch batch;
    int32_t *token_ids; /* the batch's, to fill in where parts had none */
    int32_t *positions, *row_seq, *cu_seqlens_q, *logit_rows;
    int64_t *slots[DI_MAX_KV_GROUPS];
    di_batch_seq *seqs;
} di_batch_maker;

/* Room for n_parts parts of n_rows tokens in all. */
DI_WARN_UNUSED di_status di_batch_begin(const di_kv_cache *kv, size_t n_rows, size_t n_parts,
                                        di_arena *arena, di_batch_maker *out);
/* The batch is complete after its last part. */
DI_WARN_UNUSED di_status di_batch_add(di_batch_maker *maker, const di_batch_part *part);

#endif
