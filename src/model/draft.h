/* The DSpark drafter (model spec 5.1): draft blocks that propose the tokens behind one that was
 * just chosen, from windows of their own.
 *
 * Draft block m is layer n_layers + m: its weights are draft_layers[m], and its window is that
 * layer of the KV cache's window group (a cache with has_drafter). An entry there is made from the
 * taps of its position, which a forward pass with `wants_taps` keeps and, with the last of them,
 * writes for all rows that have come that far (all but of truncated prefills). Nothing of a draft
 * enters the cache: a draft only reads. So windows are shared, copied, given back and computed
 * again with those of the layers; the entry of a rejected position is written anew when the
 * position is.
 *
 * A draft is a pass of its own: a di_pass with network, plan, pool, kv, arena and source set (what
 * di_forward wants but the batch), zero else. Its rows, dspark_block_size a sequence, depend on the
 * sequence alone, bit by bit: not on the other sequences or the number of threads. */
#ifndef DI_MODEL_DRAFT_H
#define DI_MODEL_DRAFT_H

#include "model/forward.h"

/* Sequences whose next drafts are wanted. p: the last position that the target has computed. */
typedef struct di_draft_batch {
    int32_t n_seqs;
    const int32_t *anchors;              /* [n_seqs]: the token chosen for position p + 1 */
    const int32_t *positions;            /* [n_seqs]: p + 1 */
    const int32_t *const *window_tables; /* [n_seqs]: block tables of the window group; entries of
                                            max(floor, p - sliding_window + 1) .. p are read */
    const int32_t *window_floors;        /* [n_seqs]: positions below have no entry; NULL: all 0 */
    int32_t n_slots; /* drafts that will be asked for, at most the block size; 0: all. Fewer take
                        less of the last block and of the head */
} di_draft_batch;

/* Runs the draft blocks over the block of each sequence: the anchor, then noise tokens. Leaves in
 * pass->draft what di_draft_logits needs, in the arena until the caller resets it. The batch is not
 * read again. */
DI_WARN_UNUSED di_status di_draft_begin(di_pass *pass, const di_draft_batch *batch);

/* Draft `slot` (0 .. n_slots - 1) of every sequence, for the token behind prev, which is the
 * anchor in slot 0 and the draft of slot - 1 after it: logits [n_seqs, vocab_size], and the raw
 * confidence logits [n_seqs] that it will be accepted (a sigmoid away from a probability). The
 * caller samples and goes on. Any slot may be asked for again with another prev. */
void di_draft_logits(const di_pass *pass, int slot, const int32_t *prev, float *logits,
                     float *confidences);

/* After the last tap of a forward pass with wants_taps, which calls it: the draft blocks' window
 * entries of the pass's rows, of all whose window slot is not -1. */
DI_WARN_UNUSED di_status di_draft_write_context(di_pass *pass);

/* Bytes that the draft of n_seqs sequences takes from its arena at most, its logits not included.
 */
int64_t di_draft_scratch_bytes(const di_config *config, int64_t n_seqs, int n_threads);

#endif
