/* Index scores with AVX2: 8 keys side by side, decoded once for all heads to bytes of twice the
 * value + 12, which has no sign; a group's sums start at -12 times the sum of the query's numbers.
 * Register d of a group holds 4 channels of every key: of dword d / 2 of its codes the lower (even
 * d) or the upper nibbles. Products of bytes are added in words; 8 times 2 * 24 * 12 fit. */
#include "kernels/index_logits/index_logits.h"

#include <string.h>

#include "base/checked.h"
#include "kernels/all.h"
#include "kernels/avx2.h"
#include "kernels/index_logits/index_group.h"

enum {
    KEYS = 8,
    QUADS = 8, /* of a group */
    DIM_LIMIT = 512,
    QUERY_LIMIT = 16384, /* numbers of a row's query; more go to the reference */
    GROUPS = QUERY_LIMIT / DI_INDEX_GROUP
};

/* A row's query: numbers of each group in the order of the keys' registers. */
typedef struct query {
    int32_t quads[GROUPS * QUADS];
    int32_t starts[GROUPS];
    float units[GROUPS];
    float w[GROUPS];
} query;

typedef struct key_tile {
    __m256i codes[DIM_LIMIT / 4];
    __m256 units[DIM_LIMIT / DI_INDEX_GROUP]; /* half the scales */
} key_tile;

static void load_query_group(const di_bf16 *q, int64_t group, query *out)
{
    uint32_t largest = 0;
    for (int i = 0; i < DI_INDEX_GROUP; i++)
        largest = (q[i] & 0x7fffu) > largest ? q[i] & 0x7fffu : largest;
    const float unit = di_index_unit(largest);
    int8_t numbers[DI_INDEX_GROUP];
    int32_t sum = 0;
    for (int i = 0; i < DI_INDEX_GROUP; i++) {
        const int n = unit > 0.0f ? (int)(di_bf16_to_f32(q[i]) / unit) : 0;
        numbers[i / 8 * 8 + i % 2 * 4 + i % 8 / 2] = (int8_t)n; /* even channels of 8, then odd */
        sum += n;
    }
    memcpy(out->quads + group * QUADS, numbers, sizeof numbers);
    out->starts[group] = -12 * sum;
    out->units[group] = unit;
}

static void load_query(const di_index_logits_args *a, int64_t row, query *out)
{
    const int64_t n_groups = a->n_heads * (a->dim / DI_INDEX_GROUP);
    for (int64_t g = 0; g < n_groups; g++)
        load_query_group(a->q + row * a->n_heads * a->dim + g * DI_INDEX_GROUP, g, out);
    for (int64_t h = 0; h < a->n_heads; h++)
        out->w[h] = di_round_bf16(di_bf16_to_f32(a->w[row * a->n_heads + h]) * a->w_scale);
}

/* 16 bytes of each key, transposed to dwords, each to two registers of values. */
static void decode_group(const uint8_t *const keys[KEYS], int64_t offset, __m256i out[QUADS])
{
    __m256i x[4]; /* x[i]: keys i, i + 4 */
    for (int i = 0; i < 4; i++) {
        const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(keys[i] + offset));
        const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(keys[i + 4] + offset));
        x[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
    }
    const __m256i a = _mm256_unpacklo_epi32(x[0], x[1]), b = _mm256_unpacklo_epi32(x[2], x[3]);
    const __m256i c = _mm256_unpackhi_epi32(x[0], x[1]), d = _mm256_unpackhi_epi32(x[2], x[3]);
    const __m256i dwords[4] = {_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b),
                               _mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d)};
    const __m256i values = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m256i nibble = _mm256_set1_epi8(15);
    for (int i = 0; i < 4; i++) {
        out[2 * i] = _mm256_shuffle_epi8(values, _mm256_and_si256(dwords[i], nibble));
        out[2 * i + 1] =
            _mm256_shuffle_epi8(values, _mm256_and_si256(_mm256_srli_epi32(dwords[i], 4), nibble));
    }
}

/* Entries first .. first + n - 1 of a row, n = 1 .. 8; the last one stands in for missing ones. */
static void load_keys(const di_index_logits_args *a, int64_t row, int64_t first, int64_t n,
                      key_tile *out)
{
    const di_paged *p = &a->keys;
    const uint8_t *codes[KEYS], *scales[KEYS];
    int64_t block = first / p->block_len, place = first % p->block_len;
    for (int64_t i = 0; i < KEYS; i++) {
        const uint8_t *data = p->data + a->block_tables[row][block] * p->block_bytes;
        codes[i] = data + place * p->code_bytes;
        scales[i] = data + p->scales_offset + place * p->scale_bytes;
        if (i + 1 < n && ++place == p->block_len) {
            place = 0;
            block++;
        }
    }
    for (int64_t g = 0; g < a->dim / DI_INDEX_GROUP; g++) {
        float units[KEYS];
        for (int i = 0; i < KEYS; i++)
            units[i] = 0.5f * di_e8m0_to_f32(scales[i][g]);
        out->units[g] = _mm256_loadu_ps(units);
        decode_group(codes, g * 16, out->codes + QUADS * g);
    }
}

static inline __m256i group_sums(const __m256i keys[QUADS], const int32_t quads[QUADS],
                                 int32_t start)
{
    __m256i words = _mm256_setzero_si256();
    for (int i = 0; i < QUADS; i++)
        words = _mm256_add_epi16(words, _mm256_maddubs_epi16(keys[i], _mm256_set1_epi32(quads[i])));
    return _mm256_add_epi32(_mm256_set1_epi32(start),
                            _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
}

static __m256 tile_scores(const query *q, const key_tile *k, int64_t n_heads, int64_t n_groups)
{
    __m256 score = _mm256_setzero_ps();
    for (int64_t h = 0, at = 0; h < n_heads; h++) {
        __m256 dot = _mm256_setzero_ps();
        for (int64_t g = 0; g < n_groups; g++, at++) {
            const __m256i whole =
                group_sums(k->codes + QUADS * g, q->quads + QUADS * at, q->starts[at]);
            const __m256 part =
                _mm256_mul_ps(_mm256_cvtepi32_ps(whole), _mm256_set1_ps(q->units[at]));
            dot = _mm256_fmadd_ps(part, k->units[g], dot);
        }
        /* maxps gives its second operand if one is NaN */
        const __m256 relu = _mm256_max_ps(_mm256_setzero_ps(), di_round_to_bf16_256(dot));
        score = _mm256_add_ps(score,
                              di_round_to_bf16_256(_mm256_mul_ps(relu, _mm256_set1_ps(q->w[h]))));
    }
    return score;
}

static void score_item(const di_index_logits_args *a, int64_t row, int64_t first, const query *q)
{
    key_tile keys;
    const int64_t last = di_min_i64(first + DI_INDEX_TILE, a->n_visible[row]);
    for (int64_t j = first; j < last; j += KEYS) {
        const int64_t n = di_min_i64(KEYS, last - j);
        load_keys(a, row, j, n, &keys);
        const __m256 scores = tile_scores(q, &keys, a->n_heads, a->dim / DI_INDEX_GROUP);
        di_bf16 *out = a->scores + row * a->max_visible + j;
        if (n == KEYS)
            di_store_bf16_256(out, scores);
        else
            di_store_bf16_part256(out, n, scores);
    }
}

void di_index_logits_avx2(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_index_logits_args *a = args;
    if (a->dim > DIM_LIMIT || a->n_heads * a->dim > QUERY_LIMIT) {
        di_index_logits_ref(args, begin, end, worker);
        return;
    }
    const int64_t tiles = di_ceil_div(a->max_visible, DI_INDEX_TILE);
    query q;
    for (int64_t item = begin; item < end; item++) {
        if (item == begin || item % tiles == 0)
            load_query(a, item / tiles, &q);
        score_item(a, item / tiles, item % tiles * DI_INDEX_TILE, &q);
    }
}
