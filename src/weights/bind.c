#include "weights/bind.h"

#include <stdlib.h>

#include "weights/bind_check.h"

struct di_weights_store {
    di_checkpoint checkpoint;
    di_arena arena; /* the slots, and what had to be copied */
};

/* ---------------------------------------------------------------------------- making the slots */

/* *n_before: experts of the layers before, counted up. */
static di_status make_layer(di_arena *arena, int64_t n_experts, int64_t *n_before,
                            di_layer_weights *layer)
{
    layer->n_experts = n_experts;
    layer->first_expert = *n_before;
    *n_before += n_experts;
    return DI_ARENA_ZNEW(arena, (size_t)n_experts, &layer->experts);
}

static di_status make_backbone_layer(di_arena *arena, const di_config *c, int i, int64_t *n_before,
                                     di_layer_weights *layer)
{
    di_compressor_weights *compressor = NULL;
    di_indexer_weights *indexer = NULL;
    di_engram_weights *engram = NULL;
    DI_TRY(make_layer(arena, c->n_routed_experts, n_before, layer));
    if (c->is_kv_source[i])
        DI_TRY(DI_ARENA_ZNEW(arena, 1, &compressor));
    if (c->is_kv_source[i] || c->is_index_source[i])
        DI_TRY(DI_ARENA_ZNEW(arena, 1, &indexer));
    for (int e = 0; e < c->n_engram_layers; e++)
        if (c->engram_layer_ids[e] == i)
            DI_TRY(DI_ARENA_ZNEW(arena, 1, &engram));
    layer->compressor = compressor;
    layer->indexer = indexer;
    layer->engram = engram;
    return DI_OK;
}

static di_status make_vision(di_arena *arena, const di_config *c, di_weights *w)
{
    di_vision_weights *vision;
    DI_TRY(DI_ARENA_ZNEW(arena, 1, &vision));
    DI_TRY(DI_ARENA_ZNEW(arena, (size_t)c->vision.n_layers, &vision->blocks));
    w->vision = vision;
    return DI_OK;
}

static di_status make_slots(di_arena *arena, di_weights *w)
{
    const di_config *c = &w->config;
    int64_t n_experts = 0;
    DI_TRY(DI_ARENA_ZNEW(arena, (size_t)c->n_layers, &w->layers));
    for (int i = 0; i < c->n_layers; i++)
        DI_TRY(make_backbone_layer(arena, c, i, &n_experts, &w->layers[i]));
    if (c->n_draft_blocks)
        DI_TRY(DI_ARENA_ZNEW(arena, (size_t)c->n_draft_blocks, &w->draft_layers));
    for (int i = 0; i < c->n_draft_blocks; i++)
        DI_TRY(make_layer(arena, c->dspark_n_routed_experts, &n_experts, &w->draft_layers[i]));
    return c->has_vision ? make_vision(arena, c, w) : DI_OK;
}

/* --------------------------------------------------------------------------------------- opening
 */

/* A file that does not open ends it: its tensors would only be reported a second time. */
static di_status open_into(const char *dir, di_weights *w)
{
    DI_PROBLEMS_AUTO problems = {0};
    di_bind_result result;
    di_weights_store *store = w->store;
    DI_TRY(di_checkpoint_open(dir, &problems, &store->checkpoint));
    DI_TRY(di_problems_status(&problems));
    DI_TRY(make_slots(&store->arena, w));
    DI_TRY(di_bind(&store->checkpoint, &w->config, w, &store->arena, &problems, &result));
    w->payload_bytes = store->checkpoint.payload_bytes;
    w->copied_bytes = result.copied_bytes;
    return di_problems_status(&problems);
}

/* dir NULL: slots only. */
static di_status make_weights(const char *dir, const di_config *config, di_weights **out)
{
    di_weights *w = calloc(1, sizeof *w);
    if (!w)
        return di_fail_memory(sizeof *w, "the weights");
    w->config = *config;
    w->store = calloc(1, sizeof *w->store);
    di_status status = DI_OK;
    if (!w->store)
        status = di_fail_memory(sizeof *w->store, "the weights");
    else
        status = dir ? open_into(dir, w) : make_slots(&w->store->arena, w);
    if (status == DI_OK)
        *out = w;
    else
        di_weights_close(w);
    return status;
}

di_status di_weights_open(const char *dir, const di_config *config, di_weights **out)
{
    return make_weights(dir, config, out);
}

di_status di_weights_new(const di_config *config, di_weights **out)
{
    return make_weights(NULL, config, out);
}

void di_weights_close(di_weights *weights)
{
    if (!weights)
        return;
    if (weights->store) {
        di_checkpoint_close(&weights->store->checkpoint);
        di_arena_free(&weights->store->arena);
    }
    free(weights->store);
    free(weights);
}

const di_safetensors *di_weights_shards(const di_weights *weights, size_t *n)
{
    *n = weights->store->checkpoint.n_shards;
    return weights->store->checkpoint.shards;
}

di_status di_weights_check_files(const di_weights *weights)
{
    const di_checkpoint *c = &weights->store->checkpoint;
    for (size_t i = 0; i < c->n_shards; i++)
        DI_TRY(di_mapping_check(&c->shards[i].mapping, c->shards[i].path));
    return DI_OK;
}
