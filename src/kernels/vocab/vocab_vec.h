/* Passes over the vocabulary on sixteen lanes (vec.h). */
#ifndef DI_KERNELS_VOCAB_VEC_H
#define DI_KERNELS_VOCAB_VEC_H

#include <float.h>

#include "kernels/vec_math.h"
#include "kernels/vocab/vocab.h"

static inline int64_t vocab_block_ids(int64_t block, int64_t n)
{
    const int64_t left = n - block * DI_VOCAB_BLOCK;
    return left < DI_VOCAB_BLOCK ? left : DI_VOCAB_BLOCK;
}

/* The numbers of a row, `other` in the lanes beyond. */
static inline di_vec vocab_load(const float *x, int64_t n, float other)
{
    const di_vec v = di_vec_load(x, n);
    return n >= DI_VEC ? v
                       : di_vec_select(di_ivec_less(di_ivec_count(), di_ivec_set((uint32_t)n)), v,
                                       di_vec_set(other));
}

DI_VEC_KERNEL(row_peaks)
{
    (void)worker;
    const di_row_peaks_args *a = args;
    const di_vec limit = di_vec_set(FLT_MAX);
    for (int64_t b = begin; b < end; b++) {
        const float *row = a->row + b * DI_VOCAB_BLOCK;
        const int64_t n = vocab_block_ids(b, a->n);
        di_vec peak = di_vec_set(-INFINITY);
        di_vmask is_bad = di_vec_not_up_to(peak, limit); /* none */
        for (int64_t i = 0; i < n; i += DI_VEC) {
            const di_vec x = vocab_load(row + i, n - i, -INFINITY);
            is_bad = di_vmask_or(is_bad, di_vec_not_up_to(x, limit));
            peak = di_vec_max(x, peak);
        }
        a->peaks[b] = di_vmask_any(is_bad) ? __builtin_nanf("") : di_vec_largest(peak) + 0.0f;
    }
}

DI_VEC_KERNEL(exp_weights)
{
    (void)worker;
    const di_exp_weights_args *a = args;
    const di_vec max = di_vec_set(a->max), least = di_vec_set(-28.0f), zero = di_vec_set(0.0f);
    for (int64_t b = begin; b < end; b++) {
        const float *row = a->row + b * DI_VOCAB_BLOCK;
        const int64_t n = vocab_block_ids(b, a->n);
        di_ivec high = di_ivec_set(0), low = high; /* at most 8 times 2^24, 2^16 */
        for (int64_t i = 0; i < n; i += DI_VEC) {
            const di_vec z = di_vec_sub(vocab_load(row + i, n - i, -INFINITY), max);
            const di_vec scaled = di_vec_mul(di_vec_exp(z), di_vec_set(0x1p40f));
            const di_vec e = di_vec_select(di_vec_less(least, z), scaled, zero);
            const di_ivec h = di_vec_to_int(di_vec_mul(e, di_vec_set(0x1p-16f)));
            const di_vec rest = di_vec_sub(e, di_vec_mul(di_vec_from_int(h), di_vec_set(0x1p16f)));
            high = di_ivec_add(high, h);
            low = di_ivec_add(low, di_vec_to_int(rest));
        }
        int32_t highs[DI_VEC], lows[DI_VEC];
        di_ivec_store(highs, high);
        di_ivec_store(lows, low);
        uint64_t sum_high = 0, sum_low = 0;
        for (int j = 0; j < DI_VEC; j++) {
            sum_high += (uint32_t)highs[j];
            sum_low += (uint32_t)lows[j];
        }
        a->sums[b] = (sum_high << 16) + sum_low;
    }
}

/* philox.h's rounds on sixteen counters. */
static inline void vocab_philox(const di_philox_bits_args *a, int64_t at)
{
    const di_ivec multiplier_0 = di_ivec_set(0xD2511F53u), multiplier_1 = di_ivec_set(0xCD9E8D57u);
    di_ivec x0 = di_ivec_set(a->counter.word[0]), x1 = di_ivec_load(a->word_1 + at);
    di_ivec x2 = di_ivec_set(a->counter.word[2]), x3 = di_ivec_set(a->counter.word[3]);
    uint32_t key_0 = (uint32_t)a->key, key_1 = (uint32_t)(a->key >> 32);
    for (int round = 0; round < 10; round++) {
        di_ivec high_0, high_1;
        const di_ivec low_0 = di_ivec_mul_wide(x0, multiplier_0, &high_0);
        const di_ivec low_1 = di_ivec_mul_wide(x2, multiplier_1, &high_1);
        x0 = di_ivec_xor(di_ivec_xor(high_1, x1), di_ivec_set(key_0));
        x2 = di_ivec_xor(di_ivec_xor(high_0, x3), di_ivec_set(key_1));
        x1 = low_1;
        x3 = low_0;
        key_0 += 0x9E3779B9u;
        key_1 += 0xBB67AE85u;
    }
    di_ivec_store((int32_t *)a->bits + at, x0);
    di_ivec_store((int32_t *)a->bits + a->n + at, x1);
    di_ivec_store((int32_t *)a->bits + 2 * a->n + at, x2);
    di_ivec_store((int32_t *)a->bits + 3 * a->n + at, x3);
}

DI_VEC_KERNEL(philox_bits)
{
    int64_t i = begin;
    for (; i + DI_VEC <= end; i += DI_VEC)
        vocab_philox(args, i);
    di_philox_bits_ref(args, i, end, worker);
}

#endif
