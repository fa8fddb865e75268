#include "weights/weight_list.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"

/* Dimensions that depend on the configuration, and some on the layer. */
typedef enum dim {
    DIM_ONE, /* the second dimension of a vector */
    DIM_HIDDEN,
    DIM_VOCAB,
    DIM_Q_LORA,
    DIM_HEADS,
    DIM_HEAD,
    DIM_QUERY,      /* n_heads * head_dim */
    DIM_GROUP_IN,   /* n_heads / o_groups * head_dim */
    DIM_GROUPS_OUT, /* o_groups * o_lora_rank */
    DIM_EXPERTS,    /* of this layer */
    DIM_INTER,
    DIM_HC,
    DIM_HC_MIX, /* (2 + hc) * hc */
    DIM_HC_IN,  /* hc * hidden */
    DIM_THREE,
    DIM_INDEX_HEADS,
    DIM_INDEX_HEAD,
    DIM_INDEX_QUERY, /* index_n_heads * index_head_dim */
    DIM_ENGRAM_ROWS, /* of this layer */
    DIM_ENGRAM_HEAD,
    DIM_ENGRAM_IN,  /* columns * head_dim */
    DIM_ENGRAM_OUT, /* (hc + 1) * hidden */
    DIM_TAPS,       /* n_dspark_targets * hidden */
    DIM_MARKOV,
    DIM_CONFIDENCE, /* hidden + markov_rank */
    DIM_VIT,
    DIM_VIT_QKV, /* 3 * vision hidden */
    DIM_VIT_INTER,
    DIM_VIT_INTER2, /* 2 * vision intermediate */
    DIM_VIT_PATCH,  /* 3 * patch^2 */
    DIM_VIT_FOLD,   /* vision hidden * downsample^2 */
    N_DIMS
} dim;

typedef struct row {
    const char *name; /* behind the prefix */
    di_weight_kind kind;
    di_weight_part part;
    dim n_out, n_in;
    size_t slot; /* offset in the group's struct */
} row;

#define SLOT(type, field) offsetof(type, field)
#define ROWS(table)       (table), sizeof(table) / sizeof((table)[0])

#define BF16   DI_WEIGHT_KIND_BF16
#define VECTOR DI_WEIGHT_KIND_VECTOR
#define NORM   DI_WEIGHT_KIND_NORM
#define F32    DI_WEIGHT_KIND_F32
#define F8     DI_WEIGHT_KIND_F8
#define F4     DI_WEIGHT_KIND_F4
#define TABLE  DI_WEIGHT_KIND_TABLE

#define EMB  DI_PART_EMBEDDING
#define ATT  DI_PART_ATTENTION
#define HCN  DI_PART_HYPER_CONNECTION
#define GATE DI_PART_GATE
#define EXP  DI_PART_EXPERTS
#define SHR  DI_PART_SHARED_EXPERT
#define ENG  DI_PART_ENGRAM
#define DRF  DI_PART_DRAFT
#define VIS  DI_PART_VISION

/* ----------------------------------------------------------------------------------- the table */

#define MODEL(field) SLOT(di_weights, field)
static const row global_rows[] = {
    {"embed.weight", BF16, EMB, DIM_VOCAB, DIM_HIDDEN, MODEL(embed)},
    {"head.weight", BF16, EMB, DIM_VOCAB, DIM_HIDDEN, MODEL(head)},
    {"norm.weight", NORM, EMB, DIM_HIDDEN, DIM_ONE, MODEL(norm)},
};

/* Prefix layers.L. or mtp.M. */
#define LAYER(field) SLOT(di_layer_weights, field)
static const row layer_rows[] = {
    {"attn_norm.weight", NORM, ATT, DIM_HIDDEN, DIM_ONE, LAYER(attn_norm)},
    {"attn.wq_a", F8, ATT, DIM_Q_LORA, DIM_HIDDEN, LAYER(wq_a)},
    {"attn.q_norm.weight", NORM, ATT, DIM_Q_LORA, DIM_ONE, LAYER(q_norm)},
    {"attn.wq_b", F8, ATT, DIM_QUERY, DIM_Q_LORA, LAYER(wq_b)},
    {"attn.wkv", F8, ATT, DIM_HEAD, DIM_HIDDEN, LAYER(wkv)},
    {"attn.kv_norm.weight", NORM, ATT, DIM_HEAD, DIM_ONE, LAYER(kv_norm)},
    {"attn.attn_sink", F32, ATT, DIM_HEADS, DIM_ONE, LAYER(attn_sink)},
    {"attn.wo_a", F8, ATT, DIM_GROUPS_OUT, DIM_GROUP_IN, LAYER(wo_a)},
    {"attn.wo_b", F8, ATT, DIM_HIDDEN, DIM_GROUPS_OUT, LAYER(wo_b)},
    {"hc_attn_fn", F32, HCN, DIM_HC_MIX, DIM_HC_IN, LAYER(hc_attn.fn)},
    {"hc_attn_base", F32, HCN, DIM_HC_MIX, DIM_ONE, LAYER(hc_attn.base)},
    {"hc_attn_scale", F32, HCN, DIM_THREE, DIM_ONE, LAYER(hc_attn.scale)},
    {"hc_ffn_fn", F32, HCN, DIM_HC_MIX, DIM_HC_IN, LAYER(hc_ffn.fn)},
    {"hc_ffn_base", F32, HCN, DIM_HC_MIX, DIM_ONE, LAYER(hc_ffn.base)},
    {"hc_ffn_scale", F32, HCN, DIM_THREE, DIM_ONE, LAYER(hc_ffn.scale)},
    {"ffn_norm.weight", NORM, GATE, DIM_HIDDEN, DIM_ONE, LAYER(ffn_norm)},
    {"ffn.gate.weight", BF16, GATE, DIM_EXPERTS, DIM_HIDDEN, LAYER(gate)},
    {"ffn.gate.bias", F32, GATE, DIM_EXPERTS, DIM_ONE, LAYER(gate_bias)},
    {"ffn.shared_experts.w1", F8, SHR, DIM_INTER, DIM_HIDDEN, LAYER(shared.w1)},
    {"ffn.shared_experts.w2", F8, SHR, DIM_HIDDEN, DIM_INTER, LAYER(shared.w2)},
    {"ffn.shared_experts.w3", F8, SHR, DIM_INTER, DIM_HIDDEN, LAYER(shared.w3)},
};

/* Layers and draft blocks of a model with vision. */
static const row layer_vision_rows[] = {
    {"ffn.gate.bias_vl", F32, GATE, DIM_EXPERTS, DIM_ONE, LAYER(gate_bias_vl)},
};

/* Behind the prefix of a layer: ffn.experts.E. */
#define EXPERT(field) SLOT(di_expert_weights, field)
static const row expert_rows[] = {
    {"w1", F4, EXP, DIM_INTER, DIM_HIDDEN, EXPERT(w1)},
    {"w2", F4, EXP, DIM_HIDDEN, DIM_INTER, EXPERT(w2)},
    {"w3", F4, EXP, DIM_INTER, DIM_HIDDEN, EXPERT(w3)},
};

/* KV sources. */
#define COMPRESSOR(field) SLOT(di_compressor_weights, field)
static const row compressor_rows[] = {
    {"attn.compressor.wkv.weight", BF16, ATT, DIM_HEAD, DIM_HIDDEN, COMPRESSOR(wkv)},
    {"attn.compressor.norm.weight", NORM, ATT, DIM_HEAD, DIM_ONE, COMPRESSOR(norm)},
};

/* KV sources with more than one token an entry. */
static const row compressor_gate_rows[] = {
    {"attn.compressor.wgate.weight", BF16, ATT, DIM_HEAD, DIM_HIDDEN, COMPRESSOR(wgate)},
};

/* KV sources. */
#define INDEXER(field) SLOT(di_indexer_weights, field)
static const row index_key_rows[] = {
    {"attn.indexer.wk.weight", BF16, ATT, DIM_INDEX_HEAD, DIM_HEAD, INDEXER(wk)},
    {"attn.indexer.k_norm.weight", NORM, ATT, DIM_INDEX_HEAD, DIM_ONE, INDEXER(k_norm)},
};

/* Index sources. */
static const row index_query_rows[] = {
    {"attn.indexer.wq_b", F8, ATT, DIM_INDEX_QUERY, DIM_Q_LORA, INDEXER(wq_b)},
    {"attn.indexer.weights_proj.weight", BF16, ATT, DIM_INDEX_HEADS, DIM_HIDDEN,
     INDEXER(weights_proj)},
};

#define ENGRAM(field) SLOT(di_engram_weights, field)
static const row engram_rows[] = {
    {"engram.embed", TABLE, ENG, DIM_ENGRAM_ROWS, DIM_ENGRAM_HEAD, 0},
    {"engram.wkv", F8, ENG, DIM_ENGRAM_OUT, DIM_ENGRAM_IN, ENGRAM(wkv)},
    {"engram.q_weight", BF16, ENG, DIM_HC, DIM_HIDDEN, ENGRAM(q_weight)},
    {"engram.k_weight", BF16, ENG, DIM_HC, DIM_HIDDEN, ENGRAM(k_weight)},
};

/* Prefix mtp.0. */
#define DRAFT(field) SLOT(di_draft_weights, field)
static const row draft_first_rows[] = {
    {"main_proj", F8, DRF, DIM_HIDDEN, DIM_TAPS, DRAFT(main_proj)},
    {"main_norm.weight", NORM, DRF, DIM_HIDDEN, DIM_ONE, DRAFT(main_norm)},
};

/* Prefix mtp.M. of the last block. */
static const row draft_last_rows[] = {
    {"norm.weight", NORM, DRF, DIM_HIDDEN, DIM_ONE, DRAFT(norm)},
    {"markov_head.embed.weight", BF16, DRF, DIM_VOCAB, DIM_MARKOV, DRAFT(markov_embed)},
    {"markov_head.head.weight", BF16, DRF, DIM_VOCAB, DIM_MARKOV, DRAFT(markov_head)},
    {"confidence_head.proj.weight", BF16, DRF, DIM_ONE, DIM_CONFIDENCE, DRAFT(confidence_proj)},
};

#define VISION(field) SLOT(di_vision_weights, field)
static const row vision_rows[] = {
    {"image_start", VECTOR, VIS, DIM_HIDDEN, DIM_ONE, VISION(image_start)},
    {"image_end", VECTOR, VIS, DIM_HIDDEN, DIM_ONE, VISION(image_end)},
    {"image_newline", VECTOR, VIS, DIM_HIDDEN, DIM_ONE, VISION(image_newline)},
    {"vision.patch_embed.proj.weight", BF16, VIS, DIM_VIT, DIM_VIT_PATCH,
     VISION(patch_embed.weight)},
    {"vision.patch_embed.proj.bias", VECTOR, VIS, DIM_VIT, DIM_ONE, VISION(patch_embed.bias)},
    {"vision.norm.weight", NORM, VIS, DIM_VIT, DIM_ONE, VISION(norm)},
    {"aligner.w1.weight", BF16, VIS, DIM_HIDDEN, DIM_VIT_FOLD, VISION(aligner_w1.weight)},
    {"aligner.w1.bias", VECTOR, VIS, DIM_HIDDEN, DIM_ONE, VISION(aligner_w1.bias)},
    {"aligner.w2.weight", BF16, VIS, DIM_HIDDEN, DIM_HIDDEN, VISION(aligner_w2.weight)},
    {"aligner.w2.bias", VECTOR, VIS, DIM_HIDDEN, DIM_ONE, VISION(aligner_w2.bias)},
};

/* Prefix vision.blocks.B. */
#define VBLOCK(field) SLOT(di_vision_block_weights, field)
static const row vision_block_rows[] = {
    {"norm1.weight", NORM, VIS, DIM_VIT, DIM_ONE, VBLOCK(norm1)},
    {"norm2.weight", NORM, VIS, DIM_VIT, DIM_ONE, VBLOCK(norm2)},
    {"attn.wqkv.weight", BF16, VIS, DIM_VIT_QKV, DIM_VIT, VBLOCK(wqkv.weight)},
    {"attn.wqkv.bias", VECTOR, VIS, DIM_VIT_QKV, DIM_ONE, VBLOCK(wqkv.bias)},
    {"attn.wo.weight", BF16, VIS, DIM_VIT, DIM_VIT, VBLOCK(wo.weight)},
    {"attn.wo.bias", VECTOR, VIS, DIM_VIT, DIM_ONE, VBLOCK(wo.bias)},
    {"mlp.w1.weight", BF16, VIS, DIM_VIT_INTER2, DIM_VIT, VBLOCK(w1.weight)},
    {"mlp.w2.weight", BF16, VIS, DIM_VIT, DIM_VIT_INTER, VBLOCK(w2.weight)},
};

/* ------------------------------------------------------------------------------------ the walk */

typedef struct walk {
    const di_config *config;
    di_weights *slots; /* or NULL */
    di_weight_fn fn;
    void *user;
    int64_t dims[N_DIMS];
    bool is_draft;
    char prefix[64];
} walk;

static void set_dims(walk *w)
{
    const di_config *c = w->config;
    const di_vision_config *v = &c->vision;
    const int64_t engram_columns = (int64_t)(c->engram_max_ngram_size - 1) * c->engram_n_heads;
    const int64_t dims[N_DIMS] = {
        [DIM_ONE] = 1,
        [DIM_HIDDEN] = c->hidden_size,
        [DIM_VOCAB] = c->vocab_size,
        [DIM_Q_LORA] = c->q_lora_rank,
        [DIM_HEADS] = c->n_heads,
        [DIM_HEAD] = c->head_dim,
        [DIM_QUERY] = c->n_heads * c->head_dim,
        [DIM_GROUP_IN] = c->n_heads / c->o_groups * c->head_dim,
        [DIM_GROUPS_OUT] = c->o_groups * c->o_lora_rank,
        [DIM_INTER] = c->moe_intermediate_size,
        [DIM_HC] = c->hc_mult,
        [DIM_HC_MIX] = (int64_t)(2 + c->hc_mult) * c->hc_mult,
        [DIM_HC_IN] = c->hc_mult * c->hidden_size,
        [DIM_THREE] = 3,
        [DIM_INDEX_HEADS] = c->index_n_heads,
        [DIM_INDEX_HEAD] = c->index_head_dim,
        [DIM_INDEX_QUERY] = c->index_n_heads * c->index_head_dim,
        [DIM_ENGRAM_HEAD] = c->engram_head_dim,
        [DIM_ENGRAM_IN] = engram_columns * c->engram_head_dim,
        [DIM_ENGRAM_OUT] = (c->hc_mult + 1) * c->hidden_size,
        [DIM_TAPS] = c->n_dspark_targets * c->hidden_size,
        [DIM_MARKOV] = c->dspark_markov_rank,
        [DIM_CONFIDENCE] = c->hidden_size + c->dspark_markov_rank,
        [DIM_VIT] = v->hidden_size,
        [DIM_VIT_QKV] = 3 * v->hidden_size,
        [DIM_VIT_INTER] = v->intermediate_size,
        [DIM_VIT_INTER2] = 2 * v->intermediate_size,
        [DIM_VIT_PATCH] = 3 * v->patch_size * v->patch_size,
        [DIM_VIT_FOLD] = v->hidden_size * v->downsample_ratio * v->downsample_ratio,
    };
    memcpy(w->dims, dims, sizeof dims);
}

/* The weight's second tensor, if it is a quantized one. */
static void make_scale(di_weight_tensor *t)
{
    t->is_scale = true;
    t->dtype = DI_F8_E8M0;
    t->shape[0] = t->kind == DI_WEIGHT_KIND_F8 ? di_ceil_div(t->n_out, 32) : t->n_out;
    t->shape[1] = di_ceil_div(t->n_in, 32);
}

static di_status give_row(walk *w, const row *r, void *base)
{
    static const di_dtype dtypes[] = {
        [BF16] = DI_BF16,  [VECTOR] = DI_BF16, [NORM] = DI_BF16,     [F32] = DI_F32,
        [F8] = DI_F8_E4M3, [F4] = DI_I8,       [TABLE] = DI_F8_E4M3,
    };
    const bool is_quantized = r->kind == F8 || r->kind == F4 || r->kind == TABLE;
    const bool is_vector = r->n_in == DIM_ONE;
    char name[160];
    di_weight_tensor t = {
        .name = name,
        .part = w->is_draft ? DI_PART_DRAFT : r->part,
        .kind = r->kind,
        .dtype = dtypes[r->kind],
        .rank = is_vector ? 1 : 2,
        .n_out = w->dims[r->n_out],
        .n_in = w->dims[r->n_in],
        .slot = base ? (char *)base + r->slot : NULL,
    };
    t.shape[0] = t.n_out;
    t.shape[1] = r->kind == F4 ? t.n_in / 2 : t.n_in;
    snprintf(name, sizeof name, "%s%s%s", w->prefix, r->name, is_quantized ? ".weight" : "");
    DI_TRY(w->fn(w->user, &t));
    if (!is_quantized)
        return DI_OK;
    make_scale(&t);
    snprintf(name, sizeof name, "%s%s.scale", w->prefix, r->name);
    return w->fn(w->user, &t);
}

static di_status give_rows(walk *w, const row *rows, size_t n, void *base)
{
    for (size_t i = 0; i < n; i++)
        DI_TRY(give_row(w, &rows[i], base));
    return DI_OK;
}

/* What every layer and draft block has. prefix is that of the layer. */
static di_status give_layer(walk *w, di_layer_weights *slots)
{
    DI_TRY(give_rows(w, ROWS(layer_rows), slots));
    if (w->config->has_vision)
        DI_TRY(give_rows(w, ROWS(layer_vision_rows), slots));
    const size_t end = strlen(w->prefix);
    for (int64_t e = 0; e < w->dims[DIM_EXPERTS]; e++) {
        snprintf(w->prefix + end, sizeof w->prefix - end, "ffn.experts.%lld.", (long long)e);
        DI_TRY(give_rows(w, ROWS(expert_rows), slots ? &slots->experts[e] : NULL));
    }
    w->prefix[end] = 0;
    return DI_OK;
}

static di_status give_backbone_layer(walk *w, int layer, di_layer_weights *slots)
{
    const di_config *c = w->config;
    /* The slots are the caller's own structs; only their readers see them const. */
    void *compressor = slots ? (void *)slots->compressor : NULL;
    void *indexer = slots ? (void *)slots->indexer : NULL;
    void *engram = slots ? (void *)slots->engram : NULL;
    snprintf(w->prefix, sizeof w->prefix, "layers.%d.", layer);
    DI_TRY(give_layer(w, slots));
    if (c->is_kv_source[layer]) {
        DI_TRY(give_rows(w, ROWS(compressor_rows), compressor));
        if (c->compress_ratios[layer] > 1)
            DI_TRY(give_rows(w, ROWS(compressor_gate_rows), compressor));
        DI_TRY(give_rows(w, ROWS(index_key_rows), indexer));
    }
    if (c->is_index_source[layer])
        DI_TRY(give_rows(w, ROWS(index_query_rows), indexer));
    for (int i = 0; i < c->n_engram_layers; i++) {
        if (c->engram_layer_ids[i] != layer)
            continue;
        w->dims[DIM_ENGRAM_ROWS] = c->engram_num_embeddings[i];
        DI_TRY(give_rows(w, ROWS(engram_rows), engram));
    }
    return DI_OK;
}

static di_status give_draft(walk *w)
{
    const int n = w->config->n_draft_blocks;
    di_draft_weights *slots = w->slots ? &w->slots->draft : NULL;
    w->is_draft = true;
    w->dims[DIM_EXPERTS] = w->config->dspark_n_routed_experts;
    for (int m = 0; m < n; m++) {
        snprintf(w->prefix, sizeof w->prefix, "mtp.%d.", m);
        DI_TRY(give_layer(w, w->slots ? &w->slots->draft_layers[m] : NULL));
        if (m == 0)
            DI_TRY(give_rows(w, ROWS(draft_first_rows), slots));
        if (m == n - 1)
            DI_TRY(give_rows(w, ROWS(draft_last_rows), slots));
    }
    w->is_draft = false;
    return DI_OK;
}

static di_status give_vision(walk *w)
{
    di_vision_weights *slots = w->slots ? (di_vision_weights *)w->slots->vision : NULL;
    w->prefix[0] = 0;
    DI_TRY(give_rows(w, ROWS(vision_rows), slots));
    for (int64_t b = 0; b < w->config->vision.n_layers; b++) {
        snprintf(w->prefix, sizeof w->prefix, "vision.blocks.%lld.", (long long)b);
        DI_TRY(give_rows(w, ROWS(vision_block_rows), slots ? &slots->blocks[b] : NULL));
    }
    return DI_OK;
}

di_status di_weight_list(const di_config *config, di_weights *slots, di_weight_fn fn, void *user)
{
    walk w = {.config = config, .slots = slots, .fn = fn, .user = user};
    set_dims(&w);
    DI_TRY(give_rows(&w, ROWS(global_rows), slots));
    w.dims[DIM_EXPERTS] = config->n_routed_experts;
    for (int layer = 0; layer < config->n_layers; layer++)
        DI_TRY(give_backbone_layer(&w, layer, slots ? &slots->layers[layer] : NULL));
    DI_TRY(give_draft(&w));
    return config->has_vision ? give_vision(&w) : DI_OK;
}

/* ---------------------------------------------------------------------------------------- rest */

bool di_weight_accepts(const di_weight_tensor *tensor, di_dtype dtype)
{
    const bool is_either = tensor->kind == NORM || tensor->kind == F32;
    return dtype == tensor->dtype || (is_either && (dtype == DI_BF16 || dtype == DI_F32));
}

const char *di_weight_part_name(di_weight_part part)
{
    static const char *const names[DI_N_PARTS] = {
        [EMB] = "embedding and head",
        [ATT] = "attention",
        [HCN] = "hyper-connections",
        [GATE] = "router",
        [EXP] = "routed experts",
        [SHR] = "shared experts",
        [ENG] = "engram",
        [DRF] = "draft blocks",
        [VIS] = "vision",
    };
    return names[part];
}

typedef struct totals {
    uint64_t n_tensors, payload_bytes;
} totals;

static di_status add_to_totals(void *user, const di_weight_tensor *t)
{
    totals *sum = user;
    uint64_t bytes = di_dtype_bytes(t->dtype);
    for (int i = 0; i < t->rank; i++)
        bytes *= (uint64_t)t->shape[i]; /* the configuration's limits keep this below 2^64 */
    sum->n_tensors++;
    sum->payload_bytes += bytes;
    return DI_OK;
}

di_status di_weight_totals(const di_config *config, uint64_t *n_tensors, uint64_t *payload_bytes)
{
    totals sum = {0};
    DI_TRY(di_weight_list(config, NULL, add_to_totals, &sum));
    *n_tensors = sum.n_tensors;
    *payload_bytes = sum.payload_bytes;
    return DI_OK;
}
