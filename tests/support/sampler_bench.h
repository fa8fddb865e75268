/* Shared by the tests of sample/sampler.h: a sampler of one sequence, test logits, and the
 * definition of a choice. */
#ifndef DI_TESTS_SAMPLER_BENCH_H
#define DI_TESTS_SAMPLER_BENCH_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/philox.h"
#include "sample/params.h"
#include "sample/sampler.h"

enum { MOST_VOCAB = 256 };

typedef struct bench {
    di_sampler_workspace workspace;
    di_sampler_state state;
    di_sampling_params params;
} bench;

static inline bench *open_bench(int32_t vocab_size, const di_sampling_params *params, uint64_t seed)
{
    bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->params = *params;
    assert_int_equal(di_sampling_params_check(&b->params, vocab_size), DI_OK);
    assert_int_equal(di_sampler_workspace_init(&b->workspace, vocab_size, NULL), DI_OK);
    const di_sampler_setup setup = {.params = &b->params, .vocab_size = vocab_size, .seed = seed};
    assert_int_equal(di_sampler_state_init(&b->state, &setup), DI_OK);
    return b;
}

static inline void close_bench(bench *b)
{
    di_sampler_state_free(&b->state);
    di_sampler_workspace_free(&b->workspace);
    free(b);
}

static inline di_sample_out draw(bench *b, const float *logits, int64_t position)
{
    di_sample_out out;
    assert_int_equal(di_sample(&b->workspace, &b->state, logits, position, &out), DI_OK);
    return out;
}

/* One token of a fresh sampler. */
static inline int32_t draw_once(const float *logits, int32_t n, const di_sampling_params *params,
                                uint64_t seed, int64_t position)
{
    bench *b = open_bench(n, params, seed);
    const int32_t token_id = draw(b, logits, position).token_id;
    close_bench(b);
    return token_id;
}

static inline uint32_t random_bits(uint32_t a, uint32_t b)
{
    uint32_t bits[4];
    di_philox4x32((di_philox_counter){{a, b, 0, 0}}, 11, bits);
    return bits[0];
}

/* step > 0: multiples of it, hence ties. */
static inline void random_logits(uint32_t round, int32_t n, float spread, float step, float *logits)
{
    for (int32_t i = 0; i < n; i++) {
        logits[i] = (float)(int32_t)random_bits(round, (uint32_t)i) * 0x1p-31f * spread;
        if (step > 0.0f)
            logits[i] = rintf(logits[i] / step) * step;
    }
}

static inline void softmax(const float *logits, int32_t n, double temperature, double *p)
{
    double max = -INFINITY, sum = 0.0;
    for (int32_t i = 0; i < n; i++)
        max = fmax(max, (double)logits[i]);
    for (int32_t i = 0; i < n; i++)
        sum += p[i] = exp(((double)logits[i] - max) / temperature);
    for (int32_t i = 0; i < n; i++)
        p[i] /= sum;
}

/* The definition, to the bit: largest (x - max) / t + noise, lowest id first. */
static inline int32_t reference_choice(const float *logits, int32_t n, float t, uint64_t seed,
                                       uint32_t position, const bool *is_kept)
{
    const di_noise_key key = {.seed = seed, .position = position, .purpose = DI_NOISE_TARGET};
    float max = -INFINITY, best = -INFINITY;
    int32_t best_id = -1;
    for (int32_t i = 0; i < n; i++)
        max = fmaxf(max, logits[i]);
    for (int32_t i = 0; i < n; i++) {
        const float y = (logits[i] - max) / t + di_gumbelf(di_noise_bits(&key, i));
        if (is_kept[i] && y > best) {
            best = y;
            best_id = i;
        }
    }
    return best_id;
}

#endif
