#include <math.h>

#include "kernels/gemm/gemm.h"
#include "kernels/quantize/quantize.h"
#include "kernels/sparse_attention/sparse_attention.h"
#include "model/internal.h"

/* Query latent qr (normalised) and rotated queries q [n, n_heads, head_dim] (spec 4.2). */
di_status di_attention_queries(di_pass *pass, const di_layer_weights *w, di_rows x,
                               const di_rope_angles *angles, di_rows *qr, di_bf16 **q)
{
    const di_config *c = pass->network->config;
    di_bf16 *latent;
    DI_TRY(DI_PASS_NEW(pass, x.n * c->q_lora_rank, &latent));
    di_linear_f8(pass, &w->wq_a, x, latent);
    di_norm_rows(pass, &w->q_norm, latent, x.n, latent);
    DI_TRY(di_quantize_rows(pass, latent, x.n, c->q_lora_rank, qr));
    DI_TRY(DI_PASS_NEW(pass, x.n * c->n_heads * c->head_dim, q));
    di_linear_f8(pass, &w->wq_b, *qr, *q);
    di_rope_rows(pass, *q, x.n, c->n_heads, c->head_dim, angles, false);
    return DI_OK;
}

di_status di_attention_keys(di_pass *pass, const di_layer_weights *w, di_rows x,
                            const di_rope_angles *angles, di_bf16 **kv)
{
    const int64_t dim = pass->network->config->head_dim;
    DI_TRY(DI_PASS_NEW(pass, x.n * dim, kv));
    di_linear_f8(pass, &w->wkv, x, *kv);
    di_norm_rows(pass, &w->kv_norm, *kv, x.n, *kv);
    di_rope_rows(pass, *kv, x.n, 1, dim, angles, false);
    return DI_OK;
}

di_status di_attention_write_window(di_pass *pass, int layer, di_rows x,
                                    const di_rope_angles *angles)
{
    const di_config *c = pass->network->config;
    di_bf16 *kv;
    DI_TRY(di_attention_keys(pass, di_layer_of(pass, layer), x, angles, &kv));
    const di_pack_args pack = {
        .x = kv,
        .dim = c->head_dim,
        .x_stride = c->head_dim,
        .slots = pass->batch->slots[0],
        .out = di_kv_cache_store(pass->kv, layer, DI_KV_WINDOW),
    };
    di_run(pass, DI_OP_pack_q8, &pack, x.n, c->head_dim);
    return DI_OK;
}

static void attend(di_pass *pass, int layer, const di_bf16 *q, di_bf16 *out)
{
    const di_config *c = pass->network->config;
    const int64_t n = pass->batch->n_rows;
    const bool has_compressed = c->compress_ratios[layer] != 0;
    di_sparse_attention_args args = {
        .q = q,
        .sink = pass->network->weights->layers[layer].attn_sink,
        .out = out,
        .n_heads = c->n_heads,
        .head_dim = c->head_dim,
        .scale = (float)(1.0 / sqrt((double)c->head_dim)),
        .window = di_kv_cache_view(pass->kv, layer, DI_KV_WINDOW),
        .window_tables = pass->tables[0],
        .positions = pass->batch->positions,
        .window_len = c->sliding_window,
        .window_floors = pass->window_floors,
        .index_stride = c->index_topk,
        .scratch = pass->worker_scratch,
        .scratch_stride = pass->worker_scratch_bytes / (int64_t)sizeof(float),
    };
    if (has_compressed) {
        args.compressed = di_kv_cache_view(pass->kv, c->kv_source[layer], DI_KV_COMPRESSED);
        args.compressed_tables = pass->tables[pass->kv->layout.group_of_layer[layer]];
        args.indices = pass->topk;
        args.counts = pass->topk_counts;
    }
    di_run(pass, DI_OP_sparse_attention, &args, n * c->n_heads,
           (c->sliding_window + c->index_topk) * c->head_dim);
}

/* Grouped output projection: z_g = wo_a_g o_g on unquantized inputs, y = wo_b z. */
di_status di_attention_project(di_pass *pass, const di_layer_weights *w, const di_bf16 *o,
                               di_bf16 *y)
{
    const di_config *c = pass->network->config;
    const int64_t n = pass->batch->n_rows, width = w->wo_a.n_in;
    const int64_t z_width = c->o_groups * c->o_lora_rank;
    di_bf16 *z;
    DI_TRY(DI_PASS_NEW(pass, n * z_width, &z));
    for (int64_t g = 0; g < c->o_groups; g++) {
        const di_gemm_args args = {
            .x = o + g * width,
            .x_stride = c->o_groups * width,
            .w = w->wo_a.codes,
            .scales = w->wo_a.scales,
            .y = z + g * c->o_lora_rank,
            .y_stride = z_width,
            .m = n,
            .n = c->o_lora_rank,
            .k = width,
            .first_column = g * c->o_lora_rank,
            .scratch = pass->worker_scratch,
            .scratch_stride = pass->worker_scratch_bytes,
        };
        di_run(pass, DI_OP_gemm_f8, &args, args.n, n * width);
    }
    di_rows zq;
    DI_TRY(di_quantize_rows(pass, z, n, z_width, &zq));
    di_linear_f8(pass, &w->wo_b, zq, y);
    return DI_OK;
}

static const di_rope_angles *angles_of(const di_pass *pass, int layer)
{
    return pass->network->config->compress_ratios[layer] ? &pass->compressed : &pass->plain;
}

di_status di_attention_write(di_pass *pass, int layer, di_attention_input *in)
{
    const di_config *c = pass->network->config;
    const size_t row_bytes = (size_t)c->hidden_size * sizeof *in->x;
    if (c->is_kv_source[layer])
        DI_TRY(di_compress(pass, layer, in->x));
    di_raise_floors(pass, layer);
    if (di_leave(pass, layer, DI_ROW_KEYS))
        di_compact_rows(&pass->remaining, in->x, row_bytes);
    const int64_t n = pass->batch->n_rows;
    if (n == 0)
        return DI_OK;
    DI_TRY(DI_PASS_NEW(pass, n * c->hidden_size, &in->rounded));
    di_quantize_into(pass, in->x, n, c->hidden_size, in->rounded);
    const di_rows rounded = {in->rounded, n, c->hidden_size};
    DI_TRY(di_attention_write_window(pass, layer, rounded, angles_of(pass, layer)));
    if (!di_leave(pass, layer, DI_ROW_REST))
        return DI_OK;
    di_compact_rows(&pass->remaining, in->x, row_bytes);
    di_compact_rows(&pass->remaining, in->rounded, row_bytes);
    return DI_OK;
}

di_status di_attention(di_pass *pass, int layer, const di_attention_input *in, di_bf16 *y)
{
    const di_config *c = pass->network->config;
    const di_layer_weights *w = &pass->network->weights->layers[layer];
    const int64_t n = pass->batch->n_rows;
    const di_rope_angles *angles = angles_of(pass, layer);
    const di_rows x = {in->rounded, n, c->hidden_size};
    di_rows qr;
    di_bf16 *q;
    DI_TRY(di_attention_queries(pass, w, x, angles, &qr, &q));
    if (c->is_index_source[layer])
        DI_TRY(di_index_select(pass, layer, in->x, qr));
    di_bf16 *o;
    DI_TRY(DI_PASS_NEW(pass, n * c->n_heads * c->head_dim, &o));
    attend(pass, layer, q, o);
    di_rope_rows(pass, o, n, c->n_heads, c->head_dim, angles, true);
    return di_attention_project(pass, w, o, y);
}
