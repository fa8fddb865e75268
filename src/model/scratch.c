/* What a pass takes from its arena, for the memory plan: one line an allocation, in the order of
 * the files of this folder. forward_scratch_test.c compares it with what passes really take. */
#include "base/checked.h"
#include "model/draft.h"
#include "model/internal.h"

/* The arena's alignment. */
static int64_t room(int64_t n, int64_t elem_bytes)
{
    return (n * elem_bytes + 63) / 64 * 64;
}

static int64_t rope_bytes(const di_config *c, int64_t n)
{
    return 2 * room(n * (c->rope_dim / 2), 4);
}

static int64_t engram_columns(const di_config *c)
{
    return (int64_t)(c->engram_max_ngram_size - 1) * c->engram_n_heads;
}

static int64_t hash_bytes(const di_config *c, int64_t n)
{
    if (c->n_engram_layers == 0)
        return 0;
    return room(n, sizeof(int32_t *)) + c->n_engram_layers * room(n * engram_columns(c), 8);
}

/* A batch of the pass's own (leave.c): a sequence may be one row. */
static int64_t remaining_bytes(int64_t n)
{
    return 5 * room(n, 4) + room(n + 1, 4) + DI_MAX_KV_GROUPS * room(n, 8);
}

static int64_t pass_bytes(const di_config *c, int64_t n, int n_threads)
{
    return room(n * c->hc_mult * c->hidden_size, 2) + /* h */
           room(n * c->hc_mult, 4) +                  /* pre */
           room(di_worker_scratch_bytes(c) * n_threads, 1) + rope_bytes(c, n);
}

static int64_t begin_bytes(const di_config *c, int64_t n)
{
    return remaining_bytes(n) + 3 * room(n, 4) +           /* window_floors, n_visible, counts */
           room(n * c->index_topk, 4) +                    /* topk */
           DI_MAX_KV_GROUPS * room(n, sizeof(int32_t *)) + /* tables */
           rope_bytes(c, n) + hash_bytes(c, n);
}

static int64_t candidate_bytes(const di_config *c, int64_t n, int64_t context_len)
{
    if (c->candidate_source < 0)
        return 0;
    const int64_t visible = context_len / c->compress_ratios[c->candidate_source];
    return room(n * di_ceil_div(di_max_i64(1, visible), c->candidate_block_size), 1);
}

/* A sublayer's mixing weights and what they are made of, its input and its output. */
static int64_t sublayer_bytes(const di_config *c, int64_t n)
{
    const int64_t products = (2 + c->hc_mult) * c->hc_mult + 1;
    return room(n * products, 4) + 2 * room(n * c->hc_mult, 4) +
           room(n * c->hc_mult * c->hc_mult, 4) + 2 * room(n * c->hidden_size, 2);
}

/* At most a group a row: every row may be the second of its sequence's pending one. */
static int64_t compress_bytes(const di_config *c, int ratio, int64_t n)
{
    const int64_t dim = c->head_dim;
    const int64_t pairs = ratio == 1 ? 0 : 2 * room(n * dim, 4) + 2 * room(2 * n * dim, 4);
    return room(n, 4) + room(n, 8) +  /* positions, slots */
           room(n * dim, 2) + pairs + /* latent; k and gate of rows, of groups */
           rope_bytes(c, n) + room(n * c->index_head_dim, 2);
}

static int64_t select_bytes(const di_config *c, int ratio, int64_t n, int64_t context_len)
{
    const int64_t visible = di_max_i64(1, context_len / ratio);
    const int64_t tile = di_min_i64(n, di_max_i64(1, DI_INDEX_SCORES_PER_TILE / visible));
    return room(n * c->index_n_heads * c->index_head_dim, 2) + room(n * c->index_n_heads, 2) +
           room(tile * visible, 2);
}

static int64_t plain_attention_bytes(const di_config *c, int64_t n)
{
    return room(n * c->hidden_size, 2) +               /* rounded input */
           2 * room(n * c->q_lora_rank, 2) +           /* query latent, rounded */
           2 * room(n * c->n_heads * c->head_dim, 2) + /* queries, output */
           room(n * c->head_dim, 2) +                  /* window entries */
           2 * room(n * c->o_groups * c->o_lora_rank, 2);
}

static int64_t attention_bytes(const di_config *c, int layer, int64_t n, int64_t context_len)
{
    const int ratio = c->compress_ratios[layer];
    int64_t bytes = plain_attention_bytes(c, n);
    if (c->is_kv_source[layer])
        bytes += compress_bytes(c, ratio, n);
    if (c->is_index_source[layer])
        bytes += select_bytes(c, ratio, n, context_len);
    return bytes;
}

static int64_t moe_bytes(const di_config *c, int64_t n, int64_t experts, int64_t experts_per_tok)
{
    const int64_t inter = c->moe_intermediate_size;
    const int64_t assignments = n * experts_per_tok;
    const int64_t active = di_min_i64(experts, assignments);
    return 2 * room(n * experts, 4) + 2 * room(assignments, 4) + /* routing */
           3 * room(experts + 1, 4) + 3 * room(assignments, 4) + /* dispatch */
           room(active, sizeof(void *)) + room(active + 1, 4) +  /* a round's experts */
           3 * room(active, sizeof(void *)) +                    /* their weight lists */
           2 * room(n * c->hidden_size, 2) +                     /* rounded input, shared output */
           3 * room(assignments * inter, 2) + room(assignments * c->hidden_size, 2) +
           3 * room(n * inter, 2); /* gate, up, rounded: shared expert */
}

static int64_t engram_bytes(const di_config *c, int64_t n)
{
    if (c->n_engram_layers == 0)
        return 0;
    return 2 * room(n * engram_columns(c) * c->engram_head_dim, 2) +
           room(n * (c->hc_mult + 1) * c->hidden_size, 2);
}

/* The taps, and what the draft blocks' window entries are made in. */
static int64_t taps_bytes(const di_config *c, int64_t n)
{
    return room(c->n_dspark_targets * n * c->hidden_size, 2);
}

static int64_t context_bytes(const di_config *c, int64_t n)
{
    return room(c->n_dspark_targets * n * c->hidden_size, 2) + /* taps, rounded */
           2 * room(n * c->hidden_size, 2) +                   /* projection, rounded */
           room(n * c->head_dim, 2);                           /* a block's entries */
}

int64_t di_forward_scratch_bytes(const di_config *c, bool has_drafter, int64_t n,
                                 int64_t context_len, int n_threads)
{
    int64_t most = 2 * room(n * c->hidden_size, 2); /* the head */
    const int64_t attention_pre = room(n * c->hc_mult, 4);
    const int64_t layer_bytes = attention_pre + sublayer_bytes(c, n);
    for (int layer = 0; layer < c->n_layers; layer++)
        most = di_max_i64(most, layer_bytes + attention_bytes(c, layer, n, context_len));
    most =
        di_max_i64(most, layer_bytes + moe_bytes(c, n, c->n_routed_experts, c->n_experts_per_tok));
    most = di_max_i64(most, attention_pre + engram_bytes(c, n));
    if (has_drafter)
        most = di_max_i64(most, attention_pre + room(n * c->hc_mult, 4) + context_bytes(c, n));
    return pass_bytes(c, n, n_threads) + begin_bytes(c, n) + candidate_bytes(c, n, context_len) +
           (has_drafter ? taps_bytes(c, n) : 0) + most;
}

/* What lasts until the last slot, and the keys' lists. */
static int64_t draft_state_bytes(const di_config *c, int64_t n_seqs)
{
    const int64_t n = n_seqs * c->dspark_block_size, rank = c->dspark_markov_rank;
    return 2 * room(n, 4) + room(1, sizeof(di_batch)) + /* ids, positions */
           room(n * c->hidden_size, 2) + room(n * c->vocab_size, 4) + room(n_seqs * rank, 2) +
           room(n_seqs * (c->hidden_size + rank), 2) + /* z, logits, inputs of a slot */
           room(1, 128) + 3 * room(n_seqs, 4) + room(n_seqs, sizeof(int32_t *)) + /* keys */
           room(n, 8) + room(n, 4) + room(n * (c->head_dim + c->head_dim / 32), 1);
}

int64_t di_draft_scratch_bytes(const di_config *c, int64_t n_seqs, int n_threads)
{
    const int64_t n = n_seqs * c->dspark_block_size;
    const int64_t sinks = room(c->dspark_block_size * c->n_heads, 4);
    const int64_t experts = c->dspark_n_routed_experts;
    const int64_t sublayer = di_max_i64(plain_attention_bytes(c, n) + sinks,
                                        moe_bytes(c, n, experts, c->dspark_n_experts_per_tok));
    const int64_t layer = room(n * c->hc_mult, 4) + sublayer_bytes(c, n) + sublayer;
    return draft_state_bytes(c, n_seqs) + pass_bytes(c, n, n_threads) +
           di_max_i64(layer, room(n * c->hidden_size, 2));
}
