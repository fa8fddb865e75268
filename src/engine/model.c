#include "engine/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/options.h"
#include "engine/memplan.h"
#include "text/token_map.h"
#include "weights/checkpoint_dir.h"

/* The checkpoint's own tokenizer, or one beside the directory that several checkpoints share. */
static di_status load_tokenizer(di_model *m)
{
    DI_BUF_AUTO own = {0}, shared = {0};
    DI_TRY(di_buf_printf(&own, "%s/tokenizer.json", m->dir));
    DI_TRY(di_buf_printf(&shared, "%s/../tokenizer.json", m->dir));
    const bool is_shared = !di_path_exists(di_buf_str(&own)) && di_path_exists(di_buf_str(&shared));
    DI_TRY(di_tokenizer_open(di_buf_str(is_shared ? &shared : &own), &m->tokenizer));
    return di_tokenizer_set_vocab_size(m->tokenizer, m->config.vocab_size);
}

static di_status build_token_map(di_model *m)
{
    if (m->config.n_engram_layers == 0)
        return DI_OK;
    m->token_map = calloc((size_t)m->config.vocab_size, sizeof *m->token_map);
    if (!m->token_map)
        return di_fail_memory(m->config.vocab_size * sizeof *m->token_map, "the token map");
    int64_t n_distinct;
    DI_TRY(di_token_map_build(m->tokenizer, m->config.vocab_size, m->token_map, &n_distinct));
    if (n_distinct != m->config.engram_compressed_vocab_size)
        return di_fail(DI_ERR_INPUT,
                       "%s: gives %lld distinct compressed ids, wanted %lld "
                       "(engram_compressed_vocab_size of %s/config.json)",
                       di_tokenizer_name(m->tokenizer), (long long)n_distinct,
                       (long long)m->config.engram_compressed_vocab_size, m->dir);
    return DI_OK;
}

/* The workers here stand where an engine's with the same options will. */
static di_status place_weights(di_model *m, const di_effective_options *options)
{
    if (strcmp(options->weights, "copy") != 0)
        return DI_OK;
    di_team team;
    DI_TRY(di_team_create(options, NULL, &team));
    const di_placed_parts parts = {.has_experts = options->weight_cache == 0,
                                   .has_drafter = di_has_drafter(&m->config, options)};
    const di_status status = di_weights_place(m->weights, &team, parts, &m->placed);
    di_team_free(&team);
    return status;
}

static di_status load(di_model *m, const char *path, const di_effective_options *options)
{
    DI_TRY(di_checkpoint_resolve(path, &m->dir_buf));
    m->dir = di_buf_str(&m->dir_buf);
    DI_TRY(di_checkpoint_read_config(m->dir, &m->config));
    DI_TRY(di_checkpoint_read_generation_config(m->dir, &m->config, &m->generation));
    DI_TRY(di_weights_open(m->dir, &m->config, &m->weights));
    DI_TRY(place_weights(m, options));
    DI_TRY(load_tokenizer(m));
    DI_TRY(build_token_map(m));
    DI_TRY(di_grammar_cache_create(m->tokenizer, &m->grammars));
    return di_network_init(&m->config, m->weights, m->token_map, &m->network);
}

di_status di_model_open(const char *path, const di_options *options, di_model **out)
{
    if (!path || !out)
        return di_fail(DI_ERR_ARGUMENT, "di_model_open: path and out must not be NULL");
    di_effective_options effective;
    DI_TRY(di_options_resolve(options, &effective));
    di_model *m = calloc(1, sizeof *m);
    if (!m)
        return di_fail_memory(sizeof *m, "a model");
    const di_status status = load(m, path, &effective);
    if (status != DI_OK) {
        di_model_close(m);
        return status;
    }
    *out = m;
    return DI_OK;
}

void di_model_close(di_model *model)
{
    if (!model)
        return;
    di_network_free(&model->network);
    di_grammar_cache_destroy(model->grammars);
    di_weights_close(model->weights);
    di_placed_weights_free(model->placed);
    di_tokenizer_close(model->tokenizer);
    free(model->token_map);
    di_buf_free(&model->dir_buf);
    free(model);
}

int32_t di_model_vocab_size(const di_model *model)
{
    return (int32_t)model->config.vocab_size;
}

int32_t di_model_bos_id(const di_model *model)
{
    return model->config.bos_token_id;
}

int64_t di_model_max_context(const di_model *model)
{
    return model->config.max_position_embeddings;
}

void di_model_sampling_defaults(const di_model *model, di_sampling_params *out)
{
    const di_generation_config *g = &model->generation;
    *out = (di_sampling_params)DI_SAMPLING_PARAMS_INIT;
    out->temperature = g->temperature;
    out->top_p = g->top_p;
    out->top_k = g->top_k;
    out->min_p = g->min_p;
    out->repetition_penalty = g->repetition_penalty;
}

di_status di_tokenize(const di_model *model, const char *text, size_t text_bytes,
                      bool parse_special, int32_t **ids, size_t *n_ids)
{
    return di_tokenizer_encode_text(model ? model->tokenizer : NULL, text, text_bytes,
                                    parse_special, ids, n_ids);
}

di_status di_detokenize(const di_model *model, const int32_t *ids, size_t n_ids, bool skip_special,
                        char **text, size_t *text_bytes)
{
    return di_tokenizer_decode_ids(model ? model->tokenizer : NULL, ids, n_ids, skip_special, text,
                                   text_bytes);
}

void di_free(void *memory)
{
    free(memory);
}
