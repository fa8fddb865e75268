/* row_peaks, exp_weights and philox_bits against their definitions. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mathf.h"
#include "kernel_case.h"
#include "kernels/vocab/vocab.h"

static const int32_t sizes[] = {1, 15, 16, 17, DI_VOCAB_BLOCK, DI_VOCAB_BLOCK + 1, 700};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

/* `broken` goes to a random place, unless it is 0. */
static void check_peaks(int32_t n, di_pattern pattern, float broken)
{
    di_kernel_case c = di_case_new(DI_OP_row_peaks, "row_peaks, %d ids, %s, %g", (int)n,
                                   di_pattern_name(pattern), (double)broken);
    di_rng rng = di_rng_named(c.what);
    const int32_t n_blocks = di_vocab_blocks(n);
    float *row = di_case_input(&c, n, sizeof *row);
    float *peaks = di_case_output(&c, n_blocks, DI_F32);
    di_fill_f32(&rng, pattern, row, n);
    const int32_t place = (int32_t)di_rng_below(&rng, n);
    if (broken != 0.0f)
        row[place] = broken;
    for (int32_t i = 0; i < n && i < 20; i++) /* a first block that may be without finite values */
        if (pattern == DI_PATTERN_TIES && i != place)
            row[i] = -INFINITY;
    const di_row_peaks_args args = {.row = row, .peaks = peaks, .n = n};
    di_case_run(&c, &args, n_blocks);
    for (int32_t b = 0; b < n_blocks; b++) {
        bool is_bad = false;
        float peak = -INFINITY;
        for (int32_t i = b * DI_VOCAB_BLOCK; i < n && i < (b + 1) * DI_VOCAB_BLOCK; i++) {
            is_bad |= isnan(row[i]) || row[i] == INFINITY;
            peak = fmaxf(peak, row[i]);
        }
        if (is_bad)
            assert_true(isnan(peaks[b]));
        else
            assert_true(peaks[b] == peak && (peak != 0.0f || !signbit(peaks[b])));
    }
    di_case_free(&c);
}

static void peaks(void **state)
{
    (void)state;
    const float broken[] = {0.0f, NAN, INFINITY, -INFINITY, -NAN, 3.4028234e38f};
    for (int s = 0; s < N_SIZES; s++)
        for (int p = 0; p < DI_N_PATTERNS; p++)
            for (int i = 0; i < 6; i++)
                check_peaks(sizes[s], (di_pattern)p, broken[i]);
}

static void check_weights(int32_t n, di_pattern pattern)
{
    di_kernel_case c =
        di_case_new(DI_OP_exp_weights, "exp_weights, %d ids, %s", (int)n, di_pattern_name(pattern));
    di_rng rng = di_rng_named(c.what);
    const int32_t n_blocks = di_vocab_blocks(n);
    float *row = di_case_input(&c, n, sizeof *row);
    uint64_t *sums = di_case_output(&c, n_blocks, DI_U64);
    float max = -INFINITY;
    di_fill_f32(&rng, pattern, row, n);
    for (int32_t i = 0; i < n; i++) {
        if (i % 3 == 1) /* around where weights end, and banned tokens */
            row[i] = i % 2 ? -INFINITY : row[i] - (float)(di_rng_uniform(&rng) * 30.0);
        max = fmaxf(max, row[i]);
    }
    const di_exp_weights_args args = {.row = row, .sums = sums, .n = n, .max = max};
    di_case_run(&c, &args, n_blocks);
    for (int32_t b = 0; b < n_blocks; b++) {
        uint64_t sum = 0;
        for (int32_t i = b * DI_VOCAB_BLOCK; i < n && i < (b + 1) * DI_VOCAB_BLOCK; i++) {
            const float z = row[i] - max;
            sum += z > -28.0f ? (uint64_t)(di_expf(z) * 0x1p40f) : 0;
        }
        assert_true(sums[b] == sum);
    }
    di_case_free(&c);
}

static void weights(void **state)
{
    (void)state;
    for (int s = 0; s < N_SIZES; s++)
        for (int p = 0; p < DI_N_PATTERNS; p++)
            check_weights(sizes[s], (di_pattern)p);
}

static void bits(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 70; n += 6) {
        di_kernel_case c = di_case_new(DI_OP_philox_bits, "philox_bits, %d blocks", (int)n);
        di_rng rng = di_rng_named(c.what);
        uint32_t *word_1 = di_case_input(&c, n, sizeof *word_1);
        uint32_t *out = di_case_output(&c, 4 * n, DI_U32);
        di_fill_bytes(&rng, (uint8_t *)word_1, n * 4);
        di_philox_counter counter = {{(uint32_t)di_rng_next(&rng), 0, 1, (uint32_t)n}};
        const di_philox_bits_args args = {
            .counter = counter, .key = di_rng_next(&rng), .word_1 = word_1, .bits = out, .n = n};
        di_case_run(&c, &args, n);
        for (int64_t i = 0; i < n; i++) {
            uint32_t want[4];
            counter.word[1] = word_1[i];
            di_philox4x32_run(counter, args.key, 1, want);
            for (int w = 0; w < 4; w++)
                assert_int_equal(out[w * n + i], want[w]);
        }
        di_case_free(&c);
    }
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(peaks), cmocka_unit_test(weights),
                                       cmocka_unit_test(bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
