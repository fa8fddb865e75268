#include "engine/runner.h"

#include <string.h>

#include "base/checked.h"
#include "engine/memplan.h"

static di_status init_kv(di_runner *r)
{
    di_kv_layout layout;
    di_kv_layout_init(&r->model->config, &layout);
    int64_t n_blocks[DI_MAX_KV_GROUPS] = {0};
    for (int g = 0; g < layout.n_groups; g++)
        n_blocks[g] = di_kv_blocks_for(&layout, &r->model->config, g, r->max_context_len,
                                       r->options.max_step_tokens);
    return di_kv_cache_init(&r->model->config, n_blocks, &r->kv);
}

di_status di_runner_init(const di_model *model, const di_options *options, di_runner *out)
{
    di_runner r = {.model = model, .step = {.chunk_bytes = 1024 * 1024}};
    di_kernel_mask mask;
    DI_TRY(di_options_resolve(options, &r.options));
    DI_TRY(di_kernel_mask_parse(r.options.isa, r.options.kernels, &mask));
    di_plan_init(&mask, &r.plan);
    DI_TRY(di_memplan_max_context(&model->config, &r.options, &r.max_context_len));
    DI_TRY(di_memplan_check(&model->config, &r.options));
    DI_TRY(di_pool_create(r.options.n_threads, &r.pool));
    const di_status status = init_kv(&r);
    if (status != DI_OK) {
        di_pool_destroy(r.pool);
        return status;
    }
    *out = r;
    return DI_OK;
}

void di_runner_free(di_runner *runner)
{
    di_pool_destroy(runner->pool);
    di_kv_cache_free(&runner->kv);
    di_arena_free(&runner->step);
    *runner = (di_runner){.model = NULL};
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

di_status di_runner_seq_begin(di_runner *runner, di_runner_seq *seq)
{
    DI_TRY(di_kv_seq_init(&runner->kv, &seq->kv));
    seq->has_kv = true;
    return DI_OK;
}

void di_runner_seq_release(di_runner *runner, di_runner_seq *seq)
{
    if (seq->has_kv)
        di_kv_seq_release(&runner->kv, &seq->kv);
    seq->has_kv = false;
}

void di_runner_seq_free(di_runner *runner, di_runner_seq *seq)
{
    di_runner_seq_release(runner, seq);
    di_ids_free(&seq->tokens);
    di_ids_free(&seq->engram_ids);
}

/* The arrays of a batch while it is filled. */
typedef struct batch_arrays {
    int32_t *token_ids, *positions, *row_seq, *cu_seqlens_q, *logit_rows;
    int64_t *slots[DI_MAX_KV_GROUPS];
    di_batch_seq *seqs;
} batch_arrays;

static di_status alloc_batch(di_runner *r, size_t n_rows, size_t n_works, batch_arrays *a)
{
    DI_TRY(DI_ARENA_NEW(&r->step, n_rows, &a->token_ids));
    DI_TRY(DI_ARENA_NEW(&r->step, n_rows, &a->positions));
    DI_TRY(DI_ARENA_NEW(&r->step, n_rows, &a->row_seq));
    DI_TRY(DI_ARENA_NEW(&r->step, n_rows, &a->logit_rows));
    DI_TRY(DI_ARENA_NEW(&r->step, n_works + 1, &a->cu_seqlens_q));
    DI_TRY(DI_ARENA_NEW(&r->step, n_works, &a->seqs));
    for (int g = 0; g < r->kv.layout.n_groups; g++)
        DI_TRY(DI_ARENA_NEW(&r->step, n_rows, &a->slots[g]));
    return DI_OK;
}

static void fill_work(const di_runner *r, const di_work *work, int32_t index, int64_t first,
                      const batch_arrays *a, di_batch *batch)
{
    const di_runner_seq *seq = work->seq;
    for (int64_t i = 0; i < work->n_tokens; i++) {
        const int32_t row = batch->n_rows++;
        a->token_ids[row] = seq->tokens.data[first + i];
        a->positions[row] = (int32_t)(first + i);
        a->row_seq[row] = index;
        for (int g = 0; g < r->kv.layout.n_groups; g++)
            a->slots[g][row] = di_kv_seq_slot(&r->kv, &seq->kv, g, first + i);
        if (work->wants_all_logits || (work->wants_last_logits && i == work->n_tokens - 1))
            a->logit_rows[batch->n_logit_rows++] = row;
    }
    a->cu_seqlens_q[index + 1] = batch->n_rows;
    di_batch_seq *s = &a->seqs[index];
    *s = (di_batch_seq){.engram_ids = seq->engram_ids.data,
                        .window_floor = (int32_t)seq->kv.window_floor,
                        .compressor_state = seq->kv.compressor_state};
    for (int g = 0; g < r->kv.layout.n_groups; g++)
        s->block_tables[g] = seq->kv.tables[g];
}

static di_status make_batch(di_runner *r, const di_work *works, int32_t n_works, di_batch *out)
{
    size_t n_rows = 0;
    for (int32_t i = 0; i < n_works; i++)
        n_rows += (size_t)works[i].n_tokens;
    batch_arrays a;
    DI_TRY(alloc_batch(r, n_rows, (size_t)n_works, &a));
    di_batch batch = {.n_seqs = n_works};
    a.cu_seqlens_q[0] = 0;
    for (int32_t i = 0; i < n_works; i++) {
        di_kv_seq *kv = &works[i].seq->kv;
        const int64_t first = kv->len;
        DI_TRY(di_kv_seq_extend(&r->kv, kv, first + works[i].n_tokens));
        fill_work(r, &works[i], i, first, &a, &batch);
    }
    batch.token_ids = a.token_ids;
    batch.positions = a.positions;
    batch.row_seq = a.row_seq;
    batch.cu_seqlens_q = a.cu_seqlens_q;
    batch.logit_rows = a.logit_rows;
    batch.seqs = a.seqs;
    for (int g = 0; g < r->kv.layout.n_groups; g++)
        batch.slots[g] = a.slots[g];
    *out = batch;
    return DI_OK;
}

di_status di_runner_forward(di_runner *runner, const di_work *works, int32_t n_works,
                            const di_observer *observer, float **logits)
{
    DI_TRY(di_weights_check_files(runner->model->weights));
    di_arena_reset(&runner->step);
    di_batch batch;
    DI_TRY(make_batch(runner, works, n_works, &batch));
    float *rows;
    DI_TRY(DI_ARENA_NEW(&runner->step,
                        (size_t)batch.n_logit_rows * (size_t)runner->model->config.vocab_size,
                        &rows));
    di_pass pass = {
        .network = &runner->model->network,
        .plan = &runner->plan,
        .pool = runner->pool,
        .kv = &runner->kv,
        .batch = &batch,
        .arena = &runner->step,
        .observer = observer,
    };
    DI_TRY(di_forward(&pass, rows));
    *logits = rows;
    return DI_OK;
}
