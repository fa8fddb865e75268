#include "kv/layout.h"

#include "base/checked.h"

static int add_group(di_kv_layout *layout, int ratio, bool is_window)
{
    layout->groups[layout->n_groups] = (di_kv_group){
        .ratio = ratio,
        .is_window = is_window,
        .block_len = DI_KV_BLOCK_TOKENS / ratio,
    };
    return layout->n_groups++;
}

static int group_of_ratio(di_kv_layout *layout, int ratio)
{
    for (int g = 1; g < layout->n_groups; g++)
        if (layout->groups[g].ratio == ratio)
            return g;
    return add_group(layout, ratio, false);
}

void di_kv_layout_init(const di_config *config, bool has_drafter, di_kv_layout *out)
{
    *out = (di_kv_layout){.n_groups = 0};
    const int32_t dim = (int32_t)config->head_dim, index_dim = (int32_t)config->index_head_dim;
    out->entries[DI_KV_WINDOW] = (di_kv_entry){dim, dim / 32};
    out->entries[DI_KV_COMPRESSED] = (di_kv_entry){dim / 2, dim / 16};
    out->entries[DI_KV_INDEX] = (di_kv_entry){index_dim / 2, index_dim / 32};
    add_group(out, 1, true);
    out->n_draft_layers = has_drafter ? config->n_draft_blocks : 0;
    out->groups[0].n_layers = config->n_layers + out->n_draft_layers;
    for (int layer = 0; layer < config->n_layers; layer++) {
        const int ratio = config->compress_ratios[layer];
        out->group_of_layer[layer] = ratio ? group_of_ratio(out, ratio) : -1;
        out->place_in_group[layer] = out->compressor_of_layer[layer] = -1;
        if (!config->is_kv_source[layer])
            continue;
        out->place_in_group[layer] = out->groups[out->group_of_layer[layer]].n_layers++;
        if (ratio == 2)
            out->compressor_of_layer[layer] = out->n_compressors++;
    }
    for (int g = 0; g < out->n_groups; g++) {
        di_kv_group *group = &out->groups[g];
        const int64_t entry = group->is_window ? di_kv_entry_bytes(out, DI_KV_WINDOW)
                                               : di_kv_entry_bytes(out, DI_KV_COMPRESSED) +
                                                     di_kv_entry_bytes(out, DI_KV_INDEX);
        group->block_bytes = group->n_layers * group->block_len * entry;
    }
}

int64_t di_kv_blocks_for(const di_kv_layout *layout, const di_config *config, int group,
                         int64_t n_tokens, int64_t step_tokens)
{
    const int64_t all = di_ceil_div(n_tokens, DI_KV_BLOCK_TOKENS);
    if (!layout->groups[group].is_window)
        return all;
    /* The rows of a pass and the window before the first of them, at any place within a block. */
    const int64_t live = config->sliding_window + step_tokens;
    return di_min_i64(all, di_ceil_div(live, DI_KV_BLOCK_TOKENS) + 1);
}
