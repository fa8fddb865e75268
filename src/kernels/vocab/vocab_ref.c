#include <float.h>

#include "base/mathf.h"
#include "kernels/all.h"
#include "kernels/vocab/vocab.h"

static di_range_fn function_of(const di_kernel *const *plan, di_op op)
{
    const di_kernel_mask mask = {.max_isa = di_cpu_isa()};
    return (plan ? plan[op] : di_kernel_select(op, DI_WIDTH_ANY, true, &mask))->fn;
}

di_vocab_kernels di_vocab_kernels_of(const di_kernel *const *plan)
{
    return (di_vocab_kernels){.row_peaks = function_of(plan, DI_OP_row_peaks),
                              .exp_weights = function_of(plan, DI_OP_exp_weights),
                              .philox_bits = function_of(plan, DI_OP_philox_bits)};
}

static int64_t block_end(int64_t block, int64_t n)
{
    const int64_t end = (block + 1) * DI_VOCAB_BLOCK;
    return end < n ? end : n;
}

void di_row_peaks_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_row_peaks_args *a = args;
    for (int64_t b = begin; b < end; b++) {
        float peak = -INFINITY;
        int n_bad = 0;
        for (int64_t i = b * DI_VOCAB_BLOCK; i < block_end(b, a->n); i++) {
            n_bad += !(a->row[i] <= FLT_MAX);
            peak = a->row[i] > peak ? a->row[i] : peak;
        }
        a->peaks[b] = n_bad > 0 ? __builtin_nanf("") : peak + 0.0f;
    }
}

void di_exp_weights_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_exp_weights_args *a = args;
    for (int64_t b = begin; b < end; b++) {
        uint64_t sum = 0;
        for (int64_t i = b * DI_VOCAB_BLOCK; i < block_end(b, a->n); i++)
            sum += di_exp_weight(a->row[i] - a->max);
        a->sums[b] = sum;
    }
}

void di_philox_bits_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_philox_bits_args *a = args;
    di_philox_counter counter = a->counter;
    for (int64_t i = begin; i < end; i++) {
        uint32_t words[4];
        counter.word[1] = a->word_1[i];
        di_philox4x32(counter, a->key, words);
        for (int w = 0; w < 4; w++)
            a->bits[w * a->n + i] = words[w];
    }
}
