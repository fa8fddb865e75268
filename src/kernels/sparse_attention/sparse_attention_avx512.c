/* Sparse attention with AVX-512. A worker decodes a row's keys once to fp32 in its scratch; scores
 * are computed for tiles of 4 heads by 6 keys, outputs for tiles of 4 heads by 64 channels. */
#include "kernels/sparse_attention/sparse_attention.h"

#include "base/checked.h"
#include "base/mathf.h"
#include "kernels/all.h"
#include "kernels/avx512.h"

enum { TILE_HEADS = 4, TILE_KEYS = 6, TILE_VECTORS = 4 };

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* One worker's scratch for one row. */
typedef struct work {
    float *keys; /* [n, dim] */
    float *q;    /* [heads, dim] */
    float *p;    /* [heads, p_stride]: scores, then probabilities */
    int64_t n, p_stride, dim;
} work;

/* ------------------------------------------------------------------- keys */

static void decode_q8(const di_paged *p, int64_t slot, int64_t dim, float *out)
{
    const uint8_t *codes = di_paged_codes(p, slot), *scales = di_paged_scales(p, slot);
    for (int64_t i = 0; i < dim; i += 32) {
        const __m512 scale = _mm512_set1_ps(di_e8m0_to_f32(scales[i / 32]));
        for (int j = 0; j < 32; j += 16) {
            const __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(codes + i + j));
            _mm512_storeu_ps(out + i + j, _mm512_mul_ps(di_e4m3_512(c), scale));
        }
    }
}

static void decode_q4kv(const di_paged *p, int64_t slot, int64_t dim, float *out)
{
    const uint8_t *codes = di_paged_codes(p, slot), *scales = di_paged_scales(p, slot);
    /* a product of 1 and 3 significant bits is exact in bf16: nothing to round */
    for (int64_t i = 0; i < dim; i += 16) {
        const __m512 scale = _mm512_set1_ps(di_e4m3_to_f32[scales[i / 16]]);
        _mm512_storeu_ps(out + i, _mm512_mul_ps(di_e2m1_512(codes + i / 2), scale));
    }
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
        decode_q4kv(&a->compressed, slot, a->head_dim, keys + n++ * a->head_dim);
    }
    return n;
}

/* ------------------------------------------------------------------- scores */

/* p of `heads` heads and `n_keys` keys from (head, key) on. */
ALWAYS_INLINE void score_tile(const work *w, int heads, int n_keys, int64_t head, int64_t key,
                              float scale)
{
    const int64_t dim = w->dim;
    const float *q = w->q + head * dim, *k = w->keys + key * dim;
    __m512 sum[TILE_HEADS][TILE_KEYS];
    for (int h = 0; h < TILE_HEADS; h++)
        for (int j = 0; j < TILE_KEYS; j++)
            sum[h][j] = _mm512_setzero_ps();
    for (int64_t i = 0; i < dim; i += 16) {
        __m512 x[TILE_HEADS];
        for (int h = 0; h < heads; h++)
            x[h] = _mm512_loadu_ps(q + h * dim + i);
        for (int j = 0; j < n_keys; j++) {
            const __m512 y = _mm512_loadu_ps(k + j * dim + i);
            for (int h = 0; h < heads; h++)
                sum[h][j] = _mm512_fmadd_ps(y, x[h], sum[h][j]);
        }
    }
    for (int j = 0; j < n_keys; j++) {
        float out[TILE_HEADS];
        di_split4(di_total4_512(sum[0][j], sum[1][j], sum[2][j], sum[3][j]), out);
        for (int h = 0; h < heads; h++)
            w->p[(head + h) * w->p_stride + key + j] = out[h] * scale;
    }
}

ALWAYS_INLINE void score_heads(const work *w, int heads, int64_t head, int64_t key, int n_keys,
                               float scale)
{
    switch (n_keys) {
    case 1:
        score_tile(w, heads, 1, head, key, scale);
        break;
    case 2:
        score_tile(w, heads, 2, head, key, scale);
        break;
    case 3:
        score_tile(w, heads, 3, head, key, scale);
        break;
    case 4:
        score_tile(w, heads, 4, head, key, scale);
        break;
    case 5:
        score_tile(w, heads, 5, head, key, scale);
        break;
    default:
        score_tile(w, heads, TILE_KEYS, head, key, scale);
        break;
    }
}

/* Keys outermost: a tile's keys stay in the first level cache for all heads. */
static void scores(const work *w, int64_t heads, float scale)
{
    for (int64_t key = 0; key < w->n; key += TILE_KEYS) {
        const int n_keys = (int)di_min_i64(TILE_KEYS, w->n - key);
        int64_t head = 0;
        for (; head + TILE_HEADS <= heads; head += TILE_HEADS)
            score_heads(w, TILE_HEADS, head, key, n_keys, scale);
        for (; head < heads; head++)
            score_heads(w, 1, head, key, n_keys, scale);
    }
}

/* Scores of a head to e^(score - largest); returns the denominator. Beyond n the row is set to 0.
 */
static float exponentials(float *p, int64_t n, float sink)
{
    __m512 most = _mm512_set1_ps(-1e30f);
    __mmask16 is_nan = 0;
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 mask = di_mask16(n - i);
        const __m512 x = _mm512_mask_loadu_ps(most, mask, p + i);
        most = _mm512_max_ps(most, x);
        is_nan |= _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    }
    const float largest = is_nan ? __builtin_nanf("") : _mm512_reduce_max_ps(most);
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 mask = di_mask16(n - i);
        const __m512 x = _mm512_maskz_loadu_ps(mask, p + i);
        const __m512 e = di_exp512(_mm512_sub_ps(x, _mm512_set1_ps(largest)));
        sum = _mm512_mask_add_ps(sum, mask, sum, e);
        _mm512_storeu_ps(p + i, _mm512_maskz_mov_ps(mask, e));
    }
    return di_total512(sum) + di_expf(sink - largest);
}

/* ------------------------------------------------------------------- outputs */

/* Channels [c0, c0 + 16 vectors) of `heads` heads. */
ALWAYS_INLINE void output_tile(const work *w, int heads, int vectors, int64_t head, int64_t c0,
                               const float *sums, di_bf16 *out)
{
    __m512 acc[TILE_HEADS][TILE_VECTORS];
    for (int h = 0; h < TILE_HEADS; h++)
        for (int v = 0; v < TILE_VECTORS; v++)
            acc[h][v] = _mm512_setzero_ps();
    const float *keys = w->keys + c0, *p = w->p + head * w->p_stride;
    for (int64_t i = 0; i < w->n; i++, keys += w->dim) {
        __m512 y[TILE_VECTORS];
        for (int v = 0; v < vectors; v++)
            y[v] = _mm512_loadu_ps(keys + 16 * v);
        for (int h = 0; h < heads; h++) {
            const __m512 x = _mm512_set1_ps(p[h * w->p_stride + i]);
            for (int v = 0; v < vectors; v++)
                acc[h][v] = _mm512_fmadd_ps(x, y[v], acc[h][v]);
        }
    }
    for (int h = 0; h < heads; h++)
        for (int v = 0; v < vectors; v++)
            di_store_bf16_512(out + (head + h) * w->dim + c0 + 16 * v,
                              _mm512_div_ps(acc[h][v], _mm512_set1_ps(sums[head + h])));
}

ALWAYS_INLINE void output_heads(const work *w, int heads, int64_t head, const float *sums,
                                di_bf16 *out)
{
    int64_t c = 0;
    for (; c + 16 * TILE_VECTORS <= w->dim; c += 16 * TILE_VECTORS)
        output_tile(w, heads, TILE_VECTORS, head, c, sums, out);
    for (; c < w->dim; c += 32)
        output_tile(w, heads, 2, head, c, sums, out);
}

static void outputs(const work *w, int64_t heads, const float *sums, di_bf16 *out)
{
    int64_t head = 0;
    for (; head + TILE_HEADS <= heads; head += TILE_HEADS)
        output_heads(w, TILE_HEADS, head, sums, out);
    for (; head < heads; head++)
        output_heads(w, 1, head, sums, out);
}

/* Heads [first, first + heads) of a row, whose keys are decoded. */
static void attend(const di_sparse_attention_args *a, const work *w, int64_t row, int64_t first,
                   int64_t heads)
{
    float sums[DI_ATTENTION_HEADS];
    const int64_t at = (row * a->n_heads + first) * w->dim;
    for (int64_t i = 0; i < heads * w->dim; i += 16)
        _mm512_storeu_ps(w->q + i, di_load_bf16_512(a->q + at + i));
    scores(w, heads, a->scale);
    for (int64_t h = 0; h < heads; h++)
        sums[h] = exponentials(w->p + h * w->p_stride, w->n, a->sink[first + h]);
    outputs(w, heads, sums, a->out + at);
}

void di_sparse_attention_avx512(const void *args, int64_t begin, int64_t end, int worker)
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
