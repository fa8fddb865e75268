/* Routed experts' linears with NEON, like gemm_neon.c. */
#include "kernels/grouped_gemm/grouped_gemm.h"

#include "base/checked.h"
#include "kernels/all.h"
#include "kernels/gemm/gemm_neon_tile.h"

typedef struct f4_row {
    const uint8_t *codes, *scales;
} f4_row;

static inline di_lanes_neon decode_f4(const void *weight_row, int64_t i)
{
    const f4_row *w = weight_row;
    return di_scale_neon(di_decode_e2m1_neon(w->codes + i / 2), di_e8m0_to_f32(w->scales[i / 32]));
}

static inline __attribute__((always_inline)) void column(const di_grouped_gemm_args *a,
                                                         int64_t expert, int64_t n,
                                                         const void *weight_row,
                                                         di_decode_neon_fn decode)
{
    const int32_t end = a->expert_begin[expert + 1];
    for (int32_t first = a->expert_begin[expert]; first < end; first += DI_NEON_ROWS) {
        const int rows = (int)di_min_i64(DI_NEON_ROWS, end - first);
        const di_bf16 *x[DI_NEON_ROWS];
        float out[DI_NEON_ROWS];
        for (int r = 0; r < rows; r++)
            x[r] = a->x + (a->rows ? a->rows[first + r] : first + r) * a->x_stride;
        di_dot_rows_neon(x, rows, a->k, weight_row, decode, out);
        for (int r = 0; r < rows; r++)
            a->y[(first + r) * a->n + n] = di_f32_to_bf16(out[r]);
    }
}

void di_grouped_gemm_f4_neon(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_grouped_gemm_args *a = args;
    float *decoded = (float *)(void *)((char *)a->scratch + worker * a->scratch_stride);
    const bool fits = a->k * (int64_t)sizeof(float) <= DI_GEMM_SCRATCH_BYTES;
    for (int64_t item = begin; item < end; item++) {
        const int64_t expert = item % a->n_active, n = item / a->n_active;
        const di_qweight *q = a->weights[expert];
        const f4_row w = {q->codes + n * a->k / 2, q->scales + n * a->k / 32};
        if (!fits || a->expert_begin[expert + 1] - a->expert_begin[expert] <= DI_NEON_ROWS) {
            column(a, expert, n, &w, decode_f4);
            continue;
        }
        for (int64_t i = 0; i < a->k; i += 16)
            di_store_f32_neon(decoded + i, decode_f4(&w, i));
        column(a, expert, n, decoded, di_decoded_neon);
    }
}
