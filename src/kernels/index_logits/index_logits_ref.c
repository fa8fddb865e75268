#include "kernels/index_logits/index_logits.h"

#include "base/checked.h"
#include "kernels/all.h"
#include "kernels/index_logits/index_group.h"

/* A group's query channels as integers; returns their unit. */
static float query_ints(const di_bf16 *q, int *ints)
{
    uint32_t largest = 0;
    for (int i = 0; i < DI_INDEX_GROUP; i++)
        largest = (q[i] & 0x7fffu) > largest ? q[i] & 0x7fffu : largest;
    const float unit = di_index_unit(largest);
    for (int i = 0; i < DI_INDEX_GROUP; i++)
        ints[i] = unit > 0.0f ? (int)(di_bf16_to_f32(q[i]) / unit) : 0;
    return unit;
}

static float dot(const di_bf16 *q, const uint8_t *codes, const uint8_t *scales, int64_t dim)
{
    float sum = 0.0f;
    for (int64_t g = 0; g < dim / DI_INDEX_GROUP; g++) {
        int ints[DI_INDEX_GROUP], part = 0;
        const float unit = query_ints(q + g * DI_INDEX_GROUP, ints);
        const uint8_t *c = codes + g * DI_INDEX_GROUP / 2;
        for (int i = 0; i < DI_INDEX_GROUP; i += 2)
            part += ints[i] * (int)(2.0f * di_e2m1_to_f32[c[i / 2] & 15]) +
                    ints[i + 1] * (int)(2.0f * di_e2m1_to_f32[c[i / 2] >> 4]);
        sum = __builtin_fmaf((float)part * unit, 0.5f * di_e8m0_to_f32(scales[g]), sum);
    }
    return sum;
}

static di_bf16 score(const di_index_logits_args *a, int64_t row, int64_t slot)
{
    const uint8_t *codes = di_paged_codes(&a->keys, slot);
    const uint8_t *scales = di_paged_scales(&a->keys, slot);
    float sum = 0.0f;
    for (int64_t head = 0; head < a->n_heads; head++) {
        const di_bf16 *q = a->q + (row * a->n_heads + head) * a->dim;
        const float d = di_round_bf16(dot(q, codes, scales, a->dim));
        const float w = di_round_bf16(di_bf16_to_f32(a->w[row * a->n_heads + head]) * a->w_scale);
        sum += di_round_bf16((d > 0.0f || d != d ? d : 0.0f) * w);
    }
    return di_f32_to_bf16(sum);
}

void di_index_logits_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_index_logits_args *a = args;
    const int64_t tiles = di_ceil_div(a->max_visible, DI_INDEX_TILE);
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item / tiles, first = item % tiles * DI_INDEX_TILE;
        const int64_t last = di_min_i64(first + DI_INDEX_TILE, a->n_visible[row]);
        for (int64_t j = first; j < last; j++)
            a->scores[row * a->max_visible + j] =
                score(a, row, di_paged_slot(a->block_tables[row], a->keys.block_len, j));
    }
}
