#include "spec/confidence.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mathf.h"

/* Temperatures 2^((i - GRID_ONE) / 8). */
enum { N_GRID = 49, GRID_ONE = 24 };

static const double decay = 0.999;
static const double prior_weight = 64.0;
static const float most_logit = 8.0f;

static float inverse_temperature_at(double grid_index)
{
    return di_expf((float)((GRID_ONE - grid_index) * (0x1.62e43p-1 / 8.0)));
}

/* One slot's probability; 0 for a NaN. */
static float confidence_of(float logit, float inverse_temperature)
{
    return logit != logit ? 0.0f : di_sigmoidf(logit * inverse_temperature);
}

void di_calibration_survivals(const di_calibration *calibration, const float *logits, int32_t n,
                              float *survivals)
{
    float survival = 1.0f;
    for (int32_t j = 0; j < n; j++) {
        survival *= confidence_of(logits[j], calibration->inverse_temperature[j]);
        survivals[j] = survival;
    }
}

void di_confidence_init(di_confidence *confidence, int32_t n_slots)
{
    assert(n_slots >= 1 && n_slots <= DI_SPEC_SLOTS);
    *confidence = (di_confidence){.calibration.n_slots = n_slots, .n_until_fit = 1};
    for (int32_t j = 0; j < DI_SPEC_SLOTS; j++)
        confidence->calibration.inverse_temperature[j] = 1.0f;
}

/* -------------------------------------------------------------------------------- observing */

static void count_reliability(di_reliability_bin *bins, float predicted, bool is_hit)
{
    int32_t i = (int32_t)(predicted * DI_RELIABILITY_BINS);
    if (i > DI_RELIABILITY_BINS - 1)
        i = DI_RELIABILITY_BINS - 1;
    bins[i].n += 1.0;
    bins[i].hits += is_hit;
    bins[i].predicted += (double)predicted;
}

static void count_logit(di_confidence_bin *bins, float logit, float prior, bool is_hit)
{
    const float clipped = fminf(fmaxf(logit, -most_logit), most_logit);
    int32_t i = (int32_t)(clipped + most_logit);
    if (i > DI_CONFIDENCE_BINS - 1)
        i = DI_CONFIDENCE_BINS - 1;
    for (int32_t b = 0; b < DI_CONFIDENCE_BINS; b++) {
        bins[b].n *= decay;
        bins[b].hits *= decay;
        bins[b].prior *= decay;
        bins[b].logit *= decay;
    }
    bins[i].n += 1.0;
    bins[i].hits += is_hit;
    bins[i].prior += (double)prior;
    bins[i].logit += (double)clipped;
}

void di_confidence_observe(di_confidence *confidence, const float *logits, int32_t n_verified,
                           int32_t n_accepted)
{
    const di_calibration *calibration = &confidence->calibration;
    assert(n_verified <= calibration->n_slots && n_accepted <= n_verified);
    float survivals[DI_SPEC_SLOTS], raw = 1.0f;
    if (n_verified < 1)
        return;
    di_calibration_survivals(calibration, logits, n_verified, survivals);
    for (int32_t j = 0; j < n_verified; j++) {
        di_slot_confidence *slot = &confidence->slots[j];
        const bool is_hit = j < n_accepted;
        raw *= confidence_of(logits[j], 1.0f);
        slot->n_verified++;
        slot->n_reached += j <= n_accepted;
        slot->n_accepted += is_hit;
        count_reliability(slot->calibrated, survivals[j], is_hit);
        count_reliability(slot->raw, raw, is_hit);
        if (logits[j] == logits[j])
            count_logit(slot->bins, logits[j], j > 0 ? survivals[j - 1] : 1.0f, is_hit);
    }
    confidence->n_blocks++;
    if (--confidence->n_until_fit == 0)
        di_confidence_fit(confidence);
}

/* ---------------------------------------------------------------------------------- fitting */

/* Sum over the bins of |predicted - seen|. */
static double error_at(const di_confidence_bin *bins, float inverse_temperature)
{
    double error = 0.0;
    for (int32_t b = 0; b < DI_CONFIDENCE_BINS; b++) {
        if (bins[b].n <= 0.0)
            continue;
        const float logit = (float)(bins[b].logit / bins[b].n);
        const double c = (double)confidence_of(logit, inverse_temperature);
        error += fabs(bins[b].prior * c - bins[b].hits);
    }
    return error;
}

/* Of equal errors the temperature nearest to 1. */
static int32_t best_of(const double *errors)
{
    int32_t best = GRID_ONE;
    for (int32_t distance = 1; distance <= GRID_ONE; distance++) {
        if (errors[GRID_ONE - distance] < errors[best])
            best = GRID_ONE - distance;
        if (errors[GRID_ONE + distance] < errors[best])
            best = GRID_ONE + distance;
    }
    return best;
}

static double leaning(double own, double n, double on)
{
    return (own * n + on * prior_weight) / (n + prior_weight);
}

void di_confidence_fit(di_confidence *confidence)
{
    di_calibration *calibration = &confidence->calibration;
    double pooled_errors[N_GRID] = {0}, pooled_n = 0.0;
    double best[DI_SPEC_SLOTS], n[DI_SPEC_SLOTS];
    for (int32_t j = 0; j < calibration->n_slots; j++) {
        const di_confidence_bin *bins = confidence->slots[j].bins;
        double errors[N_GRID];
        n[j] = 0.0;
        for (int32_t b = 0; b < DI_CONFIDENCE_BINS; b++)
            n[j] += bins[b].n;
        pooled_n += n[j];
        for (int32_t i = 0; i < N_GRID; i++) {
            errors[i] = error_at(bins, inverse_temperature_at(i));
            pooled_errors[i] += errors[i];
        }
        best[j] = best_of(errors);
    }
    const double pooled = leaning(best_of(pooled_errors), pooled_n, GRID_ONE);
    for (int32_t j = 0; j < calibration->n_slots; j++)
        calibration->inverse_temperature[j] =
            inverse_temperature_at(leaning(best[j], n[j], pooled));
    /* Soon, while there is little: after 1, 2, 4, ... blocks. */
    const uint64_t seen = confidence->n_blocks;
    confidence->n_until_fit =
        seen < DI_CONFIDENCE_FIT_EVERY ? (seen > 0 ? (int32_t)seen : 1) : DI_CONFIDENCE_FIT_EVERY;
}

/* -------------------------------------------------------------------------------- reporting */

/* Sum of |predicted - seen|. */
static double gaps_of(const di_reliability_bin *bins)
{
    double gaps = 0.0;
    for (int32_t b = 0; b < DI_RELIABILITY_BINS; b++)
        gaps += fabs(bins[b].predicted - bins[b].hits);
    return gaps;
}

static double quotient(double a, double b)
{
    return b > 0.0 ? a / b : 0.0;
}

/* Of all slots' survivals; pairs in one bin count half. */
static double auc_of(const di_confidence *confidence)
{
    double pairs = 0.0, n_hits = 0.0, n_misses = 0.0;
    for (int32_t b = 0; b < DI_RELIABILITY_BINS; b++) {
        double hits = 0.0, misses = 0.0;
        for (int32_t j = 0; j < confidence->calibration.n_slots; j++) {
            const di_reliability_bin *bin = &confidence->slots[j].calibrated[b];
            hits += bin->hits;
            misses += bin->n - bin->hits;
        }
        pairs += hits * (n_misses + 0.5 * misses);
        n_hits += hits;
        n_misses += misses;
    }
    return n_hits > 0.0 && n_misses > 0.0 ? pairs / (n_hits * n_misses) : 0.5;
}

void di_confidence_report_of(const di_confidence *confidence, di_confidence_report *out)
{
    const di_calibration *calibration = &confidence->calibration;
    di_confidence_report r = {.n_slots = calibration->n_slots, .n_blocks = confidence->n_blocks};
    double gaps = 0.0, raw_gaps = 0.0;
    for (int32_t j = 0; j < r.n_slots; j++) {
        const di_slot_confidence *slot = &confidence->slots[j];
        const double slot_gaps = gaps_of(slot->calibrated), slot_raw_gaps = gaps_of(slot->raw);
        const double n = (double)slot->n_verified;
        r.slots[j] =
            (di_slot_report){.n_verified = slot->n_verified,
                             .n_reached = slot->n_reached,
                             .n_accepted = slot->n_accepted,
                             .temperature = 1.0 / (double)calibration->inverse_temperature[j],
                             .ece = quotient(slot_gaps, n),
                             .raw_ece = quotient(slot_raw_gaps, n)};
        gaps += slot_gaps;
        raw_gaps += slot_raw_gaps;
        r.n_verified += slot->n_verified;
        r.n_accepted += slot->n_accepted;
    }
    r.accepted_len = 1.0 + quotient((double)r.n_accepted, (double)r.n_blocks);
    r.ece = quotient(gaps, (double)r.n_verified);
    r.raw_ece = quotient(raw_gaps, (double)r.n_verified);
    r.auc = auc_of(confidence);
    *out = r;
}
