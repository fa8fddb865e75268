#include "bench/ceiling.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "bench/stay.h"

typedef struct loop {
    di_ceiling ceiling;
    di_isa isa;
    int64_t ops; /* of one round */
    di_range_fn fn;
} loop;

static const loop loops[] = {
#define DI_CEILING(ceiling, isa, ops, name)                                                        \
    {DI_CEILING_##ceiling, DI_ISA_##isa, ops, di_ceiling_##name},
#include "bench/ceilings.def"
#undef DI_CEILING
};
enum { N_LOOPS = sizeof loops / sizeof loops[0] };

static const char *const names[DI_N_CEILINGS] = {
    [DI_CEILING_MEMORY] = "memory",     [DI_CEILING_MEMORY_SMALL_PAGES] = "memory, 4 KiB pages",
    [DI_CEILING_CACHE] = "cache",       [DI_CEILING_FMA] = "fma",
    [DI_CEILING_DOT_BF16] = "dot bf16", [DI_CEILING_DOT_INT8] = "dot int8",
    [DI_CEILING_AMX_BF16] = "amx bf16", [DI_CEILING_AMX_INT8] = "amx int8",
};

const char *di_ceiling_name(di_ceiling ceiling)
{
    return names[ceiling];
}

/* Plain C loops only where there is nothing else. */
static bool is_of_level(const loop *l)
{
    return l->isa <= di_cpu_isa() && (l->isa != DI_ISA_REF || di_cpu_isa() == DI_ISA_REF);
}

#if defined(__x86_64__)
static bool is_there(const loop *l)
{
    if (!is_of_level(l))
        return false;
    return l->ceiling != DI_CEILING_DOT_BF16 || di_ceiling_has_dot_bf16();
}
#else
static bool is_there(const loop *l)
{
    return is_of_level(l);
}
#endif

/* Bytes of half an L2 and a power of two, which a worker reads over and over. */
static int64_t cache_part_bytes(void)
{
    const int64_t l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    int64_t bytes = 256 * 1024;
    while (2 * bytes <= l2 / 2)
        bytes *= 2;
    return bytes;
}

/* Seconds of the fastest run of n_items, over about `seconds`, and of at least `least`. */
static double fastest_run(di_pool *pool, di_range_fn fn, const di_ceiling_args *args,
                          int64_t n_items, int least, double seconds)
{
    double best = 0.0;
    const int64_t end = di_clock_ns() + (int64_t)(seconds * 1e9);
    for (int runs = 0; runs < least || di_clock_ns() < end; runs++) {
        const int64_t began = di_clock_ns();
        di_pool_run(pool, fn, args, n_items);
        const double s = (double)(di_clock_ns() - began) * 1e-9;
        if (runs > 0 && (best == 0.0 || s < best)) /* the first one warms up */
            best = s;
    }
    return best;
}

/* Items that take about a 20th of `seconds`, so that a run shorter than a scheduler's slice is
 * among them; a multiple of the threads. */
static int64_t items_for(di_pool *pool, di_range_fn fn, const di_ceiling_args *args, double seconds)
{
    const int64_t n_threads = di_pool_n_threads(pool);
    int64_t n = n_threads;
    while (n < ((int64_t)1 << 40)) {
        const int64_t began = di_clock_ns();
        di_pool_run(pool, fn, args, n);
        if ((double)(di_clock_ns() - began) * 1e-9 >= seconds / 20.0)
            break;
        n *= 2;
    }
    return n;
}

static void take(di_ceilings *out, di_ceiling ceiling, di_isa isa, double rate)
{
    if (rate <= out->rate[ceiling])
        return;
    out->rate[ceiling] = rate;
    out->isa[ceiling] = isa;
}

/* A run through memory is long, and other work on the machine slows it down most. */
enum { MEMORY_RUNS = 8 };

static void measure_read(di_pool *pool, const loop *l, double seconds, const di_bench_memory *large,
                         const di_bench_memory *small, uint64_t *sink, di_ceilings *out)
{
    const int64_t n_threads = di_pool_n_threads(pool);
    const di_bench_memory *const memories[] = {large, small};
    static const di_ceiling ceilings[] = {DI_CEILING_MEMORY, DI_CEILING_MEMORY_SMALL_PAGES};
    for (int i = 0; i < 2; i++) {
        const int64_t n = memories[i]->bytes / DI_CEILING_CHUNK;
        const di_ceiling_args args = {.data = memories[i]->data, .sink = sink};
        const double s = fastest_run(pool, l->fn, &args, n, MEMORY_RUNS, seconds);
        take(out, ceilings[i], l->isa, (double)(n * DI_CEILING_CHUNK) / s);
    }
    di_ceiling_args args = {.data = large->data, .sink = sink};
    const int64_t most = di_min_i64(cache_part_bytes(), large->bytes / n_threads);
    int64_t n_chunks = 1;
    while (2 * n_chunks * DI_CEILING_CHUNK <= most)
        n_chunks *= 2;
    args.part_bytes = n_chunks * DI_CEILING_CHUNK;
    args.chunk_mask = n_chunks - 1;
    const int64_t n = items_for(pool, l->fn, &args, seconds);
    const double s = fastest_run(pool, l->fn, &args, n, 3, seconds);
    take(out, DI_CEILING_CACHE, l->isa, (double)(n * DI_CEILING_CHUNK) / s);
}

static void measure_peak(di_pool *pool, const loop *l, double seconds, uint64_t *sink,
                         di_ceilings *out)
{
    const di_ceiling_args args = {.sink = sink};
    const int64_t n = items_for(pool, l->fn, &args, seconds);
    const double s = fastest_run(pool, l->fn, &args, n, 3, seconds);
    take(out, l->ceiling, l->isa, (double)n * (double)l->ops * DI_CEILING_ROUNDS / s);
}

/* The highest level that reads is the one for memory: the lower ones are not faster. */
static const loop *best_read(void)
{
    const loop *best = NULL;
    for (int i = 0; i < N_LOOPS; i++)
        if (loops[i].ceiling == DI_CEILING_CACHE && is_there(&loops[i]) &&
            (!best || loops[i].isa > best->isa))
            best = &loops[i];
    return best;
}

di_status di_ceilings_measure(di_pool *pool, double seconds, const di_bench_memory *large,
                              const di_bench_memory *small, di_ceilings *out)
{
    const int n_threads = di_pool_n_threads(pool);
    if (large->bytes < (int64_t)n_threads * DI_CEILING_CHUNK)
        return di_fail(DI_ERR_ARGUMENT, "memory: found %lld bytes, wanted %lld for %d threads",
                       (long long)large->bytes, (long long)n_threads * DI_CEILING_CHUNK, n_threads);
    uint64_t *sink = calloc((size_t)n_threads * 8, sizeof *sink);
    if (!sink)
        return di_fail_memory((size_t)n_threads * 8 * sizeof *sink, "the ceilings");
    *out = (di_ceilings){.n_threads = n_threads};
    measure_read(pool, best_read(), seconds, large, small, sink, out);
    for (int i = 0; i < N_LOOPS; i++)
        if (loops[i].ceiling != DI_CEILING_CACHE && is_there(&loops[i]))
            measure_peak(pool, &loops[i], seconds, sink, out);
    free(sink);
    return DI_OK;
}

static void print_line(const di_ceilings *c, FILE *out)
{
    fprintf(out, "ceilings, %d thread%s:", c->n_threads, c->n_threads == 1 ? "" : "s");
    for (int i = 0; i < DI_N_CEILINGS; i++) {
        if (c->rate[i] == 0.0)
            continue;
        const bool is_bytes = i <= (int)DI_CEILING_CACHE;
        fprintf(out, "%s %s %.1f %s", i ? "," : "", di_ceiling_name((di_ceiling)i),
                c->rate[i] * 1e-9, is_bytes ? "GB/s" : "Gop/s");
    }
    fputs(c->is_pinned ? "; pinned\n" : "\n", out);
}

di_status di_ceilings_of_teams(const di_team *teams, int n, int64_t bytes, double seconds,
                               FILE *out, di_ceilings *ceilings)
{
    di_bench_memory large = {.data = NULL}, small = {.data = NULL};
    di_status status = di_bench_memory_new(bytes, DI_PAGES_LARGE, &large);
    if (status == DI_OK)
        status = di_bench_memory_new(bytes, DI_PAGES_SMALL, &small);
    if (status == DI_OK) {
        di_bench_fill_codes(large.data, bytes, 0);
        di_bench_fill_codes(small.data, bytes, 0);
    }
    for (int i = 0; status == DI_OK && i < n; i++) {
        di_bench_stay stay;
        di_bench_stay_begin(&teams[i], &stay);
        status = di_ceilings_measure(teams[i].pool, seconds, &large, &small, &ceilings[i]);
        ceilings[i].is_pinned = teams[i].is_pinned;
        di_bench_stay_end(&stay);
        if (status == DI_OK)
            print_line(&ceilings[i], out);
    }
    di_bench_memory_free(&large);
    di_bench_memory_free(&small);
    return status;
}
