#include "core/config_keys.h"

#include <stddef.h>

#define FIELD(name)   .field = offsetof(di_config, name)
#define RANGE(lo, hi) .min = (lo), .max = (hi)

#define INT(s, k, n, f, lo, hi)                                                                    \
    {                                                                                              \
        s, k, DI_KEY_INT, n, FIELD(f), RANGE(lo, hi)                                               \
    }
#define INT32(s, k, n, f, lo, hi)                                                                  \
    {                                                                                              \
        s, k, DI_KEY_INT32, n, FIELD(f), RANGE(lo, hi)                                             \
    }
#define INT64(s, k, n, f, lo, hi)                                                                  \
    {                                                                                              \
        s, k, DI_KEY_INT64, n, FIELD(f), RANGE(lo, hi)                                             \
    }
#define REAL(s, k, n, f, lo, hi)                                                                   \
    {                                                                                              \
        s, k, DI_KEY_REAL, n, FIELD(f), RANGE(lo, hi)                                              \
    }
#define TEXT(s, k, n, t)                                                                           \
    {                                                                                              \
        s, k, DI_KEY_TEXT, n, .only = (t), .fallback = (t)                                         \
    }
#define CUSTOM(s, k, n, d)                                                                         \
    {                                                                                              \
        s, k, DI_KEY_CUSTOM, n, .fallback = (d)                                                    \
    }

#define TOP    ""
#define TC     "text_config"
#define ROPE   "text_config.rope_scaling"
#define QC     "quantization_config"
#define VC     "vision_config"
#define ALWAYS DI_NEED_ALWAYS
#define NEVER  DI_NEED_NEVER

/* Limits: far above the release, low enough that no product of two of them overflows. A positive
 * fp32 number has to stay one, so the least real is 1e-37. */
#define ID_MAX       16777215
#define DIM_MAX      65536
#define POSITION_MAX 1073741824
#define LEAST_REAL   1e-37

/* In reading order: a key that a condition looks at stands before the keys with that condition. */
const di_config_key di_config_keys[] = {
    CUSTOM(TOP, "architectures", NEVER, "[\"DeepseekV41ForCausalLM\"]"),
    TEXT(TOP, "model_type", ALWAYS, "deepseek_v41"),
    TEXT(TOP, "dtype", NEVER, "bfloat16"),
    TEXT(TOP, "torch_dtype", NEVER, "bfloat16"),
    {TOP, "tie_word_embeddings", DI_KEY_FALSE, NEVER, .fallback = "false"},
    CUSTOM(TOP, "text_config", ALWAYS, NULL),
    CUSTOM(TOP, "quantization_config", ALWAYS, NULL),
    CUSTOM(TOP, "vision_config", NEVER,
           "no vision: no vision, aligner, image_* or bias_vl tensors"),

    TEXT(TC, "model_type", NEVER, "deepseek_v41_text"),
    TEXT(TC, "dtype", NEVER, "bfloat16"),
    TEXT(TC, "torch_dtype", NEVER, "bfloat16"),
    INT64(TC, "vocab_size", ALWAYS, vocab_size, 1, ID_MAX + 1.0),
    INT64(TC, "hidden_size", ALWAYS, hidden_size, 32, DIM_MAX),
    INT64(TC, "moe_intermediate_size", ALWAYS, moe_intermediate_size, 32, DIM_MAX),
    INT(TC, "num_hidden_layers", ALWAYS, n_layers, 1, DI_MAX_LAYERS),
    INT(TC, "num_nextn_predict_layers", ALWAYS, n_draft_blocks, 0, DI_MAX_DRAFT_BLOCKS),
    INT64(TC, "num_attention_heads", ALWAYS, n_heads, 1, 1024),
    {TC, "num_key_value_heads", DI_KEY_ONE, ALWAYS},
    INT64(TC, "head_dim", ALWAYS, head_dim, 32, 4096),
    INT64(TC, "qk_rope_head_dim", ALWAYS, rope_dim, 2, 4096),
    INT64(TC, "q_lora_rank", ALWAYS, q_lora_rank, 32, DIM_MAX),
    INT64(TC, "o_lora_rank", ALWAYS, o_lora_rank, 1, DIM_MAX),
    INT64(TC, "o_groups", ALWAYS, o_groups, 1, 1024),
    TEXT(TC, "hidden_act", ALWAYS, "silu"),
    REAL(TC, "swiglu_limit", ALWAYS, swiglu_limit, LEAST_REAL, 1e12),
    REAL(TC, "rms_norm_eps", ALWAYS, rms_norm_eps, LEAST_REAL, 1),
    {TC, "attention_bias", DI_KEY_FALSE, ALWAYS},
    {TC, "tie_word_embeddings", DI_KEY_FALSE, ALWAYS},
    INT64(TC, "max_position_embeddings", ALWAYS, max_position_embeddings, 1, POSITION_MAX),
    REAL(TC, "rope_theta", ALWAYS, rope_theta, 1, 1e12),
    REAL(TC, "compress_rope_theta", ALWAYS, compress_rope_theta, 1, 1e12),
    CUSTOM(TC, "rope_scaling", NEVER, "no scaling"),
    CUSTOM(ROPE, "rope_type", ALWAYS, NULL),
    CUSTOM(ROPE, "type", NEVER, "the value of rope_type"),
    REAL(ROPE, "factor", DI_NEED_YARN, rope_scaling.factor, 1, 1e6),
    REAL(ROPE, "beta_fast", DI_NEED_YARN, rope_scaling.beta_fast, 1e-3, 1e6),
    REAL(ROPE, "beta_slow", DI_NEED_YARN, rope_scaling.beta_slow, 1e-3, 1e6),
    INT64(ROPE, "original_max_position_embeddings", DI_NEED_YARN,
          rope_scaling.original_max_position_embeddings, 1, POSITION_MAX),
    INT64(TC, "n_routed_experts", ALWAYS, n_routed_experts, 1, DIM_MAX),
    {TC, "n_shared_experts", DI_KEY_ONE, ALWAYS},
    INT64(TC, "num_experts_per_tok", ALWAYS, n_experts_per_tok, 1, DIM_MAX),
    TEXT(TC, "scoring_func", ALWAYS, "sqrtsoftplus"),
    TEXT(TC, "topk_method", ALWAYS, "noaux_tc"),
    {TC, "norm_topk_prob", DI_KEY_BOOL, ALWAYS, FIELD(norm_topk_prob)},
    REAL(TC, "routed_scaling_factor", ALWAYS, routed_scaling_factor, LEAST_REAL, 1e12),
    /* The forward pass has no place for another temperature. */
    {TC, "gate_temp", DI_KEY_REAL, NEVER, FIELD(gate_temp), RANGE(1, 1), .fallback = "1.0"},
    INT64(TC, "sliding_window", ALWAYS, sliding_window, 1, 1048576),
    CUSTOM(TC, "compress_ratios", ALWAYS, NULL),
    CUSTOM(TC, "kv_source_layer_ids", ALWAYS, NULL),
    CUSTOM(TC, "index_source_layer_ids", ALWAYS, NULL),
    INT64(TC, "index_n_heads", DI_NEED_COMPRESSED, index_n_heads, 1, 1024),
    INT64(TC, "index_head_dim", DI_NEED_COMPRESSED, index_head_dim, 32, 4096),
    INT64(TC, "index_topk", DI_NEED_COMPRESSED, index_topk, 1, POSITION_MAX),
    CUSTOM(TC, "candidate_source_layer_id", NEVER, "none: no candidate blocks"),
    INT64(TC, "candidate_topk_blocks", DI_NEED_CANDIDATES, candidate_topk_blocks, 1, POSITION_MAX),
    INT64(TC, "candidate_block_size", DI_NEED_CANDIDATES, candidate_block_size, 1, DIM_MAX),
    INT(TC, "hc_mult", ALWAYS, hc_mult, 1, DI_MAX_HC),
    INT(TC, "hc_sinkhorn_iters", ALWAYS, hc_sinkhorn_iters, 1, 1000),
    REAL(TC, "hc_eps", ALWAYS, hc_eps, LEAST_REAL, 1),
    CUSTOM(TC, "engram_layer_ids", ALWAYS, NULL),
    CUSTOM(TC, "engram_num_embeddings", DI_NEED_ENGRAM, NULL),
    INT(TC, "engram_max_ngram_size", DI_NEED_ENGRAM, engram_max_ngram_size, 2, DI_MAX_ENGRAM_NGRAM),
    INT64(TC, "engram_vocab_size", DI_NEED_ENGRAM, engram_vocab_size, 2, 2147483647),
    INT(TC, "engram_n_heads", DI_NEED_ENGRAM, engram_n_heads, 1, 64),
    INT64(TC, "engram_head_dim", DI_NEED_ENGRAM, engram_head_dim, 32, 4096),
    INT64(TC, "engram_pad_token_id", DI_NEED_ENGRAM, engram_pad_token_id, 0, ID_MAX),
    INT64(TC, "engram_compressed_vocab_size", DI_NEED_ENGRAM, engram_compressed_vocab_size, 1,
          ID_MAX + 1.0),
    INT64(TC, "dspark_block_size", DI_NEED_DRAFT, dspark_block_size, 1, 256),
    INT64(TC, "dspark_noise_token_id", DI_NEED_DRAFT, dspark_noise_token_id, 0, ID_MAX),
    CUSTOM(TC, "dspark_target_layer_ids", DI_NEED_DRAFT, NULL),
    INT64(TC, "dspark_markov_rank", DI_NEED_DRAFT, dspark_markov_rank, 1, DIM_MAX),
    INT64(TC, "dspark_n_routed_experts", DI_NEED_DRAFT, dspark_n_routed_experts, 1, DIM_MAX),
    INT64(TC, "dspark_num_experts_per_tok", DI_NEED_DRAFT, dspark_n_experts_per_tok, 1, DIM_MAX),

    TEXT(QC, "quant_method", ALWAYS, "fp8"),
    TEXT(QC, "fmt", NEVER, "e4m3"),
    TEXT(QC, "activation_scheme", ALWAYS, "dynamic"),
    CUSTOM(QC, "weight_block_size", ALWAYS, NULL),
    TEXT(QC, "scale_fmt", ALWAYS, "ue8m0"),
    TEXT(QC, "expert_dtype", ALWAYS, "fp4"),

    TEXT(VC, "model_type", NEVER, "deepseek_v41_vision"),
    TEXT(VC, "dtype", NEVER, "bfloat16"),
    TEXT(VC, "torch_dtype", NEVER, "bfloat16"),
    INT64(VC, "num_hidden_layers", DI_NEED_VISION, vision.n_layers, 1, DI_MAX_LAYERS),
    INT64(VC, "hidden_size", DI_NEED_VISION, vision.hidden_size, 4, DIM_MAX),
    INT64(VC, "num_attention_heads", DI_NEED_VISION, vision.n_heads, 1, 1024),
    INT64(VC, "intermediate_size", DI_NEED_VISION, vision.intermediate_size, 1, DIM_MAX),
    INT64(VC, "patch_size", DI_NEED_VISION, vision.patch_size, 1, 256),
    REAL(VC, "rope_theta", DI_NEED_VISION, vision.rope_theta, 1, 1e12),
    INT64(VC, "downsample_ratio", DI_NEED_VISION, vision.downsample_ratio, 1, 16),
    INT64(VC, "max_image_tokens", DI_NEED_VISION, vision.max_image_tokens, 4, 1048576),
    INT64(VC, "min_pixels", DI_NEED_VISION, vision.min_pixels, 1, POSITION_MAX),
    CUSTOM(VC, "max_wh_ratio", NEVER, "null: no limit"),

    INT32(TOP, "bos_token_id", ALWAYS, bos_token_id, 0, ID_MAX),
    INT32(TOP, "eos_token_id", ALWAYS, eos_token_id, 0, ID_MAX),
    INT32(TOP, "pad_token_id", ALWAYS, pad_token_id, 0, ID_MAX),
    {TOP, "image_token_id", DI_KEY_CUSTOM, NEVER, FIELD(image_token_id), RANGE(0, ID_MAX),
     .fallback = "none; required with a vision_config"},
};

const size_t di_n_config_keys = sizeof di_config_keys / sizeof di_config_keys[0];
