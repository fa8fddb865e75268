#include "kernels/quantize/quantize.h"

#include "core/tensor.h"
#include "kernels/all.h"

/* At least `least`; NaN if there is one. */
static float largest_magnitude(const di_bf16 *x, int64_t n, float least)
{
    float a = least;
    for (int64_t i = 0; i < n; i++) {
        const float m = fabsf(di_bf16_to_f32(x[i]));
        a = m > a || isnan(m) ? m : a;
    }
    return a;
}

static uint8_t e8m0_scale(float y)
{
    return isnan(y) ? 0xff : di_pow2ceil_e8m0(y);
}

/* NaN passes through. */
static float clamp_magnitude(float x, float limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}

static uint8_t q8_scale(const di_bf16 *x)
{
    return e8m0_scale(largest_magnitude(x, 32, 1e-4f) * (1.0f / 448.0f));
}

static uint8_t q8_code(float x, float scale)
{
    return di_f32_to_e4m3(clamp_magnitude(x / scale, 448.0f));
}

static uint8_t q4i_scale(const di_bf16 *x)
{
    return e8m0_scale(largest_magnitude(x, 32, 6.0f * 0x1p-126f) * (1.0f / 6.0f));
}

static uint8_t q4_code(float x, float scale)
{
    return di_f32_to_e2m1(clamp_magnitude(x / scale, 6.0f));
}

void di_quantize_q8_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_quantize_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t g = 0; g < a->dim; g += 32) {
            const di_bf16 *x = a->x + row * a->x_stride + g;
            di_bf16 *y = a->y + row * a->y_stride + g;
            const float scale = di_e8m0_to_f32(q8_scale(x));
            for (int i = 0; i < 32; i++)
                y[i] = di_f32_to_bf16(di_e4m3_to_f32[q8_code(di_bf16_to_f32(x[i]), scale)] * scale);
        }
    }
}

void di_quantize_q4i_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_quantize_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t g = 0; g < a->dim; g += 32) {
            const di_bf16 *x = a->x + row * a->x_stride + g;
            di_bf16 *y = a->y + row * a->y_stride + g;
            const float scale = di_e8m0_to_f32(q4i_scale(x));
            for (int i = 0; i < 32; i++)
                y[i] = di_f32_to_bf16(di_e2m1_to_f32[q4_code(di_bf16_to_f32(x[i]), scale)] * scale);
        }
    }
}

static uint8_t *out_codes(const di_paged_out *p, int64_t slot)
{
    return p->data + slot / p->block_len * p->block_bytes + slot % p->block_len * p->code_bytes;
}

static uint8_t *out_scales(const di_paged_out *p, int64_t slot)
{
    return p->data + slot / p->block_len * p->block_bytes + p->scales_offset +
           slot % p->block_len * p->scale_bytes;
}

void di_pack_q8_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_pack_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        if (a->slots[row] < 0)
            continue;
        uint8_t *codes = out_codes(&a->out, a->slots[row]);
        uint8_t *scales = out_scales(&a->out, a->slots[row]);
        for (int64_t g = 0; g < a->dim / 32; g++) {
            const di_bf16 *x = a->x + row * a->x_stride + g * 32;
            scales[g] = q8_scale(x);
            for (int i = 0; i < 32; i++)
                codes[g * 32 + i] = q8_code(di_bf16_to_f32(x[i]), di_e8m0_to_f32(scales[g]));
        }
    }
}

/* One group of e2m1 codes, two a byte, low nibble first. */
static void pack_nibbles(const di_bf16 *x, float scale, int n, uint8_t *codes)
{
    for (int i = 0; i < n; i += 2) {
        const uint8_t low = q4_code(di_bf16_to_f32(x[i]), scale);
        const uint8_t high = q4_code(di_bf16_to_f32(x[i + 1]), scale);
        codes[i / 2] = (uint8_t)(low | high << 4);
    }
}

void di_pack_q4i_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_pack_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        if (a->slots[row] < 0)
            continue;
        uint8_t *codes = out_codes(&a->out, a->slots[row]);
        uint8_t *scales = out_scales(&a->out, a->slots[row]);
        for (int64_t g = 0; g < a->dim / 32; g++) {
            const di_bf16 *x = a->x + row * a->x_stride + g * 32;
            scales[g] = q4i_scale(x);
            pack_nibbles(x, di_e8m0_to_f32(scales[g]), 32, codes + g * 16);
        }
    }
}

void di_pack_q4kv_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_pack_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        if (a->slots[row] < 0)
            continue;
        uint8_t *codes = out_codes(&a->out, a->slots[row]);
        uint8_t *scales = out_scales(&a->out, a->slots[row]);
        for (int64_t g = 0; g < a->dim / 16; g++) {
            const di_bf16 *x = a->x + row * a->x_stride + g * 16;
            const float largest = largest_magnitude(x, 16, 6.0f * 0x1p-9f);
            scales[g] = isinf(largest) ? 0x7f : di_f32_to_e4m3(largest / 6.0f);
            pack_nibbles(x, di_e4m3_to_f32[scales[g]], 16, codes + g * 8);
        }
    }
}
