/* Selection with AVX-512: the threshold is found bit by bit, each by counting the scores that reach
 * it, 32 at a time. bf16 bits compare like signed integers once a negative's magnitude is inverted;
 * rows with a NaN or a -0, which that order misplaces, are left to the reference. */
#include "kernels/topk/topk.h"

#include <stdbool.h>

#include "base/checked.h"
#include "kernels/all.h"
#include "kernels/avx512.h"

enum { LOWEST = INT16_MIN, HIGHEST = INT16_MAX, BLOCKS_LIMIT = 16384 };

/* Eligible entries: all of [0, n), or those of the set blocks. */
typedef struct entries {
    const di_bf16 *scores;
    int64_t n;
    const uint8_t *candidates; /* or NULL */
    int64_t block_size;
} entries;

static inline __mmask32 mask32(int64_t n)
{
    return n >= 32 ? 0xffffffffu : n <= 0 ? 0 : (1u << n) - 1u;
}

static inline __m512i sortable(__m512i x)
{
    const __m512i sign = _mm512_srai_epi16(x, 15);
    return _mm512_xor_si512(x, _mm512_and_si512(sign, _mm512_set1_epi16(0x7fff)));
}

/* Which of the entries [at, at + 32) there are and are eligible. */
static inline __mmask32 eligible(const entries *e, int64_t at)
{
    const __mmask32 mask = mask32(e->n - at);
    if (!e->candidates)
        return mask;
    if (e->block_size == 8 && at + 32 <= e->n) { /* four marks of 0 or 1, each to eight bits */
        uint32_t marks;
        memcpy(&marks, e->candidates + at / 8, sizeof marks);
        return marks * 0xffu;
    }
    __mmask32 set = 0;
    for (int i = 0; i < 32 && at + i < e->n; i++)
        set |= (__mmask32)(e->candidates[(at + i) / e->block_size] != 0) << i;
    return set & mask;
}

static bool is_ordinary(const entries *e)
{
    const __m512i magnitude = _mm512_set1_epi16(0x7fff), infinity = _mm512_set1_epi16(0x7f80);
    const __m512i negative_zero = _mm512_set1_epi16(INT16_MIN);
    __mmask32 found = 0;
    for (int64_t i = 0; i < e->n; i += 32) {
        const __m512i x = _mm512_maskz_loadu_epi16(mask32(e->n - i), e->scores + i);
        found |= _mm512_cmpgt_epi16_mask(_mm512_and_si512(x, magnitude), infinity) |
                 _mm512_cmpeq_epi16_mask(x, negative_zero);
    }
    return found == 0;
}

/* Entries of at least `key`. */
static int64_t count(const entries *e, int key)
{
    const __m512i threshold = _mm512_set1_epi16((short)key);
    int64_t n = 0;
    int64_t at = 0;
    if (!e->candidates)
        for (; at + 32 <= e->n; at += 32)
            n += __builtin_popcount(
                _mm512_cmpge_epi16_mask(sortable(_mm512_loadu_si512(e->scores + at)), threshold));
    for (; at < e->n; at += 32) {
        const __mmask32 mask = eligible(e, at);
        const __m512i x = _mm512_maskz_loadu_epi16(mask, e->scores + at);
        n += __builtin_popcount(_mm512_mask_cmpge_epi16_mask(mask, sortable(x), threshold));
    }
    return n;
}

typedef struct cut {
    int threshold;   /* entries above it are in */
    int64_t n_equal; /* and the first n_equal of those equal to it */
} cut;

/* Of the k largest; of all if there are fewer. */
static cut find_cut(const entries *e, int64_t k)
{
    if (count(e, LOWEST) <= k)
        return (cut){LOWEST, INT64_MAX};
    int threshold = LOWEST;
    for (int bit = 1 << 15; bit > 0; bit >>= 1) {
        const int64_t n = count(e, threshold + bit);
        if (n == k) /* the entries above a key one lower are those of at least this one */
            return (cut){threshold + bit - 1, 0};
        if (n > k)
            threshold += bit;
    }
    return (cut){threshold, k - (threshold < HIGHEST ? count(e, threshold + 1) : 0)};
}

/* The lowest n set bits. */
static inline __mmask32 lowest_bits(__mmask32 mask, int64_t n)
{
    return n >= 32 ? mask : (__mmask32)_pdep_u32((1u << n) - 1u, mask);
}

/* Writes the selected indices, ascending; returns their number. */
static int32_t write_selected(const entries *e, cut c, int32_t *out)
{
    const __m512i threshold = _mm512_set1_epi16((short)c.threshold);
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int32_t n = 0;
    for (int64_t at = 0; at < e->n; at += 32) {
        const __mmask32 mask = eligible(e, at);
        const __m512i x = sortable(_mm512_maskz_loadu_epi16(mask, e->scores + at));
        const __mmask32 equal =
            lowest_bits(_mm512_mask_cmpeq_epi16_mask(mask, x, threshold), c.n_equal);
        const __mmask32 in = equal | _mm512_mask_cmpgt_epi16_mask(mask, x, threshold);
        if (!in)
            continue;
        c.n_equal -= __builtin_popcount(equal);
        const __m512i i = _mm512_add_epi32(first, _mm512_set1_epi32((int)at));
        _mm512_mask_compressstoreu_epi32(out + n, (__mmask16)in, i);
        n += __builtin_popcount(in & 0xffff);
        _mm512_mask_compressstoreu_epi32(out + n, (__mmask16)(in >> 16),
                                         _mm512_add_epi32(i, _mm512_set1_epi32(16)));
        n += __builtin_popcount(in >> 16);
    }
    return n;
}

void di_topk_avx512(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_topk_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        const entries e = {
            .scores = a->scores + row * a->score_stride,
            .n = a->n_visible[row],
            .candidates = a->candidates ? a->candidates + row * a->candidate_stride : NULL,
            .block_size = a->block_size,
        };
        if (is_ordinary(&e))
            a->counts[row] = write_selected(&e, find_cut(&e, a->k), a->indices + row * a->k);
        else
            di_topk_ref(args, row, row + 1, worker);
    }
}

/* The largest key of scores [0, n). */
static int16_t largest_key(const di_bf16 *scores, int64_t n)
{
    __m512i most = _mm512_set1_epi16(LOWEST);
    for (int64_t i = 0; i < n; i += 32) {
        const __mmask32 mask = mask32(n - i);
        const __m512i x = sortable(_mm512_maskz_loadu_epi16(mask, scores + i));
        most = _mm512_mask_max_epi16(most, mask, most, x);
    }
    int16_t lanes[32], largest = LOWEST;
    _mm512_storeu_si512(lanes, most);
    for (int i = 0; i < 32; i++)
        largest = lanes[i] > largest ? lanes[i] : largest;
    return largest;
}

/* The key as the bf16 bits that it is the key of. */
static di_bf16 bits_of_key(int16_t key)
{
    return (di_bf16)(key < 0 ? key ^ 0x7fff : key);
}

static void mark_blocks(const di_candidate_blocks_args *a, const entries *e, uint8_t *out)
{
    di_bf16 most[BLOCKS_LIMIT];
    const int64_t n = di_ceil_div(e->n, a->block_size);
    for (int64_t b = 0; b < n; b++) {
        const int64_t first = b * a->block_size;
        most[b] = first + a->block_size >= e->n
                      ? HIGHEST /* above every number: the newest block is always in */
                      : bits_of_key(largest_key(e->scores + first, a->block_size));
    }
    const entries blocks = {.scores = most, .n = n};
    cut c = find_cut(&blocks, a->k);
    for (int64_t b = 0; b < n; b++) {
        const int key = (int16_t)(most[b] & 0x8000 ? most[b] ^ 0x7fff : most[b]);
        out[b] = key > c.threshold || (key == c.threshold && c.n_equal-- > 0);
    }
}

void di_candidate_blocks_avx512(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_candidate_blocks_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        const entries e = {.scores = a->scores + row * a->score_stride, .n = a->n_visible[row]};
        if (is_ordinary(&e) && di_ceil_div(e.n, a->block_size) <= BLOCKS_LIMIT)
            mark_blocks(a, &e, a->candidates + row * a->candidate_stride);
        else
            di_candidate_blocks_ref(args, row, row + 1, worker);
    }
}
