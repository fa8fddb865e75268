/* The Engram token map against the ones the reference made. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "text/token_map.h"
#include "tokenizers.h"

static void assert_map(const di_tokenizer *t, const json_t *wanted, int64_t n_wanted)
{
    const size_t n = json_array_size(wanted);
    int32_t *map = malloc(n * sizeof *map);
    int64_t n_distinct;
    assert_int_equal(di_token_map_build(t, (int64_t)n, map, &n_distinct), DI_OK);
    for (size_t i = 0; i < n; i++)
        if (map[i] != json_integer_value(json_array_get(wanted, i)))
            fail_msg("id %zu (\"%s\"): found %d, wanted %lld", i,
                     di_tokenizer_token(t, (int64_t)i)->text, map[i],
                     (long long)json_integer_value(json_array_get(wanted, i)));
    assert_int_equal(n_distinct, n_wanted);
    free(map);
}

static void deepseek_v3(void **state)
{
    (void)state;
    di_tokenizer *t = di_test_tokenizer(DI_TEST_V3_TOKENIZER);
    json_t *wanted = di_test_json("cases/tokenizer/token_map_deepseek_v3.json.xz");
    const json_t *map = json_object_get(wanted, "map");
    assert_int_equal(json_array_size(map), 128815);
    assert_map(t, map, json_integer_value(json_object_get(wanted, "size")));
    json_decref(wanted);
    /* The release has 465 ids more, all of their own: its count is 99092. */
    int32_t *padded = malloc(129280 * sizeof *padded);
    int64_t n_distinct;
    assert_int_equal(di_token_map_build(t, 129280, padded, &n_distinct), DI_OK);
    assert_int_equal(n_distinct, 99092);
    assert_int_equal(padded[128815], 98627);
    assert_int_equal(padded[129279], 99091);
    free(padded);
    di_tokenizer_close(t);
}

static void golden(void **state)
{
    (void)state;
    di_tokenizer *t = di_test_tokenizer(DI_TEST_GOLDEN_TOKENIZER);
    json_t *wanted = di_test_json("cases/tokenizer/token_map_golden.json.xz");
    assert_int_equal(json_array_size(wanted), 1280);
    assert_map(t, wanted, 1086);
    json_decref(wanted);
    int32_t map[1280];
    int64_t n_distinct;
    assert_int_equal(di_token_map_build(t, 1279, map, &n_distinct), DI_ERR_INPUT);
    assert_non_null(strstr(di_last_error(), "1279"));
    di_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deepseek_v3),
        cmocka_unit_test(golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
