/* Rows that the decoder layers do not need leave the pass (core/truncation.h): everything that is
 * kept by row moves up, and the batch the layers see becomes a shorter one. */
#include <string.h>

#include "model/internal.h"

static di_status copy_i32(di_pass *pass, const int32_t *from, int32_t n, int32_t **out)
{
    DI_TRY(DI_PASS_NEW(pass, n, out));
    if (n > 0)
        memcpy(*out, from, (size_t)n * sizeof **out);
    return DI_OK;
}

/* A batch of the pass's own, whose rows may leave. */
static di_status own_batch(di_pass *pass)
{
    const di_batch *b = pass->batch;
    di_remaining_rows *r = &pass->remaining;
    r->batch = *b;
    DI_TRY(copy_i32(pass, b->token_ids, b->n_rows, &r->token_ids));
    DI_TRY(copy_i32(pass, b->positions, b->n_rows, &r->positions));
    DI_TRY(copy_i32(pass, b->row_seq, b->n_rows, &r->row_seq));
    DI_TRY(copy_i32(pass, b->cu_seqlens_q, b->n_seqs + 1, &r->cu_seqlens_q));
    DI_TRY(copy_i32(pass, b->logit_rows, b->n_logit_rows, &r->logit_rows));
    r->batch.token_ids = r->token_ids;
    r->batch.positions = r->positions;
    r->batch.row_seq = r->row_seq;
    r->batch.cu_seqlens_q = r->cu_seqlens_q;
    r->batch.logit_rows = r->logit_rows;
    for (int g = 0; g < pass->kv->layout.n_groups; g++) {
        DI_TRY(DI_PASS_NEW(pass, b->n_rows, &r->slots[g]));
        memcpy(r->slots[g], b->slots[g], (size_t)b->n_rows * sizeof *r->slots[g]);
        r->batch.slots[g] = r->slots[g];
    }
    DI_TRY(DI_PASS_NEW(pass, b->n_rows, &r->from));
    pass->batch = &r->batch;
    return DI_OK;
}

di_status di_leave_begin(di_pass *pass)
{
    const di_truncation *t = pass->truncation;
    const di_batch *b = pass->batch;
    pass->remaining = (di_remaining_rows){.from = NULL};
    for (int32_t s = 0; t && s < b->n_seqs; s++) {
        const int64_t start = b->seqs[s].decoder_start;
        const int64_t first = di_truncation_first_row(t, start, t->n_layers - 1);
        if (b->cu_seqlens_q[s] < b->cu_seqlens_q[s + 1] && b->positions[b->cu_seqlens_q[s]] < first)
            return own_batch(pass);
    }
    return DI_OK;
}

/* Lists, in `from`, the rows at or after the layer's first key or row; returns how many. */
static int32_t list_remaining(di_pass *pass, int layer, di_row_part part)
{
    const di_truncation *t = pass->truncation;
    const di_batch *b = pass->batch;
    int32_t n = 0;
    for (int32_t s = 0; s < b->n_seqs; s++) {
        const int64_t start = b->seqs[s].decoder_start;
        const int64_t first = part == DI_ROW_KEYS ? di_truncation_first_key(t, start, layer)
                                                  : di_truncation_first_row(t, start, layer);
        for (int32_t row = b->cu_seqlens_q[s]; row < b->cu_seqlens_q[s + 1]; row++)
            if (b->positions[row] >= first)
                pass->remaining.from[n++] = row;
    }
    return n;
}

void di_compact_rows(const di_remaining_rows *r, void *data, size_t row_bytes)
{
    char *rows = data;
    for (int32_t i = 0; i < r->batch.n_rows; i++)
        if (r->from[i] != i)
            memmove(rows + (size_t)i * row_bytes, rows + (size_t)r->from[i] * row_bytes, row_bytes);
}

/* Rows whose logits are wanted are among those that remain (core/batch.h). */
static void move_batch(di_pass *pass, int32_t n)
{
    di_remaining_rows *r = &pass->remaining;
    for (int32_t i = 0, at = 0; i < r->batch.n_logit_rows; i++) {
        while (at < n - 1 && r->from[at] < r->logit_rows[i])
            at++;
        assert(at < n && r->from[at] == r->logit_rows[i]);
        r->logit_rows[i] = at;
    }
    r->batch.n_rows = n;
    di_compact_rows(r, r->token_ids, sizeof *r->token_ids);
    di_compact_rows(r, r->positions, sizeof *r->positions);
    di_compact_rows(r, r->row_seq, sizeof *r->row_seq);
    for (int g = 0; g < pass->kv->layout.n_groups; g++)
        di_compact_rows(r, r->slots[g], sizeof *r->slots[g]);
    for (int32_t s = 0, row = 0; s < r->batch.n_seqs; s++) {
        while (row < n && r->row_seq[row] <= s)
            row++;
        r->cu_seqlens_q[s + 1] = row;
    }
}

static void move_angles(const di_pass *pass, const di_rope_angles *angles)
{
    const size_t bytes = (size_t)(pass->network->config->rope_dim / 2) * sizeof *angles->cos;
    di_compact_rows(&pass->remaining, angles->cos, bytes);
    di_compact_rows(&pass->remaining, angles->sin, bytes);
}

/* What the pass keeps from one layer to the next. */
static void move_state(di_pass *pass)
{
    const di_config *c = pass->network->config;
    const di_remaining_rows *r = &pass->remaining;
    di_compact_rows(r, pass->h, (size_t)(c->hc_mult * c->hidden_size) * sizeof *pass->h);
    di_compact_rows(r, pass->pre, (size_t)c->hc_mult * sizeof *pass->pre);
    move_angles(pass, &pass->plain);
    move_angles(pass, &pass->compressed);
    for (int g = 0; g < pass->kv->layout.n_groups; g++)
        di_compact_rows(r, pass->tables[g], sizeof *pass->tables[g]);
    di_compact_rows(r, pass->window_floors, sizeof *pass->window_floors);
    di_compact_rows(r, pass->topk, (size_t)c->index_topk * sizeof *pass->topk);
    di_compact_rows(r, pass->topk_counts, sizeof *pass->topk_counts);
    for (int t = 0; pass->taps && t < c->n_dspark_targets; t++)
        di_compact_rows(r, pass->taps + t * pass->taps_stride,
                        (size_t)c->hidden_size * sizeof *pass->taps);
    if (pass->candidates)
        di_compact_rows(r, pass->candidates, (size_t)pass->candidate_stride);
}

bool di_leave(di_pass *pass, int layer, di_row_part part)
{
    if (!pass->remaining.from || layer < pass->truncation->first_layer)
        return false;
    const int32_t n = list_remaining(pass, layer, part);
    if (n == pass->batch->n_rows)
        return false;
    move_batch(pass, n);
    move_state(pass);
    return true;
}

void di_raise_floors(di_pass *pass, int layer)
{
    const di_truncation *t = pass->truncation;
    const di_batch *b = pass->batch;
    if (!t || t->mode != DI_TRUNCATION_COMPACT || layer != t->first_layer)
        return;
    for (int32_t row = 0; row < b->n_rows; row++) {
        const int32_t start = b->seqs[b->row_seq[row]].decoder_start;
        if (pass->window_floors[row] < start)
            pass->window_floors[row] = start;
    }
}
