#include "kernels/rmsnorm/rmsnorm.h"

#include "base/mathf.h"
#include "base/sum.h"
#include "kernels/all.h"

void di_rmsnorm_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_rmsnorm_args *a = args;
    const di_bf16 *w16 = a->w;
    const float *w32 = a->w;
    for (int64_t row = begin; row < end; row++) {
        const di_bf16 *x = a->x + row * a->x_stride;
        di_bf16 *y = a->y + row * a->y_stride;
        const float rs = di_rsqrtf(di_sum_squares_bf16(x, a->dim) / (float)a->dim + a->eps);
        for (int64_t i = 0; i < a->dim; i++) {
            const float w = a->w_dtype == DI_F32 ? w32[i] : di_bf16_to_f32(w16[i]);
            y[i] = di_f32_to_bf16(di_bf16_to_f32(x[i]) * rs * w);
        }
    }
}
