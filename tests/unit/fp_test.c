/* base/fp.h against the definitions of model spec 2.1 and 3. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/fp.h"

static void e4m3_table_follows_the_definition(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        const int exponent = (c >> 3) & 15, mantissa = c & 7;
        const float value = di_e4m3_to_f32[c];
        if (exponent == 15 && mantissa == 7) {
            assert_true(isnan(value));
            continue;
        }
        const double magnitude =
            exponent == 0 ? ldexp(mantissa, -9) : ldexp(8 + mantissa, exponent - 10);
        assert_true((double)value == (c & 0x80 ? -magnitude : magnitude));
        assert_int_equal(signbit(value) != 0, c >> 7);
        assert_int_equal(di_f32_to_e4m3(value), c);
    }
}

/* Every fp32 between two neighbours goes to the nearer one, a tie to the even code. */
static void e4m3_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (int c = 0; c < 0x7e; c++) {
        const float low = di_e4m3_to_f32[c], high = di_e4m3_to_f32[c + 1];
        const float middle = (low + high) / 2; /* exact */
        assert_int_equal(di_f32_to_e4m3(middle), c & 1 ? c + 1 : c);
        assert_int_equal(di_f32_to_e4m3(nextafterf(middle, 0.0f)), c);
        assert_int_equal(di_f32_to_e4m3(nextafterf(middle, 500.0f)), c + 1);
        assert_int_equal(di_f32_to_e4m3(-middle), (c & 1 ? c + 1 : c) | 0x80);
    }
    assert_int_equal(di_f32_to_e4m3(NAN) & 0x7f, 0x7f);
}

static void e2m1_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (int c = 0; c < 7; c++) {
        const float low = di_e2m1_to_f32[c], high = di_e2m1_to_f32[c + 1];
        const float middle = (low + high) / 2;
        assert_int_equal(di_f32_to_e2m1(low), c);
        assert_int_equal(di_f32_to_e2m1(middle), c & 1 ? c + 1 : c);
        assert_int_equal(di_f32_to_e2m1(nextafterf(middle, 0.0f)), c);
        assert_int_equal(di_f32_to_e2m1(nextafterf(middle, 9.0f)), c + 1);
    }
    assert_int_equal(di_f32_to_e2m1(-6.0f), 15);
    assert_int_equal(di_f32_to_e2m1(-0.1f), 0);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(di_f32_to_bf16(1.0f), 0x3f80);
    assert_int_equal(di_f32_to_bf16(di_f32_from_bits(0x3f808000u)), 0x3f80);
    assert_int_equal(di_f32_to_bf16(di_f32_from_bits(0x3f818000u)), 0x3f82);
    assert_int_equal(di_f32_to_bf16(di_f32_from_bits(0x3f808001u)), 0x3f81);
    assert_true(isnan(di_bf16_to_f32(di_f32_to_bf16(di_f32_from_bits(0x7f800001u)))));
    assert_true(isinf(di_bf16_to_f32(di_f32_to_bf16(3.4e38f))));
}

static void powers_of_two(void **state)
{
    (void)state;
    for (int e = 1; e < 254; e++) {
        const float p = ldexpf(1.0f, e - 127);
        assert_true(di_e8m0_to_f32((uint8_t)e) == p);
        assert_int_equal(di_pow2ceil_e8m0(p), e);
        assert_int_equal(di_pow2ceil_e8m0(nextafterf(p, INFINITY)), e + 1);
    }
    assert_true(di_e8m0_to_f32(0) == ldexpf(1.0f, -127));
    assert_true(isnan(di_e8m0_to_f32(255)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e4m3_table_follows_the_definition),
        cmocka_unit_test(e4m3_rounds_to_nearest_even),
        cmocka_unit_test(e2m1_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(powers_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
