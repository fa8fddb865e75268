#include "engine/batch_maker.h"

di_status di_batch_begin(const di_kv_cache *kv, size_t n_rows, size_t n_parts, di_arena *arena,
                         di_batch_maker *out)
{
    di_batch_maker m = {.kv = kv};
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

static void add_row(di_batch_maker *m, const di_batch_part *part, int64_t i)
{
    const int32_t row = m->batch.n_rows++;
    const int64_t position = part->first + i;
    m->token_ids[row] = part->token_ids[i];
    m->positions[row] = (int32_t)position;
    m->row_seq[row] = m->batch.n_seqs;
    if (part->wants_all_logits || (part->wants_last_logits && i == part->n - 1))
        m->logit_rows[m->batch.n_logit_rows++] = row;
    const int n_groups = m->kv->layout.n_groups;
    for (int g = 0; g < n_groups; g++)
        m->slots[g][row] = di_kv_slot(m->kv, part->tables[g], g, part->write_floor, position);
}

void di_batch_add(di_batch_maker *maker, const di_batch_part *part)
{
    di_batch_seq *seq = &maker->seqs[maker->batch.n_seqs];
    seq->engram_ids = part->engram_ids;
    seq->window_floor = (int32_t)part->window_floor;
    seq->decoder_start = (int32_t)part->decoder_start;
    seq->compressor_state = part->compressor_state;
    for (int g = 0; g < maker->kv->layout.n_groups; g++)
        seq->block_tables[g] = part->tables[g];
    for (int64_t i = 0; i < part->n; i++)
        add_row(maker, part, i);
    maker->cu_seqlens_q[++maker->batch.n_seqs] = maker->batch.n_rows;
}
