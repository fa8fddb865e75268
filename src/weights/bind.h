/* The weights of a checkpoint as the forward pass reads them: names bound to slots (model spec 2).
 * Everything points into the mapped shards; only tensors that are not aligned to their element or
 * whose dtype has to be widened are copied. Constant after di_weights_open, free for all threads.
 */
#ifndef DI_WEIGHTS_BIND_H
#define DI_WEIGHTS_BIND_H

#include "base/fp.h"
#include "base/status.h"
#include "core/config.h"
#include "core/tensor.h"

typedef struct di_norm_weight {
    const void *data;
    di_dtype dtype; /* DI_BF16 or DI_F32 */
    int64_t n;
} di_norm_weight;

/* Row-major [n_out, n_in]. data NULL where the layer has none. */
typedef struct di_bf16_matrix {
    const di_bf16 *data;
    int64_t n_out, n_in;
} di_bf16_matrix;

/* One mix of the hyper-connections (spec 4.1); hc = hc_mult. */
typedef struct di_hc_weight {
    const float *fn;    /* [(2 + hc) * hc, hc * hidden] */
    const float *base;  /* [(2 + hc) * hc] */
    const float *scale; /* [3] */
} di_hc_weight;

typedef struct di_expert_weights {
    di_qweight w1, w2, w3; /* w1, w3 [moe_intermediate, hidden]; w2 [hidden, moe_intermediate] */
} di_expert_weights;

/* KV sources (spec 4.3). */
typedef struct di_compressor_weights {
    di_bf16_matrix wkv;   /* [head_dim, hidden] */
    di_bf16_matrix wgate; /* [head_dim, hidden]; data NULL for ratio 1 */
    di_norm_weight norm;  /* [head_dim] */
} di_compressor_weights;

/* KV and index sources (spec 4.4). */
typedef struct di_indexer_weights {
    di_bf16_matrix wk;     /* [index_head_dim, head_dim]; KV sources, else data NULL */
    di_norm_weight k_norm; /* [index_head_dim]; KV sources, else data NULL */
    di_qweight wq_b;       /* F8 [index_n_heads * index_head_dim, q_lora_rank]; index sources, else
                              codes NULL */
    di_bf16_matrix weights_proj; /* [index_n_heads, hidden]; index sources, else data NULL */
} di_indexer_weights;

/* Engram layers (spec 4.6). Row r: e4m3 codes [r * head_dim ..], one e8m0 scale per 32 of them. */
typedef struct di_engram_weights {
    const uint8_t *codes;  /* [n_rows, head_dim] */
    const uint8_t *scales; /* [n_rows, head_dim / 32] */
    int64_t n_rows, head_dim;
    di_qweight wkv;                    /* F8 [(hc + 1) * hidden, n_columns * head_dim] */
    di_bf16_matrix q_weight, k_weight; /* [hc, hidden] */
} di_engram_weights;

/* A backbone layer or the layer of a draft block. */
typedef struct di_layer_weights {
    di_norm_weight attn_norm, ffn_norm; /* [hidden] */
    di_norm_weight q_norm;              /* [q_lora_rank] */
    di_norm_weight kv_norm;             /* [head_dim] */
    di_qweight wq_a;                    /* F8 [q_lora_rank, hidden] */
    di_qweight wq_b;                    /* F8 [n_heads * head_dim, q_lora_rank] */
    di_qweight wkv;                     /* F8 [head_dim, hidden] */
    di_qweight wo_a;        /* F8 [o_groups * o_lora_rank, n_heads / o_groups * head_dim] */
    di_qweight wo_b;        /* F8 [hidden, o_groups * o_lora_rank] */
    const float *attn_sink; /* [n_heads] */
    di_hc_weight hc_attn, hc_ffn;
    di_bf16_matrix gate;        /* [n_experts, hidden] */
    const float *gate_bias;     /* [n_experts] */
    const float *gate_bias_vl;  /* [n_experts]; NULL without vision */
    di_expert_weights shared;   /* F8 */
    di_expert_weights *experts; /* F4 [n_experts] */
    int64_t n_experts;
    int64_t first_expert;                    /* number of expert 0 among those of all layers */
    const di_compressor_weights *compressor; /* NULL unless a KV source */
    const di_indexer_weights *indexer;       /* NULL unless a KV or index source */
    const di_engram_weights *engram;         /* NULL unless an engram layer */
} di_layer_weights;

/* What the draft blocks have beside their layers (spec 5.1). Zero without draft blocks. */
typedef struct di_draft_weights {
    di_qweight main_proj;           /* F8 [hidden, n_dspark_targets * hidden], of the first block */
    di_norm_weight main_norm;       /* [hidden], of the first block */
    di_norm_weight norm;            /* [hidden], of the last block, as all below */
    di_bf16_matrix markov_embed;    /* [vocab, markov_rank] */
    di_bf16_matrix markov_head;     /* [vocab, markov_rank] */
    di_bf16_matrix confidence_proj; /* [1, hidden + markov_rank] */
} di_draft_weights;

typedef struct di_bf16_linear {
    di_bf16_matrix weight;
    const di_bf16 *bias; /* [n_out]; NULL if there is none */
} di_bf16_linear;

typedef struct di_vision_block_weights {
    di_norm_weight norm1, norm2; /* [vision hidden] */
    di_bf16_linear wqkv;         /* [3 * vision hidden, vision hidden], bias */
    di_bf16_linear wo;           /* [vision hidden, vision hidden], bias */
    di_bf16_linear w1;           /* [2 * vision intermediate, vision hidden], no bias */
    di_bf16_linear w2;           /* [vision hidden, vision intermediate], no bias */
} di_vision_block_weights;

/* Spec 7. */
typedef struct di_vision_weights {
    di_bf16_linear patch_embed;      /* [vision hidden, 3 * patch^2], bias */
    di_norm_weight norm;             /* [vision hidden] */
    di_vision_block_weights *blocks; /* [vision.n_layers] */
    di_bf16_linear aligner_w1;       /* [hidden, vision hidden * downsample^2], bias */
    di_bf16_linear aligner_w2;       /* [hidden, hidden], bias */
    const di_bf16 *image_start, *image_end, *image_newline; /* [hidden] each */
} di_vision_weights;

typedef struct di_weights_store di_weights_store; /* mappings and arena: private */

typedef struct di_weights {
    di_config config;               /* a copy */
    di_bf16_matrix embed, head;     /* [vocab, hidden] */
    di_norm_weight norm;            /* [hidden] */
    di_layer_weights *layers;       /* [config.n_layers] */
    di_layer_weights *draft_layers; /* [config.n_draft_blocks], NULL without */
    di_draft_weights draft;
    const di_vision_weights *vision; /* NULL without vision_config */
    uint64_t payload_bytes;          /* of all bound tensors, in the files */
    uint64_t copied_bytes;           /* taken in memory for misaligned or widened tensors */
    di_weights_store *store;
} di_weights;

/* Opens the shards of a checkpoint directory (a resolved one: weights/checkpoint_dir.h) and binds
 * every tensor the config asks for. Missing, unexpected and wrong tensors (dtype, shape, scale) are
 * one DI_ERR_INPUT that counts them and names the first few. Reads headers only. */
DI_WARN_UNUSED di_status di_weights_open(const char *dir, const di_config *config,
                                         di_weights **out);
/* The slots of everything a configuration asks for, bound to nothing: for weights that are in no
 * file. Their user fills them in with di_weight_list. */
DI_WARN_UNUSED di_status di_weights_new(const di_config *config, di_weights **out);
void di_weights_close(di_weights *weights); /* NULL is fine */

/* The opened files, di_safetensors [n] (weights/safetensors.h). */
const struct di_safetensors *di_weights_shards(const di_weights *weights, size_t *n);

/* DI_ERR_RUNTIME if a shard is shorter than when it was opened, so that reading would fault. */
DI_WARN_UNUSED di_status di_weights_check_files(const di_weights *weights);

#endif
