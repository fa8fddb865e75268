#include "engine/memplan.h"

#include <unistd.h>

#include "kv/layout.h"
#include "model/forward.h"

di_status di_memplan_max_context(const di_config *config, const di_effective_options *options,
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

di_status di_memplan_compute(const di_config *config, const di_effective_options *options,
                             di_memplan *out)
{
    int64_t context;
    DI_TRY(di_memplan_max_context(config, options, &context));
    di_kv_layout layout;
    di_kv_layout_init(config, &layout);
    di_memplan plan = {0};
    for (int g = 0; g < layout.n_groups; g++) {
        plan.kv_bytes[g] = layout.groups[g].block_bytes *
                           di_kv_blocks_for(&layout, config, g, context, options->max_step_tokens);
        plan.kv_total_bytes += plan.kv_bytes[g];
    }
    plan.scratch_bytes =
        di_forward_scratch_bytes(config, options->max_step_tokens, context, options->n_threads);
    plan.logits_bytes = 4 * config->vocab_size;
    plan.total_bytes = plan.kv_total_bytes + plan.scratch_bytes + plan.logits_bytes;
    *out = plan;
    return DI_OK;
}

static int64_t machine_bytes(void)
{
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

di_status di_memplan_check(const di_config *config, const di_effective_options *options)
{
    di_memplan plan;
    DI_TRY(di_memplan_compute(config, options, &plan));
    if (plan.total_bytes > machine_bytes())
        return di_fail(
            DI_ERR_MEMORY,
            "memory plan: wanted %lld bytes (KV cache %lld, step memory %lld), found %lld "
            "on this machine; lower max_context_len or max_step_tokens",
            (long long)plan.total_bytes, (long long)plan.kv_total_bytes,
            (long long)plan.scratch_bytes, (long long)machine_bytes());
    return DI_OK;
}

static void print_row(FILE *out, const char *what, int64_t bytes)
{
    fprintf(out, "  %-34s %16lld B  %10.2f MiB\n", what, (long long)bytes,
            (double)bytes / (1024.0 * 1024.0));
}

di_status di_memplan_print(const di_config *config, const di_options *options, FILE *out)
{
    di_effective_options effective;
    di_memplan plan;
    int64_t context;
    DI_TRY(di_options_resolve(options, &effective));
    DI_TRY(di_memplan_max_context(config, &effective, &context));
    DI_TRY(di_memplan_compute(config, &effective, &plan));
    di_kv_layout layout;
    di_kv_layout_init(config, &layout);
    fprintf(out, "memory plan: context %lld tokens, steps of %d tokens, %d threads\n",
            (long long)context, effective.max_step_tokens, effective.n_threads);
    fprintf(out, "  bytes an entry: window %lld, compressed %lld, index key %lld\n",
            (long long)di_kv_entry_bytes(&layout, DI_KV_WINDOW),
            (long long)di_kv_entry_bytes(&layout, DI_KV_COMPRESSED),
            (long long)di_kv_entry_bytes(&layout, DI_KV_INDEX));
    for (int g = 0; g < layout.n_groups; g++) {
        char name[64];
        if (layout.groups[g].is_window)
            snprintf(name, sizeof name, "KV window, %d layers", layout.groups[g].n_layers);
        else
            snprintf(name, sizeof name, "KV ratio %d, %d source layers", layout.groups[g].ratio,
                     layout.groups[g].n_layers);
        print_row(out, name, plan.kv_bytes[g]);
    }
    print_row(out, "step memory", plan.scratch_bytes);
    print_row(out, "logits", plan.logits_bytes);
    print_row(out, "total beside the mapped weights", plan.total_bytes);
    return DI_OK;
}
