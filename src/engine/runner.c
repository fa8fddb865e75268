#include "engine/runner.h"

#include <stdlib.h>
#include <string.h>

#include "engine/batch_maker.h"

static di_truncation_mode truncation_mode(const char *name)
{
    return name[0] == 'c'   ? DI_TRUNCATION_COMPACT
           : name[0] == 'e' ? DI_TRUNCATION_EXACT
                            : DI_TRUNCATION_OFF;
}

/* auto drafts where there is a drafter; who asks for it is told if there is none. */
static di_status set_drafter(di_runner *r)
{
    const di_config *c = &r->model->config;
    if (di_has_drafter(c, &r->options)) {
        r->n_draft_slots = (int32_t)c->dspark_block_size;
        r->draft_begin = di_draft_begin;
        r->draft_logits = di_draft_logits;
    } else if (!strcmp(r->options.speculation, "on")) {
        return di_fail(DI_ERR_UNSUPPORTED,
                       "speculation: found on and a checkpoint without draft layers "
                       "(num_nextn_predict_layers 0), wanted auto or off");
    }
    return DI_OK;
}

di_status di_runner_init(const di_model *model, const di_options *options, di_runner *out)
{
    di_runner r = {.model = model, .scratch = {.chunk_bytes = 1024 * 1024}, .forward = di_forward};
    di_kernel_mask mask;
    DI_TRY(di_options_resolve(options, &r.options));
    DI_TRY(set_drafter(&r));
    DI_TRY(di_kernel_mask_parse(r.options.isa, r.options.kernels, &mask));
    di_plan_init(&mask, r.options.is_batch_invariant, &r.plan);
    DI_TRY(di_truncation_init(&model->config, truncation_mode(r.options.prefill_truncation),
                              r.options.prefill_keep, &r.truncation));
    DI_TRY(di_memplan_compute(&model->config, &r.options, &r.memplan));
    DI_TRY(di_team_create(&r.options, NULL, &r.team));
    di_status status = di_kv_cache_init(&model->config, di_has_drafter(&model->config, &r.options),
                                        r.memplan.kv_blocks, &r.kv);
    if (status == DI_OK && model->weights)
        status = di_weight_source_open(model->weights, r.options.weight_cache, &r.source);
    if (status == DI_OK)
        *out = r;
    else
        di_runner_free(&r);
    return status;
}

void di_runner_free(di_runner *runner)
{
    di_weight_source_close(runner->source);
    di_team_free(&runner->team);
    di_kv_cache_free(&runner->kv);
    di_arena_free(&runner->scratch);
    *runner = (di_runner){.model = NULL};
}

size_t di_compressor_state_len(const di_runner *runner)
{
    const di_kv_cache *kv = &runner->kv;
    return (size_t)(kv->layout.n_compressors * DI_PENDING_PAIRS * 2 * kv->head_dim);
}

di_status di_compressor_state_new(const di_runner *runner, float **out)
{
    const size_t n = di_compressor_state_len(runner);
    *out = calloc(n ? n : 1, sizeof **out);
    return *out ? DI_OK : di_fail_memory(n * sizeof **out, "a sequence's compressor state");
}

di_status di_ids_check(const int32_t *ids, size_t n_ids, int64_t vocab_size)
{
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] < 0 || ids[i] >= vocab_size)
            return di_fail(DI_ERR_ARGUMENT, "token_ids[%zu]: found %d, wanted 0 to %lld", i, ids[i],
                           (long long)vocab_size - 1);
    return DI_OK;
}

di_status di_runner_seq_append(const di_runner *runner, di_runner_seq *seq, const int32_t *ids,
                               size_t n_ids)
{
    const int32_t *map = runner->model->token_map;
    for (size_t i = 0; i < n_ids; i++) {
        DI_TRY(di_ids_push(&seq->tokens, ids[i]));
        if (map)
            DI_TRY(di_ids_push(&seq->engram_ids, map[ids[i]]));
    }
    return DI_OK;
}

void di_runner_seq_free(di_runner *runner, di_runner_seq *seq)
{
    di_kv_seq_release(&runner->kv, &seq->kv);
    free(seq->compressor_state);
    di_ids_free(&seq->tokens);
    di_ids_free(&seq->engram_ids);
    seq->compressor_state = NULL;
}

di_status di_runner_execute(di_runner *runner, const di_batch *batch, const di_observer *observer,
                            float **logits)
{
    DI_TRY(di_weights_check_files(runner->model->weights));
    di_arena_reset(&runner->scratch);
    float *rows;
    DI_TRY(DI_ARENA_NEW(&runner->scratch,
                        (size_t)batch->n_logit_rows * (size_t)runner->model->config.vocab_size,
                        &rows));
    di_pass pass = {
        .network = &runner->model->network,
        .plan = &runner->plan,
        .pool = runner->team.pool,
        .kv = &runner->kv,
        .batch = batch,
        .arena = &runner->scratch,
        .observer = observer,
        .source = runner->source,
        .wants_taps = runner->kv.layout.n_draft_layers > 0 && !runner->skips_taps,
        .truncation = runner->truncation.mode == DI_TRUNCATION_OFF ? NULL : &runner->truncation,
    };
    DI_TRY(runner->forward(&pass, rows));
    runner->n_layer_rows = pass.n_layer_rows;
    *logits = rows;
    return DI_OK;
}

void di_runner_draft_pass(di_runner *runner, di_pass *out)
{
    di_arena_reset(&runner->scratch);
    *out = (di_pass){
        .network = &runner->model->network,
        .plan = &runner->plan,
        .pool = runner->team.pool,
        .kv = &runner->kv,
        .arena = &runner->scratch,
        .source = runner->source,
    };
}

/* So that either all sequences get their places or none. */
static di_status reserve(di_runner *runner, const di_work *works, int32_t n_works, di_arena *arena)
{
    di_kv_seq **seqs;
    int64_t *new_lens;
    DI_TRY(DI_ARENA_NEW(arena, (size_t)n_works, &seqs));
    DI_TRY(DI_ARENA_NEW(arena, (size_t)n_works, &new_lens));
    for (int32_t i = 0; i < n_works; i++) {
        di_runner_seq *seq = works[i].seq;
        if (!seq->compressor_state)
            DI_TRY(di_compressor_state_new(runner, &seq->compressor_state));
        seqs[i] = &seq->kv;
        new_lens[i] = seq->kv.len + works[i].n_tokens;
    }
    return di_kv_cache_reserve(&runner->kv, seqs, new_lens, n_works);
}

static di_status add_work(di_runner *runner, const di_work *work, di_batch_maker *maker)
{
    di_runner_seq *seq = work->seq;
    const int64_t first = seq->kv.len;
    DI_TRY(di_kv_seq_extend(&runner->kv, &seq->kv, first + work->n_tokens));
    const di_batch_part part = {
        .tables = seq->kv.tables,
        .write_floor = seq->kv.write_floor,
        .window_floor = seq->kv.window_floor,
        .decoder_start = seq->kv.decoder_start,
        .first = first,
        .n = work->n_tokens,
        .token_ids = seq->tokens.data + first,
        .engram_ids = seq->engram_ids.data,
        .compressor_state = seq->compressor_state,
        .wants_all_logits = work->wants_all_logits,
        .wants_last_logits = work->wants_last_logits,
    };
    di_batch_add(maker, &part);
    return DI_OK;
}

static di_status forward(di_runner *runner, const di_work *works, int32_t n_works,
                         const di_observer *observer, di_arena *arena, float **logits)
{
    size_t n_rows = 0;
    for (int32_t i = 0; i < n_works; i++)
        n_rows += (size_t)works[i].n_tokens;
    di_batch_maker maker;
    DI_TRY(reserve(runner, works, n_works, arena));
    DI_TRY(di_batch_begin(&runner->kv, n_rows, (size_t)n_works, arena, &maker));
    for (int32_t i = 0; i < n_works; i++)
        DI_TRY(add_work(runner, &works[i], &maker));
    return di_runner_execute(runner, &maker.batch, observer, logits);
}

di_status di_runner_forward(di_runner *runner, const di_work *works, int32_t n_works,
                            const di_observer *observer, float **logits)
{
    di_arena arena = {.chunk_bytes = 0};
    const di_status status = forward(runner, works, n_works, observer, &arena, logits);
    di_arena_free(&arena);
    return status;
}
