/* deepinfer bench layers. */
#include <stdlib.h>

#include "base/checked.h"
#include "bench/layers.h"
#include "bench/machine.h"
#include "bench/results.h"
#include "bench/shape.h"
#include "bench/stay.h"

#define CEILING_SECONDS 0.3
enum { DEFAULT_LAYERS = 2, MAX_PREFILLS = 4, DEFAULT_CONTEXT = 4096 };

typedef struct bench {
    const di_bench_layers_options *options;
    const int64_t *batches, *contexts;
    size_t n_batches, n_contexts;
    double seconds;
    di_layers_shape shape;
    di_synthetic synthetic;
    di_options engine;
    bool has_ceilings;
    int64_t most_seqs;
    uint64_t random;
    int n_steps, n_prefills; /* at most, of a batch and of the prefill */
    FILE *out;
    json_t *rows; /* NULL: not wanted */

    /* For one context. */
    di_runner runner;
    di_bench_stay stay;
    di_profile profile;
    di_runner_seq *seqs; /* [most_seqs] */
} bench;

static int32_t random_token(bench *b)
{
    b->random = b->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int32_t)((b->random >> 33) % (uint64_t)b->shape.config.vocab_size);
}

/* ------------------------------------------------------------------------------------- a context
 */

/* Blocks that sequences of `tokens` tokens take, and windows for all of them with passes of
 * `rows` rows. */
static int64_t kv_bytes(const di_config *config, int64_t n_seqs, int64_t tokens, int64_t rows)
{
    di_kv_layout layout;
    di_kv_layout_init(config, false, &layout);
    const int64_t window = di_ceil_div(config->sliding_window, DI_KV_BLOCK_TOKENS) + 2;
    const int64_t windows = (di_ceil_div(rows, DI_KV_BLOCK_TOKENS) + (n_seqs + 32) * window) *
                            layout.groups[0].block_bytes;
    int64_t entries = 0;
    for (int g = 1; g < layout.n_groups; g++)
        entries += layout.groups[g].block_bytes;
    return 2 * windows + (n_seqs + 1) * (di_ceil_div(tokens, DI_KV_BLOCK_TOKENS) + 2) * entries;
}

static void fill_store(di_kv_cache *kv, int layer, di_kv_store store, int64_t n_blocks)
{
    const di_paged_out p = di_kv_cache_store(kv, layer, store);
    for (int64_t i = 0; i < n_blocks; i++) {
        uint8_t *block = p.data + i * p.block_bytes;
        const int64_t scales = p.block_bytes - p.scales_offset;
        if (store == DI_KV_WINDOW)
            di_bench_fill_weights(block, p.scales_offset, (uint64_t)i);
        else
            di_bench_fill_codes(block, p.scales_offset, (uint64_t)i);
        if (store == DI_KV_COMPRESSED)
            di_bench_fill_e4m3(block + p.scales_offset, scales, (uint64_t)i);
        else
            di_bench_fill_scales(block + p.scales_offset, scales, (uint64_t)i);
    }
}

/* Entries of contexts that nobody computed: random ones. */
static void fill_kv(bench *b)
{
    di_kv_cache *kv = &b->runner.kv;
    for (int layer = 0; layer < b->shape.config.n_layers; layer++) {
        fill_store(kv, layer, DI_KV_WINDOW, kv->pools[0].n_blocks);
        if (!b->shape.config.is_kv_source[layer])
            continue;
        const int64_t n_blocks = kv->pools[kv->layout.group_of_layer[layer]].n_blocks;
        fill_store(kv, layer, DI_KV_COMPRESSED, n_blocks);
        fill_store(kv, layer, DI_KV_INDEX, n_blocks);
    }
}

static di_status append_tokens(bench *b, di_runner_seq *seq, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const int32_t token = random_token(b);
        DI_TRY(di_runner_seq_append(&b->runner, seq, &token, 1));
    }
    return DI_OK;
}

/* A sequence of `context` tokens as if they had been computed. */
static di_status make_seq(bench *b, int64_t context, di_runner_seq *seq)
{
    DI_TRY(di_compressor_state_new(&b->runner, &seq->compressor_state));
    DI_TRY(append_tokens(b, seq, context));
    while (seq->kv.len < context)
        DI_TRY(di_kv_seq_extend(&b->runner.kv, &seq->kv,
                                di_min_i64(context, seq->kv.len + DI_KV_BLOCK_TOKENS)));
    return DI_OK;
}

/* Passes that fit behind a context: as many as are wanted, or what the model's limit leaves. */
static di_status plan_steps(bench *b, int64_t context, int64_t *more)
{
    const int64_t prefill = b->options->prefill, n_batches = (int64_t)b->n_batches;
    const int64_t room = b->shape.config.max_position_embeddings - context - 1;
    const int64_t n_prefills =
        prefill ? di_min_i64(MAX_PREFILLS, di_max_i64(1, room / 2 / prefill)) : 0;
    const int64_t n_steps =
        di_min_i64(DI_LAYERS_MAX_STEPS, (room - n_prefills * prefill) / n_batches - 1);
    if (n_steps < 1)
        return di_fail(DI_ERR_ARGUMENT,
                       "context: found %lld, wanted less: with %lld prefilled tokens and a step a "
                       "batch it is beyond the model's limit of %lld",
                       (long long)context, (long long)prefill,
                       (long long)b->shape.config.max_position_embeddings);
    b->n_prefills = (int)n_prefills;
    b->n_steps = (int)n_steps;
    *more = (n_steps + 1) * n_batches + n_prefills * prefill; /* one step warms up */
    return DI_OK;
}

static di_status open_context(bench *b, int64_t context)
{
    const di_bench_layers_options *o = b->options;
    const int64_t rows = di_max_i64(b->most_seqs, o->prefill);
    int64_t more;
    DI_TRY(plan_steps(b, context, &more));
    b->engine.max_context_len = context + more;
    b->engine.max_seqs = (int)b->most_seqs;
    b->engine.max_step_tokens = (int)rows;
    b->engine.kv_cache_bytes = kv_bytes(&b->shape.config, b->most_seqs, context + more, rows);
    DI_TRY(di_runner_init(&b->synthetic.model, &b->engine, &b->runner));
    if (!b->has_ceilings)
        DI_TRY(di_ceilings_of_teams(&b->runner.team, 1,
                                    o->memory_bytes ? o->memory_bytes : di_machine_rotation_bytes(),
                                    b->seconds < CEILING_SECONDS ? b->seconds : CEILING_SECONDS,
                                    b->out, &b->shape.ceilings));
    b->has_ceilings = true;
    DI_TRY(di_profile_init(&b->runner.plan, b->shape.config.n_layers, &b->profile));
    b->runner.plan = b->profile.plan;
    fill_kv(b);
    for (int64_t i = 0; i < b->most_seqs; i++)
        DI_TRY(make_seq(b, context, &b->seqs[i]));
    di_bench_stay_begin(&b->runner.team, &b->stay);
    return DI_OK;
}

static void close_context(bench *b)
{
    di_bench_stay_end(&b->stay);
    for (int64_t i = 0; i < b->most_seqs; i++)
        di_runner_seq_free(&b->runner, &b->seqs[i]);
    di_profile_free(&b->profile);
    di_runner_free(&b->runner);
}

/* ---------------------------------------------------------------------------------------- steps */

static bool goes_on(const bench *b)
{
    return !b->options->go_on || b->options->go_on(b->options->user);
}

/* One pass, of the first n_seqs sequences or of the first one's next rows. */
static di_status run_step(void *user, const di_layers_run *run)
{
    bench *b = user;
    di_work works[DI_BENCH_MAX_BATCH];
    float *logits;
    if (!goes_on(b))
        return di_fail(DI_ERR_CANCELLED, "the benchmark was stopped");
    const int64_t n_tokens = run->is_prefill ? run->n_rows : 1;
    for (int64_t i = 0; i < run->n_seqs; i++) {
        DI_TRY(append_tokens(b, &b->seqs[i], n_tokens));
        works[i] = (di_work){.seq = &b->seqs[i], .n_tokens = n_tokens, .wants_last_logits = true};
    }
    return di_runner_forward(&b->runner, works, (int32_t)run->n_seqs, &b->profile.observer,
                             &logits);
}

static di_status measure(bench *b, di_layers_run *run)
{
    DI_TRY(di_layers_measure(&b->shape, &b->profile, b->seconds, run_step, b, run));
    di_layers_print_run(&b->shape, run, b->out);
    di_layers_print_whole(&b->shape, run, b->out);
    fflush(b->out);
    if (b->rows && json_array_append_new(b->rows, di_layers_json(&b->shape, run)) != 0)
        return di_fail_memory(sizeof(json_t), "a result");
    return DI_OK;
}

/* All batches at one context, the prefill behind them. runs [n_batches]. */
static di_status measure_context(bench *b, int64_t context, di_layers_run *runs)
{
    for (size_t i = 0; i < b->n_batches; i++) {
        runs[i] = (di_layers_run){.n_seqs = b->batches[i],
                                  .n_rows = b->batches[i],
                                  .context = context,
                                  .n_steps = b->n_steps};
        DI_TRY(measure(b, &runs[i]));
    }
    if (b->options->prefill == 0)
        return DI_OK;
    di_layers_run *run = calloc(1, sizeof *run);
    if (!run)
        return di_fail_memory(sizeof *run, "the times of a prefill");
    run->is_prefill = true;
    run->n_seqs = 1;
    run->n_rows = b->options->prefill;
    run->context = context;
    run->n_steps = b->n_prefills;
    const di_status status = measure(b, run);
    free(run);
    return status;
}

/* ------------------------------------------------------------------------------- the whole run */

static void print_model(const bench *b)
{
    const di_config *c = &b->shape.config;
    fprintf(b->out, "model: layers");
    for (int i = 0; i < c->n_layers; i++)
        fprintf(b->out, "%s %d", i ? "," : "", b->shape.layers[i]);
    fprintf(b->out,
            " of %d, synthetic weights: %.2f GB beside %lld experts of %.1f MB that stand for %lld "
            "a layer; the embedding is the head's memory\n",
            b->shape.full.n_layers, (double)b->synthetic.dense.bytes * 1e-9,
            (long long)b->synthetic.n_pool_experts, (double)b->synthetic.expert_bytes * 1e-6,
            (long long)c->n_routed_experts);
}

static di_status run_contexts(bench *b, di_layers_run *runs)
{
    for (size_t i = 0; i < b->n_contexts; i++) {
        const di_status opened = open_context(b, b->contexts[i]);
        const di_status status =
            opened == DI_OK ? measure_context(b, b->contexts[i], runs + i * b->n_batches) : opened;
        close_context(b);
        DI_TRY(status);
    }
    di_layers_print_contexts(runs, b->n_contexts * b->n_batches, b->out);
    return DI_OK;
}

/* Before the weights are made, which takes its time. */
static di_status check_contexts(bench *b)
{
    int64_t more;
    for (size_t i = 0; i < b->n_contexts; i++)
        DI_TRY(plan_steps(b, b->contexts[i], &more));
    return DI_OK;
}

static di_status check_options(bench *b)
{
    di_effective_options effective;
    di_kernel_mask mask;
    DI_TRY(di_options_resolve(&b->engine, &effective));
    return di_kernel_mask_parse(effective.isa, effective.kernels, &mask);
}

static di_status run_all(bench *b)
{
    const int n_layers = b->options->n_layers ? b->options->n_layers : DEFAULT_LAYERS;
    DI_TRY(check_options(b));
    DI_TRY(di_shape_load(b->options->config, &b->shape.full));
    DI_TRY(di_synthetic_pick(&b->shape.full, n_layers, b->shape.layers));
    di_config reduced;
    di_synthetic_reduce(&b->shape.full, b->shape.layers, n_layers, &reduced);
    b->shape.config = reduced;
    DI_TRY(check_contexts(b));
    di_machine_print(b->out);
    DI_TRY(di_synthetic_init(&b->shape.config, b->options->n_experts, &b->synthetic));
    print_model(b);
    di_layers_run *runs = calloc(b->n_contexts * b->n_batches, sizeof *runs);
    b->seqs = calloc((size_t)b->most_seqs, sizeof *b->seqs);
    di_status status = DI_OK;
    if (!runs || !b->seqs)
        status = di_fail_memory(b->n_contexts * b->n_batches * sizeof *runs, "the benchmark");
    else
        status = run_contexts(b, runs);
    free(runs);
    free(b->seqs);
    return status;
}

static di_status check_batches(bench *b)
{
    for (size_t i = 0; i < b->n_batches; i++) {
        if (b->batches[i] < 1 || b->batches[i] > DI_BENCH_MAX_BATCH)
            return di_fail(DI_ERR_ARGUMENT, "batch: found %lld, wanted 1 to %d",
                           (long long)b->batches[i], DI_BENCH_MAX_BATCH);
        b->most_seqs = di_max_i64(b->most_seqs, b->batches[i]);
    }
    for (size_t i = 0; i < b->n_contexts; i++)
        if (b->contexts[i] < 0)
            return di_fail(DI_ERR_ARGUMENT, "context: found %lld, wanted 0 or more",
                           (long long)b->contexts[i]);
    return DI_OK;
}

di_status di_bench_layers(const di_options *options, const di_bench_layers_options *bench_options,
                          FILE *out)
{
    static const di_bench_layers_options defaults = {.n_layers = 0};
    static const int64_t default_batches[] = {1, 16}, default_contexts[] = {DEFAULT_CONTEXT};
    const di_bench_layers_options *o = bench_options ? bench_options : &defaults;
    if (!out)
        return di_fail(DI_ERR_ARGUMENT, "di_bench_layers: out must not be NULL");
    bench *b = calloc(1, sizeof *b); /* configurations are large */
    if (!b)
        return di_fail_memory(sizeof *b, "a benchmark");
    b->options = o;
    b->batches = o->n_batches ? o->batches : default_batches;
    b->n_batches = o->n_batches ? o->n_batches : 2;
    b->contexts = o->n_contexts ? o->contexts : default_contexts;
    b->n_contexts = o->n_contexts ? o->n_contexts : 1;
    b->seconds = o->seconds > 0.0 ? o->seconds : 3.0;
    b->engine = options ? *options : (di_options){.n_threads = 0};
    b->random = 1;
    b->out = out;
    di_status status = check_batches(b);
    if (status == DI_OK && o->json && !(b->rows = json_array()))
        status = di_fail_memory(sizeof(json_t), "the results");
    if (status == DI_OK)
        status = run_all(b);
    if (status == DI_OK && b->rows)
        status = di_results_write(&b->shape.ceilings, 1, b->rows, o->json);
    json_decref(b->rows);
    di_synthetic_free(&b->synthetic);
    free(b);
    return status;
}
