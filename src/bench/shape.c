#include "bench/shape.h"

#include "base/file.h"

enum { MAX_CONFIG_BYTES = 1 << 20 };

static void set_layers(di_config *c)
{
    static const int kv_sources[] = {2, 8, 14, 20};
    static const int index_sources[] = {2, 8, 14, 20, 24, 28, 32, 36};
    for (size_t i = 0; i < sizeof kv_sources / sizeof kv_sources[0]; i++)
        c->is_kv_source[kv_sources[i]] = true;
    for (size_t i = 0; i < sizeof index_sources / sizeof index_sources[0]; i++)
        c->is_index_source[index_sources[i]] = true;
    int kv = -1, index = -1;
    for (int layer = 0; layer < c->n_layers; layer++) {
        kv = c->is_kv_source[layer] ? layer : kv;
        index = c->is_index_source[layer] ? layer : index;
        c->compress_ratios[layer] = layer < 2 ? 0 : layer < 20 ? 2 : 1;
        c->kv_source[layer] = kv;
        c->index_source[layer] = index;
    }
}

void di_shape_release(di_config *out)
{
    *out = (di_config){
        .vocab_size = 129280,
        .hidden_size = 5120,
        .moe_intermediate_size = 2304,
        .n_layers = 40,
        .n_heads = 64,
        .head_dim = 512,
        .rope_dim = 64,
        .q_lora_rank = 1280,
        .o_lora_rank = 1024,
        .o_groups = 8,
        .rms_norm_eps = 1e-20,
        .swiglu_limit = 10.0,
        .max_position_embeddings = 1048576,
        .rope_theta = 10000.0,
        .compress_rope_theta = 160000.0,
        .rope_scaling = {.is_yarn = true,
                         .factor = 16.0,
                         .beta_fast = 32.0,
                         .beta_slow = 1.0,
                         .original_max_position_embeddings = 65536},
        .n_routed_experts = 384,
        .n_shared_experts = 1,
        .n_experts_per_tok = 6,
        .norm_topk_prob = true,
        .routed_scaling_factor = 1.5,
        .gate_temp = 1.0,
        .sliding_window = 128,
        .index_n_heads = 32,
        .index_head_dim = 128,
        .index_topk = 512,
        .candidate_source = 20,
        .candidate_topk_blocks = 2048,
        .candidate_block_size = 8,
        .hc_mult = 4,
        .hc_sinkhorn_iters = 20,
        .hc_eps = 1e-6,
        .n_engram_layers = 2,
        .engram_layer_ids = {1, 14},
        .engram_num_embeddings = {384006168, 384016682},
        .engram_max_ngram_size = 4,
        .engram_n_heads = 8,
        .engram_vocab_size = 16000000,
        .engram_head_dim = 256,
        .engram_pad_token_id = 2,
        .engram_compressed_vocab_size = 99092,
        .bos_token_id = 0,
        .eos_token_id = 1,
        .pad_token_id = 2,
        .image_token_id = 129264,
    };
    set_layers(out);
}

di_status di_shape_load(const char *path, di_config *out)
{
    if (!path) {
        di_shape_release(out);
        return DI_OK;
    }
    DI_BUF_AUTO text = {0};
    DI_TRY(di_file_read(path, MAX_CONFIG_BYTES, &text));
    return di_config_parse(di_buf_str(&text), text.len, path, out);
}
