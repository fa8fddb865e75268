#include <immintrin.h>

#include "bench/ceiling.h"

/* The chains start equal; the compiler must not know, or it computes one of them. */
#define HIDE(x)   __asm__ volatile("" : "+v"(x));
#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

void di_ceiling_dot_int8_avx512vnni(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_ceiling_args *a = args;
    const __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-1);
#define BEGIN(i)                                                                                   \
    __m512i s##i = y;                                                                              \
    HIDE(s##i)
#define ROUND(i) s##i = _mm512_dpbusd_epi32(s##i, x, y);
#define ADD(i)   sum = _mm512_add_epi32(sum, s##i);
    CHAINS(BEGIN)
    for (int64_t i = 0; i < (end - begin) * DI_CEILING_ROUNDS; i++) {
        CHAINS(ROUND)
    }
    __m512i sum = _mm512_setzero_si512();
    CHAINS(ADD)
    a->sink[worker * 8] += (uint64_t)_mm512_reduce_or_epi32(sum);
#undef BEGIN
#undef ROUND
#undef ADD
}

bool di_ceiling_has_dot_bf16(void)
{
    return __builtin_cpu_supports("avx512bf16") != 0;
}

__attribute__((target("avx512bf16"))) void di_ceiling_dot_bf16_avx512vnni(const void *args,
                                                                          int64_t begin,
                                                                          int64_t end, int worker)
{
    const di_ceiling_args *a = args;
    const __m512 y = _mm512_set1_ps(0.5f);
    const __m512bh x = _mm512_cvtne2ps_pbh(y, y);
#define BEGIN(i)                                                                                   \
    __m512 s##i = y;                                                                               \
    HIDE(s##i)
#define ROUND(i) s##i = _mm512_dpbf16_ps(s##i, x, x);
#define ADD(i)   sum = _mm512_add_ps(sum, s##i);
    CHAINS(BEGIN)
    for (int64_t i = 0; i < (end - begin) * DI_CEILING_ROUNDS; i++) {
        CHAINS(ROUND)
    }
    __m512 sum = _mm512_setzero_ps();
    CHAINS(ADD)
    a->sink[worker * 8] += (uint64_t)(_mm512_reduce_add_ps(sum) > 0.0f);
}
