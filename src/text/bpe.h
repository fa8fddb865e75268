/* Byte-pair encoding of one pre-token: repeatedly joins the neighbouring pair of the lowest rank,
 * leftmost first, in O(n log n). */
#ifndef DI_TEXT_BPE_H
#define DI_TEXT_BPE_H

#include <stdbool.h>

#include "core/ids.h"

typedef struct di_merge_slot {
    int32_t left, right;
    uint32_t rank; /* DI_BPE_NO_RANK = free slot */
} di_merge_slot;

#define DI_BPE_NO_RANK UINT32_MAX

/* Never changes once its merges are added; free to use from several threads. */
typedef struct di_bpe {
    int32_t byte_ids[256]; /* token of each single byte */
    uint32_t *pair_ranks;  /* [256 * 256]: rank of joining the tokens of two bytes, a shortcut */
    di_merge_slot *slots;  /* [n_slots], a power of two, open addressing */
    size_t n_slots;
    int32_t *results; /* [n_merges], by rank */
    size_t n_merges;
    size_t max_merges;
} di_bpe;

/* What one caller needs to encode: one per thread, reusable. Zero-initialised. The counters only
 * grow; they let a test see the work instead of the time. */
typedef struct di_bpe_scratch {
    struct di_bpe_symbol *symbols;
    size_t symbols_cap;
    uint64_t *heap;
    size_t heap_cap;
    uint64_t n_lookups; /* merge table lookups */
    uint64_t n_moves;   /* symbols scanned or moved, and heap levels passed */
} di_bpe_scratch;

/* byte_ids are copied; room for n_merges. Free with di_bpe_free, also after a failure. */
DI_WARN_UNUSED di_status di_bpe_init(di_bpe *bpe, const int32_t byte_ids[256], size_t n_merges);
/* Adds the merge of the next rank. *existed: the pair has one already, nothing was added. */
void di_bpe_add_merge(di_bpe *bpe, int32_t left, int32_t right, int32_t result, bool *existed);
/* Fills the shortcut table; after the last merge. */
void di_bpe_seal(di_bpe *bpe);
void di_bpe_free(di_bpe *bpe);

/* Appends the tokens of the len bytes to out. */
DI_WARN_UNUSED di_status di_bpe_encode(const di_bpe *bpe, di_bpe_scratch *scratch,
                                       const char *bytes, size_t len, di_ids *out);
void di_bpe_scratch_free(di_bpe_scratch *scratch);

#endif
