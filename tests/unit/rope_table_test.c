/* Rotary frequencies per layer type (cases/bugs/V07) and the angle table. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/json.h"
#include "model/network.h"

static json_t *load(void)
{
    json_t *o;
    if (di_json_load(DI_TEST_DATA "/cases/bugs/V07/inv_freq-v4-flash.json", 1 << 20, &o) != DI_OK)
        fail_msg("%s", di_last_error());
    return o;
}

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(json_object_get(o, "config"), key));
}

enum { HALF = 32 };

/* The table is in double precision; ours is the fp32 formula: exponent, power, quotient and ramp
 * each round once (2^-24), the exponent's rounding weighs ln(theta) <= 12. */
static void expect_table(const json_t *o, const char *key, const float *found)
{
    const json_t *list = json_object_get(o, key);
    assert_int_equal(json_array_size(list), HALF);
    for (size_t i = 0; i < HALF; i++) {
        const double want = json_number_value(json_array_get(list, i));
        if (fabs((double)found[i] - want) > 20 * 0x1p-24 * want)
            fail_msg("%s[%d]: found %.9g, wanted %.9g", key, (int)i, (double)found[i], want);
    }
}

/* Windows-only layers: base 10000, no YaRN. Compressed layers: base 160000 with YaRN. */
static void frequencies_of_both_layer_types(void **state)
{
    (void)state;
    json_t *o = load();
    const int64_t rope_dim = (int64_t)number(o, "rope_head_dim");
    assert_int_equal(rope_dim, 2 * HALF);
    const di_rope_scaling yarn = {
        .is_yarn = true,
        .factor = number(o, "factor"),
        .beta_fast = number(o, "beta_fast"),
        .beta_slow = number(o, "beta_slow"),
        .original_max_position_embeddings = (int64_t)number(o, "original"),
    };
    float f[HALF];
    di_rope_frequencies(rope_dim, number(o, "rope_theta"), NULL, f);
    expect_table(o, "sliding_layers_ratio0_no_yarn", f);
    di_rope_frequencies(rope_dim, number(o, "compress_rope_theta"), &yarn, f);
    expect_table(o, "compressed_layers_yarn", f);
    json_decref(o);
}

/* A network keeps one table of each kind. */
static void a_network_has_both_tables(void **state)
{
    (void)state;
    json_t *o = load();
    static di_config config;
    config.rope_dim = 2 * HALF;
    config.rope_theta = number(o, "rope_theta");
    config.compress_rope_theta = number(o, "compress_rope_theta");
    config.rope_scaling = (di_rope_scaling){true, number(o, "factor"), number(o, "beta_fast"),
                                            number(o, "beta_slow"), (int64_t)number(o, "original")};
    di_network network;
    assert_int_equal(di_network_init(&config, NULL, NULL, &network), DI_OK);
    expect_table(o, "sliding_layers_ratio0_no_yarn", network.rope_plain);
    expect_table(o, "compressed_layers_yarn", network.rope_compressed);
    di_network_free(&network);
    json_decref(o);
}

/* Without rope_scaling the compressed layers have plain frequencies of their own base. */
static void no_scaling_is_plain(void **state)
{
    (void)state;
    const di_rope_scaling none = {.is_yarn = false, .factor = 16};
    float a[HALF], b[HALF];
    di_rope_frequencies(2 * HALF, 160000, &none, a);
    di_rope_frequencies(2 * HALF, 160000, NULL, b);
    assert_memory_equal(a, b, sizeof a);
}

/* The ends of the ramp are clamped to the channels there are: with a short original context low
 * would be negative, with a small base high would lie beyond the last channel. */
static void ramp_is_clamped(void **state)
{
    (void)state;
    enum { SMALL = 8 };
    const di_rope_scaling yarn = {true, 4, 32, 1, 16};
    float f[SMALL], plain[SMALL];
    di_rope_frequencies(2 * SMALL, 1e4, &yarn, f);
    di_rope_frequencies(2 * SMALL, 1e4, NULL, plain);
    /* d(32) = 16 ln(16 / (64 pi)) / (2 ln 1e4) = -2.2, d(1) = 0.81: low 0, high 1 */
    assert_true(f[0] == plain[0]);
    for (int i = 1; i < SMALL; i++)
        assert_true(f[i] == plain[i] / 4);
}

/* cos and sin of the fp32 product, amplitude 1, up to the longest context. */
static void angles_have_amplitude_one(void **state)
{
    (void)state;
    float f[HALF], co[5 * HALF], si[5 * HALF];
    const int32_t positions[5] = {0, 1, 4900, 70000, 1048575};
    di_rope_frequencies(2 * HALF, 10000, NULL, f);
    di_rope_table(f, HALF, positions, 5, co, si);
    for (int i = 0; i < 5 * HALF; i++) {
        const double angle = (double)(float)((float)positions[i / HALF] * f[i % HALF]);
        assert_true(fabs((double)co[i] - cos(angle)) < 1e-7);
        assert_true(fabs((double)si[i] - sin(angle)) < 1e-7);
    }
    assert_true(co[0] == 1.0f && si[0] == 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_of_both_layer_types),
        cmocka_unit_test(a_network_has_both_tables),
        cmocka_unit_test(no_scaling_is_plain),
        cmocka_unit_test(ramp_is_clamped),
        cmocka_unit_test(angles_have_amplitude_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
