#include "core/truncation.h"

#include "base/checked.h"

static int last_kv_source(const di_config *c)
{
    int last = -1;
    for (int layer = 0; layer < c->n_layers; layer++)
        last = c->is_kv_source[layer] ? layer : last;
    return last;
}

static di_status check_layout(const di_config *c, int first)
{
    if (first < 0)
        return di_fail(DI_ERR_UNSUPPORTED, "prefill_truncation: found a model without KV sources, "
                                           "wanted one whose later layers all read its last one");
    if (c->compress_ratios[first] != 1)
        return di_fail(DI_ERR_UNSUPPORTED,
                       "prefill_truncation: found the last KV source, layer %d, with "
                       "compress_ratios entry %d, wanted 1",
                       first, c->compress_ratios[first]);
    for (int i = 0; i < c->n_engram_layers; i++)
        if (c->engram_layer_ids[i] >= first)
            return di_fail(DI_ERR_UNSUPPORTED,
                           "prefill_truncation: found Engram layer %d, wanted all of them before "
                           "the last KV source, layer %d",
                           c->engram_layer_ids[i], first);
    return DI_OK;
}

static di_status check_keep(const di_config *c, int64_t keep)
{
    const int64_t back = c->n_draft_blocks > 0 ? 2 * (c->dspark_block_size + 1) : 0;
    if (keep >= c->sliding_window + back)
        return DI_OK;
    return di_fail(DI_ERR_ARGUMENT,
                   "prefill_keep: found %lld, wanted at least %lld: the sliding window (%lld) and "
                   "the tokens that speculation may take back (%lld)",
                   (long long)keep, (long long)(c->sliding_window + back),
                   (long long)c->sliding_window, (long long)back);
}

di_status di_truncation_init(const di_config *config, di_truncation_mode mode, int64_t keep,
                             di_truncation *out)
{
    *out = (di_truncation){.mode = DI_TRUNCATION_OFF};
    if (mode == DI_TRUNCATION_OFF)
        return DI_OK;
    const int first = last_kv_source(config);
    DI_TRY(check_layout(config, first));
    DI_TRY(check_keep(config, keep));
    *out = (di_truncation){
        .mode = mode,
        .first_layer = first,
        .n_layers = config->n_layers,
        .keep = keep,
        .window = config->sliding_window,
    };
    return DI_OK;
}

int64_t di_truncation_start(const di_truncation *t, int64_t n_prompt)
{
    return t->mode == DI_TRUNCATION_OFF ? 0 : di_max_i64(0, n_prompt - t->keep);
}

/* Exact: where the layer's entries begin if the prompt is long enough, else below 0. */
static int64_t exact_first_key(const di_truncation *t, int64_t start, int layer)
{
    return start - (t->n_layers - 1 - layer) * (t->window - 1);
}

static bool is_whole(const di_truncation *t, int64_t start, int layer)
{
    return t->mode == DI_TRUNCATION_OFF || start <= 0 || layer < t->first_layer;
}

int64_t di_truncation_first_key(const di_truncation *t, int64_t start, int layer)
{
    if (is_whole(t, start, layer))
        return 0;
    if (t->mode == DI_TRUNCATION_COMPACT)
        return start;
    return di_max_i64(0, exact_first_key(t, start, layer));
}

int64_t di_truncation_first_row(const di_truncation *t, int64_t start, int layer)
{
    if (is_whole(t, start, layer))
        return 0;
    if (t->mode == DI_TRUNCATION_COMPACT)
        return start;
    return di_max_i64(0, exact_first_key(t, start, layer + 1));
}

bool di_truncation_can_share(const di_truncation *t, int64_t start, int64_t written, int64_t end)
{
    if (t->mode == DI_TRUNCATION_OFF || end <= di_truncation_first_key(t, start, t->first_layer))
        return true;
    return t->mode == DI_TRUNCATION_COMPACT ? written == start : written <= start;
}
