/* Linears with NEON, a weight row at a time: each element is decoded once for up to four input
 * rows, or once for all of them when the decoded row fits the scratch. */
#include "kernels/gemm/gemm.h"

#include "base/checked.h"
#include "kernels/all.h"
#include "kernels/gemm/gemm_block.h"
#include "kernels/gemm/gemm_neon_tile.h"

typedef struct f8_row {
    const uint8_t *codes, *scales;
    int64_t k;
} f8_row;

static inline di_lanes_neon decode_f8(const void *weight_row, int64_t i)
{
    const f8_row *w = weight_row;
    if (i + 16 <= w->k)
        return di_decode_e4m3_neon(w->codes + i, w->scales[i / 32]);
    uint8_t part[16] = {0};
    memcpy(part, w->codes + i, (size_t)(w->k - i));
    return di_decode_e4m3_neon(part, w->scales[i / 32]);
}

typedef struct bf16_row {
    const di_bf16 *w;
    int64_t k;
} bf16_row;

static inline di_lanes_neon decode_bf16(const void *weight_row, int64_t i)
{
    const bf16_row *w = weight_row;
    return i + 16 <= w->k ? di_load_bf16_neon(w->w + i)
                          : di_load_bf16_part_neon(w->w + i, w->k - i);
}

static void store(const di_gemm_args *a, int64_t row, int64_t column, float value)
{
    const int64_t at = row * a->y_stride + column;
    if (a->is_f32_out)
        ((float *)a->y)[at] = value;
    else
        ((di_bf16 *)a->y)[at] = di_f32_to_bf16(value);
}

static inline __attribute__((always_inline)) void column(const di_gemm_args *a, int64_t n,
                                                         const void *weight_row,
                                                         di_decode_neon_fn decode)
{
    for (int64_t row = 0; row < a->m; row += DI_NEON_ROWS) {
        const int rows = (int)di_min_i64(DI_NEON_ROWS, a->m - row);
        const di_bf16 *x[DI_NEON_ROWS];
        float out[DI_NEON_ROWS];
        for (int r = 0; r < rows; r++)
            x[r] = a->x + (row + r) * a->x_stride;
        di_dot_rows_neon(x, rows, a->k, weight_row, decode, out);
        for (int r = 0; r < rows; r++)
            store(a, row + r, n, out[r]);
    }
}

static inline __attribute__((always_inline)) void column_decoded(const di_gemm_args *a, int64_t n,
                                                                 int worker, const void *weight_row,
                                                                 di_decode_neon_fn decode)
{
    const int64_t padded = (a->k + 15) / 16 * 16;
    if (a->m <= DI_NEON_ROWS || padded * (int64_t)sizeof(float) > DI_GEMM_SCRATCH_BYTES) {
        column(a, n, weight_row, decode);
        return;
    }
    float *w = (float *)(void *)((char *)a->scratch + worker * a->scratch_stride);
    for (int64_t i = 0; i < a->k; i += 16)
        di_store_f32_neon(w + i, decode(weight_row, i));
    column(a, n, w, di_decoded_neon);
}

void di_gemm_f8_neon(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_gemm_args *a = args;
    if (!di_gemm_has_fast_scales(a, begin, end)) {
        di_gemm_f8_ref(args, begin, end, worker);
        return;
    }
    for (int64_t n = begin; n < end; n++) {
        const int64_t at = a->first_column + n;
        const f8_row w = {(const uint8_t *)a->w + at * a->k,
                          a->scales + at / 32 * di_ceil_div(a->k, 32), a->k};
        column_decoded(a, n, worker, &w, decode_f8);
    }
}

void di_gemm_bf16_neon(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_gemm_args *a = args;
    for (int64_t n = begin; n < end; n++) {
        const bf16_row w = {(const di_bf16 *)a->w + (a->first_column + n) * a->k, a->k};
        column(a, n, &w, decode_bf16);
    }
}
