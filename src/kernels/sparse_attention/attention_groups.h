/* What the x86 attention kernels share: a row's keys are decoded once a call, then groups of its
 * heads attend to them. */
#ifndef DI_KERNELS_ATTENTION_GROUPS_H
#define DI_KERNELS_ATTENTION_GROUPS_H

#include "base/checked.h"
#include "kernels/sparse_attention/sparse_attention.h"

/* Heads at once: their queries and a few keys fit the first level cache. */
enum { DI_ATTENTION_GROUP = 16 };

/* A group of heads of one row and its part of the scratch. */
typedef struct di_head_group {
    const float *keys;
    int64_t n_keys, key_stride, p_stride, dim;
    int n_heads;
    float *p, *q, *acc;
} di_head_group;

/* The parts that a level's vectors do. */
typedef struct di_attention_level {
    /* an entry's dim values as fp32 */
    void (*decode_q8)(const di_paged *p, int64_t slot, int64_t dim, float *out);
    void (*decode_q4kv)(const di_paged *p, int64_t slot, int64_t dim, float *out);
    /* the outputs of the group's heads, from `item` on */
    void (*attend)(const di_sparse_attention_args *a, int64_t item, const di_head_group *g);
} di_attention_level;

/* Floats between keys: an odd number of cache lines at usual sizes, so that a column of keys
 * spreads over the sets of a cache. */
static inline int64_t di_attention_key_stride(int64_t dim)
{
    return dim + 16;
}

/* Decodes all keys of a row to keys [n, key stride]; returns n. */
static inline int64_t di_attention_gather(const di_sparse_attention_args *a, int64_t row,
                                          di_attention_level level, float *keys)
{
    const int64_t stride = di_attention_key_stride(a->head_dim);
    const int64_t last = a->positions[row], floor = a->window_floors ? a->window_floors[row] : 0;
    int64_t n = 0;
    for (int64_t t = di_max_i64(floor, last - a->window_len + 1); t <= last; t++) {
        const int64_t slot = di_paged_slot(a->window_tables[row], a->window.block_len, t);
        level.decode_q8(&a->window, slot, a->head_dim, keys + n++ * stride);
    }
    const int32_t n_selected = a->indices ? a->counts[row] : 0;
    for (int32_t i = 0; i < n_selected; i++) {
        const int64_t slot = di_paged_slot(a->compressed_tables[row], a->compressed.block_len,
                                           a->indices[row * a->index_stride + i]);
        (a->has_q8_selected ? level.decode_q8 : level.decode_q4kv)(
            &a->compressed, slot, a->head_dim, keys + n++ * stride);
    }
    return n;
}

/* Items [begin, end). */
static inline void di_attention_groups(const di_sparse_attention_args *a, int64_t begin,
                                       int64_t end, int worker, di_attention_level level)
{
    /* Wider rows of keys and fewer heads than di_sparse_attention_scratch counts: all fits. */
    const int64_t room = (a->window_len + a->index_stride + 15) / 16 * 16;
    float *keys = a->scratch + worker * a->scratch_stride;
    di_head_group g = {.keys = keys,
                       .key_stride = di_attention_key_stride(a->head_dim),
                       .p_stride = room + 16 /* tiles write whole */,
                       .dim = a->head_dim};
    g.p = keys + room * g.key_stride;
    g.q = g.p + DI_ATTENTION_GROUP * g.p_stride;
    g.acc = g.q + DI_ATTENTION_GROUP * g.dim;
    for (int64_t item = begin; item < end; item += g.n_heads) {
        const int64_t row = item / a->n_heads;
        if (item == begin || item % a->n_heads == 0)
            g.n_keys = di_attention_gather(a, row, level, keys);
        const int64_t left = di_min_i64(end, (row + 1) * a->n_heads) - item;
        g.n_heads = (int)di_min_i64(DI_ATTENTION_GROUP, left);
        level.attend(a, item, &g);
    }
}

#endif
