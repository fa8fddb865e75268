/* Sparse attention with AVX2: sparse_attention_avx512.c's loops on two registers of 8 lanes. Scores
 * in tiles of 2 heads by 2 keys, outputs in tiles of 4 heads by 16 columns. */
#include "kernels/sparse_attention/sparse_attention.h"

#include "base/checked.h"
#include "base/mathf.h"
#include "kernels/all.h"
#include "kernels/avx2.h"
#include "kernels/sparse_attention/attention_groups.h"

enum {
    TILE = 2, /* heads and keys of a score tile */
    ROWS = 4, /* heads of an output tile */
    KEY_BLOCK = 128
};

#define INLINE static inline __attribute__((always_inline))

/* ------------------------------------------------------------------- keys */

/* Codes as fp16 bits are the values times 2^-8, subnormals included. */
static void decode_q8(const di_paged *p, int64_t slot, int64_t dim, float *out)
{
    const uint8_t *codes = di_paged_codes(p, slot), *scales = di_paged_scales(p, slot);
    const __m256 nan = _mm256_set1_ps(__builtin_nanf(""));
    const __m256i last = _mm256_set1_epi32(0x7f);
    for (int64_t i = 0; i < dim; i += 8) {
        const __m128i c = _mm_loadl_epi64((const __m128i *)(const void *)(codes + i));
        const __m128i half =
            _mm_and_si128(_mm_slli_epi16(_mm_cvtepi8_epi16(c), 7), _mm_set1_epi16((short)0xbfff));
        const __m256i is_nan =
            _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_cvtepu8_epi32(c), last), last);
        const __m256 value =
            _mm256_blendv_ps(_mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0f)), nan,
                             _mm256_castsi256_ps(is_nan));
        const __m256 scale = _mm256_set1_ps(di_e8m0_to_f32(scales[i / 32]));
        _mm256_storeu_ps(out + i, _mm256_mul_ps(value, scale));
    }
}

/* Products of e2m1 and e4m3 have at most 6 significant bits: rounding to bf16 changes nothing. */
static void decode_q4kv(const di_paged *p, int64_t slot, int64_t dim, float *out)
{
    const uint8_t *codes = di_paged_codes(p, slot), *scales = di_paged_scales(p, slot);
    const __m256 magnitudes = _mm256_loadu_ps(di_e2m1_to_f32);
    const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    for (int64_t i = 0; i < dim; i += 8) {
        int32_t word;
        memcpy(&word, codes + i / 2, sizeof word);
        const __m256i code = _mm256_srlv_epi32(_mm256_set1_epi32(word), shifts);
        const __m256 m = _mm256_permutevar8x32_ps(magnitudes, code);
        /* the code's sign, but not of zero */
        const __m256 sign = _mm256_castsi256_ps(
            _mm256_slli_epi32(_mm256_and_si256(code, _mm256_set1_epi32(8)), 28));
        const __m256 kept = _mm256_and_ps(sign, _mm256_cmp_ps(m, _mm256_setzero_ps(), _CMP_NEQ_OQ));
        const __m256 scale = _mm256_set1_ps(di_e4m3_to_f32[scales[i / 16]]);
        _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_or_ps(m, kept), scale));
    }
}

/* ------------------------------------------------------------------- scores */

/* Heads and keys that a tile lacks repeat its last ones. */
static void score_tile(const di_head_group *g, int64_t h0, int64_t i0, float scale)
{
    const int64_t h1 = di_min_i64(h0 + 1, g->n_heads - 1), i1 = di_min_i64(i0 + 1, g->n_keys - 1);
    const float *q[TILE] = {g->q + h0 * g->dim, g->q + h1 * g->dim};
    const float *k[TILE] = {g->keys + i0 * g->key_stride, g->keys + i1 * g->key_stride};
    __m256 sum[TILE][TILE][2];
    for (int i = 0; i < TILE * TILE; i++)
        sum[i / TILE][i % TILE][0] = sum[i / TILE][i % TILE][1] = _mm256_setzero_ps();
    for (int64_t d = 0; d < g->dim; d += 16) {
        for (int half = 0; half < 2; half++) {
            const __m256 a = _mm256_loadu_ps(k[0] + d + 8 * half);
            const __m256 b = _mm256_loadu_ps(k[1] + d + 8 * half);
            for (int h = 0; h < TILE; h++) {
                const __m256 x = _mm256_loadu_ps(q[h] + d + 8 * half);
                sum[h][0][half] = _mm256_fmadd_ps(a, x, sum[h][0][half]);
                sum[h][1][half] = _mm256_fmadd_ps(b, x, sum[h][1][half]);
            }
        }
    }
    for (int h = 0; h < TILE; h++)
        for (int i = 0; i < TILE; i++)
            g->p[(h ? h1 : h0) * g->p_stride + (i ? i1 : i0)] =
                di_total256(sum[h][i][0], sum[h][i][1]) * scale;
}

static void scores(const di_head_group *g, float scale)
{
    for (int64_t i = 0; i < g->n_keys; i += TILE)
        for (int64_t h = 0; h < g->n_heads; h += TILE)
            score_tile(g, h, i, scale);
}

/* Scores to probabilities without the denominator, which it returns. */
static float soften(float *p, int64_t n, float sink)
{
    float largest = -1e30f;
    for (int64_t i = 0; i < n; i++)
        largest = p[i] > largest || p[i] != p[i] ? p[i] : largest;
    const __m256 m = _mm256_set1_ps(largest);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int64_t i = 0; i < n; i += 8) {
        const __m256i mask = di_mask8(n - i);
        const __m256 e = di_exp256(_mm256_sub_ps(_mm256_maskload_ps(p + i, mask), m));
        _mm256_maskstore_ps(p + i, mask, e);
        sum[i / 8 % 2] = _mm256_add_ps(sum[i / 8 % 2], _mm256_and_ps(e, _mm256_castsi256_ps(mask)));
    }
    return di_total256(sum[0], sum[1]) + di_expf(sink - largest);
}

/* ------------------------------------------------------------------- outputs */

INLINE void output_tile(float *const acc[ROWS], const float *const p[ROWS], const float *keys,
                        int64_t n, int64_t key_stride)
{
    __m256 sum[ROWS][2];
    for (int h = 0; h < ROWS; h++)
        for (int v = 0; v < 2; v++)
            sum[h][v] = _mm256_loadu_ps(acc[h] + 8 * v);
    for (int64_t i = 0; i < n; i++, keys += key_stride) {
        const __m256 a = _mm256_loadu_ps(keys), b = _mm256_loadu_ps(keys + 8);
        for (int h = 0; h < ROWS; h++) {
            const __m256 x = _mm256_broadcast_ss(p[h] + i);
            sum[h][0] = _mm256_fmadd_ps(x, a, sum[h][0]);
            sum[h][1] = _mm256_fmadd_ps(x, b, sum[h][1]);
        }
    }
    for (int h = 0; h < ROWS; h++)
        for (int v = 0; v < 2; v++)
            _mm256_storeu_ps(acc[h] + 8 * v, sum[h][v]);
}

static void outputs(const di_head_group *g)
{
    for (int64_t i = 0; i < g->n_keys; i += KEY_BLOCK) {
        const int64_t n = di_min_i64(KEY_BLOCK, g->n_keys - i);
        for (int64_t c = 0; c < g->dim; c += 16) {
            const float *keys = g->keys + i * g->key_stride + c;
            for (int h0 = 0; h0 < g->n_heads; h0 += ROWS) {
                float *acc[ROWS];
                const float *p[ROWS];
                for (int h = 0; h < ROWS; h++) {
                    const int64_t head = di_min_i64(h0 + h, g->n_heads - 1);
                    acc[h] = g->acc + head * g->dim + c;
                    p[h] = g->p + head * g->p_stride + i;
                }
                output_tile(acc, p, keys, n, g->key_stride);
            }
        }
    }
}

static void attend(const di_sparse_attention_args *a, int64_t item, const di_head_group *g)
{
    for (int64_t i = 0; i < g->n_heads * g->dim; i += 8) {
        _mm256_storeu_ps(g->q + i, di_load_bf16_256(a->q + item * g->dim + i));
        _mm256_storeu_ps(g->acc + i, _mm256_setzero_ps());
    }
    float sums[DI_ATTENTION_GROUP];
    scores(g, a->scale);
    for (int h = 0; h < g->n_heads; h++)
        sums[h] = soften(g->p + h * g->p_stride, g->n_keys, a->sink[(item + h) % a->n_heads]);
    outputs(g);
    for (int h = 0; h < g->n_heads; h++) {
        const __m256 sum = _mm256_set1_ps(sums[h]);
        for (int64_t c = 0; c < g->dim; c += 8)
            di_store_bf16_256(a->out + (item + h) * g->dim + c,
                              _mm256_div_ps(_mm256_loadu_ps(g->acc + h * g->dim + c), sum));
    }
}

void di_sparse_attention_avx2(const void *args, int64_t begin, int64_t end, int worker)
{
    di_attention_groups(args, begin, end, worker,
                        (di_attention_level){decode_q8, decode_q4kv, attend});
}
