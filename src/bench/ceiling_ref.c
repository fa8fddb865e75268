/* Loops in plain C, four lanes wide, for whatever the compiler makes of them. */
#include "bench/ceiling.h"

typedef uint64_t u64x2 __attribute__((vector_size(16)));
typedef float f32x4 __attribute__((vector_size(16)));

void di_ceiling_read_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_ceiling_args *a = args;
    u64x2 s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    for (int64_t item = begin; item < end; item++) {
        const u64x2 *p = (const u64x2 *)(const void *)di_ceiling_chunk(a, item, worker);
        for (int i = 0; i < DI_CEILING_CHUNK / 16; i += 4) {
            s0 ^= p[i];
            s1 ^= p[i + 1];
            s2 ^= p[i + 2];
            s3 ^= p[i + 3];
        }
    }
    s0 ^= s1 ^ s2 ^ s3;
    a->sink[worker * 8] += s0[0] ^ s0[1];
}

void di_ceiling_fma_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_ceiling_args *a = args;
    volatile float one = 1.0f; /* hides it: a product with 1 would be left out */
    const f32x4 x = {one, one, one, one}, y = {0.5f, 0.25f, 0.5f, 0.25f};
    f32x4 s0 = y, s1 = s0 + y, s2 = s1 + y, s3 = s2 + y; /* different, or they would be one */
    f32x4 s4 = s3 + y, s5 = s4 + y, s6 = s5 + y, s7 = s6 + y;
    for (int64_t i = 0; i < (end - begin) * DI_CEILING_ROUNDS; i++) {
        s0 = s0 * x + y;
        s1 = s1 * x + y;
        s2 = s2 * x + y;
        s3 = s3 * x + y;
        s4 = s4 * x + y;
        s5 = s5 * x + y;
        s6 = s6 * x + y;
        s7 = s7 * x + y;
    }
    s0 += s1 + s2 + s3 + s4 + s5 + s6 + s7;
    a->sink[worker * 8] += (uint64_t)(s0[0] + s0[1] + s0[2] + s0[3] > 0.0f);
}
