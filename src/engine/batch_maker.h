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
    bool wants_all_logits, wants_last_logits;
} di_batch_part;

typedef struct di_made_batch {
    di_batch batch;
    int32_t *token_ids; /* the batch's, to fill in */
} di_made_batch;

/* Block tables are copied, so that the sequences may change while the pass runs. */
DI_WARN_UNUSED di_status di_batch_make(const di_kv_cache *kv, const di_batch_part *parts,
                                       int32_t n_parts, di_arena *arena, di_made_batch *out);

#endif
