/* weights/placed.h: the copy has the bytes of the files, for workers on several nodes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "weights/checkpoint_dir.h"
#include "weights/placed.h"

#define TINY DI_TEST_DATA "/golden/tiny"

static bool is_mapped(const di_weights *w, const void *data)
{
    size_t n;
    const di_safetensors *shards = di_weights_shards(w, &n);
    for (size_t i = 0; i < n; i++) {
        const uintptr_t begin = (uintptr_t)shards[i].mapping.data, at = (uintptr_t)data;
        if (at >= begin && at - begin < shards[i].mapping.size)
            return true;
    }
    return false;
}

/* The same tensor of a copied model and of a mapped one. */
static void check_tensor(const di_weights *w, const void *copied, const void *mapped, int64_t bytes)
{
    assert_false(is_mapped(w, copied));
    assert_int_equal((uintptr_t)copied % 64, 0);
    assert_memory_equal(copied, mapped, (size_t)bytes);
}

static void check_linear(const di_weights *w, const di_qweight *copied, const di_qweight *mapped)
{
    const bool is_f8 = mapped->format == DI_WEIGHT_F8;
    const int64_t n = mapped->n_out * mapped->n_in;
    const int64_t n_blocks = (mapped->n_out + 31) / 32 * ((mapped->n_in + 31) / 32);
    check_tensor(w, copied->codes, mapped->codes, is_f8 ? n : n / 2);
    check_tensor(w, copied->scales, mapped->scales, is_f8 ? n_blocks : n / 32);
}

static void check_layer(const di_weights *a, const di_layer_weights *x, const di_layer_weights *y,
                        bool has_experts)
{
    check_linear(a, &x->wq_a, &y->wq_a);
    check_linear(a, &x->wo_b, &y->wo_b);
    check_linear(a, &x->shared.w2, &y->shared.w2);
    check_tensor(a, x->gate.data, y->gate.data, 2 * y->gate.n_out * y->gate.n_in);
    for (int64_t e = 0; e < y->n_experts; e++) {
        if (has_experts)
            check_linear(a, &x->experts[e].w3, &y->experts[e].w3);
        else
            assert_true(is_mapped(a, x->experts[e].w3.codes));
    }
}

static void check_matrix(const di_weights *a, const di_bf16_matrix *x, const di_bf16_matrix *y)
{
    check_tensor(a, x->data, y->data, 2 * y->n_out * y->n_in);
}

static void check_draft(const di_weights *a, const di_weights *b, di_placed_parts parts)
{
    if (!parts.has_drafter) {
        assert_true(is_mapped(a, a->draft_layers[0].wq_a.codes));
        assert_true(is_mapped(a, a->draft_layers[0].experts[0].w1.codes));
        assert_true(is_mapped(a, a->draft.main_proj.codes));
        assert_true(is_mapped(a, a->draft.markov_head.data));
        return;
    }
    for (int m = 0; m < b->config.n_draft_blocks; m++)
        check_layer(a, &a->draft_layers[m], &b->draft_layers[m], parts.has_experts);
    check_linear(a, &a->draft.main_proj, &b->draft.main_proj);
    check_matrix(a, &a->draft.markov_head, &b->draft.markov_head);
    assert_true(is_mapped(a, a->draft.markov_embed.data));
}

static void check_layers(const di_weights *a, const di_weights *b, di_placed_parts parts)
{
    for (int i = 0; i < b->config.n_layers; i++) {
        const di_layer_weights *x = &a->layers[i], *y = &b->layers[i];
        check_layer(a, x, y, parts.has_experts);
        assert_true(is_mapped(a, x->hc_attn.fn) == is_mapped(b, y->hc_attn.fn));
    }
    check_draft(a, b, parts);
    check_matrix(a, &a->head, &b->head);
    assert_true(is_mapped(a, a->embed.data));
}

static void copies_have_the_files_bytes(void **state)
{
    (void)state;
    static int nodes[] = {0, 0, 1, 2};
    di_config *config = malloc(sizeof *config);
    assert_non_null(config);
    assert_int_equal(di_checkpoint_read_config(TINY, config), DI_OK);
    for (int pinned = 0; pinned < 2; pinned++)
        for (int with_experts = 0; with_experts < 2; with_experts++) {
            di_weights *a, *b;
            di_placed_weights *placed;
            const di_placed_parts parts = {.has_experts = with_experts, .has_drafter = pinned};
            di_team team = {.n_workers = 4, .nodes = nodes, .is_pinned = pinned};
            assert_int_equal(di_pool_create(4, &team.pool), DI_OK);
            assert_int_equal(di_weights_open(TINY, config, &a), DI_OK);
            assert_int_equal(di_weights_open(TINY, config, &b), DI_OK);
            assert_int_equal(di_weights_place(a, &team, parts, &placed), DI_OK);
            check_layers(a, b, parts);
            di_pool_destroy(team.pool);
            di_weights_close(a);
            di_weights_close(b);
            di_placed_weights_free(placed);
        }
    free(config);
}

/* What the memory plan says: every linear once, and no table. */
static void bytes_of_a_copy(void **state)
{
    (void)state;
    di_config *config = malloc(sizeof *config);
    assert_non_null(config);
    assert_int_equal(di_checkpoint_read_config(TINY, config), DI_OK);
    int64_t all, dense, drafting;
    assert_int_equal(di_placed_bytes(config, (di_placed_parts){true, false}, &all), DI_OK);
    assert_int_equal(di_placed_bytes(config, (di_placed_parts){false, false}, &dense), DI_OK);
    assert_int_equal(di_placed_bytes(config, (di_placed_parts){false, true}, &drafting), DI_OK);
    assert_true(drafting >
                dense + config->n_dspark_targets * config->hidden_size * config->hidden_size);
    const int64_t expert = 3 * config->moe_intermediate_size * config->hidden_size;
    const int64_t n = config->n_layers * config->n_routed_experts;
    const int64_t packed = n * (expert / 2 + expert / 32);
    assert_true(all - dense >= packed && all - dense <= packed + n * 6 * 64);
    assert_true(dense > 2 * config->vocab_size * config->hidden_size);
    free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_have_the_files_bytes),
                                       cmocka_unit_test(bytes_of_a_copy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
