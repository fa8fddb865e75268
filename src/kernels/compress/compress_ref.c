#include "kernels/compress/compress.h"

#include "base/mathf.h"
#include "kernels/all.h"

void di_compress_pool_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_compress_pool_args *a = args;
    for (int64_t group = begin; group < end; group++) {
        const float *k = a->k + group * 2 * a->dim, *gate = a->gate + group * 2 * a->dim;
        for (int64_t i = 0; i < a->dim; i++) {
            const float g0 = gate[i], g1 = gate[a->dim + i];
            const float largest = g0 > g1 ? g0 : g1;
            const float e0 = di_expf(g0 - largest), e1 = di_expf(g1 - largest);
            const float sum = e0 + e1;
            a->latent[group * a->dim + i] =
                di_f32_to_bf16(k[i] * (e0 / sum) + k[a->dim + i] * (e1 / sum));
        }
    }
}
