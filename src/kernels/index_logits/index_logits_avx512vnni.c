#include <immintrin.h>

#include "kernels/all.h"

static inline __m512i dot4(__m512i acc, __m512i u8, __m512i s8)
{
    return _mm512_dpbusd_epi32(acc, u8, s8);
}

#include "kernels/index_logits/index_logits_avx512.h"

void di_index_logits_avx512vnni(const void *args, int64_t begin, int64_t end, int worker)
{
    if (is_within_limits(args))
        index_logits(args, begin, end);
    else
        di_index_logits_ref(args, begin, end, worker);
}
