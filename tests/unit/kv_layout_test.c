/* kv/layout.h: bytes and groups at the released dimensions and in other configurations. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "kv/layout.h"

/* The released dimensions: 40 layers, ratios [0,0] + [2]*18 + [1]*20, sources 2, 8, 14, 20. */
static di_config *released(void)
{
    static di_config c;
    memset(&c, 0, sizeof c);
    c.n_layers = 40;
    c.n_draft_blocks = 3;
    c.head_dim = 512;
    c.index_head_dim = 128;
    c.sliding_window = 128;
    for (int layer = 0; layer < 40; layer++)
        c.compress_ratios[layer] = layer < 2 ? 0 : layer < 20 ? 2 : 1;
    const int sources[] = {2, 8, 14, 20};
    for (int i = 0; i < 4; i++)
        c.is_kv_source[sources[i]] = true;
    return &c;
}

static void released_bytes(void **state)
{
    (void)state;
    di_kv_layout layout;
    di_kv_layout_init(released(), false, &layout);
    assert_int_equal(di_kv_entry_bytes(&layout, DI_KV_WINDOW), 528);
    assert_int_equal(layout.entries[DI_KV_WINDOW].code_bytes, 512);
    assert_int_equal(layout.entries[DI_KV_WINDOW].scale_bytes, 16);
    assert_int_equal(di_kv_entry_bytes(&layout, DI_KV_COMPRESSED), 288);
    assert_int_equal(layout.entries[DI_KV_COMPRESSED].code_bytes, 256);
    assert_int_equal(layout.entries[DI_KV_COMPRESSED].scale_bytes, 32);
    assert_int_equal(di_kv_entry_bytes(&layout, DI_KV_INDEX), 68);
    assert_int_equal(layout.entries[DI_KV_INDEX].code_bytes, 64);
    assert_int_equal(layout.entries[DI_KV_INDEX].scale_bytes, 4);
    /* Three ratio-2 sources and one of ratio 1: 2.5 * (288 + 68) = 890 B a token. */
    int64_t global = 0;
    for (int g = 0; g < layout.n_groups; g++)
        if (!layout.groups[g].is_window)
            global += layout.groups[g].block_bytes;
    assert_int_equal(global, (int64_t)890 * DI_KV_BLOCK_TOKENS);
    assert_int_equal(layout.groups[0].block_bytes, (int64_t)40 * 528 * DI_KV_BLOCK_TOKENS);
}

static void released_groups(void **state)
{
    (void)state;
    di_kv_layout layout;
    di_kv_layout_init(released(), false, &layout);
    assert_int_equal(layout.n_groups, 3);
    assert_true(layout.groups[0].is_window);
    assert_int_equal(layout.groups[0].n_layers, 40);
    assert_int_equal(layout.groups[1].ratio, 2);
    assert_int_equal(layout.groups[1].block_len, 32);
    assert_int_equal(layout.groups[1].n_layers, 3);
    assert_int_equal(layout.groups[2].ratio, 1);
    assert_int_equal(layout.groups[2].block_len, 64);
    assert_int_equal(layout.groups[2].n_layers, 1);
    assert_int_equal(layout.n_compressors, 3);
    for (int layer = 0; layer < 40; layer++)
        assert_int_equal(layout.group_of_layer[layer], layer < 2 ? -1 : layer < 20 ? 1 : 2);
    const struct {
        int layer, place, compressor;
    } sources[] = {{2, 0, 0}, {8, 1, 1}, {14, 2, 2}, {20, 0, -1}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(layout.place_in_group[sources[i].layer], sources[i].place);
        assert_int_equal(layout.compressor_of_layer[sources[i].layer], sources[i].compressor);
    }
    assert_int_equal(layout.place_in_group[3], -1);
    assert_int_equal(layout.compressor_of_layer[3], -1);
}

/* Draft blocks are layers behind the others, with windows and nothing else. */
static void draft_windows(void **state)
{
    (void)state;
    di_kv_layout without, with;
    di_kv_layout_init(released(), false, &without);
    di_kv_layout_init(released(), true, &with);
    assert_int_equal(without.n_draft_layers, 0);
    assert_int_equal(with.n_draft_layers, 3);
    assert_int_equal(with.groups[0].n_layers, 43);
    assert_int_equal(with.groups[0].block_bytes, (int64_t)43 * 528 * DI_KV_BLOCK_TOKENS);
    assert_int_equal(with.n_groups, without.n_groups);
    for (int g = 1; g < with.n_groups; g++)
        assert_memory_equal(&with.groups[g], &without.groups[g], sizeof with.groups[g]);
    di_config *c = released();
    c->n_draft_blocks = 0;
    di_kv_layout_init(c, true, &with);
    assert_memory_equal(&with, &without, sizeof with);
}

static void window_layers_alone_make_one_group(void **state)
{
    (void)state;
    static di_config c;
    memset(&c, 0, sizeof c);
    c.n_layers = 3;
    c.head_dim = 64;
    c.sliding_window = 5;
    di_kv_layout layout;
    di_kv_layout_init(&c, false, &layout);
    assert_int_equal(layout.n_groups, 1);
    assert_int_equal(layout.n_compressors, 0);
    assert_int_equal(layout.groups[0].block_bytes, 3 * (64 + 2) * DI_KV_BLOCK_TOKENS);
}

/* Enough for the worst place of a pass within a block, and never more than the whole sequence. */
static void blocks_for_a_sequence(void **state)
{
    (void)state;
    di_config *c = released();
    di_kv_layout layout;
    di_kv_layout_init(c, false, &layout);
    assert_int_equal(di_kv_blocks_for(&layout, c, 1, 1, 512), 1);
    assert_int_equal(di_kv_blocks_for(&layout, c, 1, 64, 512), 1);
    assert_int_equal(di_kv_blocks_for(&layout, c, 1, 65, 512), 2);
    assert_int_equal(di_kv_blocks_for(&layout, c, 2, 1048576, 512), 16384);
    assert_int_equal(di_kv_blocks_for(&layout, c, 0, 100, 512), 2);
    const int64_t window = di_kv_blocks_for(&layout, c, 0, 1048576, 512);
    assert_true(window >= (128 - 1 + 512 + 63 + 63) / 64);
    assert_true(window <= (128 + 512) / 64 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(released_bytes),
        cmocka_unit_test(released_groups),
        cmocka_unit_test(draft_windows),
        cmocka_unit_test(window_layers_alone_make_one_group),
        cmocka_unit_test(blocks_for_a_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
