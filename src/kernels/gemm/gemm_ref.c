#include "kernels/gemm/gemm.h"

#include <string.h>

#include "base/checked.h"
#include "kernels/all.h"
#include "kernels/gemm/gemm_tile.h"

typedef void (*decode_fn)(const di_gemm_args *a, int64_t column, int64_t k0, int64_t depth,
                          float *out);

static void decode_f8(const di_gemm_args *a, int64_t column, int64_t k0, int64_t depth, float *out)
{
    const uint8_t *codes = (const uint8_t *)a->w + column * a->k + k0;
    const uint8_t *scales = a->scales + column / 32 * di_ceil_div(a->k, 32) + k0 / 32;
    for (int64_t i = 0; i < depth; i += 32) {
        const float scale = di_e8m0_to_f32(scales[i / 32]);
        for (int64_t j = i; j < i + 32 && j < depth; j++)
            out[j] = di_e4m3_to_f32[codes[j]] * scale;
    }
}

static void decode_bf16(const di_gemm_args *a, int64_t column, int64_t k0, int64_t depth,
                        float *out)
{
    const di_bf16 *w = (const di_bf16 *)a->w + column * a->k + k0;
    for (int64_t i = 0; i < depth; i++)
        out[i] = di_bf16_to_f32(w[i]);
}

static void store(const di_gemm_args *a, int64_t row, int64_t column, float value)
{
    const int64_t at = row * a->y_stride + column;
    if (a->is_f32_out)
        ((float *)a->y)[at] = value;
    else
        ((di_bf16 *)a->y)[at] = di_f32_to_bf16(value);
}

static void gemm(const di_gemm_args *a, int64_t begin, int64_t end, decode_fn decode)
{
    float w[DI_GEMM_DEPTH];
    for (int64_t row = 0; row < a->m; row += DI_GEMM_ROWS) {
        const int n_rows = (int)di_min_i64(DI_GEMM_ROWS, a->m - row);
        for (int64_t column = begin; column < end; column++) {
            float lanes[DI_GEMM_ROWS][DI_LANES] = {0};
            for (int64_t k0 = 0; k0 < a->k; k0 += DI_GEMM_DEPTH) {
                const int64_t depth = di_min_i64(DI_GEMM_DEPTH, a->k - k0);
                const di_bf16 *x[DI_GEMM_ROWS];
                for (int r = 0; r < n_rows; r++)
                    x[r] = a->x + (row + r) * a->x_stride + k0;
                decode(a, a->first_column + column, k0, depth, w);
                di_gemm_accumulate(lanes, x, n_rows, w, depth);
            }
            for (int r = 0; r < n_rows; r++)
                store(a, row + r, column, di_lanes_total(lanes[r]));
        }
    }
}

void di_gemm_f8_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    gemm(args, begin, end, decode_f8);
}

void di_gemm_bf16_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    gemm(args, begin, end, decode_bf16);
}
