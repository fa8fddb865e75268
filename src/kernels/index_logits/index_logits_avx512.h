/* What the AVX-512 index logits share. A tile of 16 keys has a key a 32-bit element: four channels
 * of each. A group of 32 channels is eight such quadruples: the even channels of each 8, then the
 * odd ones. */
#ifndef DI_KERNELS_INDEX_LOGITS_AVX512_H
#define DI_KERNELS_INDEX_LOGITS_AVX512_H

#include "kernels/avx512.h"
#include "kernels/index_logits/index_group.h"
#include "kernels/index_logits/index_logits.h"

enum {
    DI_INDEX_KEYS = 16, /* of a tile */
    DI_INDEX_QUADS = 8  /* of a group */
};

/* The quadruple of a group that has channel i, as its element i % 8 / 2. */
static inline int di_index_quad(int i)
{
    return i / 8 + (i % 2 ? DI_INDEX_QUADS / 2 : 0);
}

/* A group's query channels as integers; returns their unit. */
static inline float di_index_ints512(const di_bf16 *q, int8_t ints[DI_INDEX_GROUP])
{
    const __m512i sizes = _mm512_and_si512(_mm512_loadu_si512(q), _mm512_set1_epi16(0x7fff));
    const __m512i pairs = _mm512_max_epu16(sizes, _mm512_srli_epi32(sizes, 16));
    const float unit =
        di_index_unit(_mm512_reduce_max_epu32(_mm512_and_si512(pairs, _mm512_set1_epi32(0xffff))));
    const __mmask16 all = unit > 0.0f ? 0xffff : 0;
    for (int i = 0; i < DI_INDEX_GROUP; i += 16) {
        const __m512 x = _mm512_div_ps(di_load_bf16_512(q + i), _mm512_set1_ps(unit));
        const __m512i n = _mm512_maskz_cvttps_epi32(all, x);
        _mm_storeu_si128((__m128i *)(void *)(ints + i), _mm512_cvtepi32_epi8(n));
    }
    return unit;
}

/* Codes and scales of a tile's entries from `first` on; entry last - 1 stands in for those behind.
 */
static inline void di_index_entries(const di_index_logits_args *a, int64_t row, int64_t first,
                                    int64_t last, const uint8_t **codes, const uint8_t **scales)
{
    const di_paged *p = &a->keys;
    const int32_t *table = a->block_tables[row];
    int64_t block = first / p->block_len, place = first % p->block_len;
    const uint8_t *data = p->data + table[block] * p->block_bytes;
    for (int k = 0; k < DI_INDEX_KEYS; k++) {
        codes[k] = data + place * p->code_bytes;
        scales[k] = data + p->scales_offset + place * p->scale_bytes;
        if (first + k + 1 < last && ++place == p->block_len) {
            place = 0;
            data = p->data + table[++block] * p->block_bytes;
        }
    }
}

/* sum + round(w * relu(round(dot))) */
static inline __m512 di_index_add512(__m512 sum, __m512 dot, __m512 w)
{
    /* maxps gives its second operand if one is NaN */
    const __m512 relu = _mm512_max_ps(_mm512_setzero_ps(), di_round_to_bf16_512(dot));
    return _mm512_add_ps(sum, di_round_to_bf16_512(_mm512_mul_ps(relu, w)));
}

#endif
