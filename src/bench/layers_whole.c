/* What a step of the whole model takes, by the measured layers. */
#include "bench/layers.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

di_layers_sum di_layers_total(const di_layers_shape *shape, const di_layers_run *run)
{
    di_layers_sum all = {0};
    for (int i = 0; i <= shape->config.n_layers; i++) {
        all.cost.memory_bytes += run->layer_sums[i].cost.memory_bytes;
        all.cost.flops += run->layer_sums[i].cost.flops;
        all.memory_seconds += run->layer_sums[i].memory_seconds;
        all.flop_seconds += run->layer_sums[i].flop_seconds;
    }
    return all;
}

/* How unlike two layers' work is. */
static int distance(const di_config *c, int a, int b)
{
    return 8 * (di_synthetic_has_engram(c, a) != di_synthetic_has_engram(c, b)) +
           4 * (c->is_index_source[a] != c->is_index_source[b]) +
           2 * (c->is_kv_source[a] != c->is_kv_source[b]) +
           (c->compress_ratios[a] != c->compress_ratios[b]);
}

/* The measured layer that stands for a layer: its index in shape->layers. */
static int stand_in(const di_layers_shape *shape, int layer)
{
    int best = 0;
    for (int i = 1; i < shape->config.n_layers; i++)
        if (distance(&shape->full, shape->layers[i], layer) <
            distance(&shape->full, shape->layers[best], layer))
            best = i;
    return best;
}

/* Seconds that Engram's linear takes at least, where no measured layer has one. */
static double engram_floor(const di_layers_shape *shape, const di_layers_run *run)
{
    const di_config *c = &shape->full;
    const double columns = (double)(c->engram_max_ngram_size - 1) * c->engram_n_heads;
    const double values =
        (double)((c->hc_mult + 1) * c->hidden_size) * columns * (double)c->engram_head_dim;
    return larger(values / di_bench_memory_rate(&shape->ceilings),
                  2.0 * values * (double)run->n_rows / shape->ceilings.rate[DI_CEILING_FMA]);
}

di_layers_whole di_layers_whole_of(const di_layers_shape *shape, const di_layers_run *run)
{
    const di_config *c = &shape->full;
    const int n = shape->config.n_layers;
    di_layers_whole whole = {.seconds = run->layer_seconds[n]};
    for (int layer = 0; layer < c->n_layers; layer++) {
        const int i = stand_in(shape, layer);
        const bool has_engram = di_synthetic_has_engram(c, shape->layers[i]);
        whole.counts[i]++;
        whole.n_others += distance(c, shape->layers[i], layer) != 0;
        whole.n_engram += di_synthetic_has_engram(c, layer) && !has_engram;
    }
    for (int i = 0; i < n; i++)
        whole.seconds += whole.counts[i] * run->layer_seconds[i];
    if (whole.n_engram)
        whole.engram_seconds = engram_floor(shape, run);
    whole.seconds += whole.n_engram * whole.engram_seconds;
    return whole;
}
