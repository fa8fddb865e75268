#include "engine_check.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/checked.h"

void di_require(di_status status)
{
    if (status != DI_OK)
        fail_msg("%s", di_last_error());
}

/* ------------------------------------------------------------------------------- pools */

static void count_owners(const di_kv_cache *kv, int group, const di_kv_seq *const *seqs,
                         size_t n_seqs, int32_t *n_owners)
{
    for (size_t s = 0; s < n_seqs; s++) {
        for (int64_t b = 0; b < seqs[s]->n_blocks; b++) {
            const int32_t block = seqs[s]->tables[group][b];
            if (b < seqs[s]->first_block[group]) {
                assert_int_equal(block, -1);
                continue;
            }
            assert_in_range(block, 0, kv->pools[group].n_blocks - 1);
            n_owners[block]++;
        }
    }
}

/* Walks the free list and the list of cached blocks; marks what it finds. */
static void walk_lists(const di_block_pool *pool, char *mark)
{
    int64_t n_free = 0, n_cached = 0;
    for (int32_t b = pool->first_free; b >= 0; b = pool->blocks[b].next, n_free++) {
        assert_int_equal(mark[b], 0);
        assert_int_equal(pool->blocks[b].node, -1);
        mark[b] = 'f';
    }
    int32_t before = -1;
    for (int32_t b = pool->oldest; b >= 0; before = b, b = pool->blocks[b].next, n_cached++) {
        assert_int_equal(mark[b], 0);
        assert_int_equal(pool->blocks[b].prev, before);
        assert_true(pool->blocks[b].node >= 0);
        mark[b] = 'c';
    }
    assert_int_equal(before, pool->newest);
    assert_int_equal(n_free, pool->n_free);
    assert_int_equal(n_cached, pool->n_cached);
}

static void check_pool(const di_kv_cache *kv, const di_prefix_cache *prefix, int group,
                       const di_kv_seq *const *seqs, size_t n_seqs)
{
    const di_block_pool *pool = &kv->pools[group];
    int32_t *n_owners = calloc((size_t)pool->n_blocks, sizeof *n_owners);
    char *mark = calloc((size_t)pool->n_blocks, 1);
    assert_true(n_owners && mark);
    count_owners(kv, group, seqs, n_seqs, n_owners);
    walk_lists(pool, mark);
    for (int64_t b = 0; b < pool->n_blocks; b++) {
        const di_block *block = &pool->blocks[b];
        assert_int_equal(block->n_owners, n_owners[b]);
        assert_int_equal(mark[b] == 0, block->n_owners > 0);
        if (block->node < 0)
            continue;
        assert_true((size_t)block->node < prefix->n_nodes);
        assert_true(prefix->nodes[block->node].id != 0);
        assert_int_equal(prefix->nodes[block->node].blocks[group], b);
    }
    free(n_owners);
    free(mark);
}

static void check_nodes(const di_kv_cache *kv, const di_prefix_cache *prefix)
{
    size_t n_live = 0, n_listed = 0, n_unused = 0;
    for (size_t i = 0; i < prefix->n_nodes; i++) {
        const di_prefix_node *node = &prefix->nodes[i];
        if (!node->id)
            continue;
        n_live++;
        for (int g = 0; g < kv->layout.n_groups; g++) {
            if (node->blocks[g] >= 0)
                assert_int_equal(kv->pools[g].blocks[node->blocks[g]].node, i);
            else
                assert_true(kv->layout.groups[g].is_window);
        }
    }
    for (size_t b = 0; b < prefix->n_buckets; b++)
        for (int32_t n = prefix->buckets[b]; n >= 0; n = prefix->nodes[n].next, n_listed++)
            assert_true(prefix->nodes[n].id != 0);
    for (int32_t n = prefix->first_unused; n >= 0; n = prefix->nodes[n].next, n_unused++)
        assert_int_equal(prefix->nodes[n].id, 0);
    assert_int_equal(n_listed, n_live);
    assert_int_equal(n_live + n_unused, prefix->n_nodes);
}

void di_check_pools(const di_kv_cache *kv, const di_prefix_cache *prefix,
                    const di_kv_seq *const *seqs, size_t n_seqs)
{
    for (int g = 0; g < kv->layout.n_groups; g++)
        check_pool(kv, prefix, g, seqs, n_seqs);
    check_nodes(kv, prefix);
}

/* ------------------------------------------------------------------------------- engines */

void di_check_engine(const di_engine *engine, const di_null_device *device)
{
    const di_scheduler *s = &engine->scheduler;
    assert_true(di_scheduler_is_sound(s));
    const di_kv_seq **seqs = calloc((size_t)s->running.n + 1, sizeof(di_kv_seq *));
    assert_non_null(seqs);
    size_t n = 0;
    for (const di_sched_seq *seq = s->running.first; seq; seq = seq->next)
        seqs[n++] = &seq->kv;
    di_check_pools(&engine->runner.kv, &engine->prefix, seqs, n);
    free(seqs);
    if (device && device->problem[0])
        fail_msg("null device, pass %llu: %s", (unsigned long long)device->n_passes,
                 device->problem);
}

void di_check_idle(const di_engine *engine, const di_null_device *device)
{
    di_check_engine(engine, device);
    assert_int_equal(engine->scheduler.running.n, 0);
    assert_int_equal(engine->scheduler.waiting.n, 0);
    assert_int_equal(engine->scheduler.n_reserved, 0);
    assert_int_equal(engine->n_in_flight, 0);
    assert_int_equal(engine->n_deadlines, 0);
    assert_int_equal(engine->slots.n_free, engine->slots.n_slots);
    assert_null(engine->active.first);
    assert_null(engine->inbox.first);
    assert_int_equal(engine->runner.kv.n_copies, 0);
    for (int g = 0; g < engine->runner.kv.layout.n_groups; g++)
        assert_int_equal(di_block_pool_available(&engine->runner.kv.pools[g]),
                         engine->runner.kv.pools[g].n_blocks);
}

/* ------------------------------------------------------------------------------- expected */

static bool is_finish_id(const di_model *model, const di_sampling_params *params, int32_t id)
{
    for (size_t i = 0; !params->ignore_eos && i < (size_t)model->generation.n_eos; i++)
        if (model->generation.eos_ids[i] == id)
            return true;
    for (size_t i = 0; i < params->n_stop_ids; i++)
        if (params->stop_ids[i] == id)
            return true;
    return false;
}

static size_t list_finish_ids(const di_model *model, const di_sampling_params *params, int32_t *ids)
{
    size_t n = 0;
    for (size_t i = 0; !params->ignore_eos && i < (size_t)model->generation.n_eos; i++)
        ids[n++] = model->generation.eos_ids[i];
    for (size_t i = 0; i < params->n_stop_ids; i++)
        ids[n++] = params->stop_ids[i];
    return n;
}

void di_expect(const di_null_device *device, const di_model *model, const di_request *request,
               int32_t sample_index, di_expected *out)
{
    const di_sampling_params *params = &request->sampling;
    const int32_t vocab_size = (int32_t)model->config.vocab_size;
    int32_t finish_ids[64];
    const di_sampler_setup setup = {
        .params = params,
        .vocab_size = vocab_size,
        .prompt = request->token_ids,
        .n_prompt = request->n_token_ids,
        .finish_ids = finish_ids,
        .n_finish_ids = list_finish_ids(model, params, finish_ids),
        .seed = params->seed,
        .sample_index = (uint32_t)sample_index,
    };
    di_sampler_workspace workspace;
    di_sampler_state state;
    di_require(di_sampler_workspace_init(&workspace, vocab_size, NULL));
    di_require(di_sampler_state_init(&state, &setup));
    float *logits = malloc((size_t)vocab_size * sizeof *logits);
    assert_non_null(logits);
    uint64_t history = DI_NULL_HISTORY;
    int64_t position = 0;
    for (; position < (int64_t)request->n_token_ids; position++)
        history = di_null_history(history, request->token_ids[position]);
    const int64_t context = model->config.max_position_embeddings;
    const int64_t max_len =
        params->max_tokens < 0 ? context : di_min_i64(context, position + params->max_tokens);
    *out = (di_expected){.reason = DI_FINISH_LENGTH};
    while (position < max_len && out->reason != DI_FINISH_STOP) {
        di_sample_out sampled;
        di_null_logits(history, logits, vocab_size);
        if (device->bend)
            device->bend(device->user, history, position, logits);
        di_require(di_sample(&workspace, &state, logits, position, &sampled));
        di_require(di_sampler_state_append(&state, sampled.token_id));
        di_require(di_ids_push(&out->tokens, sampled.token_id));
        if (is_finish_id(model, params, sampled.token_id))
            out->reason = DI_FINISH_STOP;
        history = di_null_history(history, sampled.token_id);
        position++;
    }
    free(logits);
    di_sampler_state_free(&state);
    di_sampler_workspace_free(&workspace);
}
