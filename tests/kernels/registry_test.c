/* The kernel registry: complete, consistent, selected by rank and mask, and tested. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "core/config_keys.h"
#include "kernels/hyper_connection/hyper_connection.h"
#include "kernels/kernel.h"
#include "model/plan.h"

static void every_operation_has_one_exact_reference(void **state)
{
    (void)state;
    for (int op = 0; op < DI_N_OPS; op++) {
        int n_references = 0;
        for (int i = 0; i < di_n_kernels; i++) {
            const di_kernel *k = &di_kernels[i];
            if (k->op != (di_op)op || k->isa != DI_ISA_REF)
                continue;
            n_references++;
            assert_string_equal(k->name, "ref");
            assert_int_equal(k->numerics, DI_NUMERICS_EXACT);
            assert_int_equal(k->layout, DI_LAYOUT_CHECKPOINT);
            assert_true(k->is_batch_invariant);
        }
        assert_int_equal(n_references, 1);
    }
}

/* Two rows of one operation differ in name and in rank, so that selection has one answer. */
static void names_and_ranks_are_unique(void **state)
{
    (void)state;
    for (int i = 0; i < di_n_kernels; i++) {
        assert_non_null(di_kernels[i].fn);
        for (int j = 0; j < i; j++) {
            if (di_kernels[i].op != di_kernels[j].op)
                continue;
            assert_string_not_equal(di_kernels[i].name, di_kernels[j].name);
            assert_int_not_equal(di_kernels[i].rank, di_kernels[j].rank);
        }
    }
}

/* Kernels of one accumulation order promise equal bits: such a row is EXACT when its reference has
 * that order. */
static void one_order_means_equal_bits(void **state)
{
    (void)state;
    for (int i = 0; i < di_n_kernels; i++)
        for (int j = 0; j < di_n_kernels; j++)
            if (di_kernels[i].op == di_kernels[j].op && di_kernels[j].isa == DI_ISA_REF &&
                di_kernels[i].order == di_kernels[j].order)
                assert_int_equal(di_kernels[i].numerics, DI_NUMERICS_EXACT);
}

static void selection_takes_the_highest_rank(void **state)
{
    (void)state;
    di_kernel_mask mask;
    assert_int_equal(di_kernel_mask_parse(NULL, NULL, &mask), DI_OK);
    di_plan plan;
    di_plan_init(&mask, false, &plan);
    for (int op = 0; op < DI_N_OPS; op++) {
        assert_true(di_kernel_is_usable(plan.kernels[op]) && di_kernel_is_usable(plan.wide[op]));
        assert_int_equal(plan.kernels[op]->width, DI_WIDTH_ANY);
        for (int i = 0; i < di_n_kernels; i++) {
            const di_kernel *k = &di_kernels[i];
            if (k->op != (di_op)op || !di_kernel_is_usable(k))
                continue;
            assert_true(plan.wide[op]->rank >= k->rank);
            if (k->width == DI_WIDTH_ANY)
                assert_true(plan.kernels[op]->rank >= k->rank);
        }
    }
}

/* Batch-invariant: one kernel for rows of every pass, and an invariant one. */
static void invariant_plans_have_one_kernel(void **state)
{
    (void)state;
    di_kernel_mask mask;
    assert_int_equal(di_kernel_mask_parse(NULL, NULL, &mask), DI_OK);
    di_plan plan;
    di_plan_init(&mask, true, &plan);
    for (int op = 0; op < DI_N_OPS; op++) {
        assert_ptr_equal(plan.kernels[op], plan.wide[op]);
        assert_true(plan.kernels[op]->is_batch_invariant);
    }
}

static void selection_obeys_the_mask(void **state)
{
    (void)state;
    di_kernel_mask mask;
    assert_int_equal(di_kernel_mask_parse("ref", NULL, &mask), DI_OK);
    for (int op = 0; op < DI_N_OPS; op++)
        assert_int_equal(di_kernel_select((di_op)op, DI_WIDTH_WIDE, false, &mask)->isa, DI_ISA_REF);
    assert_int_equal(di_kernel_mask_parse("best", "rmsnorm=ref,topk=ref", &mask), DI_OK);
    assert_string_equal(di_kernel_select(DI_OP_rmsnorm, DI_WIDTH_ANY, true, &mask)->name, "ref");
    assert_string_equal(mask.forced[DI_OP_topk], "ref");
    assert_null(mask.forced[DI_OP_rope]);
}

static void refuses(const char *isa, const char *kernels, const char *part)
{
    di_kernel_mask mask;
    assert_int_equal(di_kernel_mask_parse(isa, kernels, &mask), DI_ERR_ARGUMENT);
    if (!strstr(di_last_error(), part))
        fail_msg("\"%s\" does not say \"%s\"", di_last_error(), part);
}

static void unknown_names_are_errors(void **state)
{
    (void)state;
    refuses("avx9", NULL, "isa: found \"avx9\", wanted one of this machine's: ref");
    refuses("", NULL, "isa: found \"\"");
    refuses(NULL, "rmsnorm", "found \"rmsnorm\", wanted operation=kernel");
    refuses(NULL, "rmsnorms=ref", "found operation \"rmsnorms\"");
    refuses(NULL, "rmsnor=ref", "found operation \"rmsnor\"");
    refuses(NULL, "rmsnorm=re", "rmsnorm: found kernel \"re\", wanted one of this machine's: ref");
    refuses(NULL, "rmsnorm=ref,topk=fast", "topk: found kernel \"fast\"");
}

/* deepinfer kernels: a line a row, the chosen one starred. */
static void printing_lists_every_row(void **state)
{
    (void)state;
    di_kernel_mask mask;
    assert_int_equal(di_kernel_mask_parse(NULL, NULL, &mask), DI_OK);
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    di_kernels_print(&mask, true, out);
    fclose(out);
    int n_lines = 0, n_stars = 0;
    for (const char *p = text; *p; p = strchr(p, '\n') + 1) {
        n_lines++;
        n_stars += *p == '*';
    }
    assert_int_equal(n_lines, di_n_kernels + 1);
    assert_int_equal(n_stars, DI_N_OPS);
    free(text);
}

static double largest_of(const char *section, const char *key)
{
    for (size_t i = 0; i < di_n_config_keys; i++)
        if (strcmp(di_config_keys[i].section, section) == 0 &&
            strcmp(di_config_keys[i].key, key) == 0)
            return di_config_keys[i].max;
    fail_msg("no key %s", key);
    return 0;
}

/* Kernels with arrays of fixed size take everything a configuration may ask for. */
static void limits_cover_the_configurations(void **state)
{
    (void)state;
    assert_true(largest_of("text_config", "hc_mult") <= DI_HC_LIMIT);
}

/* A new operation needs a test: a file of this folder that makes cases of DI_OP_<name>. */
static void every_operation_is_tested(void **state)
{
    (void)state;
    static const char *const files[] = {
        "compress",         "embed",    "engram", "gemm",     "hyper_connection",
        "index_logits",     "moe_gate", "rope",   "quantize", "rmsnorm",
        "sparse_attention", "swiglu",   "topk",   "vocab",
    };
    DI_BUF_AUTO text = {0};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/kernels/%s_test.c", DI_TEST_DATA, files[i]);
        if (di_file_read(path, 1 << 20, &text) != DI_OK)
            fail_msg("%s", di_last_error());
    }
    for (int op = 0; op < DI_N_OPS; op++) {
        char name[64];
        const int n = snprintf(name, sizeof name, "DI_OP_%s", di_op_name((di_op)op));
        const char *at = di_buf_str(&text);
        do
            at = strstr(at, name);
        while (at &&
               (at[n] == '_' || (at[n] >= 'a' && at[n] <= 'z') || (at[n] >= '0' && at[n] <= '9')) &&
               at++);
        if (!at)
            fail_msg("%s has no kernel test", di_op_name((di_op)op));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_one_exact_reference),
        cmocka_unit_test(names_and_ranks_are_unique),
        cmocka_unit_test(one_order_means_equal_bits),
        cmocka_unit_test(selection_takes_the_highest_rank),
        cmocka_unit_test(invariant_plans_have_one_kernel),
        cmocka_unit_test(selection_obeys_the_mask),
        cmocka_unit_test(unknown_names_are_errors),
        cmocka_unit_test(printing_lists_every_row),
        cmocka_unit_test(limits_cover_the_configurations),
        cmocka_unit_test(every_operation_is_tested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
