#include "kernels/engram/engram.h"

#include "base/mathf.h"
#include "base/sum.h"
#include "core/tensor.h"
#include "kernels/all.h"

void di_engram_hash_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_engram_hash_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        int64_t *out = a->rows + row * (a->max_ngram - 1) * a->n_heads;
        int64_t hash = 0;
        for (int64_t k = 0; k < a->max_ngram; k++) {
            const int64_t position = a->positions[row] - k;
            const int64_t id = position < 0 ? a->pad_id : a->history[row][position];
            hash ^= id * a->multipliers[k];
            for (int64_t head = 0; k > 0 && head < a->n_heads; head++) {
                const int64_t column = (k - 1) * a->n_heads + head;
                out[column] = hash % a->primes[column] + a->offsets[column];
            }
        }
    }
}

void di_engram_gather_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_engram_gather_args *a = args;
    for (int64_t i = begin * a->n_columns; i < end * a->n_columns; i++) {
        const uint8_t *codes = a->codes + a->rows[i] * a->dim;
        const uint8_t *scales = a->scales + a->rows[i] * (a->dim / 32);
        for (int64_t c = 0; c < a->dim; c++)
            a->y[i * a->dim + c] =
                di_f32_to_bf16(di_e4m3_to_f32[codes[c]] * di_e8m0_to_f32(scales[c / 32]));
    }
}

static float gate_of(const di_engram_gate_args *a, const di_bf16 *h, const di_bf16 *key, int j)
{
    const di_bf16 *qw = a->q_weight + j * a->dim, *kw = a->k_weight + j * a->dim;
    float lanes[DI_LANES] = {0};
    for (int64_t i = 0; i < a->dim; i++) {
        const float w = di_bf16_to_f32(qw[i]) * di_bf16_to_f32(kw[i]);
        lanes[i % DI_LANES] += di_bf16_to_f32(h[i]) * w * di_bf16_to_f32(key[i]);
    }
    const float dim = (float)a->dim;
    const float rh = di_rsqrtf(di_sum_squares_bf16(h, a->dim) / dim + a->norm_eps);
    const float rk = di_rsqrtf(di_sum_squares_bf16(key, a->dim) / dim + a->norm_eps);
    const float d = di_lanes_total(lanes) * rh * rk * (float)(1.0 / sqrt((double)a->dim));
    const float magnitude = fabsf(d) > 1e-6f || d != d ? fabsf(d) : 1e-6f;
    return di_sigmoidf(copysignf(sqrtf(magnitude), d));
}

void di_engram_gate_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_engram_gate_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        const di_bf16 *kv = a->kv + row * (a->hc + 1) * a->dim;
        const di_bf16 *value = kv + a->hc * a->dim;
        for (int j = 0; j < a->hc; j++) {
            di_bf16 *h = a->h + (row * a->hc + j) * a->dim;
            const float gate = gate_of(a, h, kv + j * a->dim, j);
            for (int64_t i = 0; i < a->dim; i++)
                h[i] = di_f32_to_bf16(di_bf16_to_f32(h[i]) + gate * di_bf16_to_f32(value[i]));
        }
    }
}
