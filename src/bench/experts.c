/* How fast routed experts come from disk: the reads of a forward pass without its computing. Every
 * byte of the experts of made-up tokens is read by the thread pool, through the weight source that
 * the forward pass uses, after the files were dropped from the page cache. */
#define _GNU_SOURCE /* madvise, posix_fadvise */

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/threads.h"
#include "deepinfer/tools.h"
#include "engine/model.h"
#include "weights/safetensors.h"
#include "weights/weight_source.h"

enum { DEFAULT_TOKENS = 16 };

typedef struct bench {
    const di_model *model;
    const di_bench_experts_options *options;
    int64_t cache_bytes, n_tokens;
    di_pool *pool;
    int32_t *routes;       /* [n_tokens, n_layers, k]: ascending within a layer */
    _Atomic uint64_t sink; /* what was read must be used */
} bench;

/* -------------------------------------------------------------------------------- the routing */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static bool has_id(const int32_t *ids, int64_t n, int32_t id)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static void insert_sorted(int32_t *ids, int64_t n, int32_t id)
{
    for (; n > 0 && ids[n - 1] > id; n--)
        ids[n] = ids[n - 1];
    ids[n] = id;
}

/* Experts of a layer: of each of the last token's, `repeat` percent stay; the rest at random. */
static void draw_layer(const bench *b, uint64_t *state, const int32_t *last, int32_t *ids)
{
    const di_config *c = &b->model->config;
    const int64_t k = c->n_experts_per_tok;
    int64_t n = 0;
    for (int64_t i = 0; last && i < k; i++)
        if (next_random(state) % 100 < (uint64_t)b->options->repeat_percent)
            ids[n++] = last[i];
    while (n < k) {
        const int32_t id = (int32_t)(next_random(state) % (uint64_t)c->n_routed_experts);
        if (!has_id(ids, n, id))
            insert_sorted(ids, n++, id);
    }
}

static void draw_routes(bench *b)
{
    const di_config *c = &b->model->config;
    const int64_t a_token = c->n_layers * c->n_experts_per_tok;
    uint64_t state = b->options->seed ? b->options->seed : 1;
    for (int64_t t = 0; t < b->n_tokens; t++)
        for (int64_t l = 0; l < c->n_layers; l++) {
            int32_t *ids = b->routes + t * a_token + l * c->n_experts_per_tok;
            draw_layer(b, &state, t ? ids - a_token : NULL, ids);
        }
}

/* -------------------------------------------------------------------------------- the reading */

typedef struct read_args {
    bench *bench;
    const uint8_t *data;
} read_args;

/* Items: cache lines. */
static void read_lines(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const read_args *a = args;
    uint64_t sum = 0;
    for (int64_t i = begin; i < end; i++)
        for (int j = 0; j < 8; j++) {
            uint64_t word;
            memcpy(&word, a->data + i * 64 + j * 8, sizeof word);
            sum += word;
        }
    atomic_fetch_add(&a->bench->sink, sum);
}

static int64_t read_expert(bench *b, const di_expert_weights *expert)
{
    const di_qweight *linears[] = {&expert->w1, &expert->w3, &expert->w2};
    int64_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t n = linears[i]->n_out * linears[i]->n_in;
        const read_args codes = {b, linears[i]->codes}, scales = {b, linears[i]->scales};
        di_pool_run(b->pool, read_lines, &codes, n / 2 / 64);
        di_pool_run(b->pool, read_lines, &scales, n / 32 / 64);
        bytes += n / 2 + n / 32;
    }
    return bytes;
}

static di_status read_layer(bench *b, di_weight_source *source, const di_layer_weights *layer,
                            const int32_t *ids, int64_t *bytes)
{
    const int64_t k = b->model->config.n_experts_per_tok;
    const di_expert_weights **experts = calloc((size_t)k, sizeof *experts);
    if (!experts)
        return di_fail_memory((size_t)k * sizeof *experts, "a layer's experts");
    di_status status = DI_OK;
    di_weight_source_ask(source, layer, ids, k);
    for (int64_t at = 0, n = 0; at < k && status == DI_OK; at += n) {
        status = di_weight_source_acquire(source, layer, ids + at, k - at, experts, &n);
        for (int64_t i = 0; status == DI_OK && i < n; i++)
            *bytes += read_expert(b, experts[i]);
        if (status == DI_OK)
            di_weight_source_release(source, layer, ids + at, n);
    }
    free(experts);
    return status;
}

static di_status read_tokens(bench *b, di_weight_source *source, int64_t *bytes)
{
    const di_config *c = &b->model->config;
    for (int64_t t = 0; t < b->n_tokens; t++) {
        if (b->options->go_on && !b->options->go_on(b->options->user))
            return di_fail(DI_ERR_CANCELLED, "bench: interrupted");
        di_weight_source_begin(source);
        for (int64_t l = 0; l < c->n_layers; l++)
            DI_TRY(read_layer(b, source, &b->model->weights->layers[l],
                              b->routes + (t * c->n_layers + l) * c->n_experts_per_tok, bytes));
    }
    return DI_OK;
}

/* Pages that another process has mapped stay. */
static void drop_pages(const di_model *model)
{
    size_t n;
    const di_safetensors *shards = di_weights_shards(model->weights, &n);
    for (size_t i = 0; i < n; i++) {
        const di_mapping *m = &shards[i].mapping;
        (void)madvise((void *)m->data, m->size, MADV_DONTNEED);
        (void)posix_fadvise(m->fd, 0, 0, POSIX_FADV_DONTNEED);
    }
}

/* One line: the tokens from the dropped files, and once more as they are afterwards. */
static di_status run_source(bench *b, const char *name, di_weight_source *source, FILE *out)
{
    drop_pages(b->model);
    for (int round = 0; round < 2; round++) {
        di_weight_stats before, after;
        int64_t bytes = 0;
        di_weight_source_get_stats(source, &before);
        const int64_t from = di_clock_ns();
        DI_TRY(read_tokens(b, source, &bytes));
        const double seconds = (double)(di_clock_ns() - from) * 1e-9;
        di_weight_source_begin(source); /* takes the last pass into the counts */
        di_weight_source_get_stats(source, &after);
        const uint64_t hits = after.n_hits - before.n_hits;
        const uint64_t uses = hits + after.n_misses - before.n_misses;
        const double n = (double)b->n_tokens;
        fprintf(out, "%-22s %-5s %10.2f %8.2f", round ? "" : name, round ? "again" : "first",
                1e3 * seconds / n, (double)bytes / seconds * 1e-9);
        if (source)
            fprintf(out, " %7.1f %12.2f %10.2f\n", uses ? 100.0 * (double)hits / (double)uses : 0.0,
                    (double)(after.bytes_read - before.bytes_read) * 1e-6 / n,
                    (double)(after.wait_ns - before.wait_ns) * 1e-6 / n);
        else
            fprintf(out, " %7s %12s %10s\n", "-", "-", "-");
    }
    return DI_OK;
}

static di_status run_opened(bench *b, const char *name, int64_t cache_bytes, FILE *out)
{
    di_weight_source *source;
    DI_TRY(di_weight_source_open(b->model->weights, cache_bytes, &source));
    const di_status status = run_source(b, name, source, out);
    di_weight_source_close(source);
    return status;
}

/* ------------------------------------------------------------------------------------ the whole */

static di_status run(bench *b, int n_threads, FILE *out)
{
    const di_config *c = &b->model->config;
    const int64_t uses = c->n_layers * c->n_experts_per_tok;
    int64_t slot_bytes;
    DI_TRY(di_weight_cache_slot(b->model->weights, &slot_bytes));
    b->routes = calloc((size_t)(b->n_tokens * uses), sizeof *b->routes);
    if (!b->routes)
        return di_fail_memory((size_t)(b->n_tokens * uses) * sizeof *b->routes, "the routing");
    draw_routes(b);
    DI_TRY(di_pool_create(n_threads, &b->pool));
    fprintf(out,
            "%lld layers, %lld of %lld experts of %.2f MB each: %.1f MB a token; %lld tokens, %d%% "
            "of a token's experts repeat, %d threads\n",
            (long long)c->n_layers, (long long)c->n_experts_per_tok, (long long)c->n_routed_experts,
            (double)slot_bytes * 1e-6, (double)(uses * slot_bytes) * 1e-6, (long long)b->n_tokens,
            b->options->repeat_percent, n_threads);
    fprintf(out, "%-22s %-5s %10s %8s %7s %12s %10s\n", "experts from", "", "ms/token", "GB/s",
            "hits %", "read MB/tok", "wait ms");
    DI_TRY(run_source(b, "mapping, faults", NULL, out));
    DI_TRY(run_opened(b, "mapping, read-ahead", 0, out));
    if (b->cache_bytes)
        DI_TRY(run_opened(b, "weight cache", b->cache_bytes, out));
    return fflush(out) || ferror(out) ? di_fail(DI_ERR_IO, "cannot write the results") : DI_OK;
}

di_status di_bench_experts(di_model *model, const di_options *options,
                           const di_bench_experts_options *given, FILE *out)
{
    static const di_bench_experts_options defaults = {0};
    di_effective_options effective;
    if (!model || !out)
        return di_fail(DI_ERR_ARGUMENT, "di_bench_experts: model and out must not be NULL");
    DI_TRY(di_options_resolve(options, &effective));
    bench b = {.model = model,
               .options = given ? given : &defaults,
               .cache_bytes = effective.weight_cache};
    b.n_tokens = b.options->n_tokens ? b.options->n_tokens : DEFAULT_TOKENS;
    if (b.n_tokens < 1 || b.options->repeat_percent < 0 || b.options->repeat_percent > 100)
        return di_fail(DI_ERR_ARGUMENT, "di_bench_experts: found %lld tokens and %d%% repeated",
                       (long long)b.n_tokens, b.options->repeat_percent);
    const di_status status = run(&b, effective.n_threads, out);
    di_pool_destroy(b.pool);
    free(b.routes);
    return status;
}
