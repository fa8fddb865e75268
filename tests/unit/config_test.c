/* core/config.c: the golden and release configurations, every key missing and wrong in turn, and
 * the rules between keys. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "core/config_keys.h"
#include "tokenizers.h"

static di_config parsed; /* large: not on the stack */

static void assert_fails_with(const json_t *json, const char *part)
{
    const di_status status = di_test_config_parse(json, &parsed);
    if (status != DI_ERR_INPUT || !strstr(di_last_error(), part))
        print_message("wanted an error with \"%s\", got %d: %s\n", part, status, di_last_error());
    assert_int_equal(status, DI_ERR_INPUT);
    assert_non_null(strstr(di_last_error(), part));
    assert_null(strchr(di_last_error(), '\n'));
}

/* The object a key of the table stands in. */
static json_t *section_of(json_t *root, const char *section)
{
    if (strcmp(section, "text_config.rope_scaling") == 0)
        return json_object_get(json_object_get(root, "text_config"), "rope_scaling");
    return *section ? json_object_get(root, section) : root;
}

static void set_text(json_t *root, const char *key, json_t *value)
{
    json_object_set_new(json_object_get(root, "text_config"), key, value);
}

/* ------------------------------------------------------------------------------- whole configs */

static void golden_tiny_is_read(void **state)
{
    (void)state;
    assert_int_equal(di_test_config("golden/tiny", &parsed), DI_OK);
    const di_config *c = &parsed;
    assert_int_equal(c->vocab_size, 1280);
    assert_int_equal(c->hidden_size, 128);
    assert_int_equal(c->n_layers, 10);
    assert_int_equal(c->n_draft_blocks, 3);
    assert_int_equal(c->rope_dim, 16);
    assert_true(c->rms_norm_eps == 1e-20);
    assert_true(c->rope_scaling.is_yarn);
    assert_true(c->rope_scaling.factor == 16.0);
    assert_int_equal(c->rope_scaling.original_max_position_embeddings, 128);
    assert_true(c->gate_temp == 1.0);
    assert_true(c->norm_topk_prob);
    assert_int_equal(c->candidate_source, 6);
    const int kv[] = {-1, -1, 2, 2, 4, 4, 6, 6, 6, 6};
    const int index[] = {-1, -1, 2, 2, 4, 4, 6, 6, 8, 8};
    for (int i = 0; i < 10; i++) {
        assert_int_equal(c->kv_source[i], kv[i]);
        assert_int_equal(c->index_source[i], index[i]);
        assert_int_equal(c->is_kv_source[i], kv[i] == i);
        assert_int_equal(c->is_index_source[i], index[i] == i);
    }
    assert_int_equal(c->n_engram_layers, 2);
    assert_int_equal(c->engram_layer_ids[1], 3);
    assert_int_equal(c->engram_num_embeddings[0], 3096);
    assert_int_equal(c->n_dspark_targets, 3);
    assert_int_equal(c->dspark_target_layer_ids[2], 9);
    assert_int_equal(c->eos_token_id, 1);
    assert_int_equal(c->image_token_id, 1266);
    assert_true(c->has_vision);
    assert_int_equal(c->vision.min_pixels, 7056);
    assert_true(c->vision.max_wh_ratio == 0.0);
    assert_int_equal(c->n_shared_experts, 1);
}

static void golden_small_has_no_vision(void **state)
{
    (void)state;
    assert_int_equal(di_test_config("golden/small", &parsed), DI_OK);
    assert_false(parsed.has_vision);
    assert_int_equal(parsed.image_token_id, 1266);
    assert_int_equal(parsed.head_dim, 512);
    assert_int_equal(parsed.kv_source[2], 1);
    assert_int_equal(parsed.index_source[6], 5);
}

static void release_is_read(void **state)
{
    (void)state;
    assert_int_equal(di_test_config("cases/release", &parsed), DI_OK);
    assert_int_equal(parsed.n_layers, 40);
    assert_int_equal(parsed.kv_source[13], 8);
    assert_int_equal(parsed.kv_source[39], 20);
    assert_int_equal(parsed.index_source[27], 24);
    assert_int_equal(parsed.engram_num_embeddings[1], 384016682);
    assert_true(parsed.gate_temp == 1.0); /* not in the file */
}

/* ---------------------------------------------------------------------- every key of the table */

static bool is_optional(const di_config_key *row)
{
    return row->need == DI_NEED_NEVER && strcmp(row->key, "image_token_id") != 0;
}

static void each_key_missing(void **state)
{
    (void)state;
    json_t *root = di_test_config_json("golden/tiny");
    size_t n_required = 0, n_optional = 0;
    for (size_t i = 0; i < di_n_config_keys; i++) {
        const di_config_key *row = &di_config_keys[i];
        json_t *section = section_of(root, row->section);
        json_t *value = json_incref(json_object_get(section, row->key));
        if (!value) {
            assert_true(is_optional(row));
            continue;
        }
        json_object_del(section, row->key);
        char wanted[128];
        snprintf(wanted, sizeof wanted, "config.json: %s%s%s: found nothing, wanted", row->section,
                 *row->section ? "." : "", row->key);
        if (is_optional(row)) {
            assert_int_equal(di_test_config_parse(root, &parsed), DI_OK);
            n_optional++;
        } else {
            assert_fails_with(root, wanted);
            n_required++;
        }
        json_object_set_new(section, row->key, value);
    }
    assert_true(n_required > 60);
    assert_true(n_optional > 5);
    json_decref(root);
}

/* Values that no key takes. */
static json_t *wrong_value(const di_config_key *row, int which)
{
    switch (which) {
    case 0:
        return json_string("x");
    case 1:
        return json_real(3.5e300);
    case 2:
        return json_integer(-7);
    case 3:
        return json_integer(INT64_MAX);
    case 4:
        return json_pack("[[]]");
    case 5:
        return json_pack("[i,i,s]", 1, 2, "3");
    case 6:
        return json_pack("{}");
    case 7:
        return row->kind == DI_KEY_FALSE || row->kind == DI_KEY_BOOL ? json_integer(0)
                                                                     : json_true();
    default:
        return NULL;
    }
}

static void each_key_wrong(void **state)
{
    (void)state;
    json_t *root = di_test_config_json("golden/tiny");
    for (size_t i = 0; i < di_n_config_keys; i++) {
        const di_config_key *row = &di_config_keys[i];
        json_t *section = section_of(root, row->section);
        json_t *value = json_incref(json_object_get(section, row->key));
        char wanted[128];
        snprintf(wanted, sizeof wanted, "config.json: %s%s%s: found ", row->section,
                 *row->section ? "." : "", row->key);
        json_t *wrong;
        for (int which = 0; (wrong = wrong_value(row, which)); which++) {
            const bool is_section = json_is_object(value) || strcmp(row->key, "rope_scaling") == 0;
            if (is_section && json_is_object(wrong)) { /* an empty section lacks its keys */
                json_decref(wrong);
                continue;
            }
            json_object_set_new(section, row->key, wrong);
            assert_fails_with(root, wanted);
        }
        if (value)
            json_object_set_new(section, row->key, value);
        else
            json_object_del(section, row->key);
    }
    assert_int_equal(di_test_config_parse(root, &parsed), DI_OK);
    json_decref(root);
}

/* Numbers one step outside their limits; and the limits themselves never give a range error. */
static void each_number_out_of_range(void **state)
{
    (void)state;
    json_t *root = di_test_config_json("golden/tiny");
    size_t n = 0;
    for (size_t i = 0; i < di_n_config_keys; i++) {
        const di_config_key *row = &di_config_keys[i];
        const bool is_int = row->kind <= DI_KEY_INT64;
        if (!is_int && row->kind != DI_KEY_REAL)
            continue;
        json_t *section = section_of(root, row->section);
        json_t *value = json_incref(json_object_get(section, row->key));
        char path[96], wanted[160];
        snprintf(path, sizeof path, "%s%s%s: found ", row->section, *row->section ? "." : "",
                 row->key);
        snprintf(wanted, sizeof wanted, "wanted a%s from %.12g to %.12g",
                 is_int ? "n integer" : " number", row->min, row->max);
        for (int end = 0; end < 2; end++) {
            const double limit = end ? row->max : row->min;
            const double outside = end ? limit * 2 + 1 : limit - (is_int ? 1 : fabs(limit) + 1);
            json_object_set_new(section, row->key,
                                is_int ? json_integer((json_int_t)outside) : json_real(outside));
            assert_fails_with(root, path);
            assert_non_null(strstr(di_last_error(), wanted));
            json_object_set_new(section, row->key,
                                is_int ? json_integer((json_int_t)limit) : json_real(limit));
            if (di_test_config_parse(root, &parsed) != DI_OK)
                assert_null(strstr(di_last_error(), wanted));
        }
        json_object_set_new(section, row->key, value);
        n++;
    }
    assert_true(n > 50);
    json_decref(root);
}

static void numbers_have_their_type(void **state)
{
    (void)state;
    json_t *root = di_test_config_json("golden/tiny");
    set_text(root, "hidden_size", json_real(128.0));
    assert_fails_with(root, "text_config.hidden_size: found 128.0, wanted an integer from 32 to");
    set_text(root, "hidden_size", json_integer(128));
    set_text(root, "swiglu_limit", json_integer(7));
    set_text(root, "rope_theta", json_real(5e5));
    assert_int_equal(di_test_config_parse(root, &parsed), DI_OK);
    assert_true(parsed.swiglu_limit == 7.0);
    assert_true(parsed.rope_theta == 5e5);
    json_decref(root);
}

/* ------------------------------------------------------------------------------ between keys */

typedef struct rule {
    const char *section, *key, *value, *error; /* error NULL: accepted */
} rule;

static const rule rules[] = {
    {"text_config", "hidden_size", "100", "hidden_size: found 100, wanted a multiple of 32"},
    {"text_config", "moe_intermediate_size", "48", "moe_intermediate_size: found 48"},
    {"text_config", "head_dim", "80", "head_dim: found 80, wanted a multiple of 32"},
    {"text_config", "q_lora_rank", "65", "q_lora_rank: found 65"},
    {"text_config", "qk_rope_head_dim", "15", "qk_rope_head_dim: found 15, wanted a multiple of 2"},
    {"text_config", "qk_rope_head_dim", "66",
     "qk_rope_head_dim: found 66, wanted at most head_dim"},
    {"text_config", "qk_rope_head_dim", "34",
     "qk_rope_head_dim: found 34, wanted at most index_head_dim (32)"},
    {"text_config", "qk_rope_head_dim", "32", NULL},
    {"text_config", "index_head_dim", "48", "index_head_dim: found 48"},
    {"text_config", "o_groups", "3", "o_groups: found 3, wanted a divisor"},
    {"text_config", "o_groups", "4", NULL},
    {"text_config", "o_lora_rank", "31", "o_lora_rank times o_groups: found 62"},
    {"text_config", "o_lora_rank", "16", NULL},
    {"text_config", "n_routed_experts", "26213", NULL}, /* 10 layers, and 12 in draft blocks */
    {"text_config", "n_routed_experts", "26214", "found 262152 experts in all layers and draft"},
    {"text_config", "num_experts_per_tok", "9", "num_experts_per_tok: found 9, wanted at most"},
    {"text_config", "num_experts_per_tok", "8", NULL},
    {"text_config", "compress_ratios", "[0,0,2,2,2,2,1,1,1,1,0,0]", "found 12 entries, wanted 13"},
    {"text_config", "compress_ratios", "[0,0,2,2,2,2,1,1,1,1,0,0,1]", "ratio 0 for the draft"},
    {"text_config", "compress_ratios", "[0,0,2,2,2,2,3,1,1,1,0,0,0]", "found 3, wanted an array"},
    {"text_config", "compress_ratios", "[0,0,2,2,2,2,1,1,2,1,0,0,0]",
     "found 2 for layer 8, wanted 1 as its KV source, layer 6, has"},
    {"text_config", "compress_ratios", "[0,1,2,2,2,2,1,1,1,1,0,0,0]",
     "kv_source_layer_ids: found no source at or below layer 1"},
    {"text_config", "compress_ratios", "[0,0,0,2,2,2,1,1,1,1,0,0,0]",
     "kv_source_layer_ids: found layer 2, wanted layers whose"},
    {"text_config", "compress_ratios", "[0,0,1,1,2,2,1,1,1,1,0,0,0]", NULL},
    {"text_config", "compress_ratios", "[0,0,2,0,2,2,1,1,1,1,0,0,0]", NULL},
    {"text_config", "kv_source_layer_ids", "[2,6,4]", "wanted ascending layer numbers"},
    {"text_config", "kv_source_layer_ids", "[2,2,6]", "wanted ascending layer numbers"},
    {"text_config", "kv_source_layer_ids", "[2,4,10]", "kv_source_layer_ids: found 10"},
    {"text_config", "kv_source_layer_ids", "[4,6]", "found no source at or below layer 2"},
    {"text_config", "kv_source_layer_ids", "[2,6]", NULL},
    {"text_config", "index_source_layer_ids", "[2,6,8]", "layer 4 is missing, wanted every KV"},
    {"text_config", "index_source_layer_ids", "[1,2,4,6]", "index_source_layer_ids: found layer 1"},
    {"text_config", "index_source_layer_ids", "[2,3,4,5,6,7,8,9]", NULL},
    {"text_config", "candidate_source_layer_id", "4", "found 4, wanted the last of"},
    {"text_config", "candidate_source_layer_id", "8", "found 8, wanted the last of"},
    {"text_config", "candidate_source_layer_id", "10", "found 10, wanted null or a layer number"},
    {"text_config", "candidate_source_layer_id", "null", NULL},
    {"text_config", "engram_layer_ids", "[3,1]", "wanted ascending layer numbers"},
    {"text_config", "engram_layer_ids", "[1,10]", "engram_layer_ids: found 10"},
    {"text_config", "engram_layer_ids", "[1]", "engram_num_embeddings: found [3096,3384], wanted"},
    {"text_config", "engram_layer_ids", "[]", NULL},
    {"text_config", "engram_num_embeddings", "[0,1]", "engram_num_embeddings: found 0, wanted"},
    {"text_config", "engram_head_dim", "33", "engram_head_dim: found 33, wanted a multiple of 32"},
    {"text_config", "engram_compressed_vocab_size", "1281", "wanted at most vocab_size (1280)"},
    {"text_config", "engram_pad_token_id", "1280", "engram_pad_token_id: found 1280, wanted less"},
    {"text_config", "engram_max_ngram_size", "9", "wanted an integer from 2 to 8"},
    {"text_config", "dspark_target_layer_ids", "[]", "found [], wanted at least one"},
    {"text_config", "dspark_target_layer_ids", "[9,8]", "ascending"},
    {"text_config", "dspark_target_layer_ids", "[0,4]", NULL},
    {"text_config", "dspark_noise_token_id", "1280", "dspark_noise_token_id: found 1280"},
    {"text_config", "dspark_num_experts_per_tok", "5", "dspark_num_experts_per_tok: found 5"},
    {"text_config", "num_nextn_predict_layers", "2", "found 13 entries, wanted 12"},
    {"text_config", "n_shared_experts", "2", "n_shared_experts: found 2, wanted 1"},
    {"text_config", "num_key_value_heads", "4", "num_key_value_heads: found 4, wanted 1"},
    {"text_config", "hidden_act", "\"gelu\"", "hidden_act: found \"gelu\", wanted \"silu\""},
    {"text_config", "tie_word_embeddings", "true", "found true, wanted false"},
    {"text_config", "norm_topk_prob", "false", NULL},
    {"text_config", "hc_mult", "1", NULL},
    {"text_config", "rope_scaling", "null", NULL},
    {"text_config", "rope_scaling", "{\"rope_type\":\"default\"}", NULL},
    {"text_config", "rope_scaling", "{\"rope_type\":\"linear\"}",
     "rope_scaling.rope_type: found \"linear\", wanted \"yarn\" or \"default\""},
    {"text_config", "rope_scaling", "{\"rope_type\":\"yarn\",\"type\":\"default\"}",
     "rope_scaling.type: found \"default\", wanted the same as rope_type"},
    {"text_config", "vocab_size", "1266", "image_token_id: found 1266, wanted less than"},
    {"", "eos_token_id", "1280", "eos_token_id: found 1280, wanted less than vocab_size (1280)"},
    {"", "architectures", "[\"LlamaForCausalLM\"]", "found [\"LlamaForCausalLM\"], wanted"},
    {"", "model_type", "\"deepseek_v3\"", "model_type: found \"deepseek_v3\", wanted"},
    {"", "dtype", "\"float16\"", "dtype: found \"float16\", wanted \"bfloat16\""},
    {"", "vision_config", "null", NULL},
    {"quantization_config", "weight_block_size", "[128,128]", "found [128,128], wanted [32,32]"},
    {"quantization_config", "weight_block_size", "[32]", "found [32], wanted [32,32]"},
    {"quantization_config", "expert_dtype", "\"fp8\"", "found \"fp8\", wanted \"fp4\""},
    {"quantization_config", "scale_fmt", "\"float\"", "wanted \"ue8m0\""},
    {"vision_config", "num_attention_heads", "3", "hidden_size: found 64 for 3 heads"},
    {"vision_config", "num_attention_heads", "32", "hidden_size: found 64 for 32 heads"},
    {"vision_config", "max_wh_ratio", "2.5", NULL},
    {"vision_config", "max_wh_ratio", "0", "found 0, wanted null or a number"},
};

static void rules_between_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        json_t *root = di_test_config_json("golden/tiny");
        json_t *value = json_loads(rules[i].value, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        json_object_set_new(section_of(root, rules[i].section), rules[i].key, value);
        if (rules[i].error) {
            assert_fails_with(root, rules[i].error);
        } else if (di_test_config_parse(root, &parsed) != DI_OK) {
            print_message("%s %s: %s\n", rules[i].key, rules[i].value, di_last_error());
            fail();
        }
        json_decref(root);
    }
}

static void conditional_keys_may_be_left_out(void **state)
{
    (void)state;
    static const char *const engram[] = {"engram_num_embeddings",
                                         "engram_max_ngram_size",
                                         "engram_vocab_size",
                                         "engram_n_heads",
                                         "engram_head_dim",
                                         "engram_pad_token_id",
                                         "engram_compressed_vocab_size"};
    static const char *const draft[] = {"dspark_block_size",       "dspark_noise_token_id",
                                        "dspark_target_layer_ids", "dspark_markov_rank",
                                        "dspark_n_routed_experts", "dspark_num_experts_per_tok"};
    static const char *const compressed[] = {
        "index_n_heads",         "index_head_dim",      "index_topk", "candidate_source_layer_id",
        "candidate_topk_blocks", "candidate_block_size"};
    json_t *root = di_test_config_json("golden/tiny");
    json_t *text = json_object_get(root, "text_config");
    set_text(root, "engram_layer_ids", json_array());
    for (size_t i = 0; i < sizeof engram / sizeof engram[0]; i++)
        json_object_del(text, engram[i]);
    assert_int_equal(di_test_config_parse(root, &parsed), DI_OK);
    set_text(root, "num_nextn_predict_layers", json_integer(0));
    set_text(root, "compress_ratios", json_pack("[iiiiiiiiii]", 0, 0, 2, 2, 2, 2, 1, 1, 1, 1));
    for (size_t i = 0; i < sizeof draft / sizeof draft[0]; i++)
        json_object_del(text, draft[i]);
    assert_int_equal(di_test_config_parse(root, &parsed), DI_OK);
    assert_int_equal(parsed.n_draft_blocks, 0);
    set_text(root, "compress_ratios", json_pack("[iiiiiiiiii]", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    set_text(root, "kv_source_layer_ids", json_array());
    set_text(root, "index_source_layer_ids", json_array());
    for (size_t i = 0; i < sizeof compressed / sizeof compressed[0]; i++)
        json_object_del(text, compressed[i]);
    assert_int_equal(di_test_config_parse(root, &parsed), DI_OK);
    assert_int_equal(parsed.kv_source[9], -1);
    assert_int_equal(parsed.candidate_source, -1);
    json_decref(root);
}

/* ------------------------------------------------------------------------------------ the text */

static void not_json_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "null",
        "{\"model_type\": NaN}",
        "{\"a\": 1, \"a\": 2}",
        "\xff\xfe{}",
        "{\"text_config\": {\"rms_norm_eps\": 1e999}}",
        "{} {}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(di_config_parse(texts[i], strlen(texts[i]), "DIR/config.json", &parsed),
                         DI_ERR_INPUT);
        assert_memory_equal(di_last_error(), "DIR/config.json: ", 17);
    }
}

static void unknown_keys_are_listed(void **state)
{
    (void)state;
    DI_BUF_AUTO keys = {0};
    json_t *root = di_test_config_json("golden/tiny");
    json_object_set_new(root, "use_cache", json_true());
    set_text(root, "initializer_range", json_real(0.02));
    json_object_set_new(json_object_get(root, "vision_config"), "x", json_null());
    char *dump = json_dumps(root, 0);
    assert_int_equal(di_config_parse(dump, strlen(dump), "c", &parsed), DI_OK);
    assert_int_equal(di_config_unknown_keys(dump, strlen(dump), "c", &keys), DI_OK);
    assert_string_equal(di_buf_str(&keys),
                        "use_cache\ntext_config.initializer_range\nvision_config.x\n");
    free(dump);
    json_decref(root);
}

/* docs/checkpoint.md repeats the table: a row "| section.key | required or what holds |" for each.
 */
static void documentation_repeats_the_table(void **state)
{
    (void)state;
    static const char *const needs[] = {
        [DI_NEED_ALWAYS] = "required",
        [DI_NEED_COMPRESSED] = "required if a layer compresses",
        [DI_NEED_CANDIDATES] = "required with candidate_source_layer_id",
        [DI_NEED_ENGRAM] = "required with engram layers",
        [DI_NEED_DRAFT] = "required with draft blocks",
        [DI_NEED_VISION] = "required with vision_config",
        [DI_NEED_YARN] = "required for yarn",
    };
    DI_BUF_AUTO doc = {0};
    assert_int_equal(di_test_read("../docs/checkpoint.md", &doc), DI_OK);
    for (size_t i = 0; i < di_n_config_keys; i++) {
        const di_config_key *row = &di_config_keys[i];
        char line[256];
        snprintf(line, sizeof line, "\n| `%s%s%s` | %s%s |", row->section, *row->section ? "." : "",
                 row->key, row->need == DI_NEED_NEVER ? "optional: " : needs[row->need],
                 row->need == DI_NEED_NEVER ? row->fallback : "");
        if (!strstr(doc.data, line))
            print_message("docs/checkpoint.md lacks:%s\n", line);
        assert_non_null(strstr(doc.data, line));
    }
}

/* -------------------------------------------------------------------------- generation_config */

static di_status parse_generation(const char *text, di_generation_config *out)
{
    return di_generation_config_parse(text, strlen(text), "DIR/generation_config.json", &parsed,
                                      out);
}

static void generation_config_is_read(void **state)
{
    (void)state;
    di_generation_config g;
    assert_int_equal(di_test_config("golden/tiny", &parsed), DI_OK);
    assert_int_equal(parse_generation("{}", &g), DI_OK);
    assert_true(g.temperature == 1.0 && g.top_p == 1.0 && g.min_p == 0.0);
    assert_true(g.repetition_penalty == 1.0 && g.top_k == 0);
    assert_int_equal(g.n_eos, 1);
    assert_int_equal(g.eos_ids[0], 1);
    assert_int_equal(parse_generation("{\"temperature\": 0.6, \"top_p\": 0.95, \"top_k\": 40,"
                                      "\"min_p\": 0.05, \"repetition_penalty\": 1.1,"
                                      "\"eos_token_id\": [1, 7], \"do_sample\": true,"
                                      "\"_from_model_config\": true, \"bos_token_id\": 0}",
                                      &g),
                     DI_OK);
    assert_true(g.temperature == 0.6 && g.top_p == 0.95 && g.min_p == 0.05);
    assert_true(g.repetition_penalty == 1.1 && g.top_k == 40);
    assert_int_equal(g.n_eos, 2);
    assert_int_equal(g.eos_ids[1], 7);
    assert_int_equal(parse_generation("{\"eos_token_id\": 5, \"top_k\": -1, \"top_p\": null,"
                                      "\"temperature\": 0.6, \"do_sample\": false}",
                                      &g),
                     DI_OK);
    assert_true(g.temperature == 0.0 && g.top_p == 1.0 && g.top_k == 0);
    assert_int_equal(g.eos_ids[0], 5);
}

static void generation_config_is_checked(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"temperature\": -1}", "temperature: found -1, wanted a number from 0"},
        {"{\"temperature\": \"hot\"}", "temperature: found a string, wanted a number"},
        {"{\"top_p\": 1.5}", "top_p: found 1.5, wanted a number from 0 to 1"},
        {"{\"min_p\": -0.1}", "min_p: found -0.1"},
        {"{\"top_k\": 1.5}", "top_k: found a fractional number, wanted an integer"},
        {"{\"top_k\": -2}", "top_k: found -2, wanted an integer from -1"},
        {"{\"repetition_penalty\": 0}", "repetition_penalty: found 0"},
        {"{\"do_sample\": 1}", "do_sample: found an integer, wanted true or false"},
        {"{\"eos_token_id\": 1280}", "eos_token_id: found 1280, wanted an integer from 0 to 1279"},
        {"{\"eos_token_id\": []}", "eos_token_id: found 0 ids, wanted 1 to 16"},
        {"{\"eos_token_id\": [1, \"2\"]}", "eos_token_id: found a string"},
        {"[1]", "found an array, wanted an object"},
        {"{\"top_p\": 1e400}", "not valid JSON"},
    };
    di_generation_config g = {.n_eos = 99};
    assert_int_equal(di_test_config("golden/tiny", &parsed), DI_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse_generation(cases[i][0], &g), DI_ERR_INPUT);
        assert_non_null(strstr(di_last_error(), cases[i][1]));
        assert_memory_equal(di_last_error(), "DIR/generation_config.json: ", 28);
        assert_int_equal(g.n_eos, 99); /* outputs are set on success only */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_tiny_is_read),
        cmocka_unit_test(golden_small_has_no_vision),
        cmocka_unit_test(release_is_read),
        cmocka_unit_test(each_key_missing),
        cmocka_unit_test(each_key_wrong),
        cmocka_unit_test(each_number_out_of_range),
        cmocka_unit_test(numbers_have_their_type),
        cmocka_unit_test(rules_between_keys),
        cmocka_unit_test(conditional_keys_may_be_left_out),
        cmocka_unit_test(not_json_is_refused),
        cmocka_unit_test(unknown_keys_are_listed),
        cmocka_unit_test(documentation_repeats_the_table),
        cmocka_unit_test(generation_config_is_read),
        cmocka_unit_test(generation_config_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
