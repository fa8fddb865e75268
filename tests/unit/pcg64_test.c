/* base/pcg64.h against numpy's default_rng, and the Engram constants that are drawn with it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "base/pcg64.h"
#include "model/network.h"

/* One generator draws integers(0, n, dtype=int64) for these n in turn. Ranges up to 2^32 take
 * 32-bit halves, and a half that is left over waits for the next such draw. */
static const uint64_t ranges[] = {10,
                                  1,
                                  2147483647,
                                  4294967295,
                                  4294967296,
                                  3,
                                  4294967297,
                                  4611686018427387905,
                                  7,
                                  9223372036854775807,
                                  46539438283891,
                                  1000000007};
enum { N_RANGES = sizeof ranges / sizeof ranges[0] };

typedef struct vector {
    uint32_t words[6];
    int n_words;
    uint64_t raw[2]; /* bit_generator.random_raw of a fresh generator */
    uint64_t drawn[N_RANGES];
} vector;

/* clang-format off */
static const vector vectors[] = { /* numpy 2.4 */
    {{0x0u}, 1,
     {0xa30febcfd9c2825fu, 0x4510bdf882d9d721u},
     {8, 0, 1367864806, 2195314464, 1158725112, 0, 70985654, 3750546991322993743, 0, 8418684267946577446, 28232488247117, 970742844}},
    {{0x1u}, 1,
     {0x8306bdf37922e4ffu, 0xf35196bbc152a866u},
     {4, 0, 1099128568, 3243419749, 4082210491, 0, 4074418351, 1438068747342666922, 1, 3904497331914684451, 38520813782522, 256992031}},
    {{0x2717u}, 1,
     {0xd2c3f84026661e33u, 0xd4fb6969eb57435u},
     {1, 0, 1768029215, 2662691892, 223327894, 1, 3414020522, 1979716633701278750, 2, 6976413731397036915, 10352428609326, 941677742}},
    {{0x22342u}, 1,
     {0xba3ecc29cf07c111u, 0x8dac4bbe10610b7cu},
     {8, 0, 1562338835, 274795387, 2376879038, 1, 3812324438, 2495520935813751150, 2, 3717651356639784311, 37146496813118, 75284091}},
    {{0xffffffffu}, 1,
     {0x407f5fa930d8fd9fu, 0x3814b22eb9684802u},
     {1, 0, 541044692, 3110619137, 940880430, 2, 2658504451, 4311983110003825273, 2, 2729810797631738713, 24222179846624, 565275328}},
    {{0x0u, 0x1u}, 2,
     {0xe3c5ebe285ac1625u, 0x8ea09968fe31dbccu},
     {5, 0, 1910699504, 4264680395, 2392889704, 0, 4108195565, 270314714528660180, 5, 2180411562519181160, 36664337162168, 253273320}},
    {{0x5u, 0x80000000u}, 2,
     {0x7af08e89d1f1456du, 0xe777e80c301c2fd6u},
     {8, 0, 1031292740, 807153621, 3883395084, 0, 267919092, 791482584360327067, 4, 7181780893498194530, 33489404947867, 415717945}},
    {{0xffffffffu, 0xffffffffu}, 2,
     {0xae163a7a8c47568fu, 0xd86659f5f3382359u},
     {5, 0, 1460346172, 4080542552, 3630586357, 1, 3842140847, 1470383099935866856, 0, 5436941212030876472, 8502177642372, 253726447}},
    {{0x0u, 0x0u, 0x1u}, 3,
     {0x730150b2e3c8c450u, 0x641b4e08066ad287u},
     {8, 0, 964733016, 107664006, 1679511048, 2, 1243388627, 846724323707498738, 4, 1028736094724604600, 5002551795060, 294382168}},
    {{0x3039u, 0x0u, 0x0u, 0x10u}, 4,
     {0x30859d6359d87dc0u, 0x24ce46b5a1db85cbu},
     {3, 0, 407031473, 2715518410, 617498293, 0, 740356926, 883315858933798281, 2, 5658819225041290649, 34688167803724, 900539553}},
    {{0x7u, 0x0u, 0x0u, 0x0u, 0x0u, 0x1u}, 6,
     {0xdf76eee1a033606du, 0x530134597aad4ca8u},
     {6, 0, 1874556783, 2058177703, 1392587865, 2, 254400728, 3065321716660574413, 0, 3971882304285177528, 44255577986645, 457938195}},
};
/* clang-format on */
enum { N_VECTORS = sizeof vectors / sizeof vectors[0] };

static void draws_what_numpy_draws(void **state)
{
    (void)state;
    for (int v = 0; v < N_VECTORS; v++) {
        di_pcg64 rng;
        di_pcg64_seed_words(&rng, vectors[v].words, vectors[v].n_words);
        assert_true(di_pcg64_next(&rng) == vectors[v].raw[0]);
        assert_true(di_pcg64_next(&rng) == vectors[v].raw[1]);
        di_pcg64_seed_words(&rng, vectors[v].words, vectors[v].n_words);
        for (int i = 0; i < N_RANGES; i++)
            if (di_pcg64_below(&rng, ranges[i]) != vectors[v].drawn[i])
                fail_msg("vector %d, range %d differs from numpy", v, i);
    }
}

static void a_64_bit_seed_is_its_words(void **state)
{
    (void)state;
    for (int v = 0; v < N_VECTORS; v++) {
        if (vectors[v].n_words > 2)
            continue;
        di_pcg64 rng;
        di_pcg64_seed(&rng, vectors[v].words[0] | (uint64_t)vectors[v].words[1] << 32);
        assert_true(di_pcg64_next(&rng) == vectors[v].raw[0]);
    }
}

/* ------------------------------------------------------- the released Engram constants */

static di_config released_engram(void)
{
    return (di_config){
        .n_engram_layers = 2,
        .engram_layer_ids = {1, 14},
        .engram_num_embeddings = {384006168, 384016682},
        .engram_max_ngram_size = 4,
        .engram_n_heads = 8,
        .engram_vocab_size = 16000000,
        .engram_compressed_vocab_size = 99092,
    };
}

enum { N_COLUMNS = 24 };
static const int64_t released_primes[2][N_COLUMNS] = {
    {16000057, 16000079, 16000081, 16000097, 16000121, 16000129, 16000133, 16000183,
     16000189, 16000207, 16000211, 16000253, 16000277, 16000289, 16000307, 16000321,
     16000339, 16000381, 16000393, 16000399, 16000403, 16000409, 16000447, 16000463},
    {16000477, 16000487, 16000499, 16000507, 16000511, 16000573, 16000609, 16000627,
     16000667, 16000669, 16000693, 16000697, 16000711, 16000729, 16000759, 16000769,
     16000781, 16000799, 16000813, 16000819, 16000841, 16000877, 16000879, 16000889},
};
static const int64_t released_multipliers[2][4] = {
    {76632096046245, 4839876093313, 35959672319349, 73987337458391},
    {67716810739261, 51510806800915, 30921347202721, 82619226485591},
};

static void released_constants(void **state)
{
    (void)state;
    const di_config config = released_engram();
    di_engram_constants constants[2];
    di_arena arena = {0};
    assert_int_equal(di_engram_constants_init(&config, &arena, constants), DI_OK);
    for (int l = 0; l < 2; l++) {
        assert_memory_equal(constants[l].multipliers, released_multipliers[l],
                            sizeof released_multipliers[l]);
        assert_memory_equal(constants[l].primes, released_primes[l], sizeof released_primes[l]);
        int64_t sum = 0;
        for (int i = 0; i < N_COLUMNS; i++) {
            assert_int_equal(constants[l].offsets[i], sum);
            sum += released_primes[l][i];
        }
        assert_int_equal(sum, config.engram_num_embeddings[l]);
    }
    di_arena_free(&arena);
}

static void a_table_of_another_size_is_refused(void **state)
{
    (void)state;
    di_config config = released_engram();
    config.engram_num_embeddings[1]++;
    di_engram_constants constants[2];
    di_arena arena = {0};
    assert_int_equal(di_engram_constants_init(&config, &arena, constants), DI_ERR_INPUT);
    assert_non_null(strstr(di_last_error(), "engram_num_embeddings[1]: found 384016683, "
                                            "wanted 384016682"));
    di_arena_free(&arena);
}

/* A start that is prime itself counts, and primes are not used twice. */
static void primes_start_at_the_vocabulary_size(void **state)
{
    (void)state;
    di_config config = released_engram();
    config.engram_vocab_size = 7;
    config.engram_n_heads = 2;
    config.engram_max_ngram_size = 2;
    config.engram_num_embeddings[0] = 7 + 11;
    config.engram_num_embeddings[1] = 13 + 17;
    di_engram_constants constants[2];
    di_arena arena = {0};
    assert_int_equal(di_engram_constants_init(&config, &arena, constants), DI_OK);
    assert_int_equal(constants[0].primes[0], 7);
    assert_int_equal(constants[0].primes[1], 11);
    assert_int_equal(constants[1].primes[0], 13);
    assert_int_equal(constants[1].primes[1], 17);
    di_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_what_numpy_draws),
        cmocka_unit_test(a_64_bit_seed_is_its_words),
        cmocka_unit_test(released_constants),
        cmocka_unit_test(a_table_of_another_size_is_refused),
        cmocka_unit_test(primes_start_at_the_vocabulary_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
