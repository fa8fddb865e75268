#include "engine/memplan.h"

#include <string.h>

#include "base/checked.h"
#include "model/draft.h"
#include "weights/placed.h"
#include "weights/weight_list.h"

/* Window snapshots the prefix cache can keep beside the running sequences'; and the parts of the
 * memory this process may have, and of what is available, that the KV cache takes by default. */
enum { MIN_SNAPSHOTS = 16, DEFAULT_PART = 8, DEFAULT_AVAILABLE_PART = 2 };

typedef struct resident {
    bool has_drafter;
    int64_t bytes;
} resident;

/* What every pass reads: all weights but routed experts (alone in FP4), n-gram tables and parts
 * that do not run. */
static di_status add_resident(void *user, const di_weight_tensor *t)
{
    resident *r = user;
    const bool runs = t->part != DI_PART_VISION && (t->part != DI_PART_DRAFT || r->has_drafter);
    if (!runs || t->kind == DI_WEIGHT_KIND_F4 || t->kind == DI_WEIGHT_KIND_TABLE)
        return DI_OK;
    int64_t bytes = (int64_t)di_dtype_bytes(t->dtype);
    for (int i = 0; i < t->rank; i++)
        bytes *= t->shape[i];
    r->bytes += bytes;
    return DI_OK;
}

static int64_t default_budget(const di_memory *memory)
{
    return di_min_i64(memory->limit / DEFAULT_PART, memory->available / DEFAULT_AVAILABLE_PART);
}

/* The KV budget in bytes. */
static di_status find_budget(const di_config *config, const di_effective_options *options,
                             const di_memory *memory, di_memplan *plan)
{
    plan->available_bytes = memory->available;
    plan->kv_budget_bytes =
        options->kv_cache_bytes ? options->kv_cache_bytes : default_budget(memory);
    resident r = {.has_drafter = di_has_drafter(config, options)};
    DI_TRY(di_weight_list(config, NULL, add_resident, &r));
    plan->resident_bytes = r.bytes;
    if (options->kv_cache_fraction == 0)
        return DI_OK;
    const int64_t taken =
        plan->resident_bytes + plan->scratch_bytes + plan->logits_bytes + plan->weight_cache_bytes;
    if (taken >= memory->available)
        return di_fail(DI_ERR_MEMORY,
                       "kv_cache_fraction: found %lld bytes of memory available, of which weights, "
                       "step memory and weight cache want %lld: nothing is left",
                       (long long)memory->available, (long long)taken);
    plan->kv_budget_bytes =
        (int64_t)((double)(memory->available - taken) * options->kv_cache_fraction);
    return DI_OK;
}

static di_status limit_context(const di_config *config, const di_effective_options *options,
                               int64_t *out)
{
    const int64_t limit = config->max_position_embeddings;
    if (options->max_context_len > limit)
        return di_fail(DI_ERR_ARGUMENT,
                       "max_context_len: found %lld, wanted at most %lld, the model's limit",
                       (long long)options->max_context_len, (long long)limit);
    *out = options->max_context_len ? options->max_context_len : limit;
    return DI_OK;
}

int64_t di_most_uncertain(const di_effective_options *options)
{
    const bool is_off = !strcmp(options->speculation, "off");
    return is_off ? 0 : (int64_t)options->draft_len * (options->is_async ? 2 : 1);
}

/* Blocks of windows: of a full step, of the other running sequences, and snapshots; those beyond
 * the one step within `budget` bytes. */
static int64_t window_blocks(const di_kv_layout *layout, const di_config *config,
                             const di_effective_options *options, int64_t context, int64_t budget)
{
    const int64_t uncertain = di_most_uncertain(options);
    const int64_t step = options->max_step_tokens + uncertain;
    const int64_t each = di_ceil_div(config->sliding_window + uncertain, DI_KV_BLOCK_TOKENS) + 1;
    const int64_t least = di_kv_blocks_for(layout, config, 0, context, step);
    const int64_t wanted = least + (options->max_seqs - 1 + MIN_SNAPSHOTS) * each;
    return di_max_i64(least, di_min_i64(wanted, budget / layout->groups[0].block_bytes));
}

static void size_pools(const di_config *config, const di_effective_options *options,
                       di_memplan *plan)
{
    di_kv_layout layout;
    di_kv_layout_init(config, di_has_drafter(config, options), &layout);
    const int64_t budget = plan->kv_budget_bytes;
    plan->kv_blocks[0] = window_blocks(&layout, config, options, plan->context_len, budget / 2);
    plan->kv_total_bytes = plan->kv_bytes[0] = plan->kv_blocks[0] * layout.groups[0].block_bytes;
    int64_t logical_bytes = 0; /* of the compressed entries of DI_KV_BLOCK_TOKENS tokens */
    for (int g = 1; g < layout.n_groups; g++)
        logical_bytes += layout.groups[g].block_bytes;
    for (int g = 1; g < layout.n_groups; g++) {
        const int64_t one = di_ceil_div(plan->context_len, DI_KV_BLOCK_TOKENS) + 1;
        const int64_t all = one * options->max_seqs; /* more could never be used */
        const int64_t fits = (budget - plan->kv_bytes[0]) / logical_bytes;
        plan->kv_blocks[g] = di_max_i64(one, di_min_i64(all, fits));
        plan->kv_bytes[g] = plan->kv_blocks[g] * layout.groups[g].block_bytes;
        plan->kv_total_bytes += plan->kv_bytes[g];
    }
}

/* A step's pass, and the draft that follows when the pass has given its memory back. */
static int64_t scratch_bytes(const di_config *config, const di_effective_options *options,
                             int64_t context_len)
{
    const bool has_drafter = di_has_drafter(config, options);
    const int64_t n_seqs = di_min_i64(options->max_seqs, DI_DRAFT_SEQS);
    const int64_t forward = di_forward_scratch_bytes(config, has_drafter, options->max_step_tokens,
                                                     context_len, options->n_threads);
    if (!has_drafter)
        return forward;
    const int64_t logits = 4 * (config->vocab_size + 1) * n_seqs;
    return di_max_i64(forward, logits + di_draft_scratch_bytes(config, n_seqs, options->n_threads));
}

di_status di_memplan_compute_in(const di_config *config, const di_effective_options *options,
                                const di_memory *memory, di_memplan *out)
{
    di_memplan plan = {0};
    DI_TRY(limit_context(config, options, &plan.context_len));
    plan.scratch_bytes = scratch_bytes(config, options, plan.context_len);
    const int64_t verified = strcmp(options->speculation, "off") ? 1 + options->draft_len : 1;
    plan.logits_bytes =
        4 * config->vocab_size * di_min_i64(options->max_seqs * verified, options->max_step_tokens);
    if (options->weights && !strcmp(options->weights, "copy"))
        DI_TRY(di_placed_bytes(config,
                               (di_placed_parts){.has_experts = options->weight_cache == 0,
                                                 .has_drafter = di_has_drafter(config, options)},
                               &plan.copied_bytes));
    plan.weight_cache_bytes = options->weight_cache;
    DI_TRY(find_budget(config, options, memory, &plan));
    size_pools(config, options, &plan);
    plan.total_bytes = plan.kv_total_bytes + plan.scratch_bytes + plan.logits_bytes +
                       plan.weight_cache_bytes + plan.copied_bytes;
    if (plan.total_bytes > memory->limit)
        return di_fail(
            DI_ERR_MEMORY,
            "memory plan: wanted %lld bytes (KV cache %lld, step memory %lld, weight "
            "cache %lld, copied weights %lld), found %lld for this process; lower kv_cache_bytes, "
            "max_context_len, max_step_tokens or weight_cache",
            (long long)plan.total_bytes, (long long)plan.kv_total_bytes,
            (long long)plan.scratch_bytes, (long long)plan.weight_cache_bytes,
            (long long)plan.copied_bytes, (long long)memory->limit);
    *out = plan;
    return DI_OK;
}

di_status di_memplan_compute(const di_config *config, const di_effective_options *options,
                             di_memplan *out)
{
    di_memory memory;
    di_memory_read("", &memory);
    return di_memplan_compute_in(config, options, &memory, out);
}

static void print_row(FILE *out, const char *what, int64_t bytes)
{
    fprintf(out, "  %-38s %16lld B  %10.2f MiB\n", what, (long long)bytes,
            (double)bytes / (1024.0 * 1024.0));
}

di_status di_memplan_print(const di_config *config, const di_options *options, FILE *out)
{
    di_effective_options effective;
    di_memplan plan;
    DI_TRY(di_options_resolve(options, &effective));
    DI_TRY(di_memplan_compute(config, &effective, &plan));
    di_kv_layout layout;
    di_kv_layout_init(config, di_has_drafter(config, &effective), &layout);
    fprintf(out, "memory plan: context %lld tokens, steps of %d tokens, %d sequences, %d threads\n",
            (long long)plan.context_len, effective.max_step_tokens, effective.max_seqs,
            effective.n_threads);
    fprintf(out, "  bytes an entry: window %lld, compressed %lld, index key %lld\n",
            (long long)di_kv_entry_bytes(&layout, DI_KV_WINDOW),
            (long long)di_kv_entry_bytes(&layout, DI_KV_COMPRESSED),
            (long long)di_kv_entry_bytes(&layout, DI_KV_INDEX));
    print_row(out, "memory available", plan.available_bytes);
    print_row(out, "weights read in every pass", plan.resident_bytes);
    if (effective.kv_cache_fraction > 0)
        fprintf(out, "  KV budget: %g of what these, step memory, logits and weight cache leave\n",
                effective.kv_cache_fraction);
    print_row(out, "KV budget", plan.kv_budget_bytes);
    for (int g = 0; g < layout.n_groups; g++) {
        const di_kv_group *group = &layout.groups[g];
        char name[64];
        if (group->is_window)
            snprintf(name, sizeof name, "KV window, %d layers, %lld blocks", group->n_layers,
                     (long long)plan.kv_blocks[g]);
        else
            snprintf(name, sizeof name, "KV ratio %d, %d sources, %lld blocks", group->ratio,
                     group->n_layers, (long long)plan.kv_blocks[g]);
        print_row(out, name, plan.kv_bytes[g]);
    }
    print_row(out, "step memory", plan.scratch_bytes);
    print_row(out, "logits", plan.logits_bytes);
    if (plan.weight_cache_bytes)
        print_row(out, "weight cache", plan.weight_cache_bytes);
    if (plan.copied_bytes)
        print_row(out, "copied weights", plan.copied_bytes);
    print_row(out, "total beside the mapped weights", plan.total_bytes);
    return DI_OK;
}
