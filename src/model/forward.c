#include "model/forward.h"

#include <string.h>

#include "kernels/embed/embed.h"
#include "kernels/hyper_connection/hyper_connection.h"
#include "model/draft.h"
#include "model/internal.h"

/* The mixing weights one sublayer computes from the streams before it runs (spec 4.1). */
typedef struct mix {
    float *pre, *post, *comb; /* [n, hc], [n, hc], [n, hc, hc] */
} mix;

static di_status mix_streams(di_pass *pass, const di_hc_weight *w, mix *out)
{
    const di_config *c = pass->network->config;
    const int64_t n = pass->batch->n_rows, hc = c->hc_mult;
    DI_TRY(DI_PASS_NEW(pass, n * hc, &out->pre));
    DI_TRY(DI_PASS_NEW(pass, n * hc, &out->post));
    DI_TRY(DI_PASS_NEW(pass, n * hc * hc, &out->comb));
    float *products;
    DI_TRY(DI_PASS_NEW(pass, n * ((2 + hc) * hc + 1), &products));
    const di_hc_project_args project = {
        .h = pass->h, .fn = w->fn, .y = products, .n = n, .dim = c->hidden_size, .hc = c->hc_mult};
    di_run(pass, DI_OP_hc_project, &project, di_hc_project_items(n, c->hc_mult),
           (n < DI_HC_ROWS ? n : DI_HC_ROWS) * hc * c->hidden_size);
    const di_hc_mix_args args = {
        .products = products,
        .base = w->base,
        .scale = w->scale,
        .pre = out->pre,
        .post = out->post,
        .comb = out->comb,
        .dim = c->hidden_size,
        .hc = c->hc_mult,
        .n_iters = c->hc_sinkhorn_iters,
        .eps = (float)c->hc_eps,
        .norm_eps = (float)c->rms_norm_eps,
    };
    di_run(pass, DI_OP_hc_mix, &args, n, 2 * hc * hc * c->hc_sinkhorn_iters);
    return DI_OK;
}

void di_collapse(const di_pass *pass, const float *pre, di_bf16 *y)
{
    const di_config *c = pass->network->config;
    const di_hc_collapse_args args = {
        .h = pass->h, .pre = pre, .y = y, .dim = c->hidden_size, .hc = c->hc_mult};
    di_run(pass, DI_OP_hc_collapse, &args, pass->batch->n_rows, c->hc_mult * c->hidden_size);
}

/* x = RMSNorm(collapse(h, pre)): a sublayer's input [n, hidden]. */
static di_status collapse_norm(di_pass *pass, const float *pre, const di_norm_weight *norm,
                               di_bf16 **x)
{
    const di_config *c = pass->network->config;
    const int64_t n = pass->batch->n_rows;
    DI_TRY(DI_PASS_NEW(pass, n * c->hidden_size, x));
    di_collapse(pass, pre, *x);
    di_norm_rows(pass, norm, *x, n, *x);
    return DI_OK;
}

static void expand(di_pass *pass, const di_bf16 *y, const mix *m)
{
    const di_config *c = pass->network->config;
    const di_hc_expand_args args = {.h = pass->h,
                                    .y = y,
                                    .post = m->post,
                                    .comb = m->comb,
                                    .dim = c->hidden_size,
                                    .hc = c->hc_mult};
    di_run(pass, DI_OP_hc_expand, &args, pass->batch->n_rows,
           c->hc_mult * c->hc_mult * c->hidden_size);
}

static di_status attention_sublayer(di_pass *pass, int layer, float *pre_out)
{
    const di_config *c = pass->network->config;
    const di_layer_weights *w = di_layer_of(pass, layer);
    const bool is_draft = layer >= c->n_layers;
    mix m;
    di_attention_input in;
    di_bf16 *y;
    DI_TRY(collapse_norm(pass, pass->pre, &w->attn_norm, &in.x));
    if (!is_draft)
        DI_TRY(di_attention_write(pass, layer, &in));
    if (pass->batch->n_rows == 0)
        return DI_OK;
    DI_TRY(mix_streams(pass, &w->hc_attn, &m));
    DI_TRY(DI_PASS_NEW(pass, pass->batch->n_rows * c->hidden_size, &y));
    if (is_draft)
        DI_TRY(di_draft_attention(pass, layer, in.x, y));
    else
        DI_TRY(di_attention(pass, layer, &in, y));
    expand(pass, y, &m);
    memcpy(pre_out, m.pre, (size_t)(pass->batch->n_rows * c->hc_mult) * sizeof *pre_out);
    return DI_OK;
}

static di_status ffn_sublayer(di_pass *pass, int layer, const float *pre)
{
    const di_config *c = pass->network->config;
    const di_layer_weights *w = di_layer_of(pass, layer);
    mix m;
    di_bf16 *x, *y;
    DI_TRY(mix_streams(pass, &w->hc_ffn, &m));
    DI_TRY(collapse_norm(pass, pre, &w->ffn_norm, &x));
    DI_TRY(DI_PASS_NEW(pass, pass->batch->n_rows * c->hidden_size, &y));
    const bool is_draft = layer >= c->n_layers;
    DI_TRY(di_moe(pass, w, x, is_draft ? c->dspark_n_experts_per_tok : c->n_experts_per_tok, y));
    expand(pass, y, &m);
    memcpy(pass->pre, m.pre, (size_t)(pass->batch->n_rows * c->hc_mult) * sizeof *pre);
    return DI_OK;
}

/* Runs a part of a layer and gives its scratch back. */
#define WITH_SCRATCH(pass, call)                                                                   \
    do {                                                                                           \
        const di_arena_mark mark_ = di_arena_save((pass)->arena);                                  \
        DI_TRY(call);                                                                              \
        di_arena_rewind((pass)->arena, mark_);                                                     \
    } while (0)

di_status di_forward_layer(di_pass *pass, int layer)
{
    const di_config *c = pass->network->config;
    float *attention_pre;
    if (layer == c->candidate_source)
        DI_TRY(di_index_begin_candidates(pass));
    if (pass->wants_taps)
        DI_TRY(di_draft_begin_taps(pass, layer));
    const di_arena_mark mark = di_arena_save(pass->arena);
    DI_TRY(DI_PASS_NEW(pass, pass->batch->n_rows * c->hc_mult, &attention_pre));
    if (di_layer_of(pass, layer)->engram)
        WITH_SCRATCH(pass, di_engram(pass, layer));
    if (pass->wants_taps)
        WITH_SCRATCH(pass, di_draft_keep_tap(pass, layer)); /* before rows leave */
    WITH_SCRATCH(pass, attention_sublayer(pass, layer, attention_pre));
    if (pass->batch->n_rows > 0)
        WITH_SCRATCH(pass, ffn_sublayer(pass, layer, attention_pre));
    di_arena_rewind(pass->arena, mark);
    pass->n_layer_rows += (uint64_t)pass->batch->n_rows;
    if (pass->observer && pass->observer->layer)
        pass->observer->layer(pass->observer->user, layer, pass);
    return DI_OK;
}

/* What a row needs of its sequence, by row. */
static di_status spread_sequences(di_pass *pass)
{
    const di_batch *b = pass->batch;
    DI_TRY(DI_PASS_NEW(pass, b->n_rows, &pass->window_floors));
    for (int32_t row = 0; row < b->n_rows; row++)
        pass->window_floors[row] = b->seqs[b->row_seq[row]].window_floor;
    for (int g = 0; g < pass->kv->layout.n_groups; g++) {
        DI_TRY(DI_PASS_NEW(pass, b->n_rows, &pass->tables[g]));
        for (int32_t row = 0; row < b->n_rows; row++)
            pass->tables[g][row] = b->seqs[b->row_seq[row]].block_tables[g];
    }
    return DI_OK;
}

di_status di_pass_begin(di_pass *pass)
{
    const di_network *net = pass->network;
    const di_config *c = net->config;
    const di_batch *b = pass->batch;
    const int64_t n = b->n_rows, hc = c->hc_mult;
    DI_TRY(DI_PASS_NEW(pass, n * hc * c->hidden_size, &pass->h));
    DI_TRY(DI_ARENA_ZNEW(pass->arena, (size_t)(n * hc), &pass->pre));
    char *scratch;
    pass->worker_scratch_bytes = di_worker_scratch_bytes(c);
    DI_TRY(DI_PASS_NEW(pass, pass->worker_scratch_bytes * di_pool_n_threads(pass->pool), &scratch));
    pass->worker_scratch = scratch;
    DI_TRY(di_rope_angles_init(pass, net->rope_plain, b->positions, n, &pass->plain));
    for (int64_t row = 0; row < n; row++)
        pass->pre[row * hc] = 1.0f;
    di_weight_source_begin(pass->source);
    const di_embed_args embed = {.table = net->weights->embed.data,
                                 .token_ids = b->token_ids,
                                 .h = pass->h,
                                 .dim = c->hidden_size,
                                 .hc = c->hc_mult};
    di_run(pass, DI_OP_embed, &embed, n, hc * c->hidden_size / 8);
    return DI_OK;
}

di_status di_forward_begin(di_pass *pass)
{
    const di_network *net = pass->network;
    const int64_t n = pass->batch->n_rows, topk = net->config->index_topk;
    DI_TRY(di_pass_begin(pass));
    DI_TRY(DI_PASS_NEW(pass, n, &pass->n_visible));
    DI_TRY(DI_PASS_NEW(pass, n * topk, &pass->topk));
    DI_TRY(DI_PASS_NEW(pass, n, &pass->topk_counts));
    pass->candidates = NULL;
    pass->taps = NULL;
    DI_TRY(spread_sequences(pass));
    DI_TRY(di_rope_angles_init(pass, net->rope_compressed, pass->batch->positions, n,
                               &pass->compressed));
    pass->n_layer_rows = 0;
    DI_TRY(di_engram_hash_rows(pass));
    return di_leave_begin(pass);
}

di_status di_forward_head(di_pass *pass, float *logits)
{
    const di_config *c = pass->network->config;
    const di_weights *w = pass->network->weights;
    const di_batch *b = pass->batch;
    if (b->n_logit_rows == 0)
        return DI_OK;
    di_bf16 *x, *picked;
    DI_TRY(collapse_norm(pass, pass->pre, &w->norm, &x));
    DI_TRY(DI_PASS_NEW(pass, b->n_logit_rows * c->hidden_size, &picked));
    for (int32_t i = 0; i < b->n_logit_rows; i++)
        memcpy(picked + i * c->hidden_size, x + b->logit_rows[i] * c->hidden_size,
               (size_t)c->hidden_size * sizeof *picked);
    di_linear_bf16_f32(pass, &w->head, (di_rows){picked, b->n_logit_rows, c->hidden_size}, logits);
    return DI_OK;
}

di_status di_forward(di_pass *pass, float *logits)
{
    DI_TRY(di_forward_begin(pass));
    const int n_layers = pass->network->config->n_layers;
    for (int layer = 0; layer < n_layers && pass->batch->n_rows > 0; layer++)
        DI_TRY(di_forward_layer(pass, layer));
    return di_forward_head(pass, logits);
}
