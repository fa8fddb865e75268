#include "engine/batch_maker.h"

#include <string.h>

di_status di_batch_begin(const di_kv_cache *kv, size_t n_rows, size_t n_parts, di_arena *arena,
                         di_batch_maker *out)
{
    di_batch_maker m = {.kv = kv, .arena = arena};
    DI_TRY(DI_ARENA_NEW(arena, n_rows, &m.token_ids));
    DI_TRY(DI_ARENA_NEW(arena, n_rows, &m.positions));
    DI_TRY(DI_ARENA_NEW(arena, n_rows, &m.row_seq));
    DI_TRY(DI_ARENA_NEW(arena, n_rows, &m.logit_rows));
    DI_TRY(DI_ARENA_NEW(arena, n_parts + 1, &m.cu_seqlens_q));
    DI_TRY(DI_ARENA_NEW(arena, n_parts, &m.seqs));
    for (int g = 0; g < kv->layout.n_groups; g++)
        DI_TRY(DI_ARENA_NEW(arena, n_rows, &m.slots[g]));
    m.cu_seqlens_q[0] = 0;
    m.batch = (di_batch){
        .token_ids = m.token_ids,
        .positions = m.positions,
        .row_seq = m.row_seq,
        .cu_seqlens_q = m.cu_seqlens_q,
        .logit_rows = m.logit_rows,
        .seqs = m.seqs,
    };
    for (int g = 0; g < kv->layout.n_groups; g++)
        m.batch.slots[g] = m.slots[g];
    *out = m;
    return DI_OK;
}

static void add_row(di_batch_maker *m, const di_kv_seq *kv, int64_t position, int32_t token_id,
                    bool wants_logits)
{
    const int32_t row = m->batch.n_rows++;
    m->token_ids[row] = token_id;
    m->positions[row] = (int32_t)position;
    m->row_seq[row] = m->batch.n_seqs;
    if (wants_logits)
        m->logit_rows[m->batch.n_logit_rows++] = row;
    const int n_groups = m->kv->layout.n_groups;
    for (int g = 0; g < n_groups; g++)
        m->slots[g][row] = di_kv_seq_slot(m->kv, kv, g, position);
}

static di_status copy_table(di_batch_maker *m, const di_kv_seq *kv, int group, const int32_t **out)
{
    int32_t *copy;
    DI_TRY(DI_ARENA_NEW(m->arena, (size_t)kv->n_blocks, &copy));
    memcpy(copy, kv->tables[group], (size_t)kv->n_blocks * sizeof *copy);
    *out = copy;
    return DI_OK;
}

di_status di_batch_add(di_batch_maker *maker, const di_batch_part *part)
{
    di_batch_seq *seq = &maker->seqs[maker->batch.n_seqs];
    seq->engram_ids = part->engram_ids;
    seq->window_floor = (int32_t)part->kv->window_floor;
    seq->compressor_state = part->compressor_state;
    if (part->tables)
        memcpy(seq->block_tables, part->tables, sizeof seq->block_tables);
    for (int g = 0; !part->tables && g < maker->kv->layout.n_groups; g++)
        DI_TRY(copy_table(maker, part->kv, g, &seq->block_tables[g]));
    for (int64_t i = 0; i < part->n; i++)
        add_row(maker, part->kv, part->first + i, part->token_ids ? part->token_ids[i] : -1,
                part->wants_all_logits || (part->wants_last_logits && i == part->n - 1));
    maker->cu_seqlens_q[++maker->batch.n_seqs] = maker->batch.n_rows;
    return DI_OK;
}
