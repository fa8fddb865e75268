/* Random calls of every operation, and the check that a row's result depends on that row alone: not
 * on the number of rows of the call, on the row's place, on the other rows, or on how the items are
 * split. Used by `deepinfer selftest` and by tests.
 *
 * A case is built from a list of row ids. What a row holds is a function of the seed and its id,
 * and what rows share (weights, tables, sizes) one of the seed: so two cases of one seed must give
 * a row id the same bits. Each operation's di_<op>_case is in its folder, <folder>_check.c. */
#ifndef DI_KERNELS_CHECK_H
#define DI_KERNELS_CHECK_H

#include "base/arena.h"
#include "base/fp.h"
#include "base/pcg64.h"
#include "core/tensor.h"
#include "kernels/kernel.h"

enum { DI_OP_OUTPUTS = 4, DI_OP_WORKERS = 3 };

typedef struct di_op_output {
    void *data; /* [n_rows, row_len] */
    di_dtype dtype;
    int64_t row_len;
    const int64_t *places; /* [n_rows]: where a row's result is; NULL: row i at place i */
} di_op_output;

typedef struct di_op_case {
    di_arena *arena;
    uint64_t seed;
    const int32_t *row_ids;
    int64_t n_rows;
    uint32_t n_streams; /* random streams taken so far */

    const void *args;
    size_t args_bytes;
    int64_t n_items;
    di_op_output outputs[DI_OP_OUTPUTS];
    int n_outputs;
} di_op_case;

#define DI_OP(op) DI_WARN_UNUSED di_status di_##op##_case(di_op_case *c);
#include "kernels/ops.def"
#undef DI_OP

/* ------------------------------------------------------------------- for the cases */

/* A size: low .. high. */
int64_t di_op_size(di_op_case *c, int64_t low, int64_t high);
/* Values that all rows share, n of them. */
DI_WARN_UNUSED di_status di_op_shared_bf16(di_op_case *c, int64_t n, di_bf16 **out);
DI_WARN_UNUSED di_status di_op_shared_f32(di_op_case *c, int64_t n, float **out);
DI_WARN_UNUSED di_status di_op_shared_bytes(di_op_case *c, int64_t n, int low, int high,
                                            uint8_t **out);
DI_WARN_UNUSED di_status di_op_shared_e4m3(di_op_case *c, int64_t n, uint8_t **out); /* no NaN */
/* Values of each row: [n_rows, n]. */
DI_WARN_UNUSED di_status di_op_rows_bf16(di_op_case *c, int64_t n, di_bf16 **out);
DI_WARN_UNUSED di_status di_op_rows_f32(di_op_case *c, int64_t n, float **out);
DI_WARN_UNUSED di_status di_op_rows_int(di_op_case *c, int64_t n, int32_t low, int32_t high,
                                        int32_t **out);
/* Pointers to the rows of values [n_rows, n]. */
DI_WARN_UNUSED di_status di_op_row_pointers(di_op_case *c, const int32_t *values, int64_t n,
                                            const int32_t *const **out);
/* A result of n values a row: memory for it, all bits set; or memory that is there. */
DI_WARN_UNUSED di_status di_op_output_new(di_op_case *c, di_dtype dtype, int64_t n, void **out);
void di_op_output_add(di_op_case *c, di_dtype dtype, int64_t n, void *data);
/* The arguments, copied, and the number of items. */
DI_WARN_UNUSED di_status di_op_args(di_op_case *c, const void *args, size_t bytes, int64_t n_items);

/* ------------------------------------------------------------------- the check */

enum { DI_OP_FINDING_BYTES = 256 };

typedef struct di_op_finding {
    bool has_failed;
    int64_t n_calls;                /* kernel calls that were compared */
    char text[DI_OP_FINDING_BYTES]; /* the first difference */
} di_op_finding;

/* Runs `kernel` on rows 0 .. n_rows-1 of the seed's case in one call, then on the first m of them
 * for every m, on random choices in random order, in random pieces and item by item, and compares
 * every row with the first call's, bit by bit. */
DI_WARN_UNUSED di_status di_op_check_rows(const di_kernel *kernel, uint64_t seed, int32_t n_rows,
                                          di_op_finding *out);

#endif
