/* The shape that benchmarks run: the released model's. */
#ifndef DI_BENCH_SHAPE_H
#define DI_BENCH_SHAPE_H

#include "core/config.h"

/* The text part of the release's config.json, but for the draft blocks; shape_test.c compares. */
void di_shape_release(di_config *out);
/* `path` NULL: the released shape; else that of a config.json file. */
DI_WARN_UNUSED di_status di_shape_load(const char *path, di_config *out);

#endif
