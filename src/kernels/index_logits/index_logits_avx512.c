#include <immintrin.h>

#include "kernels/all.h"

static inline __m512i dot4(__m512i acc, __m512i u8, __m512i s8)
{
    const __m512i pairs = _mm512_maddubs_epi16(u8, s8); /* at most 2 * 24 * 15 */
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

#include "kernels/index_logits/index_logits_avx512.h"

void di_index_logits_avx512(const void *args, int64_t begin, int64_t end, int worker)
{
    if (is_within_limits(args))
        index_logits(args, begin, end);
    else
        di_index_logits_ref(args, begin, end, worker);
}
