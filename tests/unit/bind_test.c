/* weights/bind.c and weights/weight_list.c: the golden checkpoints bind to the right bytes, and
 * every tensor's name, dtype, shape or scale, changed in turn, is reported. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "checkpoint.h"
#include "weights/bind.h"
#include "weights/checkpoint_dir.h"

#define GOLDEN DI_TEST_DATA "/golden/"

static di_config config; /* large: not on the stack */

static di_weights *open_weights(const char *dir)
{
    di_weights *w = NULL;
    if (di_checkpoint_read_config(dir, &config) != DI_OK ||
        di_weights_open(dir, &config, &w) != DI_OK)
        print_message("%s\n", di_last_error());
    assert_non_null(w);
    return w;
}

/* ------------------------------------------------------------------------- the golden checkpoints
 */

/* Looks up the tensor a slot must point to. */
static const void *data_of(const di_safetensors *file, const char *name)
{
    const di_tensor *t = di_safetensors_find(file, name);
    assert_non_null(t);
    return t->data;
}

static void assert_q(const di_safetensors *file, const di_qweight *q, const char *name,
                     di_weight_format format, int64_t n_out, int64_t n_in)
{
    char full[128];
    assert_int_equal(q->format, format);
    assert_int_equal(q->n_out, n_out);
    assert_int_equal(q->n_in, n_in);
    snprintf(full, sizeof full, "%s.weight", name);
    assert_memory_equal(q->codes, data_of(file, full),
                        (size_t)(n_out * n_in / (format == DI_WEIGHT_F4 ? 2 : 1)));
    snprintf(full, sizeof full, "%s.scale", name);
    const int64_t rows = format == DI_WEIGHT_F4 ? n_out : di_ceil_div(n_out, 32);
    assert_memory_equal(q->scales, data_of(file, full), (size_t)(rows * di_ceil_div(n_in, 32)));
}

static void assert_m(const di_safetensors *file, const di_bf16_matrix *m, const char *name,
                     int64_t n_out, int64_t n_in)
{
    assert_int_equal(m->n_out, n_out);
    assert_int_equal(m->n_in, n_in);
    assert_memory_equal(m->data, data_of(file, name), (size_t)(n_out * n_in) * 2);
}

static void assert_n(const di_safetensors *file, const di_norm_weight *w, const char *name,
                     di_dtype dtype, int64_t n)
{
    assert_int_equal(w->dtype, dtype);
    assert_int_equal(w->n, n);
    assert_memory_equal(w->data, data_of(file, name), (size_t)n * di_dtype_bytes(dtype));
}

static void assert_bytes(const di_safetensors *file, const void *data, const char *name)
{
    const di_tensor *t = di_safetensors_find(file, name);
    assert_non_null(t);
    assert_memory_equal(data, t->data, t->bytes);
}

/* Every slot of a layer against the tensor of its name. */
static void assert_layer(const di_safetensors *f, const di_layer_weights *l, const char *prefix,
                         bool has_vision)
{
    char name[128];
    const int64_t hidden = config.hidden_size, inter = config.moe_intermediate_size;
    const int64_t groups = config.o_groups * config.o_lora_rank;
#define NAME(rest) (snprintf(name, sizeof name, "%s%s", prefix, rest), name)
    assert_n(f, &l->attn_norm, NAME("attn_norm.weight"), DI_BF16, hidden);
    assert_n(f, &l->ffn_norm, NAME("ffn_norm.weight"), DI_BF16, hidden);
    assert_n(f, &l->q_norm, NAME("attn.q_norm.weight"), DI_BF16, config.q_lora_rank);
    assert_n(f, &l->kv_norm, NAME("attn.kv_norm.weight"), DI_BF16, config.head_dim);
    assert_q(f, &l->wq_a, NAME("attn.wq_a"), DI_WEIGHT_F8, config.q_lora_rank, hidden);
    assert_q(f, &l->wq_b, NAME("attn.wq_b"), DI_WEIGHT_F8, config.n_heads * config.head_dim,
             config.q_lora_rank);
    assert_q(f, &l->wkv, NAME("attn.wkv"), DI_WEIGHT_F8, config.head_dim, hidden);
    assert_q(f, &l->wo_a, NAME("attn.wo_a"), DI_WEIGHT_F8, groups,
             config.n_heads / config.o_groups * config.head_dim);
    assert_q(f, &l->wo_b, NAME("attn.wo_b"), DI_WEIGHT_F8, hidden, groups);
    assert_bytes(f, l->attn_sink, NAME("attn.attn_sink"));
    assert_bytes(f, l->hc_attn.fn, NAME("hc_attn_fn"));
    assert_bytes(f, l->hc_attn.base, NAME("hc_attn_base"));
    assert_bytes(f, l->hc_attn.scale, NAME("hc_attn_scale"));
    assert_bytes(f, l->hc_ffn.fn, NAME("hc_ffn_fn"));
    assert_bytes(f, l->hc_ffn.base, NAME("hc_ffn_base"));
    assert_bytes(f, l->hc_ffn.scale, NAME("hc_ffn_scale"));
    assert_m(f, &l->gate, NAME("ffn.gate.weight"), l->n_experts, hidden);
    assert_bytes(f, l->gate_bias, NAME("ffn.gate.bias"));
    if (has_vision)
        assert_bytes(f, l->gate_bias_vl, NAME("ffn.gate.bias_vl"));
    else
        assert_null(l->gate_bias_vl);
    assert_q(f, &l->shared.w1, NAME("ffn.shared_experts.w1"), DI_WEIGHT_F8, inter, hidden);
    assert_q(f, &l->shared.w2, NAME("ffn.shared_experts.w2"), DI_WEIGHT_F8, hidden, inter);
    assert_q(f, &l->shared.w3, NAME("ffn.shared_experts.w3"), DI_WEIGHT_F8, inter, hidden);
    for (int64_t e = 0; e < l->n_experts; e++) {
        char expert[64];
        snprintf(expert, sizeof expert, "ffn.experts.%d.w1", (int)e);
        assert_q(f, &l->experts[e].w1, NAME(expert), DI_WEIGHT_F4, inter, hidden);
        expert[strlen(expert) - 1] = '2';
        assert_q(f, &l->experts[e].w2, NAME(expert), DI_WEIGHT_F4, hidden, inter);
        expert[strlen(expert) - 1] = '3';
        assert_q(f, &l->experts[e].w3, NAME(expert), DI_WEIGHT_F4, inter, hidden);
    }
}

static void assert_attention_extras(const di_safetensors *f, const di_layer_weights *l, int layer)
{
    char name[128];
    char prefix[32];
    snprintf(prefix, sizeof prefix, "layers.%d.attn.", layer);
    assert_int_equal(l->compressor != NULL, config.is_kv_source[layer]);
    assert_int_equal(l->indexer != NULL, config.is_index_source[layer]);
    if (l->compressor) {
        const di_compressor_weights *c = l->compressor;
        assert_m(f, &c->wkv, NAME("compressor.wkv.weight"), config.head_dim, config.hidden_size);
        assert_n(f, &c->norm, NAME("compressor.norm.weight"), DI_BF16, config.head_dim);
        if (config.compress_ratios[layer] == 2)
            assert_m(f, &c->wgate, NAME("compressor.wgate.weight"), config.head_dim,
                     config.hidden_size);
        else
            assert_null(c->wgate.data);
        assert_m(f, &l->indexer->wk, NAME("indexer.wk.weight"), config.index_head_dim,
                 config.head_dim);
        assert_n(f, &l->indexer->k_norm, NAME("indexer.k_norm.weight"), DI_BF16,
                 config.index_head_dim);
    } else if (l->indexer) {
        assert_null(l->indexer->wk.data);
        assert_null(l->indexer->k_norm.data);
    }
    if (l->indexer) {
        assert_q(f, &l->indexer->wq_b, NAME("indexer.wq_b"), DI_WEIGHT_F8,
                 config.index_n_heads * config.index_head_dim, config.q_lora_rank);
        assert_m(f, &l->indexer->weights_proj, NAME("indexer.weights_proj.weight"),
                 config.index_n_heads, config.hidden_size);
    }
}

static void assert_engram(const di_safetensors *f, const di_engram_weights *e, int layer,
                          int64_t n_rows)
{
    char name[128], prefix[32];
    snprintf(prefix, sizeof prefix, "layers.%d.engram.", layer);
    assert_non_null(e);
    assert_int_equal(e->n_rows, n_rows);
    assert_int_equal(e->head_dim, config.engram_head_dim);
    assert_bytes(f, e->codes, NAME("embed.weight"));
    assert_bytes(f, e->scales, NAME("embed.scale"));
    const int columns = (config.engram_max_ngram_size - 1) * config.engram_n_heads;
    assert_q(f, &e->wkv, NAME("wkv"), DI_WEIGHT_F8, (config.hc_mult + 1) * config.hidden_size,
             columns * config.engram_head_dim);
    assert_m(f, &e->q_weight, NAME("q_weight"), config.hc_mult, config.hidden_size);
    assert_m(f, &e->k_weight, NAME("k_weight"), config.hc_mult, config.hidden_size);
}

static void assert_vision(const di_safetensors *f, const di_vision_weights *v)
{
    assert_m(f, &v->patch_embed.weight, "vision.patch_embed.proj.weight", 64, 588);
    assert_bytes(f, v->patch_embed.bias, "vision.patch_embed.proj.bias");
    assert_n(f, &v->norm, "vision.norm.weight", DI_F32, 64);
    assert_m(f, &v->aligner_w1.weight, "aligner.w1.weight", 128, 576);
    assert_bytes(f, v->aligner_w1.bias, "aligner.w1.bias");
    assert_m(f, &v->aligner_w2.weight, "aligner.w2.weight", 128, 128);
    assert_bytes(f, v->aligner_w2.bias, "aligner.w2.bias");
    assert_bytes(f, v->image_start, "image_start");
    assert_bytes(f, v->image_end, "image_end");
    assert_bytes(f, v->image_newline, "image_newline");
    const di_vision_block_weights *b = &v->blocks[1];
    assert_n(f, &b->norm1, "vision.blocks.1.norm1.weight", DI_F32, 64);
    assert_n(f, &b->norm2, "vision.blocks.1.norm2.weight", DI_F32, 64);
    assert_m(f, &b->wqkv.weight, "vision.blocks.1.attn.wqkv.weight", 192, 64);
    assert_bytes(f, b->wqkv.bias, "vision.blocks.1.attn.wqkv.bias");
    assert_m(f, &b->wo.weight, "vision.blocks.1.attn.wo.weight", 64, 64);
    assert_bytes(f, b->wo.bias, "vision.blocks.1.attn.wo.bias");
    assert_m(f, &b->w1.weight, "vision.blocks.1.mlp.w1.weight", 192, 64);
    assert_m(f, &b->w2.weight, "vision.blocks.1.mlp.w2.weight", 64, 96);
    assert_null(b->w1.bias);
}

static void golden_tiny_binds(void **state)
{
    (void)state;
    di_safetensors f;
    di_weights *w = open_weights(GOLDEN "tiny");
    assert_int_equal(di_safetensors_open(GOLDEN "tiny/model-00001-of-00001.safetensors", &f),
                     DI_OK);
    assert_int_equal(w->payload_bytes, 5339360);
    assert_int_equal(w->copied_bytes, 0);
    assert_m(&f, &w->embed, "embed.weight", 1280, 128);
    assert_m(&f, &w->head, "head.weight", 1280, 128);
    assert_n(&f, &w->norm, "norm.weight", DI_BF16, 128);
    for (int i = 0; i < config.n_layers; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "layers.%d.", i);
        assert_int_equal(w->layers[i].n_experts, 8);
        assert_layer(&f, &w->layers[i], prefix, true);
        assert_attention_extras(&f, &w->layers[i], i);
        assert_int_equal(w->layers[i].engram != NULL, i == 1 || i == 3);
    }
    assert_engram(&f, w->layers[1].engram, 1, 3096);
    assert_engram(&f, w->layers[3].engram, 3, 3384);
    for (int i = 0; i < 3; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "mtp.%d.", i);
        assert_int_equal(w->draft_layers[i].n_experts, 4);
        assert_layer(&f, &w->draft_layers[i], prefix, true);
        assert_null(w->draft_layers[i].compressor);
    }
    assert_q(&f, &w->draft.main_proj, "mtp.0.main_proj", DI_WEIGHT_F8, 128, 384);
    assert_n(&f, &w->draft.main_norm, "mtp.0.main_norm.weight", DI_BF16, 128);
    assert_n(&f, &w->draft.norm, "mtp.2.norm.weight", DI_BF16, 128);
    assert_m(&f, &w->draft.markov_embed, "mtp.2.markov_head.embed.weight", 1280, 32);
    assert_m(&f, &w->draft.markov_head, "mtp.2.markov_head.head.weight", 1280, 32);
    assert_m(&f, &w->draft.confidence_proj, "mtp.2.confidence_head.proj.weight", 1, 160);
    assert_vision(&f, w->vision);
    assert_int_equal(di_weights_check_files(w), DI_OK);
    di_weights_close(w);
    di_safetensors_close(&f);
}

static void golden_small_binds_from_two_shards(void **state)
{
    (void)state;
    di_weights *w = open_weights(GOLDEN "small");
    assert_int_equal(w->payload_bytes, 16181740);
    assert_int_equal(w->copied_bytes, 0);
    assert_null(w->vision);
    assert_null(w->layers[3].gate_bias_vl);
    assert_null(w->draft_layers[0].gate_bias_vl);
    assert_non_null(w->layers[3].compressor->wkv.data);
    assert_null(w->layers[3].compressor->wgate.data);
    assert_non_null(w->layers[5].indexer->wq_b.codes);
    di_weights_close(w);
}

/* --------------------------------------------------------------------- checkpoints with mistakes
 */

/* The smallest configuration with every kind of tensor: golden tiny with fewer layers and experts.
 */
static json_t *small_config_json(void)
{
    json_t *root = di_test_config_json("golden/tiny");
    json_t *t = json_object_get(root, "text_config");
    json_object_set_new(t, "num_hidden_layers", json_integer(4));
    json_object_set_new(t, "num_nextn_predict_layers", json_integer(2));
    json_object_set_new(t, "compress_ratios", json_pack("[iiiiii]", 0, 2, 1, 1, 0, 0));
    json_object_set_new(t, "kv_source_layer_ids", json_pack("[ii]", 1, 2));
    json_object_set_new(t, "index_source_layer_ids", json_pack("[iii]", 1, 2, 3));
    json_object_set_new(t, "candidate_source_layer_id", json_integer(2));
    json_object_set_new(t, "engram_layer_ids", json_pack("[i]", 0));
    json_object_set_new(t, "engram_num_embeddings", json_pack("[i]", 70));
    json_object_set_new(t, "dspark_target_layer_ids", json_pack("[ii]", 0, 3));
    json_object_set_new(t, "n_routed_experts", json_integer(3));
    json_object_set_new(t, "num_experts_per_tok", json_integer(2));
    json_object_set_new(t, "dspark_n_routed_experts", json_integer(2));
    json_object_set_new(t, "hc_mult", json_integer(3));
    return root;
}

static char *work_dir;

/* Writes the plan, opens it; true if it bound. */
static bool binds(const di_test_plan *plan)
{
    di_weights *w;
    assert_int_equal(di_test_plan_write(plan, work_dir), DI_OK);
    const di_status status = di_weights_open(work_dir, &config, &w);
    if (status != DI_OK) {
        assert_int_equal(status, DI_ERR_INPUT);
        return false;
    }
    di_weights_close(w);
    return true;
}

static void assert_reported(di_test_plan *plan, const char *what, const char *name)
{
    char wanted[256];
    const bool is_good = binds(plan);
    snprintf(wanted, sizeof wanted, "%s%s", what, name);
    if (is_good || !strstr(di_last_error(), wanted))
        print_message("wanted \"%s\" in: %s\n", wanted, is_good ? "success" : di_last_error());
    assert_false(is_good);
    assert_non_null(strstr(di_last_error(), wanted));
    assert_memory_equal(strstr(di_last_error(), work_dir), work_dir, strlen(work_dir));
}

static di_test_plan make_small_plan(void)
{
    di_test_plan plan;
    json_t *json = small_config_json();
    assert_int_equal(di_test_config_parse(json, &config), DI_OK);
    json_decref(json);
    assert_int_equal(di_test_plan_make(&config, &plan), DI_OK);
    plan.is_sparse = true;
    assert_true(binds(&plan));
    return plan;
}

static void each_name_changed_is_reported(void **state)
{
    (void)state;
    di_test_plan plan = make_small_plan();
    for (size_t i = 0; i < plan.n; i++) {
        char *name = plan.tensors[i].name;
        char renamed[128];
        snprintf(renamed, sizeof renamed, "%sx", name);
        plan.tensors[i].name = renamed;
        assert_reported(&plan, "missing tensor ", name);
        assert_non_null(strstr(di_last_error(), "2 problems: "));
        assert_non_null(strstr(di_last_error(), "unexpected tensor "));
        assert_non_null(strstr(di_last_error(), renamed));
        plan.tensors[i].name = name;
    }
    di_test_plan_free(&plan);
}

static void each_shape_changed_is_reported(void **state)
{
    (void)state;
    di_test_plan plan = make_small_plan();
    for (size_t i = 0; i < plan.n; i++) {
        di_test_tensor *t = &plan.tensors[i];
        for (int d = 0; d < t->rank; d++) {
            t->shape[d]++;
            assert_reported(&plan, "tensor ", t->name);
            assert_non_null(strstr(di_last_error(), ": found "));
            t->shape[d]--;
        }
        t->shape[t->rank++] = 1; /* the same bytes in another rank */
        assert_reported(&plan, "tensor ", t->name);
        t->rank--;
    }
    di_test_plan_free(&plan);
}

static void each_dtype_changed_is_reported(void **state)
{
    (void)state;
    di_test_plan plan = make_small_plan();
    for (size_t i = 0; i < plan.n; i++) {
        di_test_tensor *t = &plan.tensors[i];
        const di_dtype old = t->dtype;
        const bool is_either = t->kind == DI_WEIGHT_KIND_NORM || t->kind == DI_WEIGHT_KIND_F32;
        for (int dtype = 0; dtype < DI_N_DTYPES; dtype++) {
            t->dtype = (di_dtype)dtype;
            if (t->dtype == old || (i + (size_t)dtype) % 5 != 0) /* a fifth of the pairs will do */
                continue;
            if (is_either && (dtype == DI_F32 || dtype == DI_BF16))
                assert_true(binds(&plan));
            else
                assert_reported(&plan, "tensor ", t->name);
        }
        t->dtype = old;
    }
    di_test_plan_free(&plan);
}

static void scales_have_to_be_there_and_fit(void **state) /* L12 */
{
    (void)state;
    di_test_plan plan = make_small_plan();
    di_test_tensor *scale = di_test_plan_find(&plan, "layers.0.attn.wo_a.scale");
    assert_non_null(scale);
    scale->is_left_out = scale->is_unlisted = true;
    assert_reported(&plan, "missing tensor ", "layers.0.attn.wo_a.scale");
    scale->is_left_out = scale->is_unlisted = false;
    scale->shape[0] = 1;
    assert_reported(&plan, "tensor ",
                    "layers.0.attn.wo_a.scale: found F8_E8M0 [1,4], wanted "
                    "F8_E8M0 [2,4]");
    di_test_plan_free(&plan);
}

static void many_problems_are_counted(void **state)
{
    (void)state;
    di_test_plan plan = make_small_plan();
    for (size_t i = 0; i < 10; i++)
        plan.tensors[i].is_left_out = plan.tensors[i].is_unlisted = true;
    assert_reported(&plan, "10 problems: ", work_dir);
    assert_non_null(strstr(di_last_error(), "; ..."));
    assert_true(strlen(di_last_error()) < 1000);
    plan.has_wrong_total = true;
    assert_reported(&plan, "metadata.total_size: found ", "");
    di_test_plan_free(&plan);
}

/* A configuration of another model: memory for the list of problems stays bounded. */
static void endless_problems_are_cut(void **state)
{
    (void)state;
    DI_PROBLEMS_AUTO problems = {0};
    const size_t n = DI_KEPT_PROBLEMS + 5;
    for (size_t i = 0; i < n; i++)
        assert_int_equal(di_problems_add(&problems, DI_ERR_INPUT, "problem %zu", i), DI_OK);
    assert_int_equal(problems.n, n);
    assert_null(strstr(problems.text.data, "problem 10000\n"));
    assert_non_null(strstr(problems.text.data, "problem 9999\n"));
    assert_int_equal(di_problems_status(&problems), DI_ERR_INPUT);
    assert_string_equal(di_last_error(), "10005 problems: problem 0; problem 1; problem 2; "
                                         "problem 3; ...");
}

/* Vision tensors have no place in a text-only model, nor draft tensors in one without drafts. */
static void the_config_decides_what_is_expected(void **state)
{
    (void)state;
    di_test_plan plan = make_small_plan();
    json_t *json = small_config_json();
    json_object_set_new(json, "vision_config", json_null());
    assert_int_equal(di_test_config_parse(json, &config), DI_OK);
    assert_reported(&plan, "unexpected tensor ", "aligner.w1.bias");
    json_decref(json);
    di_test_plan_free(&plan);
    json = small_config_json();
    json_object_set_new(json_object_get(json, "text_config"), "num_nextn_predict_layers",
                        json_integer(0));
    json_object_set_new(json_object_get(json, "text_config"), "compress_ratios",
                        json_pack("[iiii]", 0, 2, 1, 1));
    assert_int_equal(di_test_config_parse(json, &config), DI_OK);
    json_decref(json);
    assert_int_equal(di_test_plan_make(&config, &plan), DI_OK);
    assert_null(di_test_plan_find(&plan, "mtp.0.main_norm.weight"));
    plan.n_shards = 0; /* one model.safetensors */
    char index[512];
    snprintf(index, sizeof index, "%s/model.safetensors.index.json", work_dir);
    unlink(index);
    assert_true(binds(&plan));
    di_test_plan_free(&plan);
}

/* ---------------------------------------------------------------------------- what is copied */

static float norm_at(const di_norm_weight *w, int i)
{
    return w->dtype == DI_F32 ? ((const float *)w->data)[i]
                              : di_bf16_to_f32(((const di_bf16 *)w->data)[i]);
}

/* Opens the small checkpoint, written anew with real payload. */
static di_weights *open_plan(const di_test_plan *plan)
{
    di_weights *w = NULL;
    assert_int_equal(di_test_plan_write(plan, work_dir), DI_OK);
    if (di_weights_open(work_dir, &config, &w) != DI_OK)
        print_message("%s\n", di_last_error());
    assert_non_null(w);
    return w;
}

static void bf16_in_place_of_f32_is_widened(void **state) /* L13 */
{
    (void)state;
    di_test_plan plan = make_small_plan();
    plan.is_sparse = false;
    di_test_tensor *sink = di_test_plan_find(&plan, "layers.1.attn.attn_sink");
    di_test_tensor *base = di_test_plan_find(&plan, "mtp.1.hc_ffn_base");
    di_test_tensor *norm = di_test_plan_find(&plan, "layers.1.attn_norm.weight");
    di_weights *w = open_plan(&plan);
    float sinks[4], bases[15], norms[128];
    assert_int_equal(w->copied_bytes, 0);
    memcpy(sinks, w->layers[1].attn_sink, sizeof sinks);
    memcpy(bases, w->draft_layers[1].hc_ffn.base, sizeof bases);
    for (int i = 0; i < 128; i++)
        norms[i] = norm_at(&w->layers[1].attn_norm, i);
    di_weights_close(w);
    sink->dtype = base->dtype = DI_BF16;
    norm->dtype = DI_F32;
    w = open_plan(&plan);
    assert_int_equal(w->copied_bytes, (4 + 15) * 4);
    for (int i = 0; i < 4; i++)
        assert_true(w->layers[1].attn_sink[i] == di_round_bf16(sinks[i]));
    for (int i = 0; i < 15; i++)
        assert_true(w->draft_layers[1].hc_ffn.base[i] == di_round_bf16(bases[i]));
    assert_int_equal(w->layers[1].attn_norm.dtype, DI_F32);
    for (int i = 0; i < 128; i++)
        assert_true(di_round_bf16(norm_at(&w->layers[1].attn_norm, i)) == norms[i]);
    di_weights_close(w);
    di_test_plan_free(&plan);
}

static void misaligned_tensors_are_copied(void **state)
{
    (void)state;
    di_test_plan plan = make_small_plan();
    plan.is_sparse = false;
    di_weights *aligned = open_plan(&plan);
    float fn[3];
    di_bf16 head[3];
    memcpy(fn, aligned->layers[2].hc_attn.fn, sizeof fn);
    memcpy(head, aligned->head.data, sizeof head);
    const uint64_t payload = aligned->payload_bytes;
    di_weights_close(aligned);
    plan.header_padding = 1;
    di_weights *w = open_plan(&plan);
    assert_int_equal((uintptr_t)w->layers[2].hc_attn.fn % sizeof(float), 0);
    assert_int_equal((uintptr_t)w->head.data % sizeof(di_bf16), 0);
    assert_memory_equal(fn, w->layers[2].hc_attn.fn, sizeof fn);
    assert_memory_equal(head, w->head.data, sizeof head);
    assert_true(w->copied_bytes > 0);
    assert_true(w->copied_bytes < payload); /* the quantized ones stay where they are */
    di_weights_close(w);
    di_test_plan_free(&plan);
}

static void a_shard_cut_after_opening_is_seen(void **state)
{
    (void)state;
    di_test_plan plan = make_small_plan();
    di_test_plan_shard(&plan, 3);
    di_weights *w = open_plan(&plan);
    char path[512];
    assert_int_equal(di_weights_check_files(w), DI_OK);
    snprintf(path, sizeof path, "%s/model-00002-of-00003.safetensors", work_dir);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(di_weights_check_files(w), DI_ERR_RUNTIME);
    assert_non_null(strstr(di_last_error(), "model-00002-of-00003.safetensors: cut while in use"));
    di_weights_close(w);
    di_test_plan_free(&plan);
}

static void a_written_checkpoint_opens(void **state)
{
    (void)state;
    json_t *json = small_config_json();
    assert_int_equal(di_test_write_checkpoint(work_dir, json, NULL), DI_OK);
    json_decref(json);
    di_weights *w = open_weights(work_dir);
    assert_int_equal(w->config.hc_mult, 3);
    assert_true(norm_at(&w->norm, 5) > 0.8f && norm_at(&w->norm, 5) < 1.2f);
    di_weights_close(w);
}

static int make_work_dir(void **state)
{
    di_buf dir = {0};
    (void)state;
    if (di_test_make_dir(&dir) != DI_OK)
        return -1;
    work_dir = dir.data;
    return 0;
}

static int remove_work_dir(void **state)
{
    (void)state;
    di_test_remove_dir(work_dir);
    free(work_dir);
    return 0;
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, make_work_dir, remove_work_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_tiny_binds),
        cmocka_unit_test(golden_small_binds_from_two_shards),
        IN_DIR(each_name_changed_is_reported),
        IN_DIR(each_shape_changed_is_reported),
        IN_DIR(each_dtype_changed_is_reported),
        IN_DIR(scales_have_to_be_there_and_fit),
        IN_DIR(many_problems_are_counted),
        cmocka_unit_test(endless_problems_are_cut),
        IN_DIR(the_config_decides_what_is_expected),
        IN_DIR(bf16_in_place_of_f32_is_widened),
        IN_DIR(misaligned_tensors_are_copied),
        IN_DIR(a_shard_cut_after_opening_is_seen),
        IN_DIR(a_written_checkpoint_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
