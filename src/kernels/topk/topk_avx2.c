/* Selection with AVX2: 16-bit keys that sort like the scores, made in registers; the k-th largest
 * is searched bit by bit, each step counts the keys that reach a value. */
#include "kernels/topk/topk.h"

#include "base/checked.h"
#include "kernels/all.h"
#include "kernels/avx2.h"

enum { WIDTH = 16 };

/* The first n of 16 bits. */
static uint32_t mask16(int64_t n)
{
    return n >= WIDTH ? 0xffffu : n <= 0 ? 0 : (1u << n) - 1u;
}

/* The first n words, zeros behind them; reads no others. */
static inline __m256i load_words(const uint16_t *x, int64_t n)
{
    if (n >= WIDTH)
        return _mm256_loadu_si256((const __m256i *)(const void *)x);
    uint16_t part[WIDTH] = {0};
    memcpy(part, x, (size_t)n * sizeof *x);
    return _mm256_loadu_si256((const __m256i *)(const void *)part);
}

/* NaN 0, then from -infinity 1 upwards; +0 and -0 are one key. */
static inline __m256i sort_keys(__m256i x)
{
    const __m256i positive = _mm256_add_epi16(x, _mm256_set1_epi16((short)0x807f));
    const __m256i negative = _mm256_sub_epi16(_mm256_set1_epi16(0x7f), x);
    const __m256i key = _mm256_blendv_epi8(positive, negative, _mm256_srai_epi16(x, 15));
    /* NaN of both signs are now 0 .. 0xfe, below all numbers. */
    return _mm256_subs_epu16(key, _mm256_set1_epi16(0xfe));
}

/* One bit a word. */
static inline uint32_t bits_of(__m256i words)
{
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    return (uint32_t)_mm_movemask_epi8(bytes);
}

static inline uint32_t reached(__m256i key, __m256i least)
{
    return bits_of(_mm256_cmpeq_epi16(_mm256_max_epu16(key, least), key));
}

/* Where keys come from: scores with or without candidates, or plain keys (scores NULL). */
typedef struct source {
    const di_bf16 *scores;
    const uint16_t *keys;
    const uint8_t *candidates;
    int64_t block_size, n;
} source;

/* Entries i .. i + 15 that exist and belong to a candidate. */
static uint32_t eligible(const source *s, int64_t i)
{
    if (!s->candidates)
        return mask16(s->n - i);
    uint32_t mask = 0;
    for (int64_t j = i, last = di_min_i64(i + WIDTH, s->n); j < last;) {
        const int64_t block = j / s->block_size;
        const int64_t next = di_min_i64((block + 1) * s->block_size, last);
        if (s->candidates[block])
            mask |= mask16(next - i) & ~mask16(j - i);
        j = next;
    }
    return mask;
}

static inline __m256i keys_at(const source *s, int64_t i)
{
    return s->scores ? sort_keys(load_words(s->scores + i, s->n - i))
                     : load_words(s->keys + i, s->n - i);
}

static int64_t count_from(const source *s, uint32_t least)
{
    const __m256i t = _mm256_set1_epi16((short)least);
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i += WIDTH)
        n += __builtin_popcount(reached(keys_at(s, i), t) & eligible(s, i));
    return n;
}

/* The largest key that at least k keys reach, or 0; *n_above: how many keys are above. */
static uint32_t kth_key(const source *s, int64_t k, int64_t *n_above)
{
    uint32_t low = 0, high = 0x10000;
    *n_above = 0;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        const int64_t n = count_from(s, middle);
        if (n >= k) {
            low = middle;
        } else {
            high = middle;
            *n_above = n;
        }
    }
    return low;
}

/* Of the masked entries of one vector those above the cut, and *n_equal of those equal to it. */
static inline uint32_t chosen(__m256i key, uint32_t mask, __m256i cut, int64_t *n_equal)
{
    uint32_t equal = bits_of(_mm256_cmpeq_epi16(key, cut)) & mask;
    uint32_t above = reached(key, cut) & mask & ~equal;
    for (; equal && *n_equal > 0; equal &= equal - 1, --*n_equal)
        above |= equal & -equal;
    return above;
}

void di_topk_avx2(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_topk_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        const source s = {.scores = a->scores + row * a->score_stride,
                          .candidates =
                              a->candidates ? a->candidates + row * a->candidate_stride : NULL,
                          .block_size = a->block_size,
                          .n = a->n_visible[row]};
        int64_t n_above;
        const __m256i cut = _mm256_set1_epi16((short)kth_key(&s, a->k, &n_above));
        int64_t n_equal = a->k - n_above;
        int32_t *out = a->indices + row * a->k, n = 0;
        for (int64_t i = 0; i < s.n; i += WIDTH) {
            uint32_t m = chosen(keys_at(&s, i), eligible(&s, i), cut, &n_equal);
            for (; m; m &= m - 1)
                out[n++] = (int32_t)i + __builtin_ctz(m);
        }
        a->counts[row] = n;
    }
}

/* ------------------------------------------------------------------- blocks */

/* Largest key; what pads the last load has the least. */
static uint16_t block_max(const di_bf16 *scores, int64_t n)
{
    __m256i m = _mm256_setzero_si256();
    for (int64_t i = 0; i < n; i += WIDTH) {
        const source s = {.scores = scores, .n = n};
        uint16_t key[WIDTH];
        _mm256_storeu_si256((__m256i *)(void *)key, keys_at(&s, i));
        m = _mm256_max_epu16(m, load_words(key, n - i));
    }
    const __m128i b = _mm_max_epu16(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    const __m128i least = _mm_minpos_epu16(_mm_xor_si128(b, _mm_set1_epi16(-1)));
    return (uint16_t)~_mm_extract_epi16(least, 0);
}

void di_candidate_blocks_avx2(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_candidate_blocks_args *a = args;
    uint16_t keys[DI_TOPK_BLOCK_LIMIT];
    for (int64_t row = begin; row < end; row++) {
        const int64_t n = a->n_visible[row];
        const source s = {.keys = keys, .n = di_ceil_div(n, a->block_size)};
        if (s.n > DI_TOPK_BLOCK_LIMIT) {
            di_candidate_blocks_ref(args, row, row + 1, worker);
            continue;
        }
        for (int64_t b = 0; b < s.n; b++) {
            const int64_t first = b * a->block_size;
            keys[b] = b == s.n - 1 /* the newest block is always in */
                          ? 0xffff
                          : block_max(a->scores + row * a->score_stride + first, a->block_size);
        }
        int64_t n_above;
        const uint32_t cut = kth_key(&s, a->k, &n_above);
        int64_t n_equal = a->k - n_above;
        uint8_t *out = a->candidates + row * a->candidate_stride;
        for (int64_t b = 0; b < s.n; b++)
            out[b] = keys[b] > cut || (keys[b] == cut && n_equal-- > 0);
    }
}
