/* Pearson's test of counts against a distribution. */
#ifndef DI_TESTS_CHI_SQUARE_H
#define DI_TESTS_CHI_SQUARE_H

#include <math.h>
#include <stdint.h>

/* How far the counts are off, in standard deviations of a normal distribution (Wilson and
 * Hilferty's transform): 4.5 is exceeded by chance once in 300,000. probability[n] sums to 1; cells
 * that expect less than 8 are put together. A count where there can be none gives infinity. */
static inline double chi_square_sigmas(const uint64_t *counts, const double *probability, int n)
{
    double total = 0.0, chi_square = 0.0, rare_expected = 0.0, rare_seen = 0.0;
    int n_cells = 0;
    for (int i = 0; i < n; i++)
        total += (double)counts[i];
    for (int i = 0; i < n; i++) {
        const double expected = total * probability[i], seen = (double)counts[i];
        if (probability[i] <= 0.0 && counts[i] > 0)
            return INFINITY;
        if (expected < 8.0) {
            rare_expected += expected;
            rare_seen += seen;
            continue;
        }
        chi_square += (seen - expected) * (seen - expected) / expected;
        n_cells++;
    }
    if (rare_expected >= 8.0) {
        chi_square += (rare_seen - rare_expected) * (rare_seen - rare_expected) / rare_expected;
        n_cells++;
    }
    if (n_cells < 2)
        return 0.0;
    const double k = n_cells - 1, spread = 2.0 / (9.0 * k);
    return (cbrt(chi_square / k) - (1.0 - spread)) / sqrt(spread);
}

#endif
