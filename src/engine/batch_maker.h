/* Fills a batch (core/batch.h) from parts of sequences, in one arena. */
#ifndef DI_ENGINE_BATCH_MAKER_H
#define DI_ENGINE_BATCH_MAKER_H

#include "base/arena.h"
#include "kv/cache.h"

/* Tokens first .. first + n - 1 of one sequence. */
typedef struct di_batch_part {
    int32_t *const *tables; /* [groups]: block tables with places for all of them; read by the pass,
                               too */
    int64_t write_floor, window_floor, decoder_start; /* as in di_kv_seq */
    int64_t first, n;
    const int32_t *token_ids; /* [n] */
    const int32_t
        *engram_ids; /* compressed ids by position; filled up to the part before the pass */
    float *compressor_state;
    bool wants_all_logits, wants_last_logits;
} di_batch_part;

/* The batch and its arrays while they are filled. */
typedef struct di_batch_maker {
    const di_kv_cache *kv;
    di_batch batch;
    int32_t *token_ids, *positions, *row_seq, *cu_seqlens_q, *logit_rows;
    int64_t *slots[DI_MAX_KV_GROUPS];
    di_batch_seq *seqs;
} di_batch_maker;

/* Room for n_parts parts of at most n_rows tokens in all. */
DI_WARN_UNUSED di_status di_batch_begin(const di_kv_cache *kv, size_t n_rows, size_t n_parts,
                                        di_arena *arena, di_batch_maker *out);
/* The batch is complete after its last part. */
void di_batch_add(di_batch_maker *maker, const di_batch_part *part);

#endif
