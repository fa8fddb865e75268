#include <string.h>

#include "kernels/compress/compress.h"
#include "kernels/quantize/quantize.h"
#include "model/internal.h"

/* The groups of tokens that the pass's rows complete, for one compression ratio. */
typedef struct group_list {
    int64_t n;
    int32_t *positions; /* [n] of each group's first token: its rotary position */
    int64_t *slots;     /* [n] */
} group_list;

static di_status list_groups(di_pass *pass, int ratio, int group, group_list *out)
{
    const di_batch *b = pass->batch;
    *out = (group_list){.n = 0};
    DI_TRY(DI_PASS_NEW(pass, b->n_rows, &out->positions));
    DI_TRY(DI_PASS_NEW(pass, b->n_rows, &out->slots));
    for (int32_t row = 0; row < b->n_rows; row++) {
        if ((b->positions[row] + 1) % ratio != 0)
            continue;
        out->positions[out->n] = b->positions[row] + 1 - ratio;
        out->slots[out->n++] = b->slots[group][row];
    }
    return DI_OK;
}

/* Where a compressor keeps the token at an even position: k, then gate. */
static float *pending_at(const di_pass *pass, const di_batch_seq *seq, int compressor,
                         int64_t position)
{
    const int64_t place = compressor * DI_PENDING_PAIRS + position / 2 % DI_PENDING_PAIRS;
    return seq->compressor_state + place * 2 * pass->network->config->head_dim;
}

/* Keeps the even rows after which a sequence may go on: its last one, and those before it in case
 * the rows are drafts and some of them are not accepted. */
static void keep_pending(di_pass *pass, int compressor, int32_t s, const float *rows_k,
                         const float *rows_gate)
{
    const di_batch *b = pass->batch;
    const int64_t dim = pass->network->config->head_dim;
    const int32_t end = b->cu_seqlens_q[s + 1];
    const int32_t first = (int32_t)di_max_i64(b->cu_seqlens_q[s], end - DI_MAX_DRAFTS - 1);
    for (int32_t row = first; row < end; row++) {
        if (b->positions[row] % 2)
            continue;
        float *state = pending_at(pass, &b->seqs[s], compressor, b->positions[row]);
        memcpy(state, rows_k + row * dim, (size_t)dim * sizeof *state);
        memcpy(state + dim, rows_gate + row * dim, (size_t)dim * sizeof *state);
    }
}

/* Ratio 2: puts each sequence's pending token before its rows and leaves out an odd last one, so
 * that k and gate [2 * n_groups, head_dim] hold whole groups one after another. */
static void pair_tokens(di_pass *pass, int compressor, const float *rows_k, const float *rows_gate,
                        float *k, float *gate)
{
    const di_batch *b = pass->batch;
    const int64_t dim = pass->network->config->head_dim;
    const size_t bytes = (size_t)dim * sizeof *k;
    int64_t n = 0; /* tokens written */
    for (int32_t s = 0; s < b->n_seqs; s++) {
        const int32_t first = b->cu_seqlens_q[s], end = b->cu_seqlens_q[s + 1];
        if (b->positions[first] % 2 == 1) {
            const float *state = pending_at(pass, &b->seqs[s], compressor, b->positions[first] - 1);
            memcpy(k + n * dim, state, bytes);
            memcpy(gate + n * dim, state + dim, bytes);
            n++;
        }
        keep_pending(pass, compressor, s, rows_k, rows_gate);
        for (int32_t row = first; row < end; row++) {
            if (row == end - 1 && b->positions[row] % 2 == 0)
                break;
            memcpy(k + n * dim, rows_k + row * dim, bytes);
            memcpy(gate + n * dim, rows_gate + row * dim, bytes);
            n++;
        }
    }
}

static di_status pool_pairs(di_pass *pass, int layer, di_rows x, int64_t n_groups, di_bf16 *latent)
{
    const int64_t dim = pass->network->config->head_dim;
    const di_compressor_weights *w = pass->network->weights->layers[layer].compressor;
    float *rows_k, *rows_gate, *k, *gate;
    DI_TRY(DI_PASS_NEW(pass, x.n * dim, &rows_k));
    DI_TRY(DI_PASS_NEW(pass, x.n * dim, &rows_gate));
    DI_TRY(DI_PASS_NEW(pass, 2 * n_groups * dim, &k));
    DI_TRY(DI_PASS_NEW(pass, 2 * n_groups * dim, &gate));
    di_linear_bf16_f32(pass, &w->wkv, x, rows_k);
    di_linear_bf16_f32(pass, &w->wgate, x, rows_gate);
    pair_tokens(pass, pass->kv->layout.compressor_of_layer[layer], rows_k, rows_gate, k, gate);
    const di_compress_pool_args args = {.k = k, .gate = gate, .latent = latent, .dim = dim};
    di_run(pass, DI_OP_compress_pool, &args, n_groups, 4 * dim);
    return DI_OK;
}

/* Index keys come from the latent before its rotation and rounding (spec 4.3). */
static di_status write_index_keys(di_pass *pass, int layer, const di_bf16 *latent,
                                  const group_list *groups, const di_rope_angles *angles)
{
    const di_config *c = pass->network->config;
    const di_indexer_weights *w = pass->network->weights->layers[layer].indexer;
    di_bf16 *key;
    DI_TRY(DI_PASS_NEW(pass, groups->n * c->index_head_dim, &key));
    di_linear_bf16(pass, &w->wk, (di_rows){latent, groups->n, c->head_dim}, key);
    di_norm_rows(pass, &w->k_norm, key, groups->n, key);
    di_rope_rows(pass, key, groups->n, 1, c->index_head_dim, angles, false);
    const di_pack_args pack = {
        .x = key,
        .dim = c->index_head_dim,
        .x_stride = c->index_head_dim,
        .slots = groups->slots,
        .out = di_kv_cache_store(pass->kv, layer, DI_KV_INDEX),
    };
    di_run(pass, DI_OP_pack_q4i, &pack, groups->n, c->index_head_dim);
    return DI_OK;
}

di_status di_compress(di_pass *pass, int layer, const di_bf16 *x)
{
    const di_network *net = pass->network;
    const di_config *c = net->config;
    const di_compressor_weights *w = net->weights->layers[layer].compressor;
    const int ratio = c->compress_ratios[layer];
    const di_rows rows = {x, pass->batch->n_rows, c->hidden_size};
    group_list groups;
    DI_TRY(list_groups(pass, ratio, pass->kv->layout.group_of_layer[layer], &groups));
    di_bf16 *latent;
    DI_TRY(DI_PASS_NEW(pass, groups.n * c->head_dim, &latent));
    if (ratio == 1)
        di_linear_bf16(pass, &w->wkv, rows, latent);
    else
        DI_TRY(pool_pairs(pass, layer, rows, groups.n, latent));
    if (groups.n == 0)
        return DI_OK;
    di_norm_rows(pass, &w->norm, latent, groups.n, latent);
    di_rope_angles angles;
    DI_TRY(di_rope_angles_init(pass, net->rope_compressed, groups.positions, groups.n, &angles));
    DI_TRY(write_index_keys(pass, layer, latent, &groups, &angles));
    di_rope_rows(pass, latent, groups.n, 1, c->head_dim, &angles, false);
    const di_pack_args pack = {
        .x = latent,
        .dim = c->head_dim,
        .x_stride = c->head_dim,
        .slots = groups.slots,
        .out = di_kv_cache_store(pass->kv, layer, DI_KV_COMPRESSED),
    };
    di_run(pass, DI_OP_pack_q4kv, &pack, groups.n, c->head_dim);
    return DI_OK;
}
