#include "random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t process_seed;

/* splitmix64 */
enum { DEFAULT_SEED = 20261130 };

static uint64_t scramble(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void di_rng_start(int argc, char **argv)
{
    process_seed = DEFAULT_SEED;
    if (argc > 1 && strcmp(argv[1], "fresh") == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        process_seed =
            scramble((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) & 0xffffffffu;
    } else if (argc > 1) {
        process_seed = strtoull(argv[1], NULL, 0);
    }
    printf("seed %llu (an argument gives another one, \"fresh\" a new one)\n",
           (unsigned long long)process_seed);
    fflush(stdout);
}

di_rng di_rng_named(const char *name)
{
    uint64_t h = process_seed;
    for (const char *p = name; *p; p++)
        h = scramble(h + 0x9e3779b97f4a7c15u + (unsigned char)*p);
    return (di_rng){h};
}

uint64_t di_rng_next(di_rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15u;
    return scramble(rng->state);
}

int64_t di_rng_below(di_rng *rng, int64_t n)
{
    return (int64_t)(di_rng_next(rng) % (uint64_t)n);
}

int64_t di_rng_between(di_rng *rng, int64_t lo, int64_t hi)
{
    return lo + di_rng_below(rng, hi - lo + 1);
}

double di_rng_uniform(di_rng *rng)
{
    return (double)(di_rng_next(rng) >> 11) * 0x1p-53;
}

float di_rng_normal(di_rng *rng)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += di_rng_uniform(rng);
    return (float)(sum - 6);
}

static float wide(di_rng *rng)
{
    const float x = ldexpf(1.0f + (float)di_rng_uniform(rng), (int)di_rng_between(rng, -20, 20));
    return di_rng_below(rng, 2) ? x : -x;
}

static float draw(di_rng *rng, di_pattern pattern)
{
    switch (pattern) {
    case DI_PATTERN_WIDE:
        return wide(rng);
    case DI_PATTERN_ZERO:
        return di_rng_below(rng, 2) ? 0.0f : -0.0f;
    case DI_PATTERN_SUBNORMAL: /* of bf16 too */
        return di_f32_from_bits((uint32_t)di_rng_below(rng, 2) << 31 |
                                (uint32_t)di_rng_below(rng, 128) << 16);
    case DI_PATTERN_HUGE:
        return di_rng_normal(rng) * 0x1p50f;
    case DI_PATTERN_TIES:
        return (float)di_rng_between(rng, -2, 2) * 0.5f;
    default:
        return di_rng_normal(rng);
    }
}

const char *di_pattern_name(di_pattern pattern)
{
    static const char *const names[DI_N_PATTERNS] = {"normal",    "wide", "zero",
                                                     "subnormal", "huge", "ties"};
    return names[pattern];
}

void di_fill_bf16(di_rng *rng, di_pattern pattern, di_bf16 *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = di_f32_to_bf16(draw(rng, pattern));
}

void di_fill_f32(di_rng *rng, di_pattern pattern, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = draw(rng, pattern);
}

void di_fill_bytes(di_rng *rng, uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (uint8_t)di_rng_next(rng);
}

void di_fill_e4m3(di_rng *rng, uint8_t *out, int64_t n)
{
    di_fill_bytes(rng, out, n);
    for (int64_t i = 0; i < n; i++)
        out[i] ^= (out[i] & 0x7f) == 0x7f;
}

void di_fill_e8m0(di_rng *rng, uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (uint8_t)di_rng_between(rng, 123, 130);
}
