/* The forward pass (model spec 4): one function for prefill of any length, chunks of a prefill, and
 * decode. A row's results depend on its sequence's tokens up to it and on nothing else: not on the
 * chunking, the other rows, or the number of threads. */
#ifndef DI_MODEL_FORWARD_H
#define DI_MODEL_FORWARD_H

#include "base/arena.h"
#include "base/threads.h"
#include "core/batch.h"
#include "core/truncation.h"
#include "kv/cache.h"
#include "model/network.h"
#include "model/plan.h"
#include "weights/weight_source.h"

typedef struct di_pass di_pass;

/* Looks into a pass and may change what it sees; for tests and debugging. Any member may be NULL.
 * n_rows is that of pass->batch at that time: with a truncated prefill it falls. */
typedef struct di_observer {
    void *user;
    /* after a layer: h [n_rows, hc, hidden], pre [n_rows, hc] */
    void (*layer)(void *user, int layer, di_pass *pass);
    /* after an index source's selection: indices [n_rows, index_topk], counts [n_rows] */
    void (*topk)(void *user, int layer, di_pass *pass);
    /* after an Engram step: table rows [n_rows, columns]; h is updated */
    void (*engram)(void *user, int layer, const int64_t *rows, di_pass *pass);
} di_observer;

typedef struct di_rope_angles {
    float *cos, *sin; /* [n, rope_dim / 2] */
} di_rope_angles;

/* What a draft leaves for its slots (model/draft.h). */
typedef struct di_draft_keys di_draft_keys; /* draft.c */

typedef struct di_draft_state {
    int32_t n_seqs, n_slots;
    di_batch *batch;        /* the pass's */
    di_draft_keys *keys;    /* what its rows attend to */
    di_bf16 *z;             /* [n_seqs, n_slots, hidden]: the last collapse, without norm */
    float *backbone_logits; /* [n_seqs, n_slots, vocab_size]: without the Markov term */
    di_bf16 *markov;        /* [n_seqs, markov rank]: for one slot at a time */
    di_bf16 *confidence_in; /* [n_seqs, hidden + markov rank]: the same */
} di_draft_state;

/* The batch after rows have left it, in arrays of its own (model/leave.c). */
typedef struct di_remaining_rows {
    di_batch batch;
    int32_t *token_ids, *positions, *row_seq, *cu_seqlens_q, *logit_rows;
    int64_t *slots[DI_MAX_KV_GROUPS];
    int32_t *from; /* [n_rows] scratch: where each row was; NULL: no row ever leaves */
} di_remaining_rows;

/* Everything one forward pass works on. The caller fills the first part; the rest lives in `arena`
 * and is valid until the caller resets it. */
struct di_pass {
    const di_network *network;
    const di_plan *plan;
    di_pool *pool;
    di_kv_cache *kv;
    const di_batch *batch; /* from the first decoder layer on the pass's own, if rows leave it */
    di_arena *arena;
    const di_observer *observer; /* may be NULL */
    di_weight_source *source;    /* of experts and Engram rows; NULL: all are in memory */
    bool wants_taps; /* the draft blocks' window entries are written: kv has room for them */
    const di_truncation *truncation; /* NULL: every layer computes every row */

    di_bf16 *h;                               /* [n_rows, hc, hidden]: the residual streams */
    float *pre;                               /* [n_rows, hc]: the running collapse weights */
    di_rope_angles plain, compressed;         /* of the rows' positions */
    const int32_t **tables[DI_MAX_KV_GROUPS]; /* [n_rows]: each row's block table */
    int32_t *window_floors;                   /* [n_rows] */
    int32_t *n_visible;                       /* [n_rows] scratch of index sources */
    int32_t *topk, *topk_counts; /* [n_rows, index_topk], [n_rows]: of the last index source */
    uint8_t *candidates;         /* [n_rows, candidate_stride], or NULL before its source */
    int64_t candidate_stride;
    int64_t *engram_rows[DI_MAX_ENGRAM_LAYERS]; /* [n_rows, columns]: of each Engram layer */
    di_bf16 *taps;       /* of each target layer [n_rows, hidden]: attention inputs, meaned over the
                            streams; NULL before the first of them */
    int64_t taps_stride; /* elements from a target layer's to the next one's */
    di_draft_state draft; /* of a draft's pass */
    void *worker_scratch; /* [n_threads]: for one kernel at a time */
    int64_t worker_scratch_bytes;
    di_remaining_rows remaining;
    uint64_t n_layer_rows; /* rows that passed whole layers so far, over all layers */
};

/* Runs the pass. logits [n_logit_rows, vocab_size]; may be NULL if n_logit_rows is 0. The batch's
 * sequences must have places for all rows (di_kv_seq_extend). */
DI_WARN_UNUSED di_status di_forward(di_pass *pass, float *logits);

/* The parts of di_forward, for per-layer tests: begin (embeds the tokens), layers in order, head.
 */
DI_WARN_UNUSED di_status di_forward_begin(di_pass *pass);
DI_WARN_UNUSED di_status di_forward_layer(di_pass *pass, int layer);
DI_WARN_UNUSED di_status di_forward_head(di_pass *pass, float *logits);

/* Bytes a pass of n_rows rows takes from its arena at most, for the memory plan; has_drafter: with
 * wants_taps. */
int64_t di_forward_scratch_bytes(const di_config *config, bool has_drafter, int64_t n_rows,
                                 int64_t context_len, int n_threads);

#endif
