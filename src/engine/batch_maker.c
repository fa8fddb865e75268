#include "engine/batch_maker.h"

#include <string.h>

/* The arrays of a batch while it is filled. */
typedef struct batch_arrays {
    int32_t *token_ids, *positions, *row_seq, *cu_seqlens_q, *logit_rows;
    int64_t *slots[DI_MAX_KV_GROUPS];
    di_batch_seq *seqs;
} batch_arrays;

static di_status alloc_arrays(const di_kv_cache *kv, size_t n_rows, size_t n_parts, di_arena *arena,
                              batch_arrays *a)
{
    DI_TRY(DI_ARENA_NEW(arena, n_rows, &a->token_ids));
    DI_TRY(DI_ARENA_NEW(arena, n_rows, &a->positions));
    DI_TRY(DI_ARENA_NEW(arena, n_rows, &a->row_seq));
    DI_TRY(DI_ARENA_NEW(arena, n_rows, &a->logit_rows));
    DI_TRY(DI_ARENA_NEW(arena, n_parts + 1, &a->cu_seqlens_q));
    DI_TRY(DI_ARENA_NEW(arena, n_parts, &a->seqs));
    for (int g = 0; g < kv->layout.n_groups; g++)
        DI_TRY(DI_ARENA_NEW(arena, n_rows, &a->slots[g]));
    return DI_OK;
}

static void fill_rows(const di_kv_cache *kv, const di_batch_part *part, int32_t index,
                      const batch_arrays *a, di_batch *batch)
{
    for (int64_t i = 0; i < part->n; i++) {
        const int32_t row = batch->n_rows++;
        a->token_ids[row] = part->token_ids ? part->token_ids[i] : -1;
        a->positions[row] = (int32_t)(part->first + i);
        a->row_seq[row] = index;
        for (int g = 0; g < kv->layout.n_groups; g++)
            a->slots[g][row] = di_kv_seq_slot(kv, part->kv, g, part->first + i);
        if (part->wants_all_logits || (part->wants_last_logits && i == part->n - 1))
            a->logit_rows[batch->n_logit_rows++] = row;
    }
    a->cu_seqlens_q[index + 1] = batch->n_rows;
}

/* Copies the block tables to *tables, which moves on. */
static void fill_seq(const di_kv_cache *kv, const di_batch_part *part, int32_t **tables,
                     di_batch_seq *out)
{
    *out = (di_batch_seq){
        .engram_ids = part->engram_ids,
        .window_floor = (int32_t)part->kv->window_floor,
        .compressor_state = part->compressor_state,
    };
    for (int g = 0; g < kv->layout.n_groups; g++) {
        memcpy(*tables, part->kv->tables[g], (size_t)part->kv->n_blocks * sizeof **tables);
        out->block_tables[g] = *tables;
        *tables += part->kv->n_blocks;
    }
}

di_status di_batch_make(const di_kv_cache *kv, const di_batch_part *parts, int32_t n_parts,
                        di_arena *arena, di_made_batch *out)
{
    size_t n_rows = 0, n_blocks = 0;
    for (int32_t i = 0; i < n_parts; i++) {
        n_rows += (size_t)parts[i].n;
        n_blocks += (size_t)parts[i].kv->n_blocks;
    }
    batch_arrays a;
    int32_t *tables;
    DI_TRY(DI_ARENA_NEW(arena, n_blocks * (size_t)kv->layout.n_groups, &tables));
    DI_TRY(alloc_arrays(kv, n_rows, (size_t)n_parts, arena, &a));
    di_batch batch = {.n_seqs = n_parts};
    a.cu_seqlens_q[0] = 0;
    for (int32_t i = 0; i < n_parts; i++) {
        fill_rows(kv, &parts[i], i, &a, &batch);
        fill_seq(kv, &parts[i], &tables, &a.seqs[i]);
    }
    batch.token_ids = a.token_ids;
    batch.positions = a.positions;
    batch.row_seq = a.row_seq;
    batch.cu_seqlens_q = a.cu_seqlens_q;
    batch.logit_rows = a.logit_rows;
    batch.seqs = a.seqs;
    for (int g = 0; g < kv->layout.n_groups; g++)
        batch.slots[g] = a.slots[g];
    *out = (di_made_batch){batch, a.token_ids};
    return DI_OK;
}
