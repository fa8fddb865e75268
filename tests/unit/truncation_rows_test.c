/* Which rows of a prompt each layer computes, and which models and lengths are refused. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "core/truncation.h"

enum { LAYERS = 40, FIRST = 20, WINDOW = 128, KEEP = 140 };

/* The layers of the released model. */
static di_config release_layout(void)
{
    di_config c = {.n_layers = LAYERS,
                   .sliding_window = WINDOW,
                   .n_draft_blocks = 3,
                   .dspark_block_size = 5,
                   .n_engram_layers = 2,
                   .engram_layer_ids = {1, 14}};
    for (int layer = 2; layer < LAYERS; layer++)
        c.compress_ratios[layer] = layer < FIRST ? 2 : 1;
    c.is_kv_source[2] = c.is_kv_source[8] = c.is_kv_source[14] = c.is_kv_source[FIRST] = true;
    return c;
}

static di_truncation make(di_truncation_mode mode, int64_t keep)
{
    const di_config c = release_layout();
    di_truncation t;
    if (di_truncation_init(&c, mode, keep, &t) != DI_OK)
        fail_msg("%s", di_last_error());
    return t;
}

static void compact_keeps_one_suffix(void **state)
{
    (void)state;
    const di_truncation t = make(DI_TRUNCATION_COMPACT, KEEP);
    assert_int_equal(t.first_layer, FIRST);
    assert_int_equal(di_truncation_start(&t, KEEP), 0);
    assert_int_equal(di_truncation_start(&t, KEEP + 1), 1);
    const int64_t start = di_truncation_start(&t, 5000);
    assert_int_equal(start, 5000 - KEEP);
    for (int layer = 0; layer < LAYERS; layer++) {
        assert_int_equal(di_truncation_first_key(&t, start, layer), layer < FIRST ? 0 : start);
        assert_int_equal(di_truncation_first_row(&t, start, layer), layer < FIRST ? 0 : start);
        assert_int_equal(di_truncation_first_row(&t, 0, layer), 0);
    }
}

/* A row needs the window entries of window - 1 rows before it, and each entry the row of the layer
 * before. The last 128 inputs of the last layer want 128 + 18 * 127 = 2414 rows after the first. */
static void exact_keeps_a_halo(void **state)
{
    (void)state;
    const di_truncation t = make(DI_TRUNCATION_EXACT, KEEP);
    const int64_t n = 5000, start = di_truncation_start(&t, n);
    assert_int_equal(n - di_truncation_first_key(&t, start, LAYERS - 1), KEEP);
    assert_int_equal(n - di_truncation_first_row(&t, start, LAYERS - 1), KEEP - (WINDOW - 1));
    assert_int_equal(n - di_truncation_first_row(&t, start, FIRST), 2414 + KEEP - WINDOW);
    assert_int_equal(n - di_truncation_first_key(&t, start, FIRST), 2414 + 127 + KEEP - WINDOW);
    assert_int_equal(di_truncation_first_key(&t, start, FIRST - 1), 0);
    for (int64_t prompt = 1; prompt < 3000; prompt += 7) {
        const int64_t s = di_truncation_start(&t, prompt);
        for (int layer = FIRST; layer < LAYERS; layer++) {
            const int64_t key = di_truncation_first_key(&t, s, layer);
            const int64_t row = di_truncation_first_row(&t, s, layer);
            const int64_t next =
                layer + 1 < LAYERS ? di_truncation_first_key(&t, s, layer + 1) : prompt - 1;
            assert_true(key <= row && row <= next);
            assert_true(key == 0 || row - (WINDOW - 1) >= key);
        }
    }
}

/* Rows times layers of a prompt, as a part of all of them. */
static double work(const di_truncation *t, int64_t n_prompt)
{
    const int64_t start = di_truncation_start(t, n_prompt);
    int64_t rows = 0;
    for (int layer = 0; layer < LAYERS; layer++)
        rows += n_prompt - di_truncation_first_row(t, start, layer);
    return (double)rows / (double)(n_prompt * LAYERS);
}

static void nearly_half_of_a_long_prefill_is_saved(void **state)
{
    (void)state;
    const di_truncation off = make(DI_TRUNCATION_OFF, 1);
    const di_truncation compact = make(DI_TRUNCATION_COMPACT, KEEP);
    const di_truncation exact = make(DI_TRUNCATION_EXACT, KEEP);
    assert_true(work(&off, 8192) == 1.0);
    for (int64_t n = 1024; n <= 1 << 20; n *= 2)
        assert_true(work(&compact, n) <= 0.57 && work(&compact, n) > 0.5);
    assert_true(work(&compact, 2048) < 0.54);
    assert_true(work(&exact, 1024) > 0.85 && work(&exact, 16384) < 0.55);
}

/* A compact window is one of its own prompt length alone; an exact one may be longer than needed.
 * What no decoder row will read is of no matter. */
static void windows_are_shared_where_they_are_equal(void **state)
{
    (void)state;
    const di_truncation off = make(DI_TRUNCATION_OFF, KEEP);
    assert_true(di_truncation_can_share(&off, 0, 0, 64));
    const di_truncation compact = make(DI_TRUNCATION_COMPACT, KEEP);
    assert_true(di_truncation_can_share(&compact, 1000, 1000, 1088));
    assert_false(di_truncation_can_share(&compact, 1000, 999, 1088));
    assert_false(di_truncation_can_share(&compact, 1000, 0, 1001));
    assert_true(di_truncation_can_share(&compact, 1000, 7, 1000));
    assert_false(di_truncation_can_share(&compact, 0, 7, 64));
    const di_truncation exact = make(DI_TRUNCATION_EXACT, KEEP);
    assert_true(di_truncation_can_share(&exact, 4000, 3999, 4096));
    assert_true(di_truncation_can_share(&exact, 4000, 0, 4096));
    assert_false(di_truncation_can_share(&exact, 4000, 4001, 4096));
    assert_true(di_truncation_can_share(&exact, 4000, 4001, 4000 - 19 * 127));
    assert_false(di_truncation_can_share(&exact, 4000, 4001, 4000 - 19 * 127 + 1));
}

static void assert_refused(const di_config *c, int64_t keep, di_status status, const char *text)
{
    di_truncation t;
    assert_int_equal(di_truncation_init(c, DI_TRUNCATION_OFF, keep, &t), DI_OK);
    for (int mode = DI_TRUNCATION_COMPACT; mode <= DI_TRUNCATION_EXACT; mode++) {
        assert_int_equal(di_truncation_init(c, (di_truncation_mode)mode, keep, &t), status);
        if (!strstr(di_last_error(), text))
            fail_msg("found \"%s\", wanted \"%s\"", di_last_error(), text);
    }
}

static void layouts_and_lengths_that_do_not_fit(void **state)
{
    (void)state;
    di_config c = release_layout();
    assert_refused(&c, KEEP - 1, DI_ERR_ARGUMENT, "prefill_keep: found 139, wanted at least 140");
    c.n_draft_blocks = 0;
    assert_refused(&c, WINDOW - 1, DI_ERR_ARGUMENT, "wanted at least 128");
    c.engram_layer_ids[1] = FIRST;
    assert_refused(&c, KEEP, DI_ERR_UNSUPPORTED, "Engram layer 20, wanted all of them before");
    c = release_layout();
    c.is_kv_source[FIRST] = false;
    assert_refused(&c, KEEP, DI_ERR_UNSUPPORTED,
                   "layer 14, with compress_ratios entry 2, wanted 1");
    memset(c.is_kv_source, 0, sizeof c.is_kv_source);
    assert_refused(&c, KEEP, DI_ERR_UNSUPPORTED, "a model without KV sources");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compact_keeps_one_suffix),
        cmocka_unit_test(exact_keeps_a_halo),
        cmocka_unit_test(nearly_half_of_a_long_prefill_is_saved),
        cmocka_unit_test(windows_are_shared_where_they_are_equal),
        cmocka_unit_test(layouts_and_lengths_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
