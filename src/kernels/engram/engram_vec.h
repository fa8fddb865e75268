/* Engram's gather and gate on sixteen lanes (vec.h). engram_hash has no such kernel: a
 * token's 24 remainders of 64-bit numbers take about as long as one row of the gather. */
#ifndef DI_KERNELS_ENGRAM_VEC_H
#define DI_KERNELS_ENGRAM_VEC_H

#include "kernels/engram/engram.h"
#include "kernels/vec_math.h"

enum { ENGRAM_AHEAD = 8, ENGRAM_LINE = 64 }; /* table rows asked for in advance; cache line bytes */

/* Table rows lie anywhere in a table that no cache holds. */
static inline void engram_prefetch(const di_engram_gather_args *a, int64_t row)
{
    const uint8_t *codes = a->codes + row * a->dim;
    for (int64_t at = 0; at < a->dim; at += ENGRAM_LINE)
        _mm_prefetch((const char *)codes + at, _MM_HINT_T0);
    _mm_prefetch((const char *)codes + a->dim - 1, _MM_HINT_T0);
    _mm_prefetch((const char *)a->scales + row * (a->dim / 32), _MM_HINT_T0);
}

/* Values of e4m3 codes. */
static inline di_vec engram_e4m3(di_ivec code)
{
    const di_ivec magnitude = di_ivec_and(code, di_ivec_set(0x7f));
    const di_ivec sign = di_ivec_shl(di_ivec_and(code, di_ivec_set(0x80)), 24);
    const di_ivec normal = di_ivec_add(di_ivec_shl(magnitude, 20), di_ivec_set((127 - 7) << 23));
    const di_ivec small = di_vec_bits(di_vec_mul(di_vec_from_int(magnitude), di_vec_set(0x1p-9f)));
    di_ivec u = di_ivec_select(di_ivec_less(magnitude, di_ivec_set(8)), small, normal);
    u = di_ivec_select(di_ivec_less(di_ivec_set(0x7e), magnitude), di_ivec_set(0x7fc00000u), u);
    return di_vec_from_bits(di_ivec_or(u, sign));
}

DI_VEC_KERNEL(engram_gather)
{
    (void)worker;
    const di_engram_gather_args *a = args;
    const int64_t last = end * a->n_columns;
    for (int64_t i = begin * a->n_columns; i < last && i < begin * a->n_columns + ENGRAM_AHEAD; i++)
        engram_prefetch(a, a->rows[i]);
    for (int64_t i = begin * a->n_columns; i < last; i++) {
        if (i + ENGRAM_AHEAD < last)
            engram_prefetch(a, a->rows[i + ENGRAM_AHEAD]);
        const uint8_t *codes = a->codes + a->rows[i] * a->dim;
        const uint8_t *scales = a->scales + a->rows[i] * (a->dim / 32);
        di_bf16 *y = a->y + i * a->dim;
        for (int64_t g = 0; g < a->dim / 32; g++) {
            const di_vec scale = di_vec_set(di_e8m0_to_f32(scales[g]));
            for (int64_t c = g * 32; c < g * 32 + 32; c += DI_VEC)
                di_vec_store_bf16(y + c, DI_VEC,
                                  di_vec_mul(engram_e4m3(di_ivec_load_bytes(codes + c)), scale));
        }
    }
}

static inline float engram_gate_of(const di_engram_gate_args *a, const di_bf16 *h,
                                   const di_bf16 *key, int j)
{
    const int64_t dim = a->dim;
    const di_bf16 *qw = a->q_weight + j * dim, *kw = a->k_weight + j * dim;
    di_vec product = di_vec_set(0.0f), h2 = product, k2 = product;
    for (int64_t i = 0; i < dim; i += DI_VEC) {
        const di_vec w =
            di_vec_mul(di_vec_load_bf16(qw + i, dim - i), di_vec_load_bf16(kw + i, dim - i));
        const di_vec x = di_vec_load_bf16(h + i, dim - i), k = di_vec_load_bf16(key + i, dim - i);
        product = di_vec_add(product, di_vec_mul(di_vec_mul(x, w), k));
        h2 = di_vec_add(h2, di_vec_mul(x, x));
        k2 = di_vec_add(k2, di_vec_mul(k, k));
    }
    const float rh = di_rsqrtf(di_vec_total(h2) / (float)dim + a->norm_eps);
    const float rk = di_rsqrtf(di_vec_total(k2) / (float)dim + a->norm_eps);
    const float d = di_vec_total(product) * rh * rk * (float)(1.0 / sqrt((double)dim));
    const float magnitude = fabsf(d) > 1e-6f || d != d ? fabsf(d) : 1e-6f;
    return di_sigmoidf(copysignf(sqrtf(magnitude), d));
}

DI_VEC_KERNEL(engram_gate)
{
    (void)worker;
    const di_engram_gate_args *a = args;
    const int64_t dim = a->dim;
    for (int64_t row = begin; row < end; row++) {
        const di_bf16 *kv = a->kv + row * (a->hc + 1) * dim, *value = kv + a->hc * dim;
        for (int j = 0; j < a->hc; j++) {
            di_bf16 *h = a->h + (row * a->hc + j) * dim;
            const di_vec gate = di_vec_set(engram_gate_of(a, h, kv + j * dim, j));
            for (int64_t i = 0; i < dim; i += DI_VEC) {
                const di_vec v = di_vec_mul(gate, di_vec_load_bf16(value + i, dim - i));
                di_vec_store_bf16(h + i, dim - i, di_vec_add(di_vec_load_bf16(h + i, dim - i), v));
            }
        }
    }
}

#endif
