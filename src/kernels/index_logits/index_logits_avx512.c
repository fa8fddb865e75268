/* Index logits with AVX-512 but without VNNI: products of bytes are added in words, then in dwords.
 *
 * A tile of 16 keys is transposed and decoded to bytes 2 k + 12 (0 .. 24). The queries' bytes are
 * repeated to all keys; the 12 is undone by the sum of a group's query integers. Tiles of 32 keys
 * by 4 heads keep both in registers. */
#include "base/checked.h"
#include "kernels/all.h"
#include "kernels/avx512.h"
#include "kernels/index_logits/index_logits_avx512.h"

enum {
    KEYS = DI_INDEX_KEYS,
    TILES = 2, /* of keys, at once */
    HEADS = 4,
    DIM_LIMIT = 512,
    QUERY_BYTES = 16384, /* heads * dim at most: more is left to the reference */
    QUADS = DI_INDEX_QUADS
};

/* acc + the four products of each 32-bit element. */
static inline __m512i dot4(__m512i acc, __m512i u8, __m512i s8)
{
    const __m512i pairs = _mm512_maddubs_epi16(u8, s8); /* at most 2 * 24 * 15 */
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

/* A row's queries. */
typedef struct queries {
    int8_t bytes[QUERY_BYTES];                   /* [head, group, quad, 4] */
    float unit[QUERY_BYTES / DI_INDEX_GROUP];    /* [head, group] */
    int32_t start[QUERY_BYTES / DI_INDEX_GROUP]; /* [head, group]: -12 times the integers' sum */
    float w[QUERY_BYTES / DI_INDEX_GROUP];       /* [head] */
} queries;

typedef struct key_tile {
    uint8_t bytes[DIM_LIMIT / 4][4 * KEYS];       /* [group * quads + quad] */
    float unit[DIM_LIMIT / DI_INDEX_GROUP][KEYS]; /* [group] */
} key_tile;

/* ------------------------------------------------------------------- queries */

static void prepare_group(const di_bf16 *q, int8_t *bytes, float *unit, int32_t *start)
{
    int8_t ints[DI_INDEX_GROUP];
    *unit = di_index_ints512(q, ints);
    int32_t sum = 0;
    for (int i = 0; i < DI_INDEX_GROUP; i++) {
        bytes[4 * di_index_quad(i) + i % 8 / 2] = ints[i];
        sum += ints[i];
    }
    *start = -12 * sum;
}

static void prepare_queries(const di_index_logits_args *a, int64_t row, queries *out)
{
    const int64_t n_groups = a->dim / DI_INDEX_GROUP;
    for (int64_t head = 0; head < a->n_heads; head++) {
        const di_bf16 *q = a->q + (row * a->n_heads + head) * a->dim;
        for (int64_t g = 0; g < n_groups; g++) {
            const int64_t at = head * n_groups + g;
            prepare_group(q + g * DI_INDEX_GROUP, out->bytes + at * DI_INDEX_GROUP, &out->unit[at],
                          &out->start[at]);
        }
        out->w[head] = di_round_bf16(di_bf16_to_f32(a->w[row * a->n_heads + head]) * a->w_scale);
    }
}

/* ------------------------------------------------------------------- keys */

/* 16 rows of 16 words: out[c] has word c of every row. */
static inline void transpose16(const __m512i *in, __m512i *out)
{
    __m512i t[16], r[16];
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(in[2 * i], in[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(in[2 * i], in[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) {
        r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    for (int c = 0; c < 4; c++) {
        const __m512i even0 = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88);
        const __m512i even1 = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88);
        const __m512i odd0 = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
        const __m512i odd1 = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);
        out[c] = _mm512_shuffle_i32x4(even0, even1, 0x88);
        out[8 + c] = _mm512_shuffle_i32x4(even0, even1, 0xdd);
        out[4 + c] = _mm512_shuffle_i32x4(odd0, odd1, 0x88);
        out[12 + c] = _mm512_shuffle_i32x4(odd0, odd1, 0xdd);
    }
}

static void prepare_keys(const uint8_t *const *codes, const uint8_t *const *scales, int64_t dim,
                         key_tile *out)
{
    /* 2 k + 12 of each code */
    const __m512i values = _mm512_broadcast_i32x4(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i low = _mm512_set1_epi8(15);
    const int64_t code_bytes = dim / 2, n_groups = dim / DI_INDEX_GROUP;
    for (int64_t at = 0; at < code_bytes; at += 64) {
        const int words = (int)di_min_i64(16, (code_bytes - at) / 4);
        const __mmask16 mask = di_mask16(words);
        __m512i in[16], columns[16];
        for (int k = 0; k < KEYS; k++)
            in[k] = _mm512_maskz_loadu_epi32(mask, codes[k] + at);
        transpose16(in, columns);
        for (int c = 0; c < words; c++) {
            const int64_t group = (at / 4 + c) / 4, quad = group * QUADS + c % 4;
            const __m512i even = _mm512_and_si512(columns[c], low);
            const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(columns[c], 4), low);
            _mm512_store_si512(out->bytes[quad], _mm512_shuffle_epi8(values, even));
            _mm512_store_si512(out->bytes[quad + QUADS / 2], _mm512_shuffle_epi8(values, odd));
        }
    }
    for (int64_t g = 0; g < n_groups; g++)
        for (int k = 0; k < KEYS; k++)
            out->unit[g][k] = 0.5f * di_e8m0_to_f32(scales[k][g]);
}

/* ------------------------------------------------------------------- scores */

/* sum[tile] += round(w * relu(round(q . k))) of `heads` heads from `head` on. */
static inline __attribute__((always_inline)) void add_heads(const queries *q, const key_tile *keys,
                                                            int heads, int64_t head,
                                                            int64_t n_groups, __m512 sum[TILES])
{
    __m512 d[HEADS][TILES];
    for (int h = 0; h < heads; h++)
        for (int t = 0; t < TILES; t++)
            d[h][t] = _mm512_setzero_ps();
    for (int64_t g = 0; g < n_groups; g++) {
        __m512i part[HEADS][TILES];
        for (int h = 0; h < heads; h++)
            for (int t = 0; t < TILES; t++)
                part[h][t] = _mm512_set1_epi32(q->start[(head + h) * n_groups + g]);
        for (int i = 0; i < QUADS; i++) {
            __m512i k[TILES];
            for (int t = 0; t < TILES; t++)
                k[t] = _mm512_load_si512(keys[t].bytes[g * QUADS + i]);
            for (int h = 0; h < heads; h++) {
                int32_t word;
                memcpy(&word, q->bytes + ((head + h) * n_groups + g) * DI_INDEX_GROUP + 4 * i,
                       sizeof word);
                const __m512i x = _mm512_set1_epi32(word);
                for (int t = 0; t < TILES; t++)
                    part[h][t] = dot4(part[h][t], k[t], x);
            }
        }
        for (int h = 0; h < heads; h++) {
            const __m512 unit = _mm512_set1_ps(q->unit[(head + h) * n_groups + g]);
            for (int t = 0; t < TILES; t++)
                d[h][t] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(part[h][t]), unit),
                                          _mm512_load_ps(keys[t].unit[g]), d[h][t]);
        }
    }
    for (int h = 0; h < heads; h++) {
        const __m512 w = _mm512_set1_ps(q->w[head + h]);
        for (int t = 0; t < TILES; t++)
            sum[t] = di_index_add512(sum[t], d[h][t], w);
    }
}

/* Scores of keys [first, last) of a row, at most TILES * KEYS. */
static void score_keys(const di_index_logits_args *a, const queries *q, int64_t row, int64_t first,
                       int64_t last)
{
    key_tile keys[TILES] __attribute__((aligned(64)));
    for (int t = 0; t < TILES; t++) {
        const uint8_t *codes[KEYS], *scales[KEYS];
        di_index_entries(a, row, di_min_i64(first + t * KEYS, last - 1), last, codes, scales);
        prepare_keys(codes, scales, a->dim, &keys[t]);
    }
    const int64_t n_groups = a->dim / DI_INDEX_GROUP;
    __m512 sum[TILES];
    for (int t = 0; t < TILES; t++)
        sum[t] = _mm512_setzero_ps();
    int64_t head = 0;
    for (; head + HEADS <= a->n_heads; head += HEADS)
        add_heads(q, keys, HEADS, head, n_groups, sum);
    for (; head < a->n_heads; head++)
        add_heads(q, keys, 1, head, n_groups, sum);
    for (int t = 0; t < TILES; t++)
        di_store_bf16_mask512(a->scores + row * a->max_visible + first + t * KEYS,
                              di_mask16(last - first - t * KEYS), sum[t]);
}

void di_index_logits_avx512(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_index_logits_args *a = args;
    if (a->dim > DIM_LIMIT || a->n_heads * a->dim > QUERY_BYTES) {
        di_index_logits_ref(args, begin, end, worker);
        return;
    }
    const int64_t tiles = di_ceil_div(a->max_visible, DI_INDEX_TILE);
    queries q __attribute__((aligned(64)));
    int64_t prepared = -1;
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item / tiles, first = item % tiles * DI_INDEX_TILE;
        const int64_t last = di_min_i64(first + DI_INDEX_TILE, a->n_visible[row]);
        if (first >= last)
            continue;
        if (row != prepared) {
            prepare_queries(a, row, &q);
            prepared = row;
        }
        for (int64_t at = first; at < last; at += TILES * KEYS)
            score_keys(a, &q, row, at, di_min_i64(last, at + TILES * KEYS));
    }
}
