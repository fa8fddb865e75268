/* The results of a benchmark for programs: {"ceilings": [...], "rows": [...]}. */
#ifndef DI_BENCH_RESULTS_H
#define DI_BENCH_RESULTS_H

#include <jansson.h>
#include <stdio.h>

#include "bench/ceiling.h"

/* Of `n` teams. `rows` stays the caller's. */
DI_WARN_UNUSED di_status di_results_write(const di_ceilings *ceilings, int n, json_t *rows,
                                          FILE *out);

#endif
