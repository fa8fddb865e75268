"""Configurations of the shipped model and of the toy setting, and their HF files."""
from data import EOS, ROLE_TOKENS
from model import is_prime


def engram_rows(layers, orders, heads, start):
    used, rows = set(), []
    for _ in layers:
        total = 0
        for _ in range(orders):
            n, count = start, 0
            while count < heads:
                if n not in used and is_prime(n):
                    used.add(n)
                    total += n
                    count += 1
                n += 1
        rows.append(total)
    return rows


def text_config(vocab_size, compressed, toy=False):
    n_roles = len(ROLE_TOKENS)
    c = dict(
        model_type="deepseek_v41_text", vocab_size=vocab_size, hidden_size=192, num_hidden_layers=8,
        num_attention_heads=8, num_key_value_heads=1, head_dim=64, q_lora_rank=96, qk_rope_head_dim=16,
        rope_theta=10000.0, compress_rope_theta=160000.0,
        rope_scaling=dict(rope_type="yarn", type="yarn", factor=4, beta_fast=32, beta_slow=1,
                          original_max_position_embeddings=2048),
        max_position_embeddings=8192, sliding_window=128, compress_ratios=[0, 0, 2, 2, 2, 1, 1, 1, 0, 0],
        kv_source_layer_ids=[2, 5], index_source_layer_ids=[2, 5, 6], candidate_source_layer_id=5,
        candidate_topk_blocks=64, candidate_block_size=8, index_n_heads=4, index_head_dim=32, index_topk=192,
        o_groups=2, o_lora_rank=48, moe_intermediate_size=64, n_routed_experts=16, n_shared_experts=1,
        num_experts_per_tok=3, scoring_func="sqrtsoftplus", gate_temp=1.0, norm_topk_prob=True,
        routed_scaling_factor=1.5, topk_method="noaux_tc", swiglu_limit=10.0, hc_mult=4, hc_sinkhorn_iters=20,
        hc_eps=1e-06, engram_layer_ids=[1, 3], engram_vocab_size=3001, engram_num_embeddings=[],
        engram_max_ngram_size=3, engram_n_heads=2, engram_head_dim=32, engram_pad_token_id=2,
        engram_compressed_vocab_size=compressed, num_nextn_predict_layers=2, dspark_block_size=5,
        dspark_noise_token_id=vocab_size - n_roles, dspark_target_layer_ids=[5, 6, 7], dspark_markov_rank=32,
        dspark_n_routed_experts=4, dspark_num_experts_per_tok=2, hidden_act="silu", rms_norm_eps=1e-20,
        tie_word_embeddings=False, attention_bias=False)
    if toy:
        c.update(hidden_size=64, num_attention_heads=2, head_dim=32, q_lora_rank=32, o_lora_rank=32,
                 sliding_window=32, index_n_heads=2, index_topk=48, candidate_topk_blocks=12,
                 moe_intermediate_size=32, n_routed_experts=4, num_experts_per_tok=2, engram_vocab_size=499,
                 num_hidden_layers=6, compress_ratios=[0, 0, 2, 1, 1, 1, 0], kv_source_layer_ids=[2, 3],
                 index_source_layer_ids=[2, 3, 5], candidate_source_layer_id=3, engram_layer_ids=[1, 2],
                 num_nextn_predict_layers=1, dspark_target_layer_ids=[3, 4, 5], dspark_markov_rank=16,
                 dspark_n_routed_experts=4)
    c["engram_num_embeddings"] = engram_rows(c["engram_layer_ids"], c["engram_max_ngram_size"] - 1,
                                             c["engram_n_heads"], c["engram_vocab_size"])
    return c


def hf_config(text):
    return dict(
        architectures=["DeepseekV41ForCausalLM"], model_type="deepseek_v41", dtype="bfloat16", bos_token_id=0,
        eos_token_id=1, pad_token_id=2, image_token_id=text["vocab_size"] - 1, text_config=text,
        quantization_config=dict(quant_method="fp8", fmt="e4m3", scale_fmt="ue8m0", activation_scheme="dynamic",
                                 weight_block_size=[32, 32], expert_dtype="fp4"))


GENERATION = dict(bos_token_id=0, eos_token_id=EOS, do_sample=True, temperature=0.6, top_p=0.9)
