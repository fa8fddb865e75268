/* What an engine will take, before it takes it. */
#ifndef DI_ENGINE_MEMPLAN_H
#define DI_ENGINE_MEMPLAN_H

#include <stdio.h>

#include "base/options.h"
#include "core/config.h"

typedef struct di_memplan {
    int64_t kv_bytes[3]; /* per KV group: window, then the compression ratios */
    int64_t kv_total_bytes;
    int64_t scratch_bytes; /* step memory at max_step_tokens rows */
    int64_t logits_bytes;  /* one row per sequence and step */
    int64_t total_bytes;   /* without the mapped weights */
} di_memplan;

/* Context limit of a sequence: the option if given (at most the config's), else the config's. */
DI_WARN_UNUSED di_status di_memplan_max_context(const di_config *config,
                                                const di_effective_options *options, int64_t *out);
DI_WARN_UNUSED di_status di_memplan_compute(const di_config *config,
                                            const di_effective_options *options, di_memplan *out);
/* DI_ERR_MEMORY with the numbers if the plan is above the memory of this machine. */
DI_WARN_UNUSED di_status di_memplan_check(const di_config *config,
                                          const di_effective_options *options);
DI_WARN_UNUSED di_status di_memplan_print(const di_config *config, const di_options *options,
                                          FILE *out);

#endif
