#include "weights/expert_place.h"

typedef struct piece {
    const di_safetensors *shard;
    int64_t offset, bytes;
    int index; /* of the tensor */
} piece;

int64_t di_experts_count(const di_weights *weights)
{
    const di_config *c = &weights->config;
    return c->n_layers * c->n_routed_experts + c->n_draft_blocks * c->dspark_n_routed_experts;
}

const di_expert_weights *di_experts_get(const di_weights *weights, int64_t number)
{
    const di_config *c = &weights->config;
    const int64_t n_backbone = c->n_layers * c->n_routed_experts;
    if (number < n_backbone)
        return &weights->layers[number / c->n_routed_experts].experts[number % c->n_routed_experts];
    number -= n_backbone;
    return &weights->draft_layers[number / c->dspark_n_routed_experts]
                .experts[number % c->dspark_n_routed_experts];
}

static di_status find_piece(const di_weights *weights, const uint8_t *data, int64_t bytes,
                            piece *out)
{
    size_t n;
    const di_safetensors *shards = di_weights_shards(weights, &n);
    for (size_t i = 0; i < n; i++) {
        const di_mapping *m = &shards[i].mapping;
        const uintptr_t begin = (uintptr_t)m->data, at = (uintptr_t)data;
        if (at < begin || at - begin >= m->size)
            continue;
        out->shard = &shards[i];
        out->offset = (int64_t)(at - begin);
        out->bytes = bytes;
        return DI_OK;
    }
    return di_fail(DI_ERR_UNSUPPORTED, "found an expert that is in no shard, wanted it there");
}

static void sort_pieces(piece *pieces)
{
    for (int i = 1; i < DI_EXPERT_TENSORS; i++) {
        const piece p = pieces[i];
        int j = i;
        for (; j > 0 && (pieces[j - 1].shard > p.shard ||
                         (pieces[j - 1].shard == p.shard && pieces[j - 1].offset > p.offset));
             j--)
            pieces[j] = pieces[j - 1];
        pieces[j] = p;
    }
}

static int64_t round_down(int64_t n)
{
    return n / DI_IO_ALIGN * DI_IO_ALIGN;
}

/* Takes a piece into the last range if they share a page or touch, else opens a new one. */
static void add_piece(di_expert_place *place, const piece *p)
{
    const int64_t end = p->offset + p->bytes, widened = round_down(end + DI_IO_ALIGN - 1);
    di_expert_range *last = place->n_ranges ? &place->ranges[place->n_ranges - 1] : NULL;
    if (last && last->shard == p->shard && p->offset <= last->offset + last->bytes) {
        place->slot_bytes -= last->bytes;
        last->bytes = widened - last->offset;
        last->wanted = end - last->offset;
    } else {
        last = &place->ranges[place->n_ranges++];
        last->shard = p->shard;
        last->offset = round_down(p->offset);
        last->bytes = widened - last->offset;
        last->wanted = end - last->offset;
        last->at = place->slot_bytes;
    }
    place->slot_bytes += last->bytes;
    place->positions[p->index] = last->at + p->offset - last->offset;
}

di_status di_expert_place_find(const di_weights *weights, int64_t number, di_expert_place *out)
{
    const di_expert_weights *expert = di_experts_get(weights, number);
    const di_qweight *linears[] = {&expert->w1, &expert->w2, &expert->w3};
    piece pieces[DI_EXPERT_TENSORS];
    for (int i = 0; i < DI_EXPERT_TENSORS; i++) {
        const di_qweight *w = linears[i / 2];
        const int64_t n = w->n_out * w->n_in;
        DI_TRY(
            find_piece(weights, i % 2 ? w->scales : w->codes, i % 2 ? n / 32 : n / 2, &pieces[i]));
        pieces[i].index = i;
    }
    sort_pieces(pieces);
    *out = (di_expert_place){.n_ranges = 0};
    for (int i = 0; i < DI_EXPERT_TENSORS; i++)
        add_piece(out, &pieces[i]);
    return DI_OK;
}

void di_expert_place_view(const di_expert_place *place, const di_expert_weights *expert,
                          const unsigned char *slot, di_expert_weights *out)
{
    *out = *expert;
    di_qweight *linears[] = {&out->w1, &out->w2, &out->w3};
    for (int i = 0; i < DI_EXPERT_TENSORS; i++) {
        const uint8_t *data = slot + place->positions[i];
        if (i % 2)
            linears[i / 2]->scales = data;
        else
            linears[i / 2]->codes = data;
    }
}
