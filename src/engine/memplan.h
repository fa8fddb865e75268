/* What an engine will take, before it takes it. */
#ifndef DI_ENGINE_MEMPLAN_H
#define DI_ENGINE_MEMPLAN_H

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "kv/layout.h"

/* Sequences that drafts are made for at once: bounds the drafts' memory. */
enum { DI_DRAFT_SEQS = 32 };

/* Draft blocks run: the KV cache has their windows, and their weights are read. */
static inline bool di_has_drafter(const di_config *config, const di_effective_options *options)
{
    return strcmp(options->speculation, "off") != 0 && config->n_draft_blocks > 0;
}

typedef struct di_memplan {
    int64_t context_len;                 /* tokens a sequence may have */
    int64_t kv_blocks[DI_MAX_KV_GROUPS]; /* of each group's pool */
    int64_t kv_bytes[DI_MAX_KV_GROUPS];
    int64_t available_bytes; /* memory of this process before the engine takes any */
    int64_t resident_bytes;  /* weights that every pass reads */
    int64_t kv_budget_bytes; /* given, or the given part of what the others leave */
    int64_t kv_total_bytes;
    int64_t scratch_bytes; /* step memory at max_step_tokens rows */
    int64_t logits_bytes;  /* a row for each running sequence, as many as a step may sample */
    int64_t weight_cache_bytes;
    int64_t copied_bytes; /* weights=copy: the model's own, taken when it is opened */
    int64_t total_bytes;  /* without the mapped weights */
} di_memplan;

/* Sizes the KV pools: windows for max_seqs running sequences and the windows the prefix cache
 * keeps, in at most half of the budget, the rest for compressed entries; one sequence of
 * context_len fits in any case. DI_ERR_MEMORY with the numbers if it is more than this process may
 * have (base/memory.h). */
DI_WARN_UNUSED di_status di_memplan_compute(const di_config *config,
                                            const di_effective_options *options, di_memplan *out);
/* The same with another machine's memory. */
DI_WARN_UNUSED di_status di_memplan_compute_in(const di_config *config,
                                               const di_effective_options *options,
                                               const di_memory *memory, di_memplan *out);
DI_WARN_UNUSED di_status di_memplan_print(const di_config *config, const di_options *options,
                                          FILE *out);

/* Tokens of a sequence that may be in flight and turn out not to be: drafts of the passes in
 * flight.
 */
int64_t di_most_uncertain(const di_effective_options *options);

#endif
