/* Selection with AVX-512BW: 16-bit keys that sort like the scores, made in registers.
 *
 * The k-th largest of the lanes' maxima (each over every LANES-th vector) is at most the k-th
 * largest of all, and near it. The keys above that bound are packed into a buffer, where the cut is
 * searched bit by bit; if they are too many (ties), all scores are searched instead. */
#include "kernels/topk/topk.h"

#include <string.h>

#include "base/checked.h"
#include "kernels/all.h"
#include "kernels/avx512.h"

enum {
    WIDTH = 32,
    LANES = 64,    /* vectors of maxima */
    BUFFER = 8192, /* keys above the bound */
    SHORT = 4096   /* scores that are searched directly */
};

static __mmask32 mask32(int64_t n)
{
    return n >= 32 ? 0xffffffffu : n <= 0 ? 0 : (1u << n) - 1u;
}

static __m512i load_words(const uint16_t *x, __mmask32 mask)
{
    return _mm512_maskz_loadu_epi16(mask, x);
}

/* NaN 0, then from -infinity 1 upwards; +0 and -0 are one key. */
static inline __m512i sort_keys(__m512i x)
{
    const __mmask32 is_negative = _mm512_movepi16_mask(x);
    const __m512i positive = _mm512_add_epi16(x, _mm512_set1_epi16((short)0x807f));
    /* NaN of both signs now wrap to 0 .. 0xfe, below all numbers. */
    const __m512i key = _mm512_mask_sub_epi16(positive, is_negative, _mm512_set1_epi16(0x7f), x);
    return _mm512_subs_epu16(key, _mm512_set1_epi16(0xfe));
}

/* Where keys come from: scores with or without candidates, or plain keys (scores NULL). */
typedef struct source {
    const di_bf16 *scores;
    const uint16_t *keys;
    const uint8_t *candidates;
    int64_t block_size, n;
} source;

/* Entries i .. i + 31 that exist and belong to a candidate. */
static __mmask32 eligible(const source *s, int64_t i)
{
    const __mmask32 exist = mask32(s->n - i);
    if (!s->candidates)
        return exist;
    if (s->block_size == 8) {
        uint32_t marks = 0;
        if (s->n - i > 24)
            memcpy(&marks, s->candidates + i / 8, sizeof marks);
        else
            memcpy(&marks, s->candidates + i / 8, (size_t)di_ceil_div(s->n - i, 8));
        return exist & marks * 255u;
    }
    __mmask32 mask = 0;
    for (int64_t j = i, last = di_min_i64(i + WIDTH, s->n); j < last;) {
        const int64_t block = j / s->block_size;
        const int64_t next = di_min_i64((block + 1) * s->block_size, last);
        if (s->candidates[block])
            mask |= mask32(next - i) & ~mask32(j - i);
        j = next;
    }
    return mask;
}

/* Keys i .. i + 31; 0 of entries that are not eligible. */
static inline __m512i keys_at(const source *s, int64_t i, __mmask32 mask)
{
    if (!s->scores)
        return load_words(s->keys + i, mask);
    return _mm512_maskz_mov_epi16(mask, sort_keys(load_words(s->scores + i, mask)));
}

static int64_t count_from(const source *s, uint32_t least)
{
    const __m512i t = _mm512_set1_epi16((short)least);
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i += WIDTH)
        n += __builtin_popcount(_mm512_cmpge_epu16_mask(keys_at(s, i, eligible(s, i)), t));
    return n;
}

/* The largest key that at least k keys reach, no less than `least` (k or more reach it, or it is
 * 0); *n_above: how many keys are above. */
static uint32_t kth_key(const source *s, int64_t k, uint32_t least, int64_t *n_above)
{
    uint32_t low = least, high = 0x10000; /* low is reached by k, high is not */
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

/* At most the k-th largest key. */
static uint32_t lower_bound(const source *s, int64_t k)
{
    uint16_t maxima[LANES * WIDTH] = {0};
    for (int64_t i = 0, lane = 0; i < s->n; i += WIDTH, lane = (lane + 1) % LANES) {
        const __m512i m = load_words(maxima + lane * WIDTH, 0xffffffffu);
        const __m512i key = keys_at(s, i, eligible(s, i));
        _mm512_storeu_si512(maxima + lane * WIDTH, _mm512_max_epu16(m, key));
    }
    const source lanes = {.keys = maxima, .n = LANES * WIDTH};
    int64_t n_above;
    return kth_key(&lanes, k, 0, &n_above);
}

/* 32 words whose mask bit is set, packed; writes 32. AVX512-BW has no such instruction for words.
 */
static int64_t pack_words(uint16_t *out, __m512i x, __mmask32 mask)
{
    const __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(x));
    const __m512i high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(x, 1));
    const __mmask16 a = (__mmask16)mask, b = (__mmask16)(mask >> 16);
    const int n = __builtin_popcount(a);
    _mm256_storeu_si256((__m256i *)(void *)out,
                        _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(a, low)));
    _mm256_storeu_si256((__m256i *)(void *)(out + n),
                        _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(b, high)));
    return n + __builtin_popcount(b);
}

/* The keys that reach `least`; -1 if they do not fit. */
static int64_t collect(const source *s, uint32_t least, uint16_t out[BUFFER + WIDTH])
{
    const __m512i t = _mm512_set1_epi16((short)least);
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i += WIDTH) {
        const __m512i key = keys_at(s, i, eligible(s, i));
        const __mmask32 mask = _mm512_cmpge_epu16_mask(key, t);
        if (mask == 0)
            continue;
        if (n > BUFFER - WIDTH)
            return -1;
        n += pack_words(out + n, key, mask);
    }
    return n;
}

/* The k-th largest key, and how many are above it. */
static uint32_t cut_of(const source *s, int64_t k, int64_t *n_above)
{
    if (s->n <= SHORT || k > LANES * WIDTH / 2)
        return kth_key(s, k, 0, n_above);
    uint16_t buffer[BUFFER + WIDTH];
    const uint32_t least = lower_bound(s, k);
    const source above = {.keys = buffer, .n = least > 0 ? collect(s, least, buffer) : -1};
    if (above.n >= 0)
        return kth_key(&above, k, least, n_above);
    *n_above = count_from(s, least + 1); /* many equal keys: most likely the cut is theirs */
    return *n_above < k ? least : kth_key(s, k, least + 1, n_above);
}

/* Of the masked entries of one vector those above the cut, and *n_equal of those equal to it. */
static inline __mmask32 chosen(__m512i key, __mmask32 mask, __m512i cut, int64_t *n_equal)
{
    __mmask32 above = _mm512_mask_cmpgt_epu16_mask(mask, key, cut);
    __mmask32 equal = _mm512_mask_cmpeq_epi16_mask(mask, key, cut);
    for (; equal && *n_equal > 0; equal &= equal - 1, --*n_equal)
        above |= equal & -equal;
    return above;
}

static int32_t write_indices(const source *s, uint32_t cut, int64_t n_equal, int32_t *out)
{
    const __m512i t = _mm512_set1_epi16((short)cut);
    int32_t n = 0;
    for (int64_t i = 0; i < s->n; i += WIDTH) {
        const __mmask32 mask = eligible(s, i);
        const __m512i key = keys_at(s, i, mask);
        for (__mmask32 m = chosen(key, mask, t, &n_equal); m; m &= m - 1)
            out[n++] = (int32_t)i + __builtin_ctz(m);
    }
    return n;
}

void di_topk_avx512(const void *args, int64_t begin, int64_t end, int worker)
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
        const uint32_t cut = cut_of(&s, a->k, &n_above);
        a->counts[row] = write_indices(&s, cut, a->k - n_above, a->indices + row * a->k);
    }
}

/* ------------------------------------------------------------------- blocks */

/* Largest of each eight words, in the first four words. */
static inline __m128i eighths_max(__m512i x)
{
    x = _mm512_max_epu16(x, _mm512_bsrli_epi128(x, 8));
    x = _mm512_max_epu16(x, _mm512_bsrli_epi128(x, 4));
    x = _mm512_max_epu16(x, _mm512_bsrli_epi128(x, 2));
    const __m512i order = _mm512_castsi128_si512(_mm_setr_epi16(0, 8, 16, 24, 0, 0, 0, 0));
    return _mm512_castsi512_si128(_mm512_permutexvar_epi16(order, x));
}

static uint16_t block_max(const di_bf16 *scores, int64_t n)
{
    __m512i m = _mm512_setzero_si512();
    for (int64_t i = 0; i < n; i += WIDTH) {
        const __mmask32 mask = mask32(n - i);
        const __m512i key = sort_keys(load_words(scores + i, mask));
        m = _mm512_max_epu16(m, _mm512_maskz_mov_epi16(mask, key));
    }
    const __m256i a = _mm256_max_epu16(_mm512_castsi512_si256(m), _mm512_extracti64x4_epi64(m, 1));
    const __m128i b = _mm_max_epu16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    const __m128i least = _mm_minpos_epu16(_mm_xor_si128(b, _mm_set1_epi16(-1)));
    return (uint16_t)~_mm_extract_epi16(least, 0);
}

/* Keys of all blocks; the newest one's is above every number's. */
static void block_keys(const di_bf16 *scores, int64_t n, int64_t block_size, uint16_t *out)
{
    const int64_t n_blocks = di_ceil_div(n, block_size);
    int64_t block = 0;
    for (; block_size == 8 && (block + 4) * 8 <= n; block += 4)
        _mm_storel_epi64((__m128i *)(void *)(out + block),
                         eighths_max(sort_keys(load_words(scores + block * 8, 0xffffffffu))));
    for (; block < n_blocks; block++) {
        const int64_t first = block * block_size;
        out[block] = block_max(scores + first, di_min_i64(block_size, n - first));
    }
    if (n_blocks > 0)
        out[n_blocks - 1] = 0xffff;
}

static void mark_blocks(const source *s, int64_t k, uint8_t *out)
{
    int64_t n_above;
    const uint32_t cut = kth_key(s, k, 0, &n_above);
    const __m512i t = _mm512_set1_epi16((short)cut);
    int64_t n_equal = k - n_above;
    for (int64_t i = 0; i < s->n; i += WIDTH) {
        const __mmask32 mask = mask32(s->n - i);
        const __mmask32 marks = chosen(load_words(s->keys + i, mask), mask, t, &n_equal);
        _mm256_mask_storeu_epi8(out + i, mask, _mm256_maskz_set1_epi8(marks, 1));
    }
}

void di_candidate_blocks_avx512(const void *args, int64_t begin, int64_t end, int worker)
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
        block_keys(a->scores + row * a->score_stride, n, a->block_size, keys);
        mark_blocks(&s, a->k, a->candidates + row * a->candidate_stride);
    }
}
