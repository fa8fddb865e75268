/* Random paged stores for kernel tests. */
#ifndef DI_TEST_PAGED_STORE_H
#define DI_TEST_PAGED_STORE_H

#include "kernel_case.h"
#include "kernels/paged.h"

typedef enum di_entry_format { DI_ENTRY_Q8, DI_ENTRY_Q4KV, DI_ENTRY_Q4I } di_entry_format;

/* n_blocks blocks of random entries (no NaN) of dim channels; bytes between the blocks. */
di_paged di_paged_random(di_kernel_case *c, di_rng *rng, di_entry_format format, int64_t dim,
                         int32_t block_len, int64_t n_blocks);
/* A table of n_logical different blocks out of n_blocks, in random order. */
const int32_t *di_block_table_random(di_kernel_case *c, di_rng *rng, int64_t n_logical,
                                     int64_t n_blocks);
/* Channel i of entry `index` of a sequence, worked out from the formats' definitions. */
double di_paged_value(const di_paged *p, di_entry_format format, const int32_t *table,
                      int64_t index, int64_t i);

#endif
