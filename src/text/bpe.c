#include "text/bpe.h"

#include <string.h>

enum { SHORT_LEN = 48 }; /* up to here scanning for the lowest rank beats a heap */

/* A token in the making; the list keeps the order of the text. */
typedef struct di_bpe_symbol {
    int32_t id;
    uint32_t prev, next; /* NONE at the ends */
    uint32_t rank;       /* of joining this symbol with the next; DI_BPE_NO_RANK if it cannot */
} di_bpe_symbol;

static const uint32_t NONE = UINT32_MAX;

static size_t slot_hash(int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    return (size_t)(h * 0xbf58476d1ce4e5b9u >> 24);
}

static di_merge_slot *slot_find(const di_bpe *bpe, int32_t left, int32_t right)
{
    const size_t mask = bpe->n_slots - 1;
    for (size_t i = slot_hash(left, right) & mask;; i = (i + 1) & mask) {
        di_merge_slot *s = &bpe->slots[i];
        if (s->rank == DI_BPE_NO_RANK || (s->left == left && s->right == right))
            return s;
    }
}

di_status di_bpe_init(di_bpe *bpe, const int32_t byte_ids[256], size_t n_merges)
{
    *bpe = (di_bpe){.n_slots = 64, .max_merges = n_merges};
    memcpy(bpe->byte_ids, byte_ids, sizeof bpe->byte_ids);
    if (n_merges >= DI_BPE_NO_RANK)
        return di_fail(DI_ERR_INPUT, "found %zu merges, wanted fewer", n_merges);
    while (bpe->n_slots < n_merges * 2)
        bpe->n_slots *= 2;
    bpe->slots = malloc(bpe->n_slots * sizeof *bpe->slots);
    bpe->results = calloc(n_merges + 1, sizeof *bpe->results);
    bpe->pair_ranks = malloc(256 * 256 * sizeof *bpe->pair_ranks);
    if (!bpe->slots || !bpe->results || !bpe->pair_ranks)
        return di_fail_memory(bpe->n_slots * sizeof *bpe->slots, "the merges of a tokenizer");
    for (size_t i = 0; i < bpe->n_slots; i++)
        bpe->slots[i].rank = DI_BPE_NO_RANK;
    return DI_OK;
}

void di_bpe_add_merge(di_bpe *bpe, int32_t left, int32_t right, int32_t result, bool *existed)
{
    di_merge_slot *s = slot_find(bpe, left, right);
    *existed = s->rank != DI_BPE_NO_RANK;
    if (*existed || bpe->n_merges == bpe->max_merges)
        return;
    bpe->results[bpe->n_merges] = result;
    *s = (di_merge_slot){.left = left, .right = right, .rank = (uint32_t)bpe->n_merges++};
}

void di_bpe_seal(di_bpe *bpe)
{
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++)
            bpe->pair_ranks[a * 256 + b] = slot_find(bpe, bpe->byte_ids[a], bpe->byte_ids[b])->rank;
}

void di_bpe_free(di_bpe *bpe)
{
    free(bpe->pair_ranks);
    free(bpe->slots);
    free(bpe->results);
    *bpe = (di_bpe){0};
}

void di_bpe_scratch_free(di_bpe_scratch *scratch)
{
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (di_bpe_scratch){0};
}

static uint32_t pair_rank(const di_bpe *bpe, di_bpe_scratch *scratch, int32_t left, int32_t right)
{
    scratch->n_lookups++;
    return slot_find(bpe, left, right)->rank;
}

/* ranks[i] belongs to the pair (i, i + 1). */
static di_status encode_short(const di_bpe *bpe, di_bpe_scratch *scratch, const char *bytes,
                              size_t len, di_ids *out)
{
    int32_t ids[SHORT_LEN];
    uint32_t ranks[SHORT_LEN];
    const unsigned char *b = (const unsigned char *)bytes;
    for (size_t i = 0; i < len; i++) {
        ids[i] = bpe->byte_ids[b[i]];
        ranks[i] = i + 1 < len ? bpe->pair_ranks[b[i] * 256 + b[i + 1]] : DI_BPE_NO_RANK;
    }
    scratch->n_lookups += len;
    size_t n = len;
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best])
                best = i;
        scratch->n_moves += n;
        if (ranks[best] == DI_BPE_NO_RANK)
            break;
        ids[best] = bpe->results[ranks[best]];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            ids[i] = ids[i + 1];
            ranks[i] = ranks[i + 1];
        }
        ranks[best] =
            best + 1 < n ? pair_rank(bpe, scratch, ids[best], ids[best + 1]) : DI_BPE_NO_RANK;
        if (best > 0)
            ranks[best - 1] = pair_rank(bpe, scratch, ids[best - 1], ids[best]);
    }
    for (size_t i = 0; i < n; i++)
        DI_TRY(di_ids_push(out, ids[i]));
    return DI_OK;
}

/* Min-heap of rank << 32 | position: the lowest rank first, the leftmost among equals. */
typedef struct di_merge_heap {
    uint64_t *data;
    size_t len;
    uint64_t *n_moves;
} di_merge_heap;

static void heap_sift_down(di_merge_heap *heap, size_t i)
{
    const uint64_t item = heap->data[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= heap->len)
            break;
        if (child + 1 < heap->len && heap->data[child + 1] < heap->data[child])
            child++;
        if (heap->data[child] >= item)
            break;
        heap->data[i] = heap->data[child];
        i = child;
        ++*heap->n_moves;
    }
    heap->data[i] = item;
}

static void heap_push(di_merge_heap *heap, uint64_t item)
{
    size_t i = heap->len++;
    while (i > 0 && heap->data[(i - 1) / 2] > item) {
        heap->data[i] = heap->data[(i - 1) / 2];
        i = (i - 1) / 2;
        ++*heap->n_moves;
    }
    heap->data[i] = item;
}

static uint64_t heap_pop(di_merge_heap *heap)
{
    const uint64_t top = heap->data[0];
    heap->data[0] = heap->data[--heap->len];
    if (heap->len)
        heap_sift_down(heap, 0);
    return top;
}

static uint64_t heap_item(uint32_t rank, uint32_t position)
{
    return (uint64_t)rank << 32 | position;
}

/* The rank of the pair that starts at `position` changed. */
static void update_pair(const di_bpe *bpe, di_bpe_scratch *scratch, di_merge_heap *heap,
                        uint32_t position)
{
    di_bpe_symbol *s = &scratch->symbols[position];
    s->rank = s->next == NONE ? DI_BPE_NO_RANK
                              : pair_rank(bpe, scratch, s->id, scratch->symbols[s->next].id);
    if (s->rank != DI_BPE_NO_RANK)
        heap_push(heap, heap_item(s->rank, position));
}

static void start_symbols(const di_bpe *bpe, di_bpe_scratch *scratch, di_merge_heap *heap,
                          const unsigned char *bytes, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++) {
        di_bpe_symbol *s = &scratch->symbols[i];
        *s = (di_bpe_symbol){.id = bpe->byte_ids[bytes[i]],
                             .prev = i ? i - 1 : NONE,
                             .next = i + 1 < len ? i + 1 : NONE,
                             .rank = DI_BPE_NO_RANK};
        if (i + 1 < len)
            s->rank = bpe->pair_ranks[bytes[i] * 256 + bytes[i + 1]];
        if (s->rank != DI_BPE_NO_RANK)
            heap->data[heap->len++] = heap_item(s->rank, i);
    }
    scratch->n_lookups += len;
    for (size_t i = heap->len / 2; i-- > 0;)
        heap_sift_down(heap, i);
}

/* A heap entry is out of date when its pair has another rank by now; a symbol that was joined into
 * the one before it has none. Each join adds at most two entries, so the heap stays below 3 len. */
static di_status encode_long(const di_bpe *bpe, di_bpe_scratch *scratch, const char *bytes,
                             uint32_t len, di_ids *out)
{
    DI_TRY(DI_GROW(&scratch->symbols, &scratch->symbols_cap, len));
    DI_TRY(DI_GROW(&scratch->heap, &scratch->heap_cap, (size_t)len * 3));
    di_merge_heap heap = {.data = scratch->heap, .n_moves = &scratch->n_moves};
    di_bpe_symbol *symbols = scratch->symbols;
    start_symbols(bpe, scratch, &heap, (const unsigned char *)bytes, len);
    while (heap.len) {
        const uint64_t top = heap_pop(&heap);
        const uint32_t position = (uint32_t)top;
        di_bpe_symbol *s = &symbols[position];
        if (s->rank != top >> 32)
            continue;
        di_bpe_symbol *joined = &symbols[s->next];
        s->id = bpe->results[s->rank];
        s->next = joined->next;
        joined->rank = DI_BPE_NO_RANK;
        if (s->next != NONE)
            symbols[s->next].prev = position;
        update_pair(bpe, scratch, &heap, position);
        if (s->prev != NONE)
            update_pair(bpe, scratch, &heap, s->prev);
    }
    for (uint32_t i = 0; i != NONE; i = symbols[i].next)
        DI_TRY(di_ids_push(out, symbols[i].id));
    return DI_OK;
}

di_status di_bpe_encode(const di_bpe *bpe, di_bpe_scratch *scratch, const char *bytes, size_t len,
                        di_ids *out)
{
    if (len == 0)
        return DI_OK;
    if (len <= SHORT_LEN)
        return encode_short(bpe, scratch, bytes, len, out);
    if (len >= UINT32_MAX)
        return di_fail(DI_ERR_UNSUPPORTED, "found a word of %zu bytes, wanted less than 4 GiB",
                       len);
    return encode_long(bpe, scratch, bytes, (uint32_t)len, out);
}
