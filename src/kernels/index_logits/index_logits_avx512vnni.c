/* Index logits with VPDPBUSD and VPERMB.
 *
 * 64 keys are decoded once for all heads: a tile of 16 is transposed, so that a register holds four
 * channels of each key, and VPERMB turns the codes into bytes. The queries' bytes are repeated to
 * all keys. 64 keys by 4 heads are computed at once, in one of three ways with the same bits:
 *
 * WHOLE  Where the scales of a key's groups are at most 2^3 apart, its bytes are numbers of its
 *        smallest scale; likewise a head's. Then q . k is one integer below 2^24 times a power of
 * two, the reference's fp32 sums of the groups' parts are exact, and one conversion gives their
 * bits. Powers of two are moved past the roundings to bf16: a head's into its weight, a key's
 * behind the product with it. MILD   Group by group, as the reference does. WILD   The same where
 * subnormal numbers, infinities or NaN may come up, with roundings for these. */
#include <stdbool.h>

#include "base/checked.h"
#include "kernels/all.h"
#include "kernels/avx512.h"
#include "kernels/index_logits/index_logits_avx512.h"

enum {
    TILES = 4, /* of keys, at once: an item */
    ITEM_KEYS = TILES * DI_INDEX_KEYS,
    HEADS = 4, /* at once: a block */
    DIM_LIMIT = 512,
    GROUPS = DIM_LIMIT / DI_INDEX_GROUP,
    QUERY_BYTES = 16384, /* heads, in whole blocks, * dim at most: more is left to the reference */
    QUERY_GROUPS = QUERY_BYTES / DI_INDEX_GROUP,
    MAX_SHIFT = 3, /* 15 << 3 and 128 + (12 << 3) are bytes */
    KEY_OFFSET = 128
};
_Static_assert((int)ITEM_KEYS == (int)DI_INDEX_TILE, "an item is 64 keys");

/* How a block of heads is computed with 64 keys: the later one of theirs. */
typedef enum way { WHOLE, MILD, WILD } way;

/* Units and weights of MILD: no product of up to 2^24 of a query's and a key's unit and a weight,
 * nor the sum of 512 of them, comes near the subnormal numbers or the largest. */
#define LEAST_UNIT     0x1p-40f
#define LARGEST_UNIT   0x1p20f
#define LARGEST_WEIGHT 0x1p40f
enum { LEAST_SCALE = 128 - 40, LARGEST_SCALE = 128 + 20 }; /* bytes of such units of keys */

/* A row's queries, in blocks of heads; heads that fill up the last block are zero. */
typedef struct queries {
    int8_t bytes[QUERY_BYTES];          /* [block][group * quads + quad][head of the block][4] */
    float units[QUERY_GROUPS];          /* [block][group][head of the block]: of the bytes */
    int32_t starts[QUERY_GROUPS];       /* the same: -KEY_OFFSET times the bytes' sum */
    int32_t whole_starts[QUERY_GROUPS]; /* [head]: the groups' sum */
    float w[QUERY_GROUPS];              /* [head] */
    float whole_w[QUERY_GROUPS];        /* [head]: times the unit */
    way ways[QUERY_GROUPS];             /* [block] */
    way last_way;                       /* of all blocks */
} queries;

typedef struct keys {
    uint8_t bytes[DIM_LIMIT / 4][TILES][64];   /* [group * quads + quad]: KEY_OFFSET + numbers */
    float units[GROUPS][TILES][DI_INDEX_KEYS]; /* WHOLE: only group 0, for all */
    way way;
} keys;

/* 16 entries of a row, one behind the other. */
typedef struct tile {
    const uint8_t *codes, *scales;
    int64_t code_stride, scale_stride;
} tile;

/* Where a tile's entries are put together that are not. */
typedef struct tile_copy {
    uint8_t codes[DI_INDEX_KEYS][DIM_LIMIT / 2], scales[DI_INDEX_KEYS][GROUPS];
} tile_copy;

/* ------------------------------------------------------------------- queries */

static bool is_zero_or_within(float x, float least, float largest)
{
    return x == 0.0f || (x >= least && x <= largest);
}

/* How a head may be computed, by its groups' units and its weight. WHOLE: makes the units one, and
 * gives what each group's numbers are to be shifted by. */
static way unite(float *units, int64_t n_groups, float w, int *shifts)
{
    float least = LARGEST_UNIT, most = 0.0f;
    bool is_mild = is_zero_or_within(w < 0.0f ? -w : w, LEAST_UNIT, LARGEST_WEIGHT);
    for (int64_t g = 0; g < n_groups; g++) {
        shifts[g] = 0;
        is_mild &= is_zero_or_within(units[g], LEAST_UNIT, LARGEST_UNIT);
        least = units[g] > 0.0f && units[g] < least ? units[g] : least;
        most = units[g] > most ? units[g] : most;
    }
    if (!is_mild || most > least * (1 << MAX_SHIFT))
        return is_mild ? MILD : WILD;
    for (int64_t g = 0; g < n_groups; g++) {
        for (float unit = least; unit < units[g]; unit *= 2.0f)
            shifts[g]++;
        units[g] = least;
    }
    return WHOLE;
}

static way later(way a, way b)
{
    return a > b ? a : b;
}

/* A group's numbers, shifted, as the quads of one head of a block; returns their sum. */
static int32_t store_quads(const int8_t ints[DI_INDEX_GROUP], int shift, int8_t *quads)
{
    /* of each 8 channels the even ones, then of each the odd ones */
    const __m256i order =
        _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 1, 3, 5, 7, 9,
                         11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    const __m256i keep = _mm256_set1_epi8((char)(0xff >> shift));
    const __m256i x =
        _mm256_permutexvar_epi8(order, _mm256_loadu_si256((const __m256i *)(const void *)ints));
    const __m256i numbers = _mm256_sll_epi16(_mm256_and_si256(x, keep), _mm_cvtsi32_si128(shift));
    int32_t words[DI_INDEX_QUADS], sums[DI_INDEX_QUADS], sum = 0;
    _mm256_storeu_si256((__m256i *)(void *)words, numbers);
    _mm256_storeu_si256((__m256i *)(void *)sums,
                        _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), numbers));
    for (int i = 0; i < DI_INDEX_QUADS; i++) {
        memcpy(quads + i * HEADS * 4, &words[i], sizeof words[i]);
        sum += sums[i];
    }
    return sum;
}

static void prepare_head(const di_bf16 *q, int64_t n_groups, int64_t head, queries *out)
{
    int8_t ints[GROUPS][DI_INDEX_GROUP];
    int shifts[GROUPS];
    float units[GROUPS] = {0};
    for (int64_t g = 0; g < n_groups; g++)
        units[g] = di_index_ints512(q + g * DI_INDEX_GROUP, ints[g]);
    const int64_t block = head / HEADS, place = head % HEADS;
    const way own = unite(units, n_groups, out->w[head], shifts);
    out->ways[block] = place ? later(out->ways[block], own) : own;
    out->whole_w[head] = out->w[head] * units[0];
    out->whole_starts[head] = 0;
    for (int64_t g = 0; g < n_groups; g++) {
        const int64_t at = (block * n_groups + g) * HEADS;
        const int32_t sum =
            store_quads(ints[g], shifts[g], out->bytes + at * DI_INDEX_GROUP + place * 4);
        out->units[at + place] = units[g];
        out->starts[at + place] = -KEY_OFFSET * sum;
        out->whole_starts[head] += -KEY_OFFSET * sum;
    }
}

static int64_t padded_heads(const di_index_logits_args *a)
{
    return di_ceil_div(a->n_heads, HEADS) * HEADS;
}

static void prepare_queries(const di_index_logits_args *a, int64_t row, queries *out)
{
    static const di_bf16 zeros[DIM_LIMIT];
    out->last_way = WHOLE;
    for (int64_t head = 0; head < padded_heads(a); head++) {
        const bool is_there = head < a->n_heads;
        const int64_t at = row * a->n_heads + head;
        out->w[head] = is_there ? di_round_bf16(di_bf16_to_f32(a->w[at]) * a->w_scale) : 0.0f;
        prepare_head(is_there ? a->q + at * a->dim : zeros, a->dim / DI_INDEX_GROUP, head, out);
        out->last_way = later(out->last_way, out->ways[head / HEADS]);
    }
}

/* ------------------------------------------------------------------- keys */

/* Entries `first` on of a row, if a block has 16 from there on. */
static inline bool find_tile(const di_index_logits_args *a, int64_t row, int64_t first, tile *out)
{
    const di_paged *p = &a->keys;
    const int64_t place = first % p->block_len;
    const uint8_t *data = p->data + a->block_tables[row][first / p->block_len] * p->block_bytes;
    *out = (tile){data + place * p->code_bytes, data + p->scales_offset + place * p->scale_bytes,
                  p->code_bytes, p->scale_bytes};
    return place + DI_INDEX_KEYS <= p->block_len;
}

/* Entries `first` on of a row; entry last - 1 stands in for those behind. */
static tile gather_tile(const di_index_logits_args *a, int64_t row, int64_t first, int64_t last,
                        tile_copy *copy)
{
    tile t;
    if (first + DI_INDEX_KEYS <= last && find_tile(a, row, first, &t))
        return t;
    const uint8_t *codes[DI_INDEX_KEYS], *scales[DI_INDEX_KEYS];
    di_index_entries(a, row, di_min_i64(first, last - 1), last, codes, scales);
    for (int k = 0; k < DI_INDEX_KEYS; k++) {
        memcpy(copy->codes[k], codes[k], (size_t)a->dim / 2);
        memcpy(copy->scales[k], scales[k], (size_t)a->dim / DI_INDEX_GROUP);
    }
    return (tile){copy->codes[0], copy->scales[0], sizeof copy->codes[0], sizeof copy->scales[0]};
}

/* Four groups' scales of 16 keys, a key a dword; the last group stands in for missing ones. */
static inline __m512i load_scales(const tile *t, int64_t group, int64_t n_groups)
{
    if (t->scale_stride == 4 && n_groups == 4)
        return _mm512_loadu_si512(t->scales);
    uint32_t words[DI_INDEX_KEYS] __attribute__((aligned(64)));
    for (int k = 0; k < DI_INDEX_KEYS; k++) {
        const uint8_t *scales = t->scales + k * t->scale_stride;
        uint8_t bytes[4];
        for (int i = 0; i < 4; i++)
            bytes[i] = scales[di_min_i64(group + i, n_groups - 1)];
        memcpy(&words[k], bytes, sizeof words[k]);
    }
    return _mm512_load_si512(words);
}

/* Half of di_e8m0_to_f32 of each dword. */
static inline __m512 half_scales(__m512i e)
{
    const __m512 half =
        _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(e, 23)), _mm512_set1_ps(0.5f));
    const __mmask16 is_nan = _mm512_cmpeq_epi32_mask(e, _mm512_set1_epi32(255));
    const __mmask16 is_zero = _mm512_testn_epi32_mask(e, e);
    const __m512 x = _mm512_mask_blend_ps(is_zero, half, _mm512_set1_ps(0x1p-128f));
    return _mm512_mask_blend_ps(is_nan, x, _mm512_set1_ps(__builtin_nanf("")));
}

/* Scales as load_scales gives them: finds out->way, and for each tile its keys' least scales.
 * Beside WILD queries keys are not WHOLE: parts of shifted numbers may overflow where the
 * reference's do not. */
static void compare_scales(const __m512i scales[TILES][GROUPS / 4], int64_t n_groups,
                           way queries_way, keys *out, __m512i least[TILES])
{
    const __m512i lowest = _mm512_set1_epi8(LEAST_SCALE);
    const __m512i reach = _mm512_set1_epi8(LARGEST_SCALE - LEAST_SCALE);
    __mmask64 is_far = 0, is_wild = 0;
    for (int t = 0; t < TILES; t++) {
        __m512i m = _mm512_set1_epi8(-1);
        for (int64_t g = 0; g < n_groups; g += 4) {
            m = _mm512_min_epu8(m, scales[t][g / 4]);
            is_wild |= _mm512_cmpgt_epu8_mask(_mm512_sub_epi8(scales[t][g / 4], lowest), reach);
        }
        m = _mm512_min_epu8(m, _mm512_rol_epi32(m, 8));
        least[t] = m = _mm512_min_epu8(m, _mm512_rol_epi32(m, 16));
        for (int64_t g = 0; g < n_groups; g += 4)
            is_far |= _mm512_cmpgt_epu8_mask(_mm512_sub_epi8(scales[t][g / 4], m),
                                             _mm512_set1_epi8(MAX_SHIFT));
    }
    out->way = is_wild ? WILD : is_far || queries_way == WILD ? MILD : WHOLE;
}

/* The keys' units, and what their groups are shifted by: 16 times the shift in each byte. */
static void prepare_scales(const tile *tiles, int64_t n_groups, way queries_way, keys *out,
                           __m512i shifts[TILES][GROUPS / 4])
{
    const __m512i byte = _mm512_set1_epi32(255);
    __m512i least[TILES];
    for (int t = 0; t < TILES; t++)
        for (int64_t g = 0; g < n_groups; g += 4)
            shifts[t][g / 4] = load_scales(&tiles[t], g, n_groups);
    compare_scales(shifts, n_groups, queries_way, out, least);
    for (int t = 0; t < TILES; t++) {
        if (out->way == WHOLE) {
            _mm512_store_ps(out->units[0][t], half_scales(_mm512_and_si512(least[t], byte)));
            for (int64_t g = 0; g < n_groups; g += 4)
                shifts[t][g / 4] =
                    _mm512_slli_epi16(_mm512_sub_epi8(shifts[t][g / 4], least[t]), 4);
            continue;
        }
        for (int64_t g = 0; g < n_groups; g++) {
            const __m512i e = _mm512_srli_epi32(shifts[t][g / 4], 8 * (unsigned)(g % 4));
            _mm512_store_ps(out->units[g][t], half_scales(_mm512_and_si512(e, byte)));
        }
        for (int64_t g = 0; g < n_groups; g += 4)
            shifts[t][g / 4] = _mm512_setzero_si512();
    }
}

/* 16 bytes of 16 keys, a key a dword: x[i] has bytes 4 i .. 4 i + 3. */
static inline void transpose(const uint8_t *codes, int64_t stride, __m512i x[4])
{
    __m512i rows[4]; /* [i]: keys i, i + 4, i + 8, i + 12 */
    for (int i = 0; i < 4; i++) {
        __m128i key[4];
        for (int j = 0; j < 4; j++)
            key[j] = _mm_loadu_si128((const __m128i *)(const void *)(codes + (4 * j + i) * stride));
        rows[i] = _mm512_inserti32x4(_mm512_castsi128_si512(key[0]), key[1], 1);
        rows[i] = _mm512_inserti32x4(_mm512_inserti32x4(rows[i], key[2], 2), key[3], 3);
    }
    const __m512i a = _mm512_unpacklo_epi32(rows[0], rows[1]);
    const __m512i b = _mm512_unpacklo_epi32(rows[2], rows[3]);
    const __m512i c = _mm512_unpackhi_epi32(rows[0], rows[1]);
    const __m512i d = _mm512_unpackhi_epi32(rows[2], rows[3]);
    x[0] = _mm512_unpacklo_epi64(a, b);
    x[1] = _mm512_unpackhi_epi64(a, b);
    x[2] = _mm512_unpacklo_epi64(c, d);
    x[3] = _mm512_unpackhi_epi64(c, d);
}

/* KEY_OFFSET + (2 k << shift), at 16 shift + code. */
static const uint8_t values[64] = {128, 129, 130, 131, 132, 134, 136, 140, 128, 127, 126, 125, 124,
                                   122, 120, 116, 128, 130, 132, 134, 136, 140, 144, 152, 128, 126,
                                   124, 122, 120, 116, 112, 104, 128, 132, 136, 140, 144, 152, 160,
                                   176, 128, 124, 120, 116, 112, 104, 96,  80,  128, 136, 144, 152,
                                   160, 176, 192, 224, 128, 120, 112, 104, 96,  80,  64,  32};

static void prepare_keys(const tile *tiles, int64_t n_groups, way queries_way, keys *out)
{
    __m512i shifts[TILES][GROUPS / 4];
    prepare_scales(tiles, n_groups, queries_way, out, shifts);
    const __m512i table = _mm512_loadu_si512(values), nibble = _mm512_set1_epi8(15);
    const __m512i bytes_of_dwords =
        _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c));
    for (int t = 0; t < TILES; t++) {
        for (int64_t g = 0; g < n_groups; g++) {
            const __m512i shift = _mm512_shuffle_epi8(
                shifts[t][g / 4],
                _mm512_add_epi8(bytes_of_dwords, _mm512_set1_epi8((char)(g % 4))));
            __m512i x[4];
            transpose(tiles[t].codes + g * DI_INDEX_GROUP / 2, tiles[t].code_stride, x);
            for (int i = 0; i < 4; i++) { /* (x & nibble) | shift */
                const __m512i even = _mm512_ternarylogic_epi32(x[i], nibble, shift, 0xea);
                const __m512i odd =
                    _mm512_ternarylogic_epi32(_mm512_srli_epi32(x[i], 4), nibble, shift, 0xea);
                uint8_t(*bytes)[TILES][64] = out->bytes + g * DI_INDEX_QUADS + i;
                _mm512_store_si512(bytes[0][t], _mm512_permutexvar_epi8(even, table));
                _mm512_store_si512(bytes[4][t], _mm512_permutexvar_epi8(odd, table));
            }
        }
    }
}

/* Asks for eighth `part` of the 64 entries `first` on: as many lines as the time of a block of
 * heads brings from memory. Inlined, since gcc drops calls of functions that do nothing else. */
static inline __attribute__((always_inline)) void prefetch_part(const di_index_logits_args *a,
                                                                int64_t row, int64_t first,
                                                                int64_t part)
{
    enum { PART = DI_INDEX_KEYS / 2 };
    tile t;
    first += part / 2 * DI_INDEX_KEYS;
    if (first + DI_INDEX_KEYS > a->n_visible[row] || !find_tile(a, row, first, &t))
        return;
    const uint8_t *codes = t.codes + part % 2 * PART * t.code_stride;
    for (int64_t i = 0; i < PART * t.code_stride; i += 64)
        _mm_prefetch((const char *)codes + i, _MM_HINT_T1);
    for (int64_t i = 0; i < DI_INDEX_KEYS * t.scale_stride && part % 2 == 0; i += 64)
        _mm_prefetch((const char *)t.scales + i, _MM_HINT_T1);
}

/* ------------------------------------------------------------------- scores */

/* VPDPBUSD's operands: gcc copies accumulators of type __m512i to other registers and back each
 * time, and loads keys of that type twice. */
typedef int32_t dwords __attribute__((vector_size(64)));

static inline dwords dot4(dwords acc, dwords u8, dwords s8)
{
    return (dwords)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)u8, (__m512i)s8);
}

static inline dwords repeat(int32_t x)
{
    return (dwords)_mm512_set1_epi32(x);
}

/* out[head][tile] = starts[head] + the products of a block's and the keys' bytes,
 * [n_quads][HEADS][4] and [n_quads][TILES][64]. Not inlined: beside other code its 16 sums do not
 * stay in registers. */
static __attribute__((noinline)) void multiply(const int8_t *q, const int32_t *starts,
                                               const uint8_t (*k)[TILES][64], int64_t n_quads,
                                               dwords out[HEADS][TILES])
{
    dwords sums[HEADS][TILES];
#pragma GCC unroll 4
    for (int h = 0; h < HEADS; h++)
#pragma GCC unroll 4
        for (int t = 0; t < TILES; t++)
            sums[h][t] = repeat(starts[h]);
    for (int64_t i = 0; i < n_quads; i++, q += HEADS * 4, k++) {
        dwords x[TILES];
#pragma GCC unroll 4
        for (int t = 0; t < TILES; t++)
            x[t] = (dwords)_mm512_load_si512((*k)[t]);
#pragma GCC unroll 4
        for (int h = 0; h < HEADS; h++) {
            int32_t word;
            memcpy(&word, q + 4 * h, sizeof word);
            const dwords y = repeat(word);
#pragma GCC unroll 4
            for (int t = 0; t < TILES; t++)
                sums[h][t] = dot4(sums[h][t], x[t], y);
        }
    }
#pragma GCC unroll 4
    for (int h = 0; h < HEADS; h++)
#pragma GCC unroll 4
        for (int t = 0; t < TILES; t++)
            out[h][t] = sums[h][t];
}

/* di_round_bf16 of zeros and normal numbers below 2^111: beside 2^16 times its power of two a
 * number keeps eight digits. */
static inline __m512 round_normal(__m512 x)
{
    const __m512 power =
        _mm512_and_ps(x, _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)0xff800000)));
    const __m512 sum = _mm512_fmadd_ps(power, _mm512_set1_ps(0x1p16f), x);
    return _mm512_fnmadd_ps(power, _mm512_set1_ps(0x1p16f), sum);
}

/* round(w * relu(round(dot))) of such. */
static inline __m512 mild_term(__m512 dot, __m512 w)
{
    const __m512 relu = round_normal(_mm512_max_ps(dot, _mm512_setzero_ps()));
    return round_normal(_mm512_mul_ps(relu, w));
}

/* sums[tile] += round(w * relu(round(q . k))) of a block of heads. */
static void add_whole(const queries *q, const keys *k, int64_t block, int64_t n_groups,
                      __m512 sums[TILES])
{
    const int64_t n_quads = n_groups * DI_INDEX_QUADS;
    dwords dot[HEADS][TILES];
    multiply(q->bytes + block * HEADS * n_quads * 4, q->whole_starts + block * HEADS, k->bytes,
             n_quads, dot);
    for (int h = 0; h < HEADS; h++) {
        const __m512 w = _mm512_set1_ps(q->whole_w[block * HEADS + h]);
        for (int t = 0; t < TILES; t++)
            sums[t] = _mm512_fmadd_ps(mild_term(_mm512_cvtepi32_ps((__m512i)dot[h][t]), w),
                                      _mm512_load_ps(k->units[0][t]), sums[t]);
    }
}

/* q . k of a block of heads, group by group. */
static void add_groups(const queries *q, const keys *k, int64_t block, int64_t n_groups,
                       __m512 dot[HEADS][TILES])
{
    for (int h = 0; h < HEADS; h++)
        for (int t = 0; t < TILES; t++)
            dot[h][t] = _mm512_setzero_ps();
    for (int64_t g = 0; g < n_groups; g++) {
        const int64_t at = (block * n_groups + g) * HEADS;
        const float(*units)[DI_INDEX_KEYS] = k->units[k->way == WHOLE ? 0 : g];
        dwords part[HEADS][TILES];
        multiply(q->bytes + at * DI_INDEX_GROUP, q->starts + at, k->bytes + g * DI_INDEX_QUADS,
                 DI_INDEX_QUADS, part);
        for (int h = 0; h < HEADS; h++)
            for (int t = 0; t < TILES; t++)
                dot[h][t] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps((__m512i)part[h][t]),
                                                          _mm512_set1_ps(q->units[at + h])),
                                            _mm512_load_ps(units[t]), dot[h][t]);
    }
}

static void add_mild(const queries *q, const keys *k, int64_t block, int64_t n_groups,
                     __m512 sums[TILES])
{
    __m512 dot[HEADS][TILES];
    add_groups(q, k, block, n_groups, dot);
    for (int h = 0; h < HEADS; h++)
        for (int t = 0; t < TILES; t++)
            sums[t] = _mm512_add_ps(sums[t],
                                    mild_term(dot[h][t], _mm512_set1_ps(q->w[block * HEADS + h])));
}

static void add_wild(const queries *q, const keys *k, int64_t block, int64_t n_groups,
                     __m512 sums[TILES])
{
    __m512 dot[HEADS][TILES];
    add_groups(q, k, block, n_groups, dot);
    for (int h = 0; h < HEADS; h++)
        for (int t = 0; t < TILES; t++)
            sums[t] = di_index_add512(sums[t], dot[h][t], _mm512_set1_ps(q->w[block * HEADS + h]));
}

/* Scores of keys [first, last) of a row, at most 64. */
static void score_keys(const di_index_logits_args *a, const queries *q, int64_t row, int64_t first,
                       int64_t last)
{
    static void (*const add[])(const queries *, const keys *, int64_t, int64_t, __m512[TILES]) = {
        [WHOLE] = add_whole, [MILD] = add_mild, [WILD] = add_wild};
    tile_copy copies[TILES];
    tile tiles[TILES];
    keys k __attribute__((aligned(64)));
    const int64_t n_groups = a->dim / DI_INDEX_GROUP;
    __m512 sums[TILES];
    for (int t = 0; t < TILES; t++) {
        tiles[t] = gather_tile(a, row, first + t * DI_INDEX_KEYS, last, &copies[t]);
        sums[t] = _mm512_setzero_ps();
    }
    prepare_keys(tiles, n_groups, q->last_way, &k);
    const int64_t n_blocks = padded_heads(a) / HEADS;
    for (int64_t block = 0; block < n_blocks; block++) {
        for (int64_t i = 8 * block / n_blocks; i < 8 * (block + 1) / n_blocks; i++)
            prefetch_part(a, row, first + ITEM_KEYS, i);
        add[later(k.way, q->ways[block])](q, &k, block, n_groups, sums);
    }
    for (int t = 0; t < TILES; t++)
        di_store_bf16_mask512(a->scores + row * a->max_visible + first + t * DI_INDEX_KEYS,
                              di_mask16(last - first - t * DI_INDEX_KEYS), sums[t]);
}

void di_index_logits_avx512vnni(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_index_logits_args *a = args;
    if (a->dim > DIM_LIMIT || padded_heads(a) * a->dim > QUERY_BYTES) {
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
        score_keys(a, &q, row, first, last);
    }
}
