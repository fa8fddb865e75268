/* Nothing is hard-coded that the config says: checkpoints of unusual configurations
 * (tests/golden/README.md, "varied") against vectors of a reference that reads the same config. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>

#include "golden.h"
#include "golden_checks.h"

static const char *const names[] = {"varied/one_stream", "varied/ratio_one", "varied/ratio_two",
                                    "varied/mixed", "varied/constants"};
enum { N_NAMES = sizeof names / sizeof names[0] };

static void layers(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAMES; i++)
        di_golden_layers_match(names[i]);
}

static void logits(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAMES; i++)
        di_golden_logits_match(names[i]);
}

static void constants(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAMES; i++)
        di_golden_constants_match(names[i]);
}

/* What the set is for: each of these takes at least the given number of different values. */
static void the_set_varies(void **state)
{
    (void)state;
    enum { N_KEYS = 13 };
    static const char *const keys[N_KEYS] = {
        "hc_mult", "heads",   "groups", "head_dim",     "rope_dim",     "window",     "topk",
        "hidden",  "experts", "drafts", "engram count", "engram ngram", "index heads"};
    static const int n_wanted[N_KEYS] = {3, 4, 4, 2, 3, 3, 3, 2, 3, 3, 3, 3, 3};
    int64_t values[N_KEYS][N_NAMES];
    for (int i = 0; i < N_NAMES; i++) {
        di_golden golden;
        di_golden_open(names[i], &golden);
        const di_config *c = &golden.model->config;
        const int64_t own[N_KEYS] = {
            c->hc_mult,           c->n_heads,        c->o_groups,        c->head_dim,
            c->rope_dim,          c->sliding_window, c->index_topk,      c->hidden_size,
            c->n_experts_per_tok, c->n_draft_blocks, c->n_engram_layers, c->engram_max_ngram_size,
            c->index_n_heads};
        for (int k = 0; k < N_KEYS; k++)
            values[k][i] = own[k];
        di_golden_close(&golden);
    }
    for (int k = 0; k < N_KEYS; k++) {
        int n_different = 0;
        for (int i = 0; i < N_NAMES; i++) {
            bool is_new = true;
            for (int j = 0; j < i; j++)
                is_new &= values[k][j] != values[k][i];
            n_different += is_new;
        }
        if (n_different < n_wanted[k])
            fail_msg("%s takes %d values, wanted %d", keys[k], n_different, n_wanted[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(constants), cmocka_unit_test(layers),
                                       cmocka_unit_test(logits), cmocka_unit_test(the_set_varies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
