/* The model's configuration: the release's config.json, text part (model spec 1). Every number of
 * the forward pass comes from here. Keys, which of them are optional, and their defaults: the table
 * in config.c, repeated in docs/checkpoint.md. */
#ifndef DI_CORE_CONFIG_H
#define DI_CORE_CONFIG_H

#include "base/status.h"

/* Limits of this build, far above the release, so that hostile files cannot ask for absurd
 * memory. */
enum {
    DI_MAX_LAYERS = 512,
    DI_MAX_DRAFT_BLOCKS = 16,
    DI_MAX_EXPERTS = 262144, /* of all layers and draft blocks together */
    DI_MAX_HC = 16,
    DI_MAX_ENGRAM_LAYERS = 16,
    DI_MAX_ENGRAM_NGRAM = 8,
};

typedef struct di_rope_scaling {
    bool is_yarn; /* false: no scaling on the compressed layers either */
    double factor, beta_fast, beta_slow;
    int64_t original_max_position_embeddings;
} di_rope_scaling;

typedef struct di_vision_config {
    int64_t hidden_size, intermediate_size, n_layers, n_heads, patch_size, downsample_ratio;
    int64_t max_image_tokens, min_pixels;
    double rope_theta, max_wh_ratio; /* max_wh_ratio 0 = null */
} di_vision_config;

typedef struct di_config {
    int64_t vocab_size, hidden_size, moe_intermediate_size;
    int n_layers, n_draft_blocks;        /* num_hidden_layers, num_nextn_predict_layers */
    int64_t n_heads, head_dim, rope_dim; /* qk_rope_head_dim: the last rope_dim channels rotate */
    int64_t q_lora_rank, o_lora_rank, o_groups;
    double rms_norm_eps, swiglu_limit;
    int64_t max_position_embeddings;
    double rope_theta, compress_rope_theta;
    di_rope_scaling rope_scaling;
    int64_t n_routed_experts, n_shared_experts, n_experts_per_tok;
    bool norm_topk_prob;
    double routed_scaling_factor, gate_temp;
    int64_t sliding_window;
    /* [n_layers + n_draft_blocks], 0 1 2 */
    int compress_ratios[DI_MAX_LAYERS + DI_MAX_DRAFT_BLOCKS];
    bool is_kv_source[DI_MAX_LAYERS];    /* kv_source_layer_ids */
    bool is_index_source[DI_MAX_LAYERS]; /* index_source_layer_ids */
    int kv_source[DI_MAX_LAYERS];        /* nearest KV source at or below a layer; -1 if ratio 0 */
    int index_source[DI_MAX_LAYERS];     /* nearest index source at or below; -1 if ratio 0 */
    int64_t index_n_heads, index_head_dim, index_topk;
    int candidate_source; /* candidate_source_layer_id; -1 = none */
    int64_t candidate_topk_blocks, candidate_block_size;
    int hc_mult, hc_sinkhorn_iters;
    double hc_eps;
    int n_engram_layers;
    int engram_layer_ids[DI_MAX_ENGRAM_LAYERS]; /* ascending */
    int64_t engram_num_embeddings[DI_MAX_ENGRAM_LAYERS];
    int engram_max_ngram_size, engram_n_heads;
    int64_t engram_vocab_size, engram_head_dim, engram_pad_token_id;
    int64_t engram_compressed_vocab_size;
    int64_t dspark_block_size, dspark_noise_token_id, dspark_markov_rank;
    int n_dspark_targets;
    int dspark_target_layer_ids[DI_MAX_LAYERS]; /* ascending */
    int64_t dspark_n_routed_experts, dspark_n_experts_per_tok;
    int32_t bos_token_id, eos_token_id, pad_token_id;
    int32_t image_token_id; /* -1 if the config names none */
    bool has_vision;
    di_vision_config vision;
} di_config;

/* Reads and checks a config.json text. `name` (a path) is for the error: it names the key, what was
 * found and what was wanted. */
DI_WARN_UNUSED di_status di_config_parse(const char *text, size_t len, const char *name,
                                         di_config *out);

/* generation_config.json: sampling defaults and the EOS list. */
enum { DI_MAX_EOS = 16 };

typedef struct di_generation_config {
    double temperature, top_p, min_p, repetition_penalty;
    int32_t top_k;
    int32_t eos_ids[DI_MAX_EOS]; /* EOS of config.json alone if there is no such file */
    int n_eos;
} di_generation_config;

DI_WARN_UNUSED di_status di_generation_config_parse(const char *text, size_t len, const char *name,
                                                    const di_config *config,
                                                    di_generation_config *out);
void di_generation_config_defaults(const di_config *config, di_generation_config *out);

#endif
