/* Every GPU kernel of this build against its reference, on the first device; without one only the
 * registry's rows. `cuda_test exact [only=OP] [SEED]` gives every array an allocation of its own
 * and does less, for compute-sanitizer. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/device_check.h"
#include "random.h"

static bool is_exact_memory;

static void rows_are_consistent(void **state)
{
    (void)state;
    for (int i = 0; i < di_n_device_kernels; i++) {
        const di_device_kernel *k = &di_device_kernels[i];
        assert_non_null(k->launch);
        assert_true(k->capability >= DI_DEVICE_LEAST);
        for (int j = 0; j < i; j++) {
            const di_device_kernel *other = &di_device_kernels[j];
            if (k->op == other->op) {
                assert_string_not_equal(k->name, other->name);
                assert_int_not_equal(k->rank, other->rank);
            }
        }
        for (int j = 0; j < di_n_kernels; j++) /* the reference's order means its bits */
            if (di_kernels[j].op == k->op && di_kernels[j].isa == DI_ISA_REF &&
                di_kernels[j].order == k->order)
                assert_int_equal(k->numerics, DI_NUMERICS_EXACT);
    }
    for (int op = 0; op < DI_N_OPS && di_n_device_kernels > 0; op++)
        assert_non_null(
            di_device_kernel_select((di_op)op, DI_WIDTH_ANY, true, DI_DEVICE_LEAST, NULL));
}

static void check_kernel(di_device *device, const di_device_kernel *k, di_rng *rng)
{
    static const char *const classes[] = {"exact", "reorder", "lowp"};
    static const int32_t rows[] = {1, 17, 5, 40, 2, 9, 100, 33};
    const int n_shapes = is_exact_memory ? 3 : 16;
    int64_t n_calls = 0;
    double error = 0;
    for (int s = 0; s < n_shapes; s++) {
        di_device_finding f;
        if (di_device_check(device, k, di_rng_next(rng), rows[s % 8], is_exact_memory, &f) != DI_OK)
            fail_msg("%s=%s: %s", di_op_name(k->op), k->name, di_last_error());
        if (f.has_failed)
            fail_msg("%s", f.text);
        n_calls += f.n_calls;
        error = f.error > error ? f.error : error;
    }
    print_message("  %-18s %-8s %-8s %3lld calls, relative error %.2g\n", di_op_name(k->op),
                  k->name, classes[k->numerics], (long long)n_calls, error);
}

static void every_kernel_agrees(void **state)
{
    const di_device_kernel *kernel = *state;
    di_device *device;
    if (di_device_open(0, (int64_t)1 << 28, &device) != DI_OK) {
        print_message("not run: %s\n", di_last_error());
        skip();
    }
    if (!di_device_kernel_runs_on(kernel, di_device_info_of(device)->capability)) {
        di_device_close(device);
        skip();
    }
    di_rng rng = di_rng_named(di_op_name(kernel->op));
    check_kernel(device, kernel, &rng);
    di_device_close(device);
}

int main(int argc, char **argv)
{
    enum { MOST = 256 };
    static struct CMUnitTest tests[MOST];
    int n = 0;
    if (argc > 1 && strcmp(argv[1], "exact") == 0) {
        is_exact_memory = true;
        argc--, argv++;
    }
    if (argc > 1 && strncmp(argv[1], "only=", 5) == 0) {
        cmocka_set_test_filter(argv[1] + 5);
        argc--, argv++;
    }
    di_rng_start(argc, argv);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(rows_are_consistent);
    for (int i = 0; i < di_n_device_kernels && n < MOST; i++, n++)
        tests[n] = (struct CMUnitTest){.name = di_op_name(di_device_kernels[i].op),
                                       .test_func = every_kernel_agrees,
                                       .initial_state = (void *)(uintptr_t)&di_device_kernels[i]};
    return _cmocka_run_group_tests("cuda", tests, (size_t)n, NULL, NULL);
}
