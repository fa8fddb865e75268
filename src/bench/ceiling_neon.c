#include <arm_neon.h>

#include "bench/ceiling.h"

void di_ceiling_read_neon(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_ceiling_args *a = args;
    uint8x16_t s0 = vdupq_n_u8(0), s1 = s0, s2 = s0, s3 = s0;
    for (int64_t item = begin; item < end; item++) {
        const uint8_t *p = di_ceiling_chunk(a, item, worker);
        for (int i = 0; i < DI_CEILING_CHUNK; i += 64) {
            s0 = veorq_u8(s0, vld1q_u8(p + i));
            s1 = veorq_u8(s1, vld1q_u8(p + i + 16));
            s2 = veorq_u8(s2, vld1q_u8(p + i + 32));
            s3 = veorq_u8(s3, vld1q_u8(p + i + 48));
        }
    }
    a->sink[worker * 8] += vaddlvq_u8(veorq_u8(veorq_u8(s0, s1), veorq_u8(s2, s3)));
}

/* The chains start equal; the compiler must not know, or it computes one of them. */
#define HIDE(x) __asm__ volatile("" : "+w"(x));
#define CHAINS(X)                                                                                  \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

void di_ceiling_fma_neon(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_ceiling_args *a = args;
    const float32x4_t y = vdupq_n_f32(0.5f);
    float32x4_t x = vdupq_n_f32(1.0f);
    HIDE(x)
#define BEGIN(i)                                                                                   \
    float32x4_t s##i = y;                                                                          \
    HIDE(s##i)
#define ROUND(i) s##i = vfmaq_f32(y, s##i, x);
#define ADD(i)   sum = vaddq_f32(sum, s##i);
    CHAINS(BEGIN)
    for (int64_t i = 0; i < (end - begin) * DI_CEILING_ROUNDS; i++) {
        CHAINS(ROUND)
    }
    float32x4_t sum = vdupq_n_f32(0.0f);
    CHAINS(ADD)
    a->sink[worker * 8] += (uint64_t)(vaddvq_f32(sum) > 0.0f);
}
