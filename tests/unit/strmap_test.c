/* base/strmap.h against a plain list. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "base/strmap.h"
#include "random.h"

static void require(di_status status)
{
    if (status != DI_OK)
        fail_msg("%s", di_last_error());
}

static void an_empty_map_has_nothing(void **state)
{
    (void)state;
    di_strmap map = {0};
    int64_t value = 7;
    assert_false(di_strmap_get(&map, "", 0, &value));
    assert_false(di_strmap_get(&map, "a", 1, &value));
    assert_int_equal(value, 7);
    di_strmap_free(&map);
}

/* Keys are bytes: NUL inside, the empty key, a prefix of another key, and no terminator needed. */
static void keys_are_bytes(void **state)
{
    (void)state;
    di_strmap map = {0};
    bool existed = true;
    int64_t value;
    require(di_strmap_put(&map, "a\0b", 3, 1, &existed));
    assert_false(existed);
    require(di_strmap_put(&map, "a", 1, 2, NULL));
    require(di_strmap_put(&map, "", 0, 3, NULL));
    require(di_strmap_put(&map, "a\0c", 3, 4, NULL));
    assert_int_equal(map.n, 4);
    assert_true(di_strmap_get(&map, "a\0b", 3, &value) && value == 1);
    assert_true(di_strmap_get(&map, "axx", 1, &value) && value == 2);
    assert_true(di_strmap_get(&map, "zz", 0, &value) && value == 3);
    assert_true(di_strmap_get(&map, "a\0c", 3, &value) && value == 4);
    assert_false(di_strmap_get(&map, "a\0", 2, &value));
    require(di_strmap_put(&map, "a", 1, INT64_MIN, &existed));
    assert_true(existed);
    assert_true(di_strmap_get(&map, "a", 1, &value) && value == INT64_MIN);
    assert_int_equal(map.n, 4);
    di_strmap_free(&map);
    assert_int_equal(map.cap, 0);
}

static void keys_are_copied(void **state)
{
    (void)state;
    di_strmap map = {0};
    char key[] = "key";
    int64_t value;
    require(di_strmap_put(&map, key, 3, 5, NULL));
    key[0] = 'x';
    assert_true(di_strmap_get(&map, "key", 3, &value) && value == 5);
    assert_false(di_strmap_get(&map, key, 3, &value));
    di_strmap_free(&map);
}

/* Random keys over many growths, overwriting half of the time. */
static void many_keys(void **state)
{
    (void)state;
    enum { N_KEYS = 5000, N_STEPS = 20000 };
    di_rng rng = di_rng_named("strmap");
    static int64_t values[N_KEYS];
    static bool is_in[N_KEYS];
    di_strmap map = {0};
    size_t n = 0;
    for (int step = 0; step < N_STEPS; step++) {
        const int64_t k = di_rng_below(&rng, N_KEYS);
        char key[32];
        const int len = snprintf(key, sizeof key, "layers.%d.w%d", (int)k / 7, (int)k);
        bool existed;
        require(di_strmap_put(&map, key, (size_t)len, step, &existed));
        assert_int_equal(existed, is_in[k]);
        n += !is_in[k];
        is_in[k] = true;
        values[k] = step;
        assert_int_equal(map.n, n);
    }
    for (int64_t k = 0; k < N_KEYS; k++) {
        char key[32];
        const int len = snprintf(key, sizeof key, "layers.%d.w%d", (int)k / 7, (int)k);
        int64_t value = -1;
        assert_int_equal(di_strmap_get(&map, key, (size_t)len, &value), is_in[k]);
        assert_true(!is_in[k] || value == values[k]);
    }
    di_strmap_free(&map);
}

/* FNV-1a's published vectors, folded as the header's users see it. */
static void hash_is_fnv1a(void **state)
{
    (void)state;
    const uint64_t empty = 0xcbf29ce484222325u, a = 0xaf63dc4c8601ec8cu;
    assert_true(di_hash_bytes("", 0) == (empty ^ empty >> 32));
    assert_true(di_hash_bytes("a", 1) == (a ^ a >> 32));
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_has_nothing), cmocka_unit_test(keys_are_bytes),
        cmocka_unit_test(keys_are_copied), cmocka_unit_test(many_keys),
        cmocka_unit_test(hash_is_fnv1a)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
