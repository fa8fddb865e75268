#include "kernels/index_logits/index_logits.h"

#include "base/checked.h"
#include "base/sum.h"
#include "kernels/all.h"

static void decode_key(const di_paged *keys, int64_t slot, int64_t dim, float *out)
{
    const uint8_t *codes = di_paged_codes(keys, slot), *scales = di_paged_scales(keys, slot);
    for (int64_t i = 0; i < dim; i += 2) {
        const float scale = di_e8m0_to_f32(scales[i / 32]);
        out[i] = di_e2m1_to_f32[codes[i / 2] & 15] * scale;
        out[i + 1] = di_e2m1_to_f32[codes[i / 2] >> 4] * scale;
    }
}

static di_bf16 score(const di_index_logits_args *a, int64_t row, const float *key)
{
    float sum = 0.0f;
    for (int64_t head = 0; head < a->n_heads; head++) {
        const di_bf16 *q = a->q + (row * a->n_heads + head) * a->dim;
        const float dot = di_round_bf16(di_dot_f32_bf16(key, q, a->dim));
        const float w = di_round_bf16(di_bf16_to_f32(a->w[row * a->n_heads + head]) * a->w_scale);
        sum += di_round_bf16((dot > 0.0f || dot != dot ? dot : 0.0f) * w);
    }
    return di_f32_to_bf16(sum);
}

void di_index_logits_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_index_logits_args *a = args;
    const int64_t tiles = di_ceil_div(a->max_visible, DI_INDEX_TILE);
    float key[DI_INDEX_DIM_LIMIT];
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item / tiles, first = item % tiles * DI_INDEX_TILE;
        const int64_t last = di_min_i64(first + DI_INDEX_TILE, a->n_visible[row]);
        for (int64_t j = first; j < last; j++) {
            decode_key(&a->keys, di_paged_slot(a->block_tables[row], a->keys.block_len, j), a->dim,
                       key);
            a->scores[row * a->max_visible + j] = score(a, row, key);
        }
    }
}
