#include "kernels/sparse_attention/sparse_attention.h"

#include <string.h>

#include "base/checked.h"
#include "base/mathf.h"
#include "base/sum.h"
#include "kernels/all.h"

static void decode_q8(const di_paged *p, int64_t slot, int64_t dim, float *out)
{
    const uint8_t *codes = di_paged_codes(p, slot), *scales = di_paged_scales(p, slot);
    for (int64_t i = 0; i < dim; i++)
        out[i] = di_e4m3_to_f32[codes[i]] * di_e8m0_to_f32(scales[i / 32]);
}

static void decode_q4kv(const di_paged *p, int64_t slot, int64_t dim, float *out)
{
    const uint8_t *codes = di_paged_codes(p, slot), *scales = di_paged_scales(p, slot);
    for (int64_t i = 0; i < dim; i += 2) {
        const float scale = di_e4m3_to_f32[scales[i / 16]];
        out[i] = di_round_bf16(di_e2m1_to_f32[codes[i / 2] & 15] * scale);
        out[i + 1] = di_round_bf16(di_e2m1_to_f32[codes[i / 2] >> 4] * scale);
    }
}

/* Decodes all keys of a row to keys [n, head_dim]; returns n. */
static int64_t gather_keys(const di_sparse_attention_args *a, int64_t row, float *keys)
{
    const int64_t last = a->positions[row];
    int64_t n = 0;
    const int64_t floor = a->window_floors ? a->window_floors[row] : 0;
    for (int64_t t = di_max_i64(floor, last - a->window_len + 1); t <= last; t++) {
        const int64_t slot = di_paged_slot(a->window_tables[row], a->window.block_len, t);
        decode_q8(&a->window, slot, a->head_dim, keys + n++ * a->head_dim);
    }
    if (!a->indices)
        return n;
    for (int32_t i = 0; i < a->counts[row]; i++) {
        const int64_t slot = di_paged_slot(a->compressed_tables[row], a->compressed.block_len,
                                           a->indices[row * a->index_stride + i]);
        (a->has_q8_selected ? decode_q8 : decode_q4kv)(&a->compressed, slot, a->head_dim,
                                                       keys + n++ * a->head_dim);
    }
    return n;
}

static void attend(const di_sparse_attention_args *a, int64_t item, const float *keys, int64_t n,
                   float *p)
{
    const int64_t dim = a->head_dim;
    const di_bf16 *q = a->q + item * dim;
    float largest = -1e30f;
    for (int64_t i = 0; i < n; i++) {
        p[i] = di_dot_f32_bf16(keys + i * dim, q, dim) * a->scale;
        largest = p[i] > largest || p[i] != p[i] ? p[i] : largest;
    }
    float lanes[DI_LANES] = {0};
    for (int64_t i = 0; i < n; i++) {
        p[i] = di_expf(p[i] - largest);
        lanes[i % DI_LANES] += p[i];
    }
    const float sum = di_lanes_total(lanes) + di_expf(a->sink[item % a->n_heads] - largest);
    enum { TILE = 64 };
    for (int64_t c0 = 0; c0 < dim; c0 += TILE) {
        float acc[TILE] = {0};
        const int64_t width = di_min_i64(TILE, dim - c0);
        for (int64_t i = 0; i < n; i++)
            for (int64_t c = 0; c < width; c++)
                acc[c] = __builtin_fmaf(p[i], keys[i * dim + c0 + c], acc[c]);
        for (int64_t c = 0; c < width; c++)
            a->out[item * dim + c0 + c] = di_f32_to_bf16(acc[c] / sum);
    }
}

void di_sparse_attention_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_sparse_attention_args *a = args;
    float *keys = a->scratch + worker * a->scratch_stride;
    float *p = keys + (a->window_len + a->index_stride) * a->head_dim;
    int64_t n = 0;
    for (int64_t item = begin; item < end; item++) {
        if (item == begin || item % a->n_heads == 0)
            n = gather_keys(a, item / a->n_heads, keys);
        attend(a, item, keys, n, p);
    }
}
