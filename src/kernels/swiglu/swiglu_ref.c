#include "kernels/swiglu/swiglu.h"

#include "base/mathf.h"
#include "kernels/all.h"

void di_swiglu_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_swiglu_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t i = row * a->dim; i < (row + 1) * a->dim; i++) {
            const float gate = di_bf16_to_f32(a->gate[i]), up = di_bf16_to_f32(a->up[i]);
            const float g = gate > a->limit ? a->limit : gate;
            const float u = up > a->limit ? a->limit : up < -a->limit ? -a->limit : up;
            float v = di_siluf(g) * u;
            if (a->weights)
                v *= a->weights[row];
            a->y[i] = di_f32_to_bf16(v);
        }
    }
}
