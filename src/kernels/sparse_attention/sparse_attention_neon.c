/* Sparse attention with NEON. A worker decodes a row's keys once to fp32 in its scratch; scores are
 * computed for tiles of 2 heads by 2 keys, outputs for tiles of 2 heads by 32 channels. */
#include "kernels/sparse_attention/sparse_attention.h"

#include "base/checked.h"
#include "base/mathf.h"
#include "base/sum.h"
#include "kernels/all.h"
#include "kernels/neon.h"

enum { TILE_HEADS = 2, TILE_KEYS = 2, TILE_VECTORS = 8 };

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* One worker's scratch for one row. */
typedef struct work {
    float *keys; /* [n, dim] */
    float *q;    /* [heads, dim] */
    float *p;    /* [heads, p_stride]: scores, then probabilities */
    int64_t n, p_stride, dim;
} work;

static void decode_q8(const di_paged *p, int64_t slot, int64_t dim, float *out)
{
    const uint8_t *codes = di_paged_codes(p, slot), *scales = di_paged_scales(p, slot);
    for (int64_t i = 0; i < dim; i += 16)
        di_store_f32_neon(out + i, di_decode_e4m3_neon(codes + i, scales[i / 32]));
}

static void decode_q4kv(const di_paged *p, int64_t slot, int64_t dim, float *out)
{
    const uint8_t *codes = di_paged_codes(p, slot), *scales = di_paged_scales(p, slot);
    /* a product of 1 and 3 significant bits is exact in bf16: nothing to round */
    for (int64_t i = 0; i < dim; i += 16)
        di_store_f32_neon(out + i, di_scale_neon(di_decode_e2m1_neon(codes + i / 2),
                                                 di_e4m3_to_f32[scales[i / 16]]));
}

/* The reference's gather_keys. */
static int64_t gather_keys(const di_sparse_attention_args *a, int64_t row, float *keys)
{
    const int64_t last = a->positions[row];
    const int64_t floor = a->window_floors ? a->window_floors[row] : 0;
    int64_t n = 0;
    for (int64_t t = di_max_i64(floor, last - a->window_len + 1); t <= last; t++) {
        const int64_t slot = di_paged_slot(a->window_tables[row], a->window.block_len, t);
        decode_q8(&a->window, slot, a->head_dim, keys + n++ * a->head_dim);
    }
    for (int32_t i = 0; a->indices && i < a->counts[row]; i++) {
        const int64_t slot = di_paged_slot(a->compressed_tables[row], a->compressed.block_len,
                                           a->indices[row * a->index_stride + i]);
        (a->has_q8_selected ? decode_q8 : decode_q4kv)(&a->compressed, slot, a->head_dim,
                                                       keys + n++ * a->head_dim);
    }
    return n;
}

ALWAYS_INLINE void score_tile(const work *w, int heads, int n_keys, int64_t head, int64_t key,
                              float scale)
{
    const float *q = w->q + head * w->dim, *k = w->keys + key * w->dim;
    di_lanes_neon sum[TILE_HEADS][TILE_KEYS];
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < n_keys; j++)
            sum[h][j] = di_lanes_zero_neon();
    for (int64_t i = 0; i < w->dim; i += 16) {
        for (int j = 0; j < n_keys; j++) {
            const di_lanes_neon y = di_load_f32_neon(k + j * w->dim + i);
            for (int h = 0; h < heads; h++)
                sum[h][j] = di_fma_neon(sum[h][j], y, di_load_f32_neon(q + h * w->dim + i));
        }
    }
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < n_keys; j++)
            w->p[(head + h) * w->p_stride + key + j] = di_total_neon(sum[h][j]) * scale;
}

static void scores(const work *w, int64_t heads, float scale)
{
    int64_t key = 0;
    for (; key + TILE_KEYS <= w->n; key += TILE_KEYS) {
        int64_t head = 0;
        for (; head + TILE_HEADS <= heads; head += TILE_HEADS)
            score_tile(w, TILE_HEADS, TILE_KEYS, head, key, scale);
        for (; head < heads; head++)
            score_tile(w, 1, TILE_KEYS, head, key, scale);
    }
    for (; key < w->n; key++)
        for (int64_t head = 0; head < heads; head++)
            score_tile(w, 1, 1, head, key, scale);
}

/* Scores of a head to e^(score - largest); returns the denominator. */
static float exponentials(float *p, int64_t n, float sink)
{
    float largest = -1e30f, lanes[DI_LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        largest = p[i] > largest || p[i] != p[i] ? p[i] : largest;
    for (int64_t i = 0; i < n; i++) {
        p[i] = di_expf(p[i] - largest);
        lanes[i % DI_LANES] += p[i];
    }
    return di_lanes_total(lanes) + di_expf(sink - largest);
}

ALWAYS_INLINE void output_tile(const work *w, int heads, int64_t head, int64_t c0,
                               const float *sums, di_bf16 *out)
{
    float32x4_t acc[TILE_HEADS][TILE_VECTORS];
    for (int h = 0; h < heads; h++)
        for (int v = 0; v < TILE_VECTORS; v++)
            acc[h][v] = vdupq_n_f32(0.0f);
    const float *keys = w->keys + c0, *p = w->p + head * w->p_stride;
    for (int64_t i = 0; i < w->n; i++, keys += w->dim)
        for (int v = 0; v < TILE_VECTORS; v++) {
            const float32x4_t y = vld1q_f32(keys + 4 * v);
            for (int h = 0; h < heads; h++)
                acc[h][v] = vfmaq_n_f32(acc[h][v], y, p[h * w->p_stride + i]);
        }
    for (int h = 0; h < heads; h++)
        for (int v = 0; v < TILE_VECTORS; v++) {
            float four[4];
            vst1q_f32(four, vdivq_f32(acc[h][v], vdupq_n_f32(sums[head + h])));
            for (int c = 0; c < 4; c++)
                out[(head + h) * w->dim + c0 + 4 * v + c] = di_f32_to_bf16(four[c]);
        }
}

/* Heads [first, first + heads) of a row, whose keys are decoded. */
static void attend(const di_sparse_attention_args *a, const work *w, int64_t row, int64_t first,
                   int64_t heads)
{
    float sums[DI_ATTENTION_HEADS];
    const int64_t at = (row * a->n_heads + first) * w->dim;
    for (int64_t i = 0; i < heads * w->dim; i += 16)
        di_store_f32_neon(w->q + i, di_load_bf16_neon(a->q + at + i));
    scores(w, heads, a->scale);
    for (int64_t h = 0; h < heads; h++)
        sums[h] = exponentials(w->p + h * w->p_stride, w->n, a->sink[first + h]);
    for (int64_t c = 0; c < w->dim; c += 4 * TILE_VECTORS) {
        int64_t head = 0;
        for (; head + TILE_HEADS <= heads; head += TILE_HEADS)
            output_tile(w, TILE_HEADS, head, c, sums, a->out + at);
        for (; head < heads; head++)
            output_tile(w, 1, head, c, sums, a->out + at);
    }
}

void di_sparse_attention_neon(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_sparse_attention_args *a = args;
    work w = {.keys = a->scratch + worker * a->scratch_stride, .dim = a->head_dim};
    const int64_t most_keys = (a->window_len + a->index_stride + 15) / 16 * 16;
    w.q = w.keys + most_keys * w.dim;
    w.p = w.q + DI_ATTENTION_HEADS * w.dim;
    w.p_stride = most_keys;
    for (int64_t item = begin; item < end;) {
        const int64_t row = item / a->n_heads, head = item % a->n_heads;
        if (item == begin || head == 0)
            w.n = gather_keys(a, row, w.keys);
        const int64_t left = di_min_i64(end - item, a->n_heads - head);
        const int64_t heads = di_min_i64(left, DI_ATTENTION_HEADS);
        attend(a, &w, row, head, heads);
        item += heads;
    }
}
