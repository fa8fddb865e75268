#include <immintrin.h>

#include "bench/ceiling.h"

void di_ceiling_read_avx512(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_ceiling_args *a = args;
    __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0;
    for (int64_t item = begin; item < end; item++) {
        const uint8_t *p = di_ceiling_chunk(a, item, worker);
        for (int i = 0; i < DI_CEILING_CHUNK; i += 256) {
            s0 = _mm512_add_epi64(s0, _mm512_load_si512(p + i));
            s1 = _mm512_add_epi64(s1, _mm512_load_si512(p + i + 64));
            s2 = _mm512_add_epi64(s2, _mm512_load_si512(p + i + 128));
            s3 = _mm512_add_epi64(s3, _mm512_load_si512(p + i + 192));
        }
    }
    s0 = _mm512_add_epi64(_mm512_add_epi64(s0, s1), _mm512_add_epi64(s2, s3));
    a->sink[worker * 8] += (uint64_t)_mm512_reduce_or_epi64(s0);
}

/* The chains start equal; the compiler must not know, or it computes one of them. */
#define HIDE(x)   __asm__ volatile("" : "+v"(x));
#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

void di_ceiling_fma_avx512(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_ceiling_args *a = args;
    const __m512 y = _mm512_set1_ps(0.5f);
    __m512 x = _mm512_set1_ps(1.0f);
    HIDE(x)
#define BEGIN(i)                                                                                   \
    __m512 s##i = y;                                                                               \
    HIDE(s##i)
#define ROUND(i) s##i = _mm512_fmadd_ps(s##i, x, y);
#define ADD(i)   sum = _mm512_add_ps(sum, s##i);
    CHAINS(BEGIN)
    for (int64_t i = 0; i < (end - begin) * DI_CEILING_ROUNDS; i++) {
        CHAINS(ROUND)
    }
    __m512 sum = _mm512_setzero_ps();
    CHAINS(ADD)
    a->sink[worker * 8] += (uint64_t)(_mm512_reduce_add_ps(sum) > 0.0f);
}
