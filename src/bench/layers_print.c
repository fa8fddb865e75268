#include "base/checked.h"
#include "bench/layers.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* "floor", or "-" where there is none. */
static void print_floor(const di_layers_sum *sum, double seconds, FILE *out)
{
    const double floor = larger(sum->memory_seconds, sum->flop_seconds);
    if (floor > 0.0)
        fprintf(out, " %9.1f %9.2f %9.3f %7.2f\n", sum->cost.memory_bytes * 1e-6,
                sum->cost.flops * 1e-9, floor * 1e3, seconds / floor);
    else
        fprintf(out, " %9s %9s %9s %7s\n", "-", "-", "-", "-");
}

/* What a layer does that others do not. */
static const char *role(const di_config *c, int layer)
{
    if (c->compress_ratios[layer] == 0)
        return di_synthetic_has_engram(c, layer) ? "window, engram" : "window";
    if (c->candidate_source == layer)
        return "KV, top-k, candidates";
    if (c->is_kv_source[layer])
        return di_synthetic_has_engram(c, layer) ? "KV, top-k, engram" : "KV, top-k";
    return c->is_index_source[layer] ? "top-k" : "reuse";
}

static void print_ops(const di_layers_run *run, double total, FILE *out)
{
    for (int op = 0; op < DI_N_OPS; op++) {
        const di_layers_sum *sum = &run->op_sums[op];
        if (sum->calls == 0.0)
            continue;
        fprintf(out, "    %-32s %6.1f %10.3f %5.1f", di_op_name((di_op)op), sum->calls,
                sum->seconds * 1e3, 100.0 * sum->seconds / total);
        print_floor(sum, sum->seconds, out);
    }
}

static void print_layers(const di_layers_shape *shape, const di_layers_run *run, FILE *out)
{
    const di_config *c = &shape->full;
    const int n = shape->config.n_layers;
    for (int i = 0; i <= n; i++) {
        char name[64];
        if (i < n)
            snprintf(name, sizeof name, "layer %d: ratio %d, %s", shape->layers[i],
                     c->compress_ratios[shape->layers[i]], role(c, shape->layers[i]));
        else
            snprintf(name, sizeof name, "outside: embedding, head");
        fprintf(out, "    %-39s %10.3f %5.1f", name, run->layer_seconds[i] * 1e3,
                100.0 * run->layer_seconds[i] / run->median);
        print_floor(&run->layer_sums[i], run->layer_seconds[i], out);
    }
}

void di_layers_print_run(const di_layers_shape *shape, const di_layers_run *run, FILE *out)
{
    const int n = shape->config.n_layers;
    const di_layers_sum all = di_layers_total(shape, run);
    if (run->is_prefill)
        fprintf(out, "\nprefill of %lld tokens at context %lld", (long long)run->n_rows,
                (long long)run->context);
    else
        fprintf(out, "\ndecode of batch %lld at context %lld", (long long)run->n_seqs,
                (long long)run->context);
    fprintf(out, ": %.3f ms a step (minimum %.3f, %d steps), %.2f tokens/s with %d layer%s\n",
            run->median * 1e3, run->minimum * 1e3, run->n_steps, (double)run->n_rows / run->median,
            n, n == 1 ? "" : "s");
    fprintf(out, "    %-32s %6s %10s %5s %9s %9s %9s %7s\n", "", "calls", "ms", "%", "MB", "GFLOP",
            "floor ms", "x floor");
    print_ops(run, run->median, out);
    print_layers(shape, run, out);
    fprintf(out, "    %-39s %10.3f %5s", "all", run->median * 1e3, "");
    print_floor(&all, run->median, out);
    fprintf(out,
            "    floors: memory %.3f ms, arithmetic %.3f ms; experts with rows: %.1f of %lld\n",
            all.memory_seconds * 1e3, all.flop_seconds * 1e3, run->n_experts,
            (long long)shape->config.n_routed_experts);
}

void di_layers_print_whole(const di_layers_shape *shape, const di_layers_run *run, FILE *out)
{
    const int n = shape->config.n_layers;
    const di_layers_whole whole = di_layers_whole_of(shape, run);
    fprintf(out, "    %d layers: %.2f", shape->full.n_layers, run->layer_seconds[n] * 1e3);
    for (int i = 0; i < n; i++)
        if (whole.counts[i])
            fprintf(out, " + %d x %.2f (layer %d)", whole.counts[i], run->layer_seconds[i] * 1e3,
                    shape->layers[i]);
    if (whole.n_engram)
        fprintf(out, " + %d x %.2f (engram, floor)", whole.n_engram, whole.engram_seconds * 1e3);
    fprintf(out, " = %.2f ms, %.2f tokens/s", whole.seconds * 1e3,
            (double)run->n_rows / whole.seconds);
    if (whole.n_others)
        fprintf(out, "; %d layers are not of a measured kind: the nearest stands for them",
                whole.n_others);
    fputc('\n', out);
}

/* ---------------------------------------------------------------------------------- comparisons */

void di_layers_print_contexts(const di_layers_run *runs, size_t n_runs, FILE *out)
{
    fprintf(out, "\n  %9s %6s %14s %10s %10s %10s %10s %12s %9s\n", "context", "batch",
            "index logits", "top-k", "attention", "all three", "step", "tokens/s", "x first");
    fprintf(out, "  %9s %6s %14s %10s %10s %10s %10s\n", "", "", "us a token", "us", "us", "us",
            "ms");
    for (size_t i = 0; i < n_runs; i++) {
        const di_layers_run *r = &runs[i];
        const double to_us = 1e6 / (double)r->n_rows;
        const double logits = r->op_sums[DI_OP_index_logits].seconds * to_us;
        const double topk =
            (r->op_sums[DI_OP_topk].seconds + r->op_sums[DI_OP_candidate_blocks].seconds) * to_us;
        const double attention = r->op_sums[DI_OP_sparse_attention].seconds * to_us;
        size_t first = i;
        while (first > 0 && runs[first - 1].context == r->context)
            first--;
        const double rate = (double)r->n_rows / r->median;
        fprintf(out, "  %9lld %6lld %14.1f %10.1f %10.1f %10.1f %10.2f %12.2f %9.2f\n",
                (long long)r->context, (long long)r->n_seqs, logits, topk, attention,
                logits + topk + attention, r->median * 1e3, rate,
                rate / ((double)runs[first].n_rows / runs[first].median));
    }
}
