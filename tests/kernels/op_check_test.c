/* The check that `selftest` makes of every operation: passes for all kernels of the registry, and
 * finds kernels whose rows depend on what they must not. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "kernel_case.h"
#include "kernels/all.h"
#include "kernels/check.h"
#include "kernels/gemm/gemm.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/topk/topk.h"
#include "random.h"

static di_op_finding check(const di_kernel *kernel, uint64_t seed, int32_t n_rows)
{
    di_op_finding finding;
    if (di_op_check_rows(kernel, seed, n_rows, &finding) != DI_OK)
        fail_msg("%s", di_last_error());
    return finding;
}

static void every_kernel_passes(void **state)
{
    (void)state;
    enum { N_ROWS = 17, N_SHAPES = 4 };
    di_rng rng = di_rng_named("op check");
    for (int i = 0; i < di_n_kernels; i++) {
        if (!di_kernels[i].is_batch_invariant || !di_case_has_kernel(&di_kernels[i]))
            continue;
        for (int s = 0; s < N_SHAPES; s++) {
            const di_op_finding f = check(&di_kernels[i], di_rng_next(&rng), N_ROWS);
            if (f.has_failed)
                fail_msg("%s", f.text);
            assert_int_equal(f.n_calls, 1 + (N_ROWS - 1) + 2 * 4);
        }
    }
}

/* Of all values that kernels wrote, those of different rows differ: a check of constants would
 * prove nothing. */
static void rows_differ(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 1, 2, 3, 4, 5};
    static di_status (*const makers[])(di_op_case *) = {
#define DI_OP(op) di_##op##_case,
#include "kernels/ops.def"
#undef DI_OP
    };
    for (int op = 0; op < DI_N_OPS; op++) {
        int n_same = 0;
        for (uint64_t seed = 0; seed < 3; seed++) {
            di_arena arena = {.chunk_bytes = 0};
            di_op_case c = {.arena = &arena, .seed = seed, .row_ids = ids, .n_rows = 6};
            assert_int_equal(makers[op](&c), DI_OK);
            const di_kernel_mask mask = {.max_isa = DI_ISA_REF};
            di_kernel_select((di_op)op, DI_WIDTH_ANY, true, &mask)->fn(c.args, 0, c.n_items, 0);
            const di_op_output *o = &c.outputs[0];
            const size_t bytes = (size_t)o->row_len * di_dtype_bytes(o->dtype);
            const unsigned char *data = o->data;
            for (int i = 1; i < 6; i++)
                n_same += memcmp(data + (size_t)i * bytes, data, bytes) == 0;
            di_arena_free(&arena);
        }
        if (n_same > 7)
            fail_msg("%s: %d of 15 rows are equal", di_op_name((di_op)op), n_same);
    }
}

/* ------------------------------------------------------------------- kernels that are wrong */

static void expect_finding(di_op op, di_range_fn fn, const char *text)
{
    const di_kernel kernel = {.op = op, .name = "wrong", .is_batch_invariant = true, .fn = fn};
    di_rng rng = di_rng_named("wrong kernels");
    int n_found = 0;
    for (int i = 0; i < 16; i++) {
        const di_op_finding f = check(&kernel, di_rng_next(&rng), 17);
        n_found += f.has_failed;
        if (f.has_failed && strstr(f.text, text) == NULL)
            fail_msg("found \"%s\", wanted \"%s\"", f.text, text);
    }
    if (n_found < 6)
        fail_msg("%s: found %d of 16", di_op_name(op),
                 n_found); /* some shapes are too small to show it */
}

/* Sums in as many parts as there are rows, at most 4. */
static void gemm_split_by_m(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_gemm_args *a = args;
    const int64_t parts = a->m < 4 ? a->m : 4;
    for (int64_t column = begin; column < end; column++)
        for (int64_t row = 0; row < a->m; row++) {
            const di_bf16 *w = (const di_bf16 *)a->w + (a->first_column + column) * a->k;
            float total = 0;
            for (int64_t p = 0; p < parts; p++) {
                float sum = 0;
                for (int64_t i = a->k * p / parts; i < a->k * (p + 1) / parts; i++)
                    sum += di_bf16_to_f32(a->x[row * a->x_stride + i]) * di_bf16_to_f32(w[i]);
                total += sum;
            }
            if (a->is_f32_out)
                ((float *)a->y)[row * a->y_stride + column] = total;
            else
                ((di_bf16 *)a->y)[row * a->y_stride + column] = di_f32_to_bf16(total);
        }
}

/* The first item of a call is done otherwise. */
static void rmsnorm_by_split(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_rmsnorm_args *a = args;
    di_rmsnorm_ref(args, begin, end, worker);
    a->y[begin * a->y_stride] ^= 1;
}

/* Row 3 reads row 2's scores too. */
static void topk_reads_its_neighbour(const void *args, int64_t begin, int64_t end, int worker)
{
    const di_topk_args *a = args;
    di_topk_ref(args, begin, end, worker);
    for (int64_t row = begin; row < end; row++)
        if (row == 3 && a->counts[row] > 0)
            a->indices[row * a->k] += a->scores[2 * a->score_stride] & 0x3c0;
}

static void wrong_kernels_are_found(void **state)
{
    (void)state;
    expect_finding(DI_OP_gemm_bf16, gemm_split_by_m, "gemm_bf16=wrong");
    expect_finding(DI_OP_rmsnorm, rmsnorm_by_split, "rmsnorm=wrong, item by item: row ");
    expect_finding(DI_OP_topk, topk_reads_its_neighbour, "topk=wrong");
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kernel_passes),
                                       cmocka_unit_test(rows_differ),
                                       cmocka_unit_test(wrong_kernels_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
