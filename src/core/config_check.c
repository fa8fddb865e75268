/* What must hold between the keys of a configuration, so that nothing behind the parser has to ask
 * again, and what follows from them (the sources of each layer). */
#include "core/config_keys.h"

static di_status check_multiple(const char *name, const char *key, int64_t value, int64_t of)
{
    if (value % of == 0)
        return DI_OK;
    return di_fail(DI_ERR_INPUT, "%s: text_config.%s: found %lld, wanted a multiple of %lld", name,
                   key, (long long)value, (long long)of);
}

static di_status check_at_most(const char *name, const char *key, int64_t value, int64_t limit,
                               const char *limit_key)
{
    if (value <= limit)
        return DI_OK;
    return di_fail(DI_ERR_INPUT, "%s: text_config.%s: found %lld, wanted at most %s (%lld)", name,
                   key, (long long)value, limit_key, (long long)limit);
}

static di_status check_dims(const char *name, const di_config *c)
{
    DI_TRY(check_multiple(name, "hidden_size", c->hidden_size, 32));
    DI_TRY(check_multiple(name, "moe_intermediate_size", c->moe_intermediate_size, 32));
    DI_TRY(check_multiple(name, "head_dim", c->head_dim, 32));
    DI_TRY(check_multiple(name, "q_lora_rank", c->q_lora_rank, 32));
    DI_TRY(check_multiple(name, "qk_rope_head_dim", c->rope_dim, 2));
    DI_TRY(check_at_most(name, "qk_rope_head_dim", c->rope_dim, c->head_dim, "head_dim"));
    if (c->n_heads % c->o_groups != 0)
        return di_fail(DI_ERR_INPUT,
                       "%s: text_config.o_groups: found %lld, wanted a divisor of "
                       "num_attention_heads (%lld)",
                       name, (long long)c->o_groups, (long long)c->n_heads);
    DI_TRY(check_multiple(name, "o_lora_rank times o_groups", c->o_lora_rank * c->o_groups, 32));
    DI_TRY(check_at_most(name, "num_experts_per_tok", c->n_experts_per_tok, c->n_routed_experts,
                         "n_routed_experts"));
    if (c->rope_scaling.is_yarn && c->rope_scaling.beta_fast < c->rope_scaling.beta_slow)
        return di_fail(DI_ERR_INPUT,
                       "%s: text_config.rope_scaling.beta_fast: found %g, wanted at least "
                       "beta_slow (%g)",
                       name, c->rope_scaling.beta_fast, c->rope_scaling.beta_slow);
    return DI_OK;
}

/* Fills kv_source and index_source. Every compressed layer needs a KV source of its own ratio at or
 * below it, and a top-k list that was made from the entries of that source. */
static di_status resolve_sources(const char *name, di_config *c)
{
    int kv = -1, index = -1;
    for (int layer = 0; layer < c->n_layers; layer++) {
        const int ratio = c->compress_ratios[layer];
        if (ratio == 0 && (c->is_kv_source[layer] || c->is_index_source[layer]))
            return di_fail(
                DI_ERR_INPUT,
                "%s: text_config.%s: found layer %d, wanted layers whose "
                "compress_ratios entry is above 0",
                name, c->is_kv_source[layer] ? "kv_source_layer_ids" : "index_source_layer_ids",
                layer);
        kv = c->is_kv_source[layer] ? layer : kv;
        index = c->is_index_source[layer] ? layer : index;
        c->kv_source[layer] = ratio ? kv : -1;
        c->index_source[layer] = ratio ? index : -1;
        if (ratio == 0)
            continue;
        if (kv < 0)
            return di_fail(DI_ERR_INPUT,
                           "%s: text_config.kv_source_layer_ids: found no source at or below "
                           "layer %d, which has compress_ratios entry %d",
                           name, layer, ratio);
        if (index < kv)
            return di_fail(DI_ERR_INPUT,
                           "%s: text_config.index_source_layer_ids: layer %d is missing, wanted "
                           "every KV source among the index sources",
                           name, kv);
        if (c->compress_ratios[kv] != ratio)
            return di_fail(DI_ERR_INPUT,
                           "%s: text_config.compress_ratios: found %d for layer %d, wanted %d as "
                           "its KV source, layer %d, has",
                           name, ratio, layer, c->compress_ratios[kv], kv);
    }
    return DI_OK;
}

/* The candidate blocks are blocks of one KV source's entries: all index sources from the candidate
 * source on have to read that one. */
static di_status check_index(const char *name, const di_config *c)
{
    bool is_compressed = false;
    for (int layer = 0; layer < c->n_layers; layer++)
        is_compressed |= c->compress_ratios[layer] > 0;
    if (is_compressed) {
        DI_TRY(check_multiple(name, "index_head_dim", c->index_head_dim, 32));
        DI_TRY(check_at_most(name, "qk_rope_head_dim", c->rope_dim, c->index_head_dim,
                             "index_head_dim"));
    }
    if (c->candidate_source < 0)
        return DI_OK;
    int last_kv = -1;
    for (int layer = 0; layer < c->n_layers; layer++)
        last_kv = c->is_kv_source[layer] ? layer : last_kv;
    if (c->candidate_source != last_kv)
        return di_fail(DI_ERR_INPUT,
                       "%s: text_config.candidate_source_layer_id: found %d, wanted the last of "
                       "kv_source_layer_ids (%d)",
                       name, c->candidate_source, last_kv);
    return DI_OK;
}

static di_status check_token_id(const char *name, const char *key, int64_t id, const di_config *c)
{
    if (id < c->vocab_size)
        return DI_OK;
    return di_fail(DI_ERR_INPUT, "%s: %s: found %lld, wanted less than vocab_size (%lld)", name,
                   key, (long long)id, (long long)c->vocab_size);
}

static di_status check_token_ids(const char *name, const di_config *c)
{
    DI_TRY(check_token_id(name, "bos_token_id", c->bos_token_id, c));
    DI_TRY(check_token_id(name, "eos_token_id", c->eos_token_id, c));
    DI_TRY(check_token_id(name, "pad_token_id", c->pad_token_id, c));
    DI_TRY(check_token_id(name, "image_token_id", c->image_token_id, c));
    if (c->n_engram_layers)
        DI_TRY(check_token_id(name, "text_config.engram_pad_token_id", c->engram_pad_token_id, c));
    if (c->n_draft_blocks)
        DI_TRY(
            check_token_id(name, "text_config.dspark_noise_token_id", c->dspark_noise_token_id, c));
    return DI_OK;
}

static di_status check_engram_and_draft(const char *name, const di_config *c)
{
    if (c->n_engram_layers) {
        DI_TRY(check_multiple(name, "engram_head_dim", c->engram_head_dim, 32));
        DI_TRY(check_at_most(name, "engram_compressed_vocab_size", c->engram_compressed_vocab_size,
                             c->vocab_size, "vocab_size"));
    }
    if (c->n_draft_blocks)
        DI_TRY(check_at_most(name, "dspark_num_experts_per_tok", c->dspark_n_experts_per_tok,
                             c->dspark_n_routed_experts, "dspark_n_routed_experts"));
    return DI_OK;
}

/* Slots and names are made for every expert before a file is looked at. */
static di_status check_total_experts(const char *name, const di_config *c)
{
    const int64_t total = c->n_layers * c->n_routed_experts +
                          (c->n_draft_blocks ? c->n_draft_blocks * c->dspark_n_routed_experts : 0);
    if (total <= DI_MAX_EXPERTS)
        return DI_OK;
    return di_fail(DI_ERR_INPUT,
                   "%s: text_config.n_routed_experts: found %lld experts in all layers and draft "
                   "blocks together, wanted at most %d",
                   name, (long long)total, DI_MAX_EXPERTS);
}

static di_status check_vision(const char *name, const di_config *c)
{
    const di_vision_config *v = &c->vision;
    if (!c->has_vision)
        return DI_OK;
    if (v->hidden_size % v->n_heads != 0 || v->hidden_size / v->n_heads % 4 != 0)
        return di_fail(DI_ERR_INPUT,
                       "%s: vision_config.hidden_size: found %lld for %lld heads, wanted heads of "
                       "a multiple of 4 channels",
                       name, (long long)v->hidden_size, (long long)v->n_heads);
    return DI_OK;
}

di_status di_config_check(const char *name, di_config *config)
{
    DI_TRY(check_dims(name, config));
    DI_TRY(resolve_sources(name, config));
    DI_TRY(check_index(name, config));
    DI_TRY(check_token_ids(name, config));
    DI_TRY(check_engram_and_draft(name, config));
    DI_TRY(check_total_experts(name, config));
    return check_vision(name, config);
}
