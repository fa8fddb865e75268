/* Random test inputs. Every run prints its seed: always the same one, unless `<test> SEED` or
 * `<test> fresh` asks for another.
 */
#ifndef DI_TEST_RANDOM_H
#define DI_TEST_RANDOM_H

#include <stdint.h>

#include "base/fp.h"

/* Call first in main: takes the seed from the first argument ("fresh": from the clock), and prints
 * it.
 */
void di_rng_start(int argc, char **argv);

typedef struct di_rng {
    uint64_t state;
} di_rng;

/* The run's stream of that name: tests do not shift each other's inputs. */
di_rng di_rng_named(const char *name);

uint64_t di_rng_next(di_rng *rng);
int64_t di_rng_below(di_rng *rng, int64_t n);                /* 0 .. n-1 */
int64_t di_rng_between(di_rng *rng, int64_t lo, int64_t hi); /* lo .. hi */
double di_rng_uniform(di_rng *rng);                          /* [0, 1) */
float di_rng_normal(di_rng *rng);                            /* mean 0, about variance 1, |x| < 6 */

/* What a vector of values looks like. */
typedef enum di_pattern {
    DI_PATTERN_NORMAL,    /* like activations */
    DI_PATTERN_WIDE,      /* signs and magnitudes 2^-20 .. 2^20 */
    DI_PATTERN_ZERO,      /* all +0 or -0 */
    DI_PATTERN_SUBNORMAL, /* smaller than 2^-126 */
    DI_PATTERN_HUGE,      /* about 2^50: sums of squares and of products stay finite */
    DI_PATTERN_TIES,      /* few distinct values, many equal */
    DI_N_PATTERNS
} di_pattern;

const char *di_pattern_name(di_pattern pattern);
void di_fill_bf16(di_rng *rng, di_pattern pattern, di_bf16 *out, int64_t n);
void di_fill_f32(di_rng *rng, di_pattern pattern, float *out, int64_t n);
void di_fill_bytes(di_rng *rng, uint8_t *out, int64_t n);
/* e4m3 codes without NaN; e8m0 codes 2^-4 .. 2^3 around 1. */
void di_fill_e4m3(di_rng *rng, uint8_t *out, int64_t n);
void di_fill_e8m0(di_rng *rng, uint8_t *out, int64_t n);

#endif
