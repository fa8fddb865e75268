/* Bounds and multiples against exact arithmetic in ten-thousandths. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/dfa.h"
#include "grammar/json_number.h"

enum { SCALE = 10000, MAX_STATES = 20000, TEXT_BYTES = 32 };

static const di_dfa *compile(di_arena *arena, const di_json_number *number)
{
    const di_expr *expr;
    const di_dfa *dfa;
    if (di_json_number_expr(arena, number, MAX_STATES, &expr) != DI_OK)
        fail_msg("%s", di_last_error());
    assert_int_equal(di_dfa_from_expr(arena, expr, MAX_STATES, &dfa), DI_OK);
    return dfa;
}

static bool accepts(const di_dfa *dfa, const char *text)
{
    return di_dfa_matches(dfa, text, strlen(text));
}

static int pick(unsigned *seed, int n)
{
    return (int)((unsigned)rand_r(seed) % (unsigned)n);
}

/* value / SCALE with n_digits behind the point (0: no point); the digits cut off must be 0. */
static void spell(char *text, int value, int n_digits)
{
    const int size = abs(value);
    int n = snprintf(text, TEXT_BYTES, "%s%d", value < 0 ? "-" : "", size / SCALE);
    if (n_digits > 0)
        snprintf(text + n, (size_t)(TEXT_BYTES - n), ".%04d00", size % SCALE);
    if (n_digits > 0)
        text[n + 1 + n_digits] = 0;
}

/* A text for value / SCALE as a schema may have it, with an exponent now and then. */
static void spell_bound(char *text, unsigned *seed, int value)
{
    switch (pick(seed, 4)) {
    case 0:
        snprintf(text, TEXT_BYTES, "%de-4", value);
        break;
    case 1:
        snprintf(text, TEXT_BYTES, "%s0.%08dE+4", value < 0 ? "-" : "", abs(value));
        break;
    default:
        spell(text, value, 4 + pick(seed, 2));
    }
}

typedef struct {
    di_json_number number;
    int min, max, multiples[2];
    char texts[4][TEXT_BYTES];
    const char *multiple_texts[2];
} sample;

static int random_value(unsigned *seed, int largest, bool is_whole)
{
    const int unit = is_whole || pick(seed, 3) == 0 ? SCALE : pick(seed, 2) == 0 ? SCALE / 10 : 1;
    const int value = pick(seed, 2 * largest + 1) - largest;
    return pick(seed, 8) == 0 ? 0 : value / unit * unit;
}

static void make_sample(sample *s, unsigned *seed, int largest, bool is_integer)
{
    static const int units[] = {SCALE,       2 * SCALE,  3 * SCALE,  7 * SCALE, 10 * SCALE,
                                25000,       SCALE / 10, SCALE / 4,  123,       1200,
                                100 * SCALE, 12 * SCALE, 40 * SCALE, 1,         8};
    *s = (sample){.number = {.is_integer = is_integer, .multiples = s->multiple_texts}};
    const bool is_whole = is_integer && pick(seed, 2) == 0;
    if (pick(seed, 4) > 0) {
        s->min = random_value(seed, largest, is_whole);
        s->number.min_exclusive = pick(seed, 3) == 0;
        spell_bound(s->texts[0], seed, s->min);
        s->number.min = s->texts[0];
    }
    if (pick(seed, 4) > 0) {
        s->max = random_value(seed, largest, is_whole);
        s->number.max_exclusive = pick(seed, 3) == 0;
        spell_bound(s->texts[1], seed, s->max);
        s->number.max = s->texts[1];
    }
    for (int n = pick(seed, 3); n > 0; n--) {
        const size_t i = s->number.n_multiples++;
        s->multiples[i] = units[pick(seed, (int)(sizeof units / sizeof units[0]))];
        spell_bound(s->texts[2 + i], seed, s->multiples[i]);
        s->multiple_texts[i] = s->texts[2 + i];
    }
}

static bool is_wanted(const sample *s, int value)
{
    const di_json_number *n = &s->number;
    if (n->min != NULL && (n->min_exclusive ? value <= s->min : value < s->min))
        return false;
    if (n->max != NULL && (n->max_exclusive ? value >= s->max : value > s->max))
        return false;
    for (size_t i = 0; i < n->n_multiples; i++)
        if (value % s->multiples[i] != 0)
            return false;
    return true;
}

static void check(const di_dfa *dfa, const sample *s, const char *text, bool wanted)
{
    if (accepts(dfa, text) != wanted)
        fail_msg("%s: min %s%s max %s%s multiples %s %s: wanted %d", text,
                 s->number.min ? s->number.min : "-", s->number.min_exclusive ? " (open)" : "",
                 s->number.max ? s->number.max : "-", s->number.max_exclusive ? " (open)" : "",
                 s->number.n_multiples > 0 ? s->texts[2] : "-",
                 s->number.n_multiples > 1 ? s->texts[3] : "-", wanted);
}

static void integers(void **state)
{
    (void)state;
    di_arena arena = {0};
    unsigned seed = 1;
    char text[TEXT_BYTES];
    for (int round = 0; round < 120; round++) {
        sample s;
        make_sample(&s, &seed, 1300 * SCALE, true);
        const di_dfa *dfa = compile(&arena, &s.number);
        for (int value = -1400; value <= 1400; value++) {
            spell(text, value * SCALE, 0);
            check(dfa, &s, text, is_wanted(&s, value * SCALE));
        }
        check(dfa, &s, "-0", false);
        check(dfa, &s, "0.0", false);
        check(dfa, &s, "01", false);
        check(dfa, &s, "100.0", false);
        check(dfa, &s, "1e2", false);
        check(dfa, &s, "", false);
        di_arena_reset(&arena);
    }
    di_arena_free(&arena);
}

/* Every spelling of a number without an exponent: up to two 0 more than needed. */
static void check_spellings(const di_dfa *dfa, const sample *s, int value)
{
    const bool wanted = is_wanted(s, value);
    char text[TEXT_BYTES];
    int least = 4;
    for (int unit = 10; unit <= SCALE && value % unit == 0; unit *= 10)
        least--;
    for (int n = least; n <= 6; n++) {
        spell(text, value, n);
        check(dfa, s, text, wanted);
    }
}

static void numbers(void **state)
{
    (void)state;
    di_arena arena = {0};
    unsigned seed = 2;
    for (int round = 0; round < 120; round++) {
        sample s;
        make_sample(&s, &seed, 12 * SCALE, false);
        const di_dfa *dfa = compile(&arena, &s.number);
        for (int value = -13 * SCALE; value <= 13 * SCALE; value += 1 + pick(&seed, 50))
            check_spellings(dfa, &s, value);
        for (int value = -13 * SCALE; value <= 13 * SCALE; value += SCALE / 20)
            check_spellings(dfa, &s, value);
        for (int d = -2; d <= 2; d++) {
            check_spellings(dfa, &s, s.min + d);
            check_spellings(dfa, &s, s.max + d);
        }
        const bool from_zero = s.number.min != NULL && s.min == 0;
        check(dfa, &s, "-0", is_wanted(&s, 0) && !from_zero);
        check(dfa, &s, "-0.00", is_wanted(&s, 0) && !from_zero);
        check(dfa, &s, "00", false);
        check(dfa, &s, "-", false);
        check(dfa, &s, "1.", false);
        check(dfa, &s, ".5", false);
        di_arena_reset(&arena);
    }
    di_arena_free(&arena);
}

static void large(void **state)
{
    (void)state;
    const struct {
        di_json_number number;
        const char *yes[4], *no[4];
    } rows[] = {
        {{.is_integer = true, .min = "-9223372036854775808", .max = "9223372036854775807"},
         {"9223372036854775807", "-9223372036854775808", "0", "999"},
         {"9223372036854775808", "-9223372036854775809", "10000000000000000000", "-0"}},
        {{.is_integer = true, .min = "9007199254740993"},
         {"9007199254740993", "10000000000000000", "9007199254740994"},
         {"9007199254740992", "9007199254740991", "-9007199254740993", "0"}},
        {{.max = "0.1234567890123456789"},
         {"0.1234567890123456789", "0.12345678901234567890", "0.1234567890123456788999", "-5"},
         {"0.12345678901234567891", "0.1234567890123456790", "0.2", "1"}},
        {{.min = "1e25", .max = "1.5e25"},
         {"10000000000000000000000000", "15000000000000000000000000.0",
          "12345678901234567890123456.7"},
         {"9999999999999999999999999.9", "15000000000000000000000000.1", "1e25", "0"}},
        {{.is_integer = true, .multiples = (const char *const[]){"1e20"}, .n_multiples = 1},
         {"100000000000000000000", "0", "-1200000000000000000000"},
         {"110000000000000000000", "10000000000000000000", "1", "-0"}},
        {{.is_integer = true, .multiples = (const char *const[]){"1e-08"}, .n_multiples = 1},
         {"12391239123", "0", "-7"},
         {"0.5", "1.0", "-0"}},
        {{.multiples = (const char *const[]){"0.0001"}, .n_multiples = 1},
         {"0.0075", "0.00750", "-12345678.9", "3"},
         {"0.00751", "0.00001", "1e-4"}},
        {{.is_integer = true,
          .multiples = (const char *const[]){"4", "2.5", "6"},
          .n_multiples = 3,
          .min = "1"},
         {"60", "120", "6000"},
         {"0", "30", "20", "61"}},
    };
    di_arena arena = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const di_dfa *dfa = compile(&arena, &rows[i].number);
        for (int k = 0; k < 4; k++) {
            if (rows[i].yes[k] != NULL && !accepts(dfa, rows[i].yes[k]))
                fail_msg("row %zu: %s", i, rows[i].yes[k]);
            if (rows[i].no[k] != NULL && accepts(dfa, rows[i].no[k]))
                fail_msg("row %zu: not %s", i, rows[i].no[k]);
        }
    }
    const di_dfa *dfa = compile(&arena, &(di_json_number){.max = "1e308", .max_exclusive = true});
    char digits[400] = "1";
    memset(digits + 1, '0', 308);
    assert_false(accepts(dfa, digits));
    memset(digits, '9', 308);
    digits[308] = 0;
    assert_true(accepts(dfa, digits));
    di_arena_free(&arena);
}

static void without_bounds(void **state)
{
    (void)state;
    static const char *const both[] = {"0", "7", "-1", "120", "-120", "1234567890123456789012"};
    static const char *const only_number[] = {"-0",   "0.0",  "1.5",    "-0.5e3", "1e5",
                                              "1E+5", "2e-7", "12.340", "0e0"};
    static const char *const none[] = {"",    "-",   "01", "+1",  "1.", ".5",  "1e", "1e+",
                                       "--1", "0x1", "1 ", "NaN", "00", "-01", "1,", "1.e3"};
    di_arena arena = {0};
    const di_dfa *number = compile(&arena, &(di_json_number){0});
    const di_dfa *integer = compile(&arena, &(di_json_number){.is_integer = true});
    for (size_t i = 0; i < sizeof both / sizeof both[0]; i++)
        assert_true(accepts(number, both[i]) && accepts(integer, both[i]));
    for (size_t i = 0; i < sizeof only_number / sizeof only_number[0]; i++)
        assert_true(accepts(number, only_number[i]) && !accepts(integer, only_number[i]));
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_false(accepts(number, none[i]) || accepts(integer, none[i]));
    di_arena_free(&arena);
}

static void refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   "-",  "1.",  ".5", "1e",   "x",
                                      "01", "1x", "1e+", "+1", "1.5.", "NaN"};
    di_arena arena = {0};
    const di_expr *expr;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const di_json_number number = {.min = bad[i]};
        assert_int_equal(di_json_number_expr(&arena, &number, 100, &expr), DI_ERR_INPUT);
    }
    const struct {
        di_json_number number;
        di_status status;
    } rows[] = {
        {{.multiples = (const char *const[]){"0"}, .n_multiples = 1}, DI_ERR_INPUT},
        {{.multiples = (const char *const[]){"-2"}, .n_multiples = 1}, DI_ERR_INPUT},
        {{.multiples = (const char *const[]){"0.0e5"}, .n_multiples = 1}, DI_ERR_INPUT},
        {{.is_integer = true, .multiples = (const char *const[]){"0.123456789"}, .n_multiples = 1},
         DI_ERR_UNSUPPORTED},
        {{.multiples = (const char *const[]){"1e999999999999"}, .n_multiples = 1},
         DI_ERR_UNSUPPORTED},
        {{.multiples = (const char *const[]){"98765432109876543211"}, .n_multiples = 1},
         DI_ERR_UNSUPPORTED},
        {{.multiples = (const char *const[]){"9876543210987654321", "1234567890123456789"},
          .n_multiples = 2},
         DI_ERR_UNSUPPORTED},
        {{.max = "1e99999999999999999999"}, DI_ERR_UNSUPPORTED},
        {{.max = "1e-99999999999999999999"}, DI_ERR_UNSUPPORTED},
        {{.max = "1e90"}, DI_ERR_UNSUPPORTED},
        {{.max = "0e99999999999999999999"}, DI_OK},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(di_json_number_expr(&arena, &rows[i].number, 100, &expr), rows[i].status);
    const di_json_number nothing[] = {
        {.is_integer = true, .min = "5", .max = "4"},
        {.min = "1", .max = "1", .max_exclusive = true},
        {.is_integer = true, .min = "0.1", .max = "0.9"},
        {.min = "21", .max = "29.9", .multiples = (const char *const[]){"10"}, .n_multiples = 1},
    };
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        assert_int_equal(di_json_number_expr(&arena, &nothing[i], MAX_STATES, &expr), DI_OK);
        assert_ptr_equal(expr, di_expr_nothing());
    }
    di_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),       cmocka_unit_test(numbers), cmocka_unit_test(large),
        cmocka_unit_test(without_bounds), cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
