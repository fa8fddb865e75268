#include "kernels/topk/topk.h"

#include <stdbool.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/all.h"

/* bf16 bits to an integer that sorts like the value; NaN lowest. */
static uint32_t sort_key(di_bf16 x)
{
    if ((x & 0x7fff) > 0x7f80)
        return 0;
    if ((x & 0x7fff) == 0)
        return 0x8000;
    return x & 0x8000 ? (uint16_t)~x : x | 0x8000u;
}

/* Finds the k-th largest of counted 16-bit keys in two passes over 256-bin histograms: *threshold,
 * and how many keys equal to it belong to the k (the lowest indices first). */
typedef struct key_source {
    uint32_t (*key)(const void *context, int64_t i); /* UINT32_MAX = not eligible */
    const void *context;
    int64_t n;
} key_source;

typedef struct cut {
    uint32_t threshold; /* keys above it are in */
    int64_t n_equal;    /* of the keys equal to it, the first n_equal are in */
} cut;

static cut find_cut(const key_source *s, int64_t k)
{
    int64_t high[256] = {0}, low[256] = {0};
    for (int64_t i = 0; i < s->n; i++) {
        const uint32_t key = s->key(s->context, i);
        if (key != UINT32_MAX)
            high[key >> 8]++;
    }
    int bin = 255;
    while (bin > 0 && high[bin] < k)
        k -= high[bin--];
    if (high[bin] < k) /* fewer than k in all: everything is in */
        return (cut){0, INT64_MAX};
    for (int64_t i = 0; i < s->n; i++) {
        const uint32_t key = s->key(s->context, i);
        if (key != UINT32_MAX && (int)(key >> 8) == bin)
            low[key & 255]++;
    }
    int rest = 255;
    while (low[rest] < k)
        k -= low[rest--];
    return (cut){(uint32_t)bin << 8 | (uint32_t)rest, k};
}

typedef struct entry_context {
    const di_bf16 *scores;
    const uint8_t *candidates;
    int64_t block_size;
} entry_context;

static uint32_t entry_key(const void *context, int64_t i)
{
    const entry_context *c = context;
    if (c->candidates && !c->candidates[i / c->block_size])
        return UINT32_MAX;
    return sort_key(c->scores[i]);
}

void di_topk_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_topk_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        const entry_context context = {
            .scores = a->scores + row * a->score_stride,
            .candidates = a->candidates ? a->candidates + row * a->candidate_stride : NULL,
            .block_size = a->block_size,
        };
        const key_source source = {entry_key, &context, a->n_visible[row]};
        cut c = find_cut(&source, a->k);
        int32_t *out = a->indices + row * a->k;
        int32_t n = 0;
        for (int64_t i = 0; i < source.n; i++) {
            const uint32_t key = entry_key(&context, i);
            if (key == UINT32_MAX || key < c.threshold)
                continue;
            if (key > c.threshold || c.n_equal-- > 0)
                out[n++] = (int32_t)i;
        }
        a->counts[row] = n;
    }
}

typedef struct block_context {
    const di_bf16 *scores;
    int64_t n_visible, block_size;
} block_context;

static uint32_t block_key(const void *context, int64_t block)
{
    const block_context *c = context;
    const int64_t first = block * c->block_size;
    const int64_t last = di_min_i64(first + c->block_size, c->n_visible);
    if (last == c->n_visible)
        return 0xffff; /* above every number: the newest block is always in */
    uint32_t largest = 0;
    for (int64_t i = first; i < last; i++) {
        const uint32_t key = sort_key(c->scores[i]);
        largest = key > largest ? key : largest;
    }
    return largest;
}

void di_candidate_blocks_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_candidate_blocks_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        const block_context context = {a->scores + row * a->score_stride, a->n_visible[row],
                                       a->block_size};
        const key_source source = {block_key, &context,
                                   di_ceil_div(a->n_visible[row], a->block_size)};
        cut c = find_cut(&source, a->k);
        uint8_t *out = a->candidates + row * a->candidate_stride;
        for (int64_t block = 0; block < source.n; block++) {
            const uint32_t key = block_key(&context, block);
            out[block] = key > c.threshold || (key == c.threshold && c.n_equal-- > 0);
        }
    }
}
