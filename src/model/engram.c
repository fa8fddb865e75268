#include "kernels/engram/engram.h"
#include "model/internal.h"

static int engram_index(const di_config *c, int layer)
{
    for (int i = 0; i < c->n_engram_layers; i++)
        if (c->engram_layer_ids[i] == layer)
            return i;
    return -1;
}

static int64_t n_columns(const di_config *c)
{
    return (int64_t)(c->engram_max_ngram_size - 1) * c->engram_n_heads;
}

di_status di_engram_hash_rows(di_pass *pass)
{
    const di_network *net = pass->network;
    const di_config *c = net->config;
    const int64_t n = pass->batch->n_rows;
    const int32_t **history;
    if (c->n_engram_layers == 0)
        return DI_OK;
    DI_TRY(DI_PASS_NEW(pass, n, &history));
    for (int64_t row = 0; row < n; row++)
        history[row] = pass->batch->seqs[pass->batch->row_seq[row]].engram_ids;
    for (int i = 0; i < c->n_engram_layers; i++) {
        const di_engram_constants *constants = &net->engram[i];
        DI_TRY(DI_PASS_NEW(pass, n * n_columns(c), &pass->engram_rows[i]));
        const di_engram_hash_args hash = {
            .history = history,
            .positions = pass->batch->positions,
            .multipliers = constants->multipliers,
            .primes = constants->primes,
            .offsets = constants->offsets,
            .rows = pass->engram_rows[i],
            .max_ngram = c->engram_max_ngram_size,
            .n_heads = c->engram_n_heads,
            .pad_id = net->token_map[c->engram_pad_token_id],
        };
        di_run(pass, DI_OP_engram_hash, &hash, n, 8 * n_columns(c));
        di_weight_source_ask_rows(pass->source, i, pass->engram_rows[i], n * n_columns(c));
    }
    return DI_OK;
}

di_status di_engram(di_pass *pass, int layer)
{
    const di_network *net = pass->network;
    const di_config *c = net->config;
    const di_engram_weights *w = net->weights->layers[layer].engram;
    const int64_t *rows = pass->engram_rows[engram_index(c, layer)];
    const int64_t n = pass->batch->n_rows, dim = n_columns(c) * w->head_dim;
    di_bf16 *e, *kv;
    DI_TRY(DI_PASS_NEW(pass, n * dim, &e));
    DI_TRY(DI_PASS_NEW(pass, n * w->wkv.n_out, &kv));
    const di_engram_gather_args gather = {.codes = w->codes,
                                          .scales = w->scales,
                                          .rows = rows,
                                          .y = e,
                                          .n_columns = n_columns(c),
                                          .dim = w->head_dim};
    di_run(pass, DI_OP_engram_gather, &gather, n, dim);
    di_rows eq;
    DI_TRY(di_quantize_rows(pass, e, n, dim, &eq));
    di_linear_f8(pass, &w->wkv, eq, kv);
    const di_engram_gate_args gate = {
        .h = pass->h,
        .kv = kv,
        .q_weight = w->q_weight.data,
        .k_weight = w->k_weight.data,
        .dim = c->hidden_size,
        .hc = c->hc_mult,
        .norm_eps = (float)c->rms_norm_eps,
    };
    di_run(pass, DI_OP_engram_gate, &gate, n, 4 * c->hc_mult * c->hidden_size);
    if (pass->observer && pass->observer->engram)
        pass->observer->engram(pass->observer->user, layer, rows, pass);
    return DI_OK;
}
