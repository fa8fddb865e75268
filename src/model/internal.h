/* Between the files of the forward pass. All rows are the pass's n_rows unless stated. */
#ifndef DI_MODEL_INTERNAL_H
#define DI_MODEL_INTERNAL_H

#include <assert.h>

#include "base/checked.h"
#include "kernels/gemm/gemm.h"
#include "kernels/sparse_attention/sparse_attention.h"
#include "model/forward.h"

/* Waking the pool costs more than this many multiply-adds: smaller jobs run on the calling thread.
 * The split never changes results. */
enum { DI_INLINE_COST = 1 << 16 };

/* Runs an operation; item_cost is about how many multiply-adds one item takes. */
static inline void di_run(const di_pass *pass, di_op op, const void *args, int64_t n_items,
                          int64_t item_cost)
{
    const bool is_wide = pass->batch->n_rows >= DI_WIDE_ROWS;
    const di_range_fn fn = (is_wide ? pass->plan->wide : pass->plan->kernels)[op]->fn;
    if (n_items * item_cost < DI_INLINE_COST)
        fn(args, 0, n_items, 0);
    else
        di_pool_run(pass->pool, fn, args, n_items);
}

#define DI_PASS_NEW(pass, n, out) DI_ARENA_NEW((pass)->arena, (size_t)(n), (out))

/* x [n, dim] with its row stride: the input of a linear. */
typedef struct di_rows {
    const di_bf16 *data;
    int64_t n, stride;
} di_rows;

/* linear.c: y = x W^T, y contiguous [n, n_out]. */
void di_linear_f8(const di_pass *pass, const di_qweight *w, di_rows x, di_bf16 *y);
void di_linear_bf16(const di_pass *pass, const di_bf16_matrix *w, di_rows x, di_bf16 *y);
void di_linear_bf16_f32(const di_pass *pass, const di_bf16_matrix *w, di_rows x, float *y);
/* Q8-rounds n rows of dim into fresh step memory: the input of quantized linears. */
DI_WARN_UNUSED di_status di_quantize_rows(const di_pass *pass, const di_bf16 *x, int64_t n,
                                          int64_t dim, di_rows *out);
/* The same into y [n, dim]. */
void di_quantize_into(const di_pass *pass, const di_bf16 *x, int64_t n, int64_t dim, di_bf16 *y);
void di_norm_rows(const di_pass *pass, const di_norm_weight *w, const di_bf16 *x, int64_t n,
                  di_bf16 *y);
void di_rope_rows(const di_pass *pass, di_bf16 *x, int64_t n, int64_t n_heads, int64_t head_dim,
                  const di_rope_angles *angles, bool is_inverse);
DI_WARN_UNUSED di_status di_rope_angles_init(const di_pass *pass, const float *frequencies,
                                             const int32_t *positions, int64_t n,
                                             di_rope_angles *out);

/* The weights of a layer; n_layers + m is draft block m. */
static inline const di_layer_weights *di_layer_of(const di_pass *pass, int layer)
{
    const di_weights *w = pass->network->weights;
    const int n_layers = pass->network->config->n_layers;
    return layer < n_layers ? &w->layers[layer] : &w->draft_layers[layer - n_layers];
}

/* forward.c: what every pass begins with: rope angles, scratch, and the tokens' embeddings in all
 * streams. */
DI_WARN_UNUSED di_status di_pass_begin(di_pass *pass);
/* y = collapse(h, pre), without norm [n, hidden]. */
void di_collapse(const di_pass *pass, const float *pre, di_bf16 *y);

/* attention.c: queries of x (Q8-rounded) and their normalised latent qr; keys, rotated, not yet
 * rounded [n, head_dim]; the output projection of o [n, n_heads, head_dim]. */
DI_WARN_UNUSED di_status di_attention_queries(di_pass *pass, const di_layer_weights *w, di_rows x,
                                              const di_rope_angles *angles, di_rows *qr,
                                              di_bf16 **q);
DI_WARN_UNUSED di_status di_attention_keys(di_pass *pass, const di_layer_weights *w, di_rows x,
                                           const di_rope_angles *angles, di_bf16 **kv);
/* The window entries of x's rows, at the batch's slots. */
DI_WARN_UNUSED di_status di_attention_write_window(di_pass *pass, int layer, di_rows x,
                                                   const di_rope_angles *angles);
DI_WARN_UNUSED di_status di_attention_project(di_pass *pass, const di_layer_weights *w,
                                              const di_bf16 *o, di_bf16 *y);
/* leave.c: rows that the layers of a truncated prefill need no more leave the pass. Which of them
 * remain differs between a layer's two parts. */
typedef enum di_row_part {
    DI_ROW_KEYS, /* window entries */
    DI_ROW_REST
} di_row_part;
/* Makes the pass a batch of its own if rows will leave it. */
DI_WARN_UNUSED di_status di_leave_begin(di_pass *pass);
/* Lets rows go that a part of a layer does not need. True if any went: the caller's own rows must
 * then follow with di_compact_rows. */
bool di_leave(di_pass *pass, int layer, di_row_part part);
void di_compact_rows(const di_remaining_rows *remaining, void *data, size_t row_bytes);
/* Cuts the windows of the decoder's layers, at the first of them. */
void di_raise_floors(di_pass *pass, int layer);

/* attention.c: a layer's input, [n, hidden]: the normalised collapse, and Q8-rounded. */
typedef struct di_attention_input {
    di_bf16 *x, *rounded;
} di_attention_input;

/* Writes what other rows read: compressed entries and index keys of all rows, window entries of
 * those that write them. Then only the rows remain that pass the rest of the layer. Fills
 * in->rounded. */
DI_WARN_UNUSED di_status di_attention_write(di_pass *pass, int layer, di_attention_input *in);
/* y [n, hidden] = attention of the input, after that. */
DI_WARN_UNUSED di_status di_attention(di_pass *pass, int layer, const di_attention_input *in,
                                      di_bf16 *y);
/* Bytes of one worker's scratch: what any kernel needs, a multiple of 64. */
static inline int64_t di_worker_scratch_bytes(const di_config *config)
{
    /* a draft attends to its block's rows instead of selected entries */
    const int64_t most = di_max_i64(config->index_topk, config->dspark_block_size);
    const int64_t attention =
        di_sparse_attention_scratch(config->sliding_window, most, config->head_dim) *
        (int64_t)sizeof(float);
    return (di_max_i64(attention, DI_GEMM_SCRATCH_BYTES) + 63) / 64 * 64;
}
/* compressor.c: adds the compressed entries and index keys that x completes. */
DI_WARN_UNUSED di_status di_compress(di_pass *pass, int layer, const di_bf16 *x);
/* indexer.c: fills topk and topk_counts; qr = normalised query latent [n, q_lora_rank]. */
DI_WARN_UNUSED di_status di_index_select(di_pass *pass, int layer, const di_bf16 *x, di_rows qr);
/* Index scores are computed for a tile of rows at once, which bounds their buffer at long contexts.
 */
enum { DI_INDEX_SCORES_PER_TILE = 16 * 1024 * 1024 };
/* Takes the candidate marks, which outlive their source layer's scratch. */
DI_WARN_UNUSED di_status di_index_begin_candidates(di_pass *pass);
/* draft_context.c: takes room for the taps at the first target layer; keeps a target layer's. */
DI_WARN_UNUSED di_status di_draft_begin_taps(di_pass *pass, int layer);
DI_WARN_UNUSED di_status di_draft_keep_tap(di_pass *pass, int layer);
/* draft.c: attention of a draft block's rows: y [n, hidden]. */
DI_WARN_UNUSED di_status di_draft_attention(di_pass *pass, int layer, const di_bf16 *x, di_bf16 *y);
/* moe.c */
DI_WARN_UNUSED di_status di_moe(di_pass *pass, const di_layer_weights *w, const di_bf16 *x,
                                int64_t n_experts_per_tok, di_bf16 *y);
/* engram.c: the pass's table rows of all Engram layers, asked for ahead; then one layer's update of
 * h. */
DI_WARN_UNUSED di_status di_engram_hash_rows(di_pass *pass);
DI_WARN_UNUSED di_status di_engram(di_pass *pass, int layer);

#endif
