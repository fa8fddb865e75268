/* sample/noise.h: precision, distribution, and what the noise depends on. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#include "sample/noise.h"

static const di_noise_key base_key = {.seed = 0x1234567890abcdefu, .position = 17};

static double exact_gumbel(uint32_t h)
{
    /* Past the middle through 1 - u, which double precision holds exactly. */
    const double u = ldexp((double)h + 0.5, -32), v = ldexp((double)~h + 0.5, -32);
    return -log(h < 0x80000000u ? -log(u) : -log1p(-v));
}

static void check_gumbel(uint32_t h)
{
    const double g = (double)di_gumbelf(h), exact = exact_gumbel(h);
    if (!(fabs(g - exact) <= 3e-7 + 1e-7 * fabs(exact)) || !(g <= (double)DI_GUMBEL_MAX))
        fail_msg("h = 0x%08x: found %.9g, wanted %.9g", h, g, exact);
}

/* Both ends, round the change of branch, and a sweep. */
static void gumbel_is_precise(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 300000; i++) {
        check_gumbel(i);
        check_gumbel(UINT32_MAX - i);
        check_gumbel(0xb504f334u - 150000 + i);
    }
    for (uint64_t h = 0; h <= UINT32_MAX; h += 4093)
        check_gumbel((uint32_t)h);
    assert_true(di_gumbelf(UINT32_MAX) == DI_GUMBEL_MAX);
    assert_true(di_gumbelf(0) < -3.1f && di_gumbelf(0) > -3.2f);
}

/* What docs/sampling.md promises a seed means: must never change. */
static void pinned_values(void **state)
{
    (void)state;
    static const struct {
        di_noise_key key;
        int32_t token_id;
        uint32_t bits, gumbel;
    } cases[] = {
        {{0, 0, 0, 0}, 0, 0x6627e8d5u, 0x3dadb63fu},
        {{0, 0, 0, 0}, 3, 0x9b00dbd8u, 0x3f308fa4u},
        {{42, 7, DI_NOISE_TARGET, 0}, 129279, 0xbed54c06u, 0x3f9cca91u},
        {{42, 7, DI_NOISE_DRAFT, 0}, 129279, 0x663086bau, 0x3dae7241u},
        {{0xfedcba9876543210u, 1048575, DI_NOISE_ACCEPT, 3}, 33310, 0x669ea024u, 0x3db7d56fu},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint32_t bits = di_noise_bits(&cases[i].key, cases[i].token_id);
        const uint32_t gumbel = di_f32_bits(di_gumbelf(bits));
        if (bits != cases[i].bits || gumbel != cases[i].gumbel)
            fail_msg("case %zu: found 0x%08xu, 0x%08xu", i, bits, gumbel);
    }
}

/* Any range of ids gives each id its own noise, whatever the range. */
static void a_range_is_its_ids(void **state)
{
    (void)state;
    enum { N = 700 };
    float out[N + 1];
    for (int32_t first = 0; first < 9; first++) {
        for (int32_t n = 0; n <= N; n += n < 12 ? 1 : 86) {
            out[n] = 77.0f;
            di_noise_gumbel(&base_key, first, n, out);
            for (int32_t i = 0; i < n; i++)
                assert_true(out[i] == di_gumbelf(di_noise_bits(&base_key, first + i)));
            assert_true(out[n] == 77.0f);
        }
    }
}

static double *gumbels(di_noise_key key, int32_t n)
{
    double *const g = malloc((size_t)n * sizeof *g);
    float *const noise = malloc((size_t)n * sizeof *noise);
    assert_non_null(g);
    assert_non_null(noise);
    di_noise_gumbel(&key, 0, n, noise);
    for (int32_t i = 0; i < n; i++)
        g[i] = (double)noise[i];
    free(noise);
    return g;
}

static void moments_of(const double *x, int32_t n, double *mean, double *variance)
{
    double sum = 0.0, squares = 0.0;
    for (int32_t i = 0; i < n; i++)
        sum += x[i];
    *mean = sum / n;
    for (int32_t i = 0; i < n; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *variance = squares / n;
}

enum { N_IDS = 200000 };

static void it_is_a_gumbel_distribution(void **state)
{
    (void)state;
    double mean, variance;
    double *const g = gumbels(base_key, N_IDS);
    moments_of(g, N_IDS, &mean, &variance);
    /* Mean: Euler's constant, variance: pi^2 / 6; standard errors 0.0029 and 0.0077. */
    assert_true(fabs(mean - 0.5772156649) < 0.01);
    assert_true(fabs(variance - 1.6449340668) < 0.03);
    free(g);
}

/* Changing any part of the key, a single bit of it, gives unrelated noise. */
static void every_part_of_the_key_counts(void **state)
{
    (void)state;
    const di_noise_key k = base_key;
    const di_noise_key others[] = {
        {k.seed ^ 1, k.position, k.purpose, k.sample},
        {k.seed ^ (uint64_t)1 << 32, k.position, k.purpose, k.sample},
        {k.seed ^ (uint64_t)1 << 63, k.position, k.purpose, k.sample},
        {k.seed, k.position + 1, k.purpose, k.sample},
        {k.seed, k.position ^ 0x80000u, k.purpose, k.sample},
        {k.seed, k.position, DI_NOISE_DRAFT, k.sample},
        {k.seed, k.position, DI_NOISE_ACCEPT, k.sample},
        {k.seed, k.position, k.purpose, 1},
    };
    double mean, variance, other_mean, other_variance;
    double *const g = gumbels(k, N_IDS);
    moments_of(g, N_IDS, &mean, &variance);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        double *const other = gumbels(others[i], N_IDS);
        moments_of(other, N_IDS, &other_mean, &other_variance);
        double product = 0.0;
        for (int32_t t = 0; t < N_IDS; t++)
            product += (g[t] - mean) * (other[t] - other_mean);
        const double correlation = product / N_IDS / sqrt(variance * other_variance);
        assert_true(fabs(correlation) < 4.5 / sqrt(N_IDS));
        free(other);
    }
    /* Neighbouring ids too. */
    for (int32_t lag = 1; lag <= 8; lag++) {
        double product = 0.0;
        for (int32_t t = lag; t < N_IDS; t++)
            product += (g[t] - mean) * (g[t - lag] - mean);
        assert_true(fabs(product / N_IDS / variance) < 4.5 / sqrt(N_IDS));
    }
    free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gumbel_is_precise),
        cmocka_unit_test(pinned_values),
        cmocka_unit_test(a_range_is_its_ids),
        cmocka_unit_test(it_is_a_gumbel_distribution),
        cmocka_unit_test(every_part_of_the_key_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
