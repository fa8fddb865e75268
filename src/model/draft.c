#include "model/draft.h"

#include <math.h>
#include <string.h>

#include "kernels/quantize/quantize.h"
#include "kernels/sparse_attention/sparse_attention.h"
#include "model/internal.h"

/* What the rows of a sequence's block attend to: window entries, and the block's keys in a store
 * like the window's, a block of which is a sequence's rows. For the attention operation, a sequence
 * is one row whose heads are those of all its rows: they see the same keys, which are then decoded
 * once. */
struct di_draft_keys {
    const int32_t *const *window_tables; /* [n_seqs] */
    const int32_t *window_floors;        /* [n_seqs], or NULL */
    int32_t *last;                       /* [n_seqs]: position of the last window entry */
    di_paged_out store;                  /* of the rows' keys, of one layer at a time */
    int64_t *slots;                      /* [n_seqs, block size]: of the rows' keys */
    int32_t *blocks;                     /* [n_seqs]: 0, 1, ...: each sequence's block table */
    const int32_t **tables;              /* [n_seqs] */
    int32_t *indices;                    /* [n_seqs, block size]: 0, 1, ... */
    int32_t *counts;                     /* [n_seqs]: the block size */
};

static di_status make_store(di_pass *pass, int64_t n_seqs, int32_t block, di_paged_out *out)
{
    const di_kv_entry *entry = &pass->kv->layout.entries[DI_KV_WINDOW];
    *out = (di_paged_out){
        .block_bytes = (int64_t)block * (entry->code_bytes + entry->scale_bytes),
        .scales_offset = (int64_t)block * entry->code_bytes,
        .block_len = block,
        .code_bytes = entry->code_bytes,
        .scale_bytes = entry->scale_bytes,
    };
    return DI_PASS_NEW(pass, n_seqs * out->block_bytes, &out->data);
}

static di_status make_keys(di_pass *pass, const di_draft_batch *batch, int32_t block,
                           di_draft_keys **out)
{
    const int64_t n = batch->n_seqs;
    di_draft_keys *k;
    DI_TRY(DI_PASS_NEW(pass, 1, &k));
    DI_TRY(make_store(pass, n, block, &k->store));
    k->window_tables = batch->window_tables;
    k->window_floors = batch->window_floors;
    DI_TRY(DI_PASS_NEW(pass, n, &k->last));
    DI_TRY(DI_PASS_NEW(pass, n * block, &k->slots));
    DI_TRY(DI_PASS_NEW(pass, n, &k->blocks));
    DI_TRY(DI_PASS_NEW(pass, n, &k->tables));
    DI_TRY(DI_PASS_NEW(pass, n * block, &k->indices));
    DI_TRY(DI_PASS_NEW(pass, n, &k->counts));
    for (int32_t s = 0; s < n; s++) {
        k->last[s] = batch->positions[s] - 1;
        k->blocks[s] = s;
        k->tables[s] = &k->blocks[s];
        k->counts[s] = block;
        for (int32_t i = 0; i < block; i++) {
            k->slots[s * block + i] = (int64_t)s * block + i;
            k->indices[s * block + i] = i;
        }
    }
    *out = k;
    return DI_OK;
}

/* The blocks' rows: the anchor, then noise, at the positions from the anchor's on. */
static di_status make_batch(di_pass *pass, const di_draft_batch *batch, int32_t block)
{
    const int32_t n_rows = batch->n_seqs * block;
    const int32_t noise = (int32_t)pass->network->config->dspark_noise_token_id;
    int32_t *ids, *positions;
    di_batch *b;
    DI_TRY(DI_PASS_NEW(pass, n_rows, &ids));
    DI_TRY(DI_PASS_NEW(pass, n_rows, &positions));
    DI_TRY(DI_PASS_NEW(pass, 1, &b));
    for (int32_t row = 0; row < n_rows; row++) {
        const int32_t seq = row / block, i = row % block;
        ids[row] = i == 0 ? batch->anchors[seq] : noise;
        positions[row] = batch->positions[seq] + i;
    }
    *b = (di_batch){
        .n_rows = n_rows, .n_seqs = batch->n_seqs, .token_ids = ids, .positions = positions};
    pass->batch = pass->draft.batch = b;
    return DI_OK;
}

/* What stays until the slots are done. */
static di_status make_state(di_pass *pass, const di_draft_batch *batch, int32_t block)
{
    const di_config *c = pass->network->config;
    const int64_t n = batch->n_seqs, dim = c->hidden_size, rank = c->dspark_markov_rank;
    di_draft_state *d = &pass->draft;
    d->n_seqs = batch->n_seqs;
    d->n_slots = batch->n_slots > 0 ? batch->n_slots : block;
    DI_TRY(DI_PASS_NEW(pass, n * d->n_slots * dim, &d->z));
    DI_TRY(DI_PASS_NEW(pass, n * d->n_slots * c->vocab_size, &d->backbone_logits));
    DI_TRY(DI_PASS_NEW(pass, n * rank, &d->markov));
    return DI_PASS_NEW(pass, n * (dim + rank), &d->confidence_in);
}

static di_status draft_head(di_pass *pass)
{
    const di_weights *w = pass->network->weights;
    const int64_t n = pass->batch->n_rows, dim = pass->network->config->hidden_size;
    di_bf16 *x;
    DI_TRY(DI_PASS_NEW(pass, n * dim, &x));
    di_collapse(pass, pass->pre, pass->draft.z);
    di_norm_rows(pass, &w->draft.norm, pass->draft.z, n, x);
    di_linear_bf16_f32(pass, &w->head, (di_rows){x, n, dim}, pass->draft.backbone_logits);
    return DI_OK;
}

/* Keys of all rows of the blocks; the layer's attention reads them. */
static di_status write_keys(di_pass *pass, int layer)
{
    const di_config *c = pass->network->config;
    const di_layer_weights *w = di_layer_of(pass, layer);
    const int64_t n = pass->batch->n_rows;
    di_bf16 *x, *kv;
    di_rows xq;
    DI_TRY(DI_PASS_NEW(pass, n * c->hidden_size, &x));
    di_collapse(pass, pass->pre, x);
    di_norm_rows(pass, &w->attn_norm, x, n, x);
    DI_TRY(di_quantize_rows(pass, x, n, c->hidden_size, &xq));
    DI_TRY(di_attention_keys(pass, w, xq, &pass->plain, &kv));
    const di_pack_args pack = {.x = kv,
                               .dim = c->head_dim,
                               .x_stride = c->head_dim,
                               .slots = pass->draft.keys->slots,
                               .out = pass->draft.keys->store};
    di_run(pass, DI_OP_pack_q8, &pack, n, c->head_dim);
    return DI_OK;
}

/* The first n_slots rows of every block move up, one block's behind the other's. */
static void keep_rows(const di_draft_state *d, int64_t block, void *data, size_t row_bytes)
{
    char *rows = data;
    for (int64_t seq = 1; seq < d->n_seqs; seq++)
        memmove(rows + (size_t)(seq * d->n_slots) * row_bytes,
                rows + (size_t)(seq * block) * row_bytes, (size_t)d->n_slots * row_bytes);
}

/* In the last layer, only the keys of the rows behind the wanted slots are of use. */
static void drop_rows(di_pass *pass)
{
    const di_config *c = pass->network->config;
    const di_draft_state *d = &pass->draft;
    const int64_t block = c->dspark_block_size;
    const size_t angle_bytes = (size_t)c->rope_dim / 2 * sizeof *pass->plain.cos;
    keep_rows(d, block, pass->h, (size_t)(c->hc_mult * c->hidden_size) * sizeof *pass->h);
    keep_rows(d, block, pass->pre, (size_t)c->hc_mult * sizeof *pass->pre);
    keep_rows(d, block, pass->plain.cos, angle_bytes);
    keep_rows(d, block, pass->plain.sin, angle_bytes);
    d->batch->n_rows = d->n_seqs * d->n_slots;
}

di_status di_draft_begin(di_pass *pass, const di_draft_batch *batch)
{
    const di_config *c = pass->network->config;
    const int32_t block = (int32_t)c->dspark_block_size;
    DI_TRY(make_batch(pass, batch, block));
    DI_TRY(make_state(pass, batch, block));
    DI_TRY(make_keys(pass, batch, block, &pass->draft.keys));
    DI_TRY(di_pass_begin(pass));
    for (int m = 0; m < c->n_draft_blocks; m++) {
        const di_arena_mark mark = di_arena_save(pass->arena);
        DI_TRY(write_keys(pass, c->n_layers + m));
        di_arena_rewind(pass->arena, mark);
        if (m == c->n_draft_blocks - 1)
            drop_rows(pass);
        DI_TRY(di_forward_layer(pass, c->n_layers + m));
    }
    return draft_head(pass);
}

/* ---------------------------------------------------------------------------------- attention */

/* A sink for each head of each row of a sequence. */
static di_status repeat_sink(const di_pass *pass, const float *sink, int64_t n_rows, float **out)
{
    const int64_t n_heads = pass->network->config->n_heads;
    DI_TRY(DI_PASS_NEW(pass, n_rows * n_heads, out));
    for (int64_t i = 0; i < n_rows; i++)
        memcpy(*out + i * n_heads, sink, (size_t)n_heads * sizeof *sink);
    return DI_OK;
}

static di_status attend(di_pass *pass, int layer, const di_bf16 *q, di_bf16 *out)
{
    const di_config *c = pass->network->config;
    const di_draft_keys *keys = pass->draft.keys;
    const di_paged_out *store = &keys->store;
    const int64_t n_seqs = pass->draft.n_seqs, rows = pass->batch->n_rows / n_seqs;
    float *sink;
    DI_TRY(repeat_sink(pass, di_layer_of(pass, layer)->attn_sink, rows, &sink));
    const di_sparse_attention_args args = {
        .q = q,
        .sink = sink,
        .out = out,
        .n_heads = rows * c->n_heads,
        .head_dim = c->head_dim,
        .scale = (float)(1.0 / sqrt((double)c->head_dim)),
        .window = di_kv_cache_view(pass->kv, layer, DI_KV_WINDOW),
        .window_tables = keys->window_tables,
        .positions = keys->last,
        .window_len = c->sliding_window,
        .window_floors = keys->window_floors,
        .compressed = {store->data, store->block_bytes, store->scales_offset, store->block_len,
                       store->code_bytes, store->scale_bytes},
        .has_q8_selected = true,
        .compressed_tables = keys->tables,
        .indices = keys->indices,
        .counts = keys->counts,
        .index_stride = c->dspark_block_size,
        .scratch = pass->worker_scratch,
        .scratch_stride = pass->worker_scratch_bytes / (int64_t)sizeof(float),
    };
    di_run(pass, DI_OP_sparse_attention, &args, n_seqs * args.n_heads,
           (c->sliding_window + c->dspark_block_size) * c->head_dim);
    return DI_OK;
}

di_status di_draft_attention(di_pass *pass, int layer, const di_bf16 *x, di_bf16 *y)
{
    const di_config *c = pass->network->config;
    const di_layer_weights *w = di_layer_of(pass, layer);
    const int64_t n = pass->batch->n_rows;
    di_rows xq, qr;
    di_bf16 *q, *o;
    DI_TRY(di_quantize_rows(pass, x, n, c->hidden_size, &xq));
    DI_TRY(di_attention_queries(pass, w, xq, &pass->plain, &qr, &q));
    DI_TRY(DI_PASS_NEW(pass, n * c->n_heads * c->head_dim, &o));
    DI_TRY(attend(pass, layer, q, o));
    di_rope_rows(pass, o, n, c->n_heads, c->head_dim, &pass->plain, true);
    return di_attention_project(pass, w, o, y);
}

/* -------------------------------------------------------------------------------------- slots */

/* logits += the backbone's of a slot; items: columns of all rows. */
typedef struct add_args {
    const float *x; /* [n, vocab], row stride x_stride */
    float *y;       /* [n, vocab] */
    int64_t n, vocab, x_stride;
} add_args;

static void add_logits(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const add_args *a = args;
    for (int64_t row = 0; row < a->n; row++) {
        const float *x = a->x + row * a->x_stride;
        float *y = a->y + row * a->vocab;
        for (int64_t i = begin; i < end; i++)
            y[i] = x[i] + y[i];
    }
}

void di_draft_logits(const di_pass *pass, int slot, const int32_t *prev, float *logits,
                     float *confidences)
{
    const di_config *c = pass->network->config;
    const di_draft_weights *w = &pass->network->weights->draft;
    const di_draft_state *d = &pass->draft;
    const int64_t n = d->n_seqs, dim = c->hidden_size;
    const int64_t rank = c->dspark_markov_rank, width = dim + rank;
    for (int64_t s = 0; s < n; s++) {
        const di_bf16 *e = w->markov_embed.data + prev[s] * rank;
        memcpy(d->markov + s * rank, e, (size_t)rank * sizeof *e);
        memcpy(d->confidence_in + s * width, d->z + (s * d->n_slots + slot) * dim,
               (size_t)dim * sizeof *e);
        memcpy(d->confidence_in + s * width + dim, e, (size_t)rank * sizeof *e);
    }
    di_linear_bf16_f32(pass, &w->markov_head, (di_rows){d->markov, n, rank}, logits);
    const add_args add = {.x = d->backbone_logits + slot * c->vocab_size,
                          .y = logits,
                          .n = n,
                          .vocab = c->vocab_size,
                          .x_stride = d->n_slots * c->vocab_size};
    if (n * c->vocab_size < DI_INLINE_COST)
        add_logits(&add, 0, c->vocab_size, 0);
    else
        di_pool_run(pass->pool, add_logits, &add, c->vocab_size);
    di_linear_bf16_f32(pass, &w->confidence_proj, (di_rows){d->confidence_in, n, width},
                       confidences);
}
