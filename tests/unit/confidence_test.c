/* spec/confidence.h: temperatures from simulated drafts, statistics, determinism. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include "random.h"
#include "spec/confidence.h"

enum { SLOTS = 5 };

/* A drafter whose slot j is accepted with probability sigmoid(logit / temperature[j]), once all
 * before it were. */
typedef struct drafter {
    di_rng rng;
    double temperature[SLOTS];
    double mean, spread; /* of the logits */
} drafter;

static int32_t draft_block(drafter *d, float *logits)
{
    int32_t n_accepted = 0;
    for (int32_t j = 0; j < SLOTS; j++) {
        logits[j] = (float)(d->mean + d->spread * (double)di_rng_normal(&d->rng));
        const double c = 1.0 / (1.0 + exp(-(double)logits[j] / d->temperature[j]));
        if (n_accepted == j && di_rng_uniform(&d->rng) < c)
            n_accepted++;
    }
    return n_accepted;
}

/* Verifies the slots whose survival is above `least`, the first always. */
static void observe_blocks(di_confidence *confidence, drafter *d, int n, float least)
{
    for (int i = 0; i < n; i++) {
        float logits[SLOTS], survivals[SLOTS];
        const int32_t n_accepted = draft_block(d, logits);
        int32_t n_verified = 1;
        di_calibration_survivals(&confidence->calibration, logits, SLOTS, survivals);
        while (n_verified < SLOTS && survivals[n_verified] > least)
            n_verified++;
        di_confidence_observe(confidence, logits, n_verified,
                              n_accepted < n_verified ? n_accepted : n_verified);
    }
}

static const double many_temperatures[][SLOTS] = {
    {1.0, 1.0, 1.0, 1.0, 1.0}, {2.0, 2.0, 2.0, 2.0, 2.0}, {0.5, 0.5, 0.5, 0.5, 0.5},
    {1.5, 0.7, 2.5, 1.0, 0.6}, {4.0, 1.0, 1.0, 1.0, 1.0},
};

/* Counts remember about 1000 blocks, so temperatures go on moving: their geometric mean. */
static void check_temperatures(const double *temperature, float least, int32_t n_slots,
                               double tolerance)
{
    enum { TIMES = 40 };
    di_confidence confidence;
    di_confidence_report report;
    double mean[SLOTS] = {0};
    drafter d = {.rng = di_rng_named("confidence"), .mean = 2.0, .spread = 2.0};
    memcpy(d.temperature, temperature, sizeof d.temperature);
    di_confidence_init(&confidence, SLOTS);
    observe_blocks(&confidence, &d, 4000, least);
    for (int i = 0; i < TIMES; i++) {
        observe_blocks(&confidence, &d, 500, least);
        di_confidence_report_of(&confidence, &report);
        for (int32_t j = 0; j < SLOTS; j++)
            mean[j] += log(report.slots[j].temperature) / TIMES;
    }
    for (int32_t j = 0; j < n_slots; j++)
        if (!(fabs(mean[j] - log(temperature[j])) < tolerance))
            fail_msg("slot %d: found temperature %.3f, wanted %.3f", j, exp(mean[j]),
                     temperature[j]);
    /* As predicted before each block: what was learned late is paid for. */
    assert_true(report.ece < 0.02);
    assert_true(report.ece < report.raw_ece + 0.003);
}

static void recovers_temperatures(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof many_temperatures / sizeof many_temperatures[0]; c++) {
        check_temperatures(many_temperatures[c], -1.0f, SLOTS, 0.3);
        /* Lengths that vary: late slots are seen when all before them are all but certain, and then
         * make up for what those leave. */
        check_temperatures(many_temperatures[c], 0.3f, 2, 0.25);
    }
}

/* A drafter that changes is followed, as fast as counts decay. */
static void follows_a_change(void **state)
{
    (void)state;
    di_confidence confidence;
    di_confidence_report report;
    drafter d = {.rng = di_rng_named("change"), .mean = 2.0, .spread = 2.0};
    memcpy(d.temperature, many_temperatures[2], sizeof d.temperature);
    di_confidence_init(&confidence, SLOTS);
    observe_blocks(&confidence, &d, 20000, -1.0f);
    di_confidence_report_of(&confidence, &report);
    assert_true(report.slots[0].temperature < 0.7);
    memcpy(d.temperature, many_temperatures[1], sizeof d.temperature);
    observe_blocks(&confidence, &d, 5000, -1.0f);
    di_confidence_report_of(&confidence, &report);
    assert_true(report.slots[0].temperature > 1.6);
}

/* With little seen temperatures stay near 1; slots without observations take the pooled one. */
static void leans_on_what_is_known(void **state)
{
    (void)state;
    di_confidence confidence;
    const float logits[SLOTS] = {4.0f, 4.0f, 4.0f, 4.0f, 4.0f};
    di_confidence_init(&confidence, SLOTS);
    di_confidence_observe(&confidence, logits, 1, 0);
    for (int32_t j = 0; j < SLOTS; j++) {
        const double t = 1.0 / (double)confidence.calibration.inverse_temperature[j];
        assert_true(t > 1.0 && t < 1.1);
    }
    for (int i = 0; i < 5000; i++)
        di_confidence_observe(&confidence, logits, 1, i % 2);
    const double seen = 1.0 / (double)confidence.calibration.inverse_temperature[0];
    const double unseen = 1.0 / (double)confidence.calibration.inverse_temperature[4];
    assert_true(seen > 6.0 && unseen < seen && unseen > 0.8 * seen);
}

static void survivals_are_products(void **state)
{
    (void)state;
    const float logits[] = {0.0f, 1.0f, 100.0f, -1.0f, -200.0f};
    const double confidences[] = {0.5, 0.6224593312, 1.0, 0.3775406688, 0.0};
    di_calibration calibration = {.n_slots = SLOTS};
    float survivals[SLOTS];
    double wanted = 1.0;
    for (int32_t j = 0; j < SLOTS; j++)
        calibration.inverse_temperature[j] = 0.5f;
    di_calibration_survivals(&calibration, logits, SLOTS, survivals);
    for (int32_t j = 0; j < SLOTS; j++) {
        wanted *= confidences[j];
        assert_true(fabs((double)survivals[j] - wanted) < 1e-6);
        assert_true(j == 0 || survivals[j] <= survivals[j - 1]);
    }
    const float bad[] = {1.0f, __builtin_nanf(""), 5.0f, INFINITY, -INFINITY};
    di_calibration_survivals(&calibration, bad, SLOTS, survivals);
    assert_true(survivals[0] > 0.6f && survivals[1] == 0.0f && survivals[4] == 0.0f);
}

static void counts_and_lengths(void **state)
{
    (void)state;
    static const int32_t blocks[][2] = {{5, 5}, {5, 0}, {3, 2}, {2, 2}, {0, 0}, {5, 4}, {1, 0}};
    static const uint64_t verified[] = {6, 5, 4, 3, 3}, reached[] = {6, 4, 3, 2, 2},
                          accepted[] = {4, 4, 2, 2, 1};
    const float logits[SLOTS] = {1.0f, 0.5f, 0.0f, -0.5f, -1.0f};
    di_confidence confidence;
    di_confidence_report report;
    di_confidence_init(&confidence, SLOTS);
    di_confidence_report_of(&confidence, &report);
    assert_true(report.accepted_len == 1.0 && report.ece == 0.0 && report.auc == 0.5);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        di_confidence_observe(&confidence, logits, blocks[i][0], blocks[i][1]);
    di_confidence_report_of(&confidence, &report);
    assert_int_equal(report.n_blocks, 6);
    assert_int_equal(report.n_verified, 21);
    assert_int_equal(report.n_accepted, 13);
    assert_true(fabs(report.accepted_len - (1.0 + 13.0 / 6.0)) < 1e-12);
    for (int32_t j = 0; j < SLOTS; j++) {
        assert_int_equal(report.slots[j].n_verified, verified[j]);
        assert_int_equal(report.slots[j].n_reached, reached[j]);
        assert_int_equal(report.slots[j].n_accepted, accepted[j]);
    }
}

/* Against a count of all pairs and bins by hand; temperatures stay as they are without fits. */
static void errors_and_ranking(void **state)
{
    (void)state;
    enum { N = 600 };
    static float survival[N];
    static bool is_hit[N];
    di_confidence confidence;
    di_confidence_report report;
    drafter d = {.rng = di_rng_named("ranking"), .mean = 1.0, .spread = 1.5};
    memcpy(d.temperature, many_temperatures[3], sizeof d.temperature);
    di_confidence_init(&confidence, 1);
    double gaps[20][2] = {{0}}, ece = 0.0, pairs = 0.0, n_pairs = 0.0;
    for (int i = 0; i < N; i++) {
        float logits[SLOTS];
        is_hit[i] = draft_block(&d, logits) > 0;
        confidence.n_until_fit = 1000;
        di_calibration_survivals(&confidence.calibration, logits, 1, &survival[i]);
        di_confidence_observe(&confidence, logits, 1, is_hit[i]);
        const int bin = (int)(survival[i] * 20.0f);
        gaps[bin][0] += (double)survival[i];
        gaps[bin][1] += is_hit[i];
    }
    for (int b = 0; b < 20; b++)
        ece += fabs(gaps[b][0] - gaps[b][1]) / N;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            if (!is_hit[i] || is_hit[k])
                continue;
            const int a = (int)(survival[i] * 20.0f), b = (int)(survival[k] * 20.0f);
            n_pairs += 1.0;
            pairs += a > b ? 1.0 : a == b ? 0.5 : 0.0;
        }
    di_confidence_report_of(&confidence, &report);
    assert_true(fabs(report.ece - ece) < 1e-9 && report.ece == report.raw_ece);
    assert_true(report.slots[0].ece == report.ece);
    assert_true(fabs(report.auc - pairs / n_pairs) < 1e-9);
}

/* Logits that are none, and far outside the bins. */
static void senseless_logits(void **state)
{
    (void)state;
    const float logits[SLOTS] = {1e30f, -INFINITY, __builtin_nanf(""), INFINITY, -1e30f};
    di_confidence confidence;
    di_confidence_report report;
    di_confidence_init(&confidence, SLOTS);
    for (int i = 0; i < 300; i++)
        di_confidence_observe(&confidence, logits, SLOTS, i % 6);
    di_confidence_report_of(&confidence, &report);
    for (int32_t j = 0; j < SLOTS; j++)
        assert_true(report.slots[j].temperature >= 0.124 && report.slots[j].temperature <= 8.01);
    assert_true(report.ece >= 0.0 && report.ece <= 1.0);
}

/* The same blocks give the same bits. These are pinned: nothing here may depend on a C library or
 * on a compiler. */
static void same_blocks_same_bits(void **state)
{
    (void)state;
    di_confidence a, b;
    drafter d = {.mean = 2.0, .spread = 2.0};
    memcpy(d.temperature, many_temperatures[3], sizeof d.temperature);
    memset(&a, 0xaa, sizeof a);
    memset(&b, 0x55, sizeof b);
    di_confidence_init(&a, SLOTS);
    di_confidence_init(&b, SLOTS);
    d.rng = (di_rng){1};
    observe_blocks(&a, &d, 3000, 0.2f);
    d.rng = (di_rng){1};
    observe_blocks(&b, &d, 3000, 0.2f);
    assert_memory_equal(&a.calibration, &b.calibration, sizeof a.calibration);

    di_confidence_init(&a, 3);
    for (uint32_t i = 0; i < 2000; i++) {
        const uint32_t x = i * 2654435761u;
        const float logits[3] = {(float)(x >> 28) - 7.0f, (float)(x >> 24 & 15) * 0.5f - 3.0f,
                                 (float)(x >> 20 & 15) * 0.25f};
        di_confidence_observe(&a, logits, 3, (int32_t)(x >> 14 & 3));
    }
    static const uint32_t wanted[] = {0x3e0cdea4u, 0x3f3f9838u, 0x3f0ac28bu};
    for (int j = 0; j < 3; j++) {
        const uint32_t bits = di_f32_bits(a.calibration.inverse_temperature[j]);
        if (bits != wanted[j])
            fail_msg("slot %d: found 0x%08x", j, bits);
    }
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recovers_temperatures),  cmocka_unit_test(follows_a_change),
        cmocka_unit_test(leans_on_what_is_known), cmocka_unit_test(survivals_are_products),
        cmocka_unit_test(counts_and_lengths),     cmocka_unit_test(errors_and_ranking),
        cmocka_unit_test(senseless_logits),       cmocka_unit_test(same_blocks_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
