/* What a drafter's confidences are worth: the confidence head gives a logit for each slot of a
 * block, which estimates the chance that the slot's draft is accepted if all before it were. A
 * temperature for each slot, learned from what the target accepts, makes probabilities of the
 * logits (sequential temperature scaling), and their products are the survivals that the planner
 * spends rows by.
 *
 * Learning: each slot keeps counts that decay by 0.999 an observation, in 16 bins of the logit over
 * +-8. A fit tries 49 temperatures from 1/8 to 8, eight an octave, and takes for each slot the one
 * with the least calibration error of the survival (the product, slots before it included: their
 * errors are made up for); the slots together give a pooled temperature. With little seen, a slot
 * stays near the pooled one and that near 1: each is the mean, in logarithms, of its own and of
 * what it leans on, which weighs as much as 64 observations.
 *
 * All arithmetic is in a fixed order: the same observations give the same temperatures everywhere.
 * Nothing allocates or locks. Source: DSpark's paper (sequential temperature scaling). */
#ifndef DI_SPEC_CONFIDENCE_H
#define DI_SPEC_CONFIDENCE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DI_SPEC_SLOTS = 16,           /* slots of a block that can be verified */
    DI_CONFIDENCE_BINS = 16,      /* of a logit, one wide */
    DI_RELIABILITY_BINS = 20,     /* of a probability */
    DI_CONFIDENCE_FIT_EVERY = 64, /* blocks observed from one fit to the next */
};

/* The temperatures alone: small, so that a pass can carry a copy. */
typedef struct di_calibration {
    int32_t n_slots;
    float inverse_temperature[DI_SPEC_SLOTS];
} di_calibration;

/* survivals[j] = product of sigmoid(logits[i] / T_i) over i <= j, for n <= n_slots slots: never
 * rising, in [0, 1]. A NaN logit is confidence 0. */
void di_calibration_survivals(const di_calibration *calibration, const float *logits, int32_t n,
                              float *survivals);

/* Decayed sums of a bin of the logit. */
typedef struct di_confidence_bin {
    double n;     /* observations */
    double hits;  /* of them accepted up to and including this slot */
    double prior; /* survival of the slots before */
    double logit;
} di_confidence_bin;

/* Plain sums of a bin of the predicted survival. */
typedef struct di_reliability_bin {
    double n, hits, predicted;
} di_reliability_bin;

typedef struct di_slot_confidence {
    di_confidence_bin bins[DI_CONFIDENCE_BINS];
    di_reliability_bin calibrated[DI_RELIABILITY_BINS], raw[DI_RELIABILITY_BINS];
    uint64_t n_verified, n_reached, n_accepted;
} di_slot_confidence;

/* Owned by one thread. */
typedef struct di_confidence {
    di_calibration calibration; /* to read and copy */
    di_slot_confidence slots[DI_SPEC_SLOTS];
    uint64_t n_blocks; /* observed: verifications of at least one draft */
    int32_t n_until_fit;
} di_confidence;

/* All temperatures 1, nothing observed. 1 <= n_slots <= DI_SPEC_SLOTS. */
void di_confidence_init(di_confidence *confidence, int32_t n_slots);

/* The target verified the first n_verified <= n_slots drafts of a block and accepted the first
 * n_accepted of them. logits[n_verified], as the drafter gave them; n_verified 0 is not counted.
 * Every DI_CONFIDENCE_FIT_EVERY blocks (sooner at the start) this fits. Not to be called for
 * acceptances that were forced, nor for a block cut short by the end of the output unless
 * n_verified is cut too. */
void di_confidence_observe(di_confidence *confidence, const float *logits, int32_t n_verified,
                           int32_t n_accepted);

/* Sets the temperatures by what was observed so far. */
void di_confidence_fit(di_confidence *confidence);

typedef struct di_slot_report {
    uint64_t n_verified; /* blocks in which this slot was verified */
    uint64_t n_reached;  /* of them all drafts before it accepted */
    uint64_t n_accepted; /* of those it accepted as well */
    double temperature;
    double ece, raw_ece; /* of the survival as predicted when it was observed, and at T = 1 */
} di_slot_report;

/* Since the beginning. Quotients without anything to divide by are 0 (AUC: 0.5). */
typedef struct di_confidence_report {
    int32_t n_slots;
    uint64_t n_blocks, n_verified, n_accepted; /* drafts, of all slots */
    double accepted_len; /* 1 + accepted drafts / blocks: with the token every verification gives */
    double ece, raw_ece; /* over all slots and bins of 0.05, weighted by observations */
    double auc; /* how often an accepted draft had a higher survival than a rejected one; to the
                   width of a bin */
    di_slot_report slots[DI_SPEC_SLOTS];
} di_confidence_report;

void di_confidence_report_of(const di_confidence *confidence, di_confidence_report *out);

#endif
