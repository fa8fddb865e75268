/* The shape that benchmarks run is the release's. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "bench/shape.h"
#include "checkpoint.h"

static void it_is_the_release(void **state)
{
    (void)state;
    di_config shape, release;
    di_shape_release(&shape);
    if (di_test_config("cases/release", &release) != DI_OK)
        fail_msg("%s", di_last_error());
    memset(release.compress_ratios + release.n_layers, 0, /* the draft blocks' */
           sizeof release.compress_ratios - (size_t)release.n_layers * sizeof(int));

#define SAME(field) assert_memory_equal(&shape.field, &release.field, sizeof shape.field)
    SAME(vocab_size);
    SAME(hidden_size);
    SAME(moe_intermediate_size);
    SAME(n_layers);
    SAME(n_heads);
    SAME(head_dim);
    SAME(rope_dim);
    SAME(q_lora_rank);
    SAME(o_lora_rank);
    SAME(o_groups);
    SAME(rms_norm_eps);
    SAME(swiglu_limit);
    SAME(max_position_embeddings);
    SAME(rope_theta);
    SAME(compress_rope_theta);
    SAME(rope_scaling.is_yarn);
    SAME(rope_scaling.factor);
    SAME(rope_scaling.beta_fast);
    SAME(rope_scaling.beta_slow);
    SAME(rope_scaling.original_max_position_embeddings);
    SAME(n_routed_experts);
    SAME(n_shared_experts);
    SAME(n_experts_per_tok);
    SAME(norm_topk_prob);
    SAME(routed_scaling_factor);
    SAME(gate_temp);
    SAME(sliding_window);
    SAME(compress_ratios);
    SAME(is_kv_source);
    SAME(is_index_source);
    for (int layer = 0; layer < shape.n_layers; layer++) {
        assert_int_equal(shape.kv_source[layer], release.kv_source[layer]);
        assert_int_equal(shape.index_source[layer], release.index_source[layer]);
    }
    SAME(index_n_heads);
    SAME(index_head_dim);
    SAME(index_topk);
    SAME(candidate_source);
    SAME(candidate_topk_blocks);
    SAME(candidate_block_size);
    SAME(hc_mult);
    SAME(hc_sinkhorn_iters);
    SAME(hc_eps);
    SAME(n_engram_layers);
    SAME(engram_layer_ids);
    SAME(engram_num_embeddings);
    SAME(engram_max_ngram_size);
    SAME(engram_n_heads);
    SAME(engram_vocab_size);
    SAME(engram_head_dim);
    SAME(engram_pad_token_id);
    SAME(engram_compressed_vocab_size);
    SAME(bos_token_id);
    SAME(eos_token_id);
    SAME(pad_token_id);
    SAME(image_token_id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_the_release)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
