/* This machine, and how benchmarks describe it. */
#ifndef DI_BENCH_MACHINE_H
#define DI_BENCH_MACHINE_H

#include <stdio.h>

#include "bench/ceiling.h"

/* The last cache's bytes; 32 MiB if the system does not tell. */
int64_t di_machine_last_cache_bytes(void);
/* Bytes that weights must go through to come from memory: four times the last cache, 256 MiB to
 * 1.5 GiB. */
int64_t di_machine_rotation_bytes(void);
/* One line: CPU, level, CPUs, caches, memory. */
void di_machine_print(FILE *out);
#endif
