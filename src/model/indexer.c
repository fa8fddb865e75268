#include <math.h>

#include "base/checked.h"
#include "kernels/index_logits/index_logits.h"
#include "kernels/quantize/quantize.h"
#include "kernels/topk/topk.h"
#include "model/internal.h"

/* Rotated, Q4i-rounded index queries [n, index_n_heads, index_head_dim] and head weights. */
static di_status make_index_queries(di_pass *pass, int layer, const di_bf16 *x, di_rows qr,
                                    di_bf16 **q, di_bf16 **head_weights)
{
    const di_config *c = pass->network->config;
    const di_indexer_weights *w = pass->network->weights->layers[layer].indexer;
    const int64_t n = pass->batch->n_rows, width = c->index_n_heads * c->index_head_dim;
    DI_TRY(DI_PASS_NEW(pass, n * width, q));
    DI_TRY(DI_PASS_NEW(pass, n * c->index_n_heads, head_weights));
    di_linear_f8(pass, &w->wq_b, qr, *q);
    di_rope_rows(pass, *q, n, c->index_n_heads, c->index_head_dim, &pass->compressed, false);
    const di_quantize_args round = {
        .x = *q, .y = *q, .dim = width, .x_stride = width, .y_stride = width};
    di_run(pass, DI_OP_quantize_q4i, &round, n, 2 * width);
    di_linear_bf16(pass, &w->weights_proj, (di_rows){x, n, c->hidden_size}, *head_weights);
    return DI_OK;
}

static int64_t count_visible(di_pass *pass, int ratio)
{
    int64_t most = 0;
    for (int32_t row = 0; row < pass->batch->n_rows; row++) {
        pass->n_visible[row] = (pass->batch->positions[row] + 1) / ratio;
        most = di_max_i64(most, pass->n_visible[row]);
    }
    return most;
}

di_status di_index_begin_candidates(di_pass *pass)
{
    const di_config *c = pass->network->config;
    const int64_t visible = count_visible(pass, c->compress_ratios[c->candidate_source]);
    pass->candidate_stride = di_ceil_div(di_max_i64(1, visible), c->candidate_block_size);
    return DI_PASS_NEW(pass, pass->batch->n_rows * pass->candidate_stride, &pass->candidates);
}

/* Marks candidate blocks if this is their source, then selects, for rows first .. first + n - 1. */
static void select_rows(di_pass *pass, int layer, const di_bf16 *scores, int64_t max_visible,
                        int64_t first, int64_t n)
{
    const di_config *c = pass->network->config;
    uint8_t *candidates =
        pass->candidates ? pass->candidates + first * pass->candidate_stride : NULL;
    if (layer == c->candidate_source) {
        const di_candidate_blocks_args blocks = {
            .scores = scores,
            .score_stride = max_visible,
            .n_visible = pass->n_visible + first,
            .candidates = candidates,
            .candidate_stride = pass->candidate_stride,
            .block_size = c->candidate_block_size,
            .k = c->candidate_topk_blocks,
        };
        di_run(pass, DI_OP_candidate_blocks, &blocks, n, 2 * max_visible);
    }
    const bool is_restricted = c->candidate_source >= 0 && layer > c->candidate_source;
    const di_topk_args topk = {
        .scores = scores,
        .score_stride = max_visible,
        .n_visible = pass->n_visible + first,
        .candidates = is_restricted ? candidates : NULL,
        .candidate_stride = pass->candidate_stride,
        .block_size = c->candidate_block_size,
        .indices = pass->topk + first * c->index_topk,
        .counts = pass->topk_counts + first,
        .k = c->index_topk,
    };
    di_run(pass, DI_OP_topk, &topk, n, 4 * max_visible);
}

di_status di_index_select(di_pass *pass, int layer, const di_bf16 *x, di_rows qr)
{
    const di_config *c = pass->network->config;
    const int64_t n_rows = pass->batch->n_rows;
    const int64_t max_visible = di_max_i64(1, count_visible(pass, c->compress_ratios[layer]));
    di_bf16 *q, *head_weights, *scores;
    DI_TRY(make_index_queries(pass, layer, x, qr, &q, &head_weights));
    const int64_t tile = di_min_i64(n_rows, di_max_i64(1, DI_INDEX_SCORES_PER_TILE / max_visible));
    DI_TRY(DI_PASS_NEW(pass, tile * max_visible, &scores));
    const float w_scale =
        (float)(1.0 / sqrt((double)c->index_head_dim) * (1.0 / sqrt((double)c->index_n_heads)));
    for (int64_t first = 0; first < n_rows; first += tile) {
        const int64_t n = di_min_i64(tile, n_rows - first);
        const di_index_logits_args args = {
            .q = q + first * c->index_n_heads * c->index_head_dim,
            .w = head_weights + first * c->index_n_heads,
            .w_scale = w_scale,
            .keys = di_kv_cache_view(pass->kv, c->kv_source[layer], DI_KV_INDEX),
            .block_tables = pass->tables[pass->kv->layout.group_of_layer[layer]] + first,
            .n_visible = pass->n_visible + first,
            .scores = scores,
            .n_heads = c->index_n_heads,
            .dim = c->index_head_dim,
            .max_visible = max_visible,
        };
        di_run(pass, DI_OP_index_logits, &args, n * di_ceil_div(max_visible, DI_INDEX_TILE),
               DI_INDEX_TILE * c->index_n_heads * c->index_head_dim);
        select_rows(pass, layer, scores, max_visible, first, n);
    }
    if (pass->observer && pass->observer->topk)
        pass->observer->topk(pass->observer->user, layer, pass);
    return DI_OK;
}
