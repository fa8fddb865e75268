/* deepinfer bench kernels --device: the same calls on a GPU. */
#ifndef DI_BENCH_DEVICE_H
#define DI_BENCH_DEVICE_H

#include "base/options.h"
#include "core/config.h"
#include "deepinfer/tools.h"

/* `only`: an operation, or -1. Every usable kernel of an operation at every shape: its results at
 * the first turn are compared with those of the host's best exact kernel, then graphs of calls are
 * timed that go through the turns. */
DI_WARN_UNUSED di_status di_bench_device(const di_bench_kernels_options *options,
                                         const di_effective_options *effective,
                                         const di_config *config, int only, FILE *out);

#endif
