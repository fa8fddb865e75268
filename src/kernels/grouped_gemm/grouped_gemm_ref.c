#include "kernels/grouped_gemm/grouped_gemm.h"

#include "base/checked.h"
#include "kernels/all.h"
#include "kernels/gemm/gemm_tile.h"

static void decode_f4(const di_qweight *w, int64_t column, int64_t k0, int64_t depth, float *out)
{
    const uint8_t *codes = w->codes + (column * w->n_in + k0) / 2;
    const uint8_t *scales = w->scales + (column * w->n_in + k0) / 32;
    for (int64_t i = 0; i < depth; i += 32) {
        const float scale = di_e8m0_to_f32(scales[i / 32]);
        for (int64_t j = i; j < i + 32; j += 2) {
            out[j] = di_e2m1_to_f32[codes[j / 2] & 15] * scale;
            out[j + 1] = di_e2m1_to_f32[codes[j / 2] >> 4] * scale;
        }
    }
}

/* One output column of one expert, for all its assignments. */
static void expert_column(const di_grouped_gemm_args *a, int64_t expert, int64_t column)
{
    const int32_t last = a->expert_begin[expert + 1];
    float w[DI_GEMM_DEPTH];
    for (int32_t first = a->expert_begin[expert]; first < last; first += DI_GEMM_ROWS) {
        const int n_rows = (int)di_min_i64(DI_GEMM_ROWS, last - first);
        float lanes[DI_GEMM_ROWS][DI_LANES] = {0};
        for (int64_t k0 = 0; k0 < a->k; k0 += DI_GEMM_DEPTH) {
            const int64_t depth = di_min_i64(DI_GEMM_DEPTH, a->k - k0);
            const di_bf16 *x[DI_GEMM_ROWS];
            for (int r = 0; r < n_rows; r++) {
                const int64_t row = a->rows ? a->rows[first + r] : first + r;
                x[r] = a->x + row * a->x_stride + k0;
            }
            decode_f4(a->weights[expert], column, k0, depth, w);
            di_gemm_accumulate(lanes, x, n_rows, w, depth);
        }
        for (int r = 0; r < n_rows; r++)
            a->y[(first + r) * a->n + column] = di_f32_to_bf16(di_lanes_total(lanes[r]));
    }
}

void di_grouped_gemm_f4_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_grouped_gemm_args *a = args;
    for (int64_t item = begin; item < end; item++)
        expert_column(a, item % a->n_active, item / a->n_active);
}
