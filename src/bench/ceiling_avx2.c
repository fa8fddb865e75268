#include <immintrin.h>

#include "bench/ceiling.h"

void di_ceiling_read_avx2(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_ceiling_args *a = args;
    __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
    for (int64_t item = begin; item < end; item++) {
        const __m256i *p = (const __m256i *)(const void *)di_ceiling_chunk(a, item, worker);
        for (int i = 0; i < DI_CEILING_CHUNK / 32; i += 4) {
            s0 = _mm256_add_epi64(s0, _mm256_load_si256(p + i));
            s1 = _mm256_add_epi64(s1, _mm256_load_si256(p + i + 1));
            s2 = _mm256_add_epi64(s2, _mm256_load_si256(p + i + 2));
            s3 = _mm256_add_epi64(s3, _mm256_load_si256(p + i + 3));
        }
    }
    s0 = _mm256_add_epi64(_mm256_add_epi64(s0, s1), _mm256_add_epi64(s2, s3));
    a->sink[worker * 8] += (uint64_t)_mm256_extract_epi64(s0, 0);
}

/* Eight chains would do for a latency of 4 on two ports. */
/* The chains start equal; the compiler must not know, or it computes one of them. */
#define HIDE(x)   __asm__ volatile("" : "+x"(x));
#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

void di_ceiling_fma_avx2(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_ceiling_args *a = args;
    const __m256 y = _mm256_set1_ps(0.5f);
    __m256 x = _mm256_set1_ps(1.0f);
    HIDE(x)
#define BEGIN(i)                                                                                   \
    __m256 s##i = y;                                                                               \
    HIDE(s##i)
#define ROUND(i) s##i = _mm256_fmadd_ps(s##i, x, y);
#define ADD(i)   sum = _mm256_add_ps(sum, s##i);
    CHAINS(BEGIN)
    for (int64_t i = 0; i < (end - begin) * DI_CEILING_ROUNDS; i++) {
        CHAINS(ROUND)
    }
    __m256 sum = _mm256_setzero_ps();
    CHAINS(ADD)
    a->sink[worker * 8] += (uint64_t)(_mm256_cvtss_f32(sum) > 0.0f);
}
