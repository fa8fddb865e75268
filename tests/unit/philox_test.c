/* base/philox.h against the known answers that come with Random123, and base/seed.h. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "base/philox.h"
#include "base/seed.h"

/* kat_vectors, "philox4x32 10": counter, key, result. The third is digits of pi. */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t result[4];
    } cases[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         0xffffffffffffffff,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         0x299f31d0a4093822,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        di_philox_counter counter;
        uint32_t out[4];
        memcpy(counter.word, cases[i].counter, sizeof counter.word);
        di_philox4x32(counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].result, sizeof out);
        di_philox4x32_run(counter, cases[i].key, 1, out);
        assert_memory_equal(out, cases[i].result, sizeof out);
    }
}

/* Every length, also across the wrap of counter word 1, and nothing written behind the end. */
static void a_run_is_its_blocks(void **state)
{
    (void)state;
    enum { MOST = 50 };
    static const uint32_t starts[] = {0, 7, 0xffffffe0u, 0xffffffffu};
    const uint64_t key = 0x0123456789abcdefu;
    for (size_t s = 0; s < sizeof starts / sizeof starts[0]; s++) {
        for (uint32_t n = 0; n <= MOST; n++) {
            uint32_t run[4 * MOST + 1], block[4];
            run[4 * n] = 0x5eed5eedu;
            di_philox4x32_run((di_philox_counter){{3, starts[s], 5, 9}}, key, n, run);
            for (uint32_t i = 0; i < n; i++) {
                di_philox4x32((di_philox_counter){{3, starts[s] + i, 5, 9}}, key, block);
                assert_memory_equal(run + 4 * i, block, sizeof block);
            }
            assert_int_equal(run[4 * n], 0x5eed5eedu);
        }
    }
}

/* Both halves of fresh seeds vary, and none of a few comes twice. */
static void fresh_seeds_differ(void **state)
{
    (void)state;
    enum { N = 32 };
    uint64_t seeds[N], set = 0, unset = 0;
    for (int i = 0; i < N; i++) {
        assert_int_equal(di_seed_fresh(&seeds[i]), DI_OK);
        set |= seeds[i];
        unset |= ~seeds[i];
        for (int j = 0; j < i; j++)
            assert_true(seeds[i] != seeds[j]);
    }
    /* A given bit is the same in all 32 with probability 2^-31. */
    assert_true(set == UINT64_MAX >> 11 && unset == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(a_run_is_its_blocks),
        cmocka_unit_test(fresh_seeds_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
