/* Sparse attention with AVX-512. The keys of a row are decoded once a call; DI_ATTENTION_GROUP
 * heads then share them in the first level cache: scores in tiles of 4 heads by 4 keys along
 * head_dim, outputs in tiles of 4 heads by 64 columns along the keys. */
#include "kernels/sparse_attention/sparse_attention.h"

#include "base/checked.h"
#include "base/mathf.h"
#include "kernels/all.h"
#include "kernels/avx512.h"
#include "kernels/sparse_attention/attention_groups.h"

enum {
    TILE_HEADS = 4,
    TILE_KEYS = 4,
    TILE_VECTORS = 4, /* of columns */
    KEY_BLOCK = 128   /* keys of an output tile: 32 KiB by 64 columns */
};

#define INLINE static inline __attribute__((always_inline))

/* ------------------------------------------------------------------- keys */

static void decode_q8(const di_paged *p, int64_t slot, int64_t dim, float *out)
{
    const uint8_t *codes = di_paged_codes(p, slot), *scales = di_paged_scales(p, slot);
    for (int64_t i = 0; i < dim; i += 16) {
        const __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(codes + i));
        const __m512 scale = _mm512_set1_ps(di_e8m0_to_f32(scales[i / 32]));
        _mm512_storeu_ps(out + i, _mm512_mul_ps(di_e4m3_512(c), scale));
    }
}

/* Products of e2m1 and e4m3 have at most 6 significant bits: rounding to bf16 changes nothing. */
static void decode_q4kv(const di_paged *p, int64_t slot, int64_t dim, float *out)
{
    const uint8_t *codes = di_paged_codes(p, slot), *scales = di_paged_scales(p, slot);
    for (int64_t i = 0; i < dim; i += 16) {
        const __m512 scale = _mm512_set1_ps(di_e4m3_to_f32[scales[i / 16]]);
        _mm512_storeu_ps(out + i, _mm512_mul_ps(di_e2m1_512(codes + i / 2), scale));
    }
}

/* ------------------------------------------------------------------- scores */

/* Sums of lanes 8, 4, 2 or 1 apart of two registers of partial sums, side by side. */
#define FOLD_F32X4(a, b, low, high)                                                                \
    _mm512_add_ps(_mm512_shuffle_f32x4(a, b, low), _mm512_shuffle_f32x4(a, b, high))

INLINE __m512 fold_pairs(__m512 a, __m512 b)
{
    const __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
}

/* di_lanes_total of 16 registers: lane 4 i + j is that of x[4 j + i]. */
INLINE __m512 totals(const __m512 x[16])
{
    __m512 four[4];
    for (int i = 0; i < 4; i++) {
        const __m512 a = FOLD_F32X4(x[4 * i], x[4 * i + 1], 0x44, 0xee);
        const __m512 b = FOLD_F32X4(x[4 * i + 2], x[4 * i + 3], 0x44, 0xee);
        four[i] = FOLD_F32X4(a, b, 0x88, 0xdd);
    }
    const __m512 a = fold_pairs(four[0], four[1]), b = fold_pairs(four[2], four[3]);
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

/* Scores of 4 heads and 4 keys, lane 4 * head + key. */
INLINE __m512 score_tile(const float *const q[TILE_HEADS], const float *const keys[TILE_KEYS],
                         int64_t dim)
{
    __m512 acc[TILE_HEADS * TILE_KEYS];
    for (int i = 0; i < TILE_HEADS * TILE_KEYS; i++)
        acc[i] = _mm512_setzero_ps();
    for (int64_t d = 0; d < dim; d += 16) {
        __m512 k[TILE_KEYS];
        for (int j = 0; j < TILE_KEYS; j++)
            k[j] = _mm512_loadu_ps(keys[j] + d);
        for (int h = 0; h < TILE_HEADS; h++) {
            const __m512 x = _mm512_loadu_ps(q[h] + d);
            for (int j = 0; j < TILE_KEYS; j++)
                acc[j * TILE_HEADS + h] = _mm512_fmadd_ps(k[j], x, acc[j * TILE_HEADS + h]);
        }
    }
    return totals(acc);
}

/* Heads and keys that a tile lacks repeat its last ones. */
static void scores(const di_head_group *g, float scale)
{
    for (int64_t i = 0; i < g->n_keys; i += TILE_KEYS) {
        const float *keys[TILE_KEYS];
        for (int j = 0; j < TILE_KEYS; j++)
            keys[j] = g->keys + di_min_i64(i + j, g->n_keys - 1) * g->key_stride;
        for (int h0 = 0; h0 < g->n_heads; h0 += TILE_HEADS) {
            const float *q[TILE_HEADS];
            for (int h = 0; h < TILE_HEADS; h++)
                q[h] = g->q + di_min_i64(h0 + h, g->n_heads - 1) * g->dim;
            const __m512 s = _mm512_mul_ps(score_tile(q, keys, g->dim), _mm512_set1_ps(scale));
            float *p = g->p + h0 * g->p_stride + i; /* DI_ATTENTION_GROUP rows: all exist */
            _mm_storeu_ps(p, _mm512_castps512_ps128(s));
            _mm_storeu_ps(p + g->p_stride, _mm512_extractf32x4_ps(s, 1));
            _mm_storeu_ps(p + 2 * g->p_stride, _mm512_extractf32x4_ps(s, 2));
            _mm_storeu_ps(p + 3 * g->p_stride, _mm512_extractf32x4_ps(s, 3));
        }
    }
}

/* Scores to probabilities without the denominator, which it returns. A NaN makes all of them NaN.
 */
static float soften(float *p, int64_t n, float sink)
{
    __m512 largest = _mm512_set1_ps(-1e30f);
    __mmask16 is_nan = 0;
    for (int64_t i = 0; i < n; i += 16) {
        const __m512 x = _mm512_mask_loadu_ps(largest, di_mask16(n - i), p + i);
        is_nan |= _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        largest = _mm512_max_ps(largest, x);
    }
    const float m = is_nan ? __builtin_nanf("") : _mm512_reduce_max_ps(largest);
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 mask = di_mask16(n - i);
        const __m512 x = _mm512_maskz_loadu_ps(mask, p + i);
        const __m512 e = di_exp512(_mm512_sub_ps(x, _mm512_set1_ps(m)));
        _mm512_mask_storeu_ps(p + i, mask, e);
        sum = _mm512_mask_add_ps(sum, mask, sum, e);
    }
    return di_total512(sum) + di_expf(sink - m);
}

/* ------------------------------------------------------------------- outputs */

INLINE void output_tile(float *const acc[TILE_HEADS], const float *const p[TILE_HEADS],
                        const float *keys, int64_t n, int64_t key_stride, int n_vectors)
{
    __m512 sum[TILE_HEADS][TILE_VECTORS];
    for (int h = 0; h < TILE_HEADS; h++)
        for (int v = 0; v < n_vectors; v++)
            sum[h][v] = _mm512_loadu_ps(acc[h] + 16 * v);
    for (int64_t i = 0; i < n; i++, keys += key_stride) {
        __m512 k[TILE_VECTORS];
        for (int v = 0; v < n_vectors; v++)
            k[v] = _mm512_loadu_ps(keys + 16 * v);
        for (int h = 0; h < TILE_HEADS; h++) {
            const __m512 x = _mm512_set1_ps(p[h][i]);
            for (int v = 0; v < n_vectors; v++)
                sum[h][v] = _mm512_fmadd_ps(x, k[v], sum[h][v]);
        }
    }
    for (int h = 0; h < TILE_HEADS; h++)
        for (int v = 0; v < n_vectors; v++)
            _mm512_storeu_ps(acc[h] + 16 * v, sum[h][v]);
}

static void outputs(const di_head_group *g)
{
    for (int64_t i = 0; i < g->n_keys; i += KEY_BLOCK) {
        const int64_t n = di_min_i64(KEY_BLOCK, g->n_keys - i);
        for (int64_t c = 0; c < g->dim; c += 16 * TILE_VECTORS) {
            const float *keys = g->keys + i * g->key_stride + c;
            for (int h0 = 0; h0 < g->n_heads; h0 += TILE_HEADS) {
                float *acc[TILE_HEADS];
                const float *p[TILE_HEADS];
                for (int h = 0; h < TILE_HEADS; h++) {
                    const int64_t head = di_min_i64(h0 + h, g->n_heads - 1);
                    acc[h] = g->acc + head * g->dim + c;
                    p[h] = g->p + head * g->p_stride + i;
                }
                if (g->dim - c >= 16 * TILE_VECTORS)
                    output_tile(acc, p, keys, n, g->key_stride, TILE_VECTORS);
                else /* head_dim is a multiple of 32 */
                    output_tile(acc, p, keys, n, g->key_stride, 2);
            }
        }
    }
}

static void attend(const di_sparse_attention_args *a, int64_t item, const di_head_group *g)
{
    for (int64_t i = 0; i < g->n_heads * g->dim; i += 16) {
        _mm512_storeu_ps(g->q + i, di_load_bf16_512(a->q + item * g->dim + i));
        _mm512_storeu_ps(g->acc + i, _mm512_setzero_ps());
    }
    float sums[DI_ATTENTION_GROUP];
    scores(g, a->scale);
    for (int h = 0; h < g->n_heads; h++)
        sums[h] = soften(g->p + h * g->p_stride, g->n_keys, a->sink[(item + h) % a->n_heads]);
    outputs(g);
    for (int h = 0; h < g->n_heads; h++) {
        const __m512 sum = _mm512_set1_ps(sums[h]);
        for (int64_t c = 0; c < g->dim; c += 16)
            di_store_bf16_512(a->out + (item + h) * g->dim + c,
                              _mm512_div_ps(_mm512_loadu_ps(g->acc + h * g->dim + c), sum));
    }
}

void di_sparse_attention_avx512(const void *args, int64_t begin, int64_t end, int worker)
{
    di_attention_groups(args, begin, end, worker,
                        (di_attention_level){decode_q8, decode_q4kv, attend});
}
