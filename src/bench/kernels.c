/* deepinfer bench kernels. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/options.h"
#include "bench/cases.h"
#include "bench/cost.h"
#include "bench/device.h"
#include "bench/machine.h"
#include "bench/results.h"
#include "bench/sampler.h"
#include "bench/shape.h"
#include "bench/stay.h"
#include "bench/timing.h"
#include "deepinfer/tools.h"
#include "model/internal.h"

enum { MAX_THREAD_COUNTS = 16 };

typedef struct runner {
    const di_bench_kernels_options *options;
    di_kernel_mask mask;
    bool is_invariant;
    double seconds;
    double sampler_bytes; /* of a row of logits */
    int n_counts;
    di_team teams[MAX_THREAD_COUNTS];
    di_ceilings ceilings[MAX_THREAD_COUNTS];
    FILE *out;
    json_t *rows; /* NULL: not wanted */
} runner;

typedef struct row {
    const char *op, *shape, *kernel;
    di_isa isa;
    bool is_chosen;
    int n_threads;
    di_timing timing;
    di_bench_cost cost;
    di_ceiling bound;
    double floor; /* seconds */
} row;

/* -------------------------------------------------------------------------------------- a row */

typedef struct call {
    const di_bench_case *bench_case;
    const di_kernel *kernel;
    di_pool *pool;
} call;

static void run_turn(void *user, int64_t i)
{
    const call *c = user;
    const di_bench_case *b = c->bench_case;
    const int64_t turn = i % b->n_turns;
    const int64_t n_items = b->turn_items ? b->turn_items[turn] : b->n_items;
    di_pool_run(c->pool, c->kernel->fn, b->args + (size_t)turn * b->args_bytes, n_items);
}

/* Of the turns, which may differ, the mean. */
static di_bench_cost mean_cost(const di_bench_case *b)
{
    di_bench_cost sum = {0};
    for (int64_t i = 0; i < b->n_turns; i++) {
        const di_bench_cost c =
            di_bench_cost_of(b->op, b->args + (size_t)i * b->args_bytes, b->n_rows);
        sum.memory_bytes += c.memory_bytes;
        sum.cache_bytes += c.cache_bytes;
        sum.flops += c.flops;
    }
    const double n = (double)b->n_turns;
    return (di_bench_cost){sum.memory_bytes / n, sum.cache_bytes / n, sum.flops / n};
}

static double moved_bytes(const di_bench_cost *c)
{
    return c->memory_bytes > 0.0 ? c->memory_bytes : c->cache_bytes;
}

static void print_row(const runner *r, const row *x)
{
    const double t = x->timing.median;
    char gflops[16] = "-";
    if (x->cost.flops > 0.0)
        snprintf(gflops, sizeof gflops, "%.1f", x->cost.flops / t * 1e-9);
    fprintf(r->out, "%c %-16s %-32s %-10s %2d %11.2f %11.2f %8.2f %8s %6.1f %6.1f  %s\n",
            x->is_chosen ? '*' : ' ', x->op, x->shape, x->kernel, x->n_threads, t * 1e6,
            x->timing.minimum * 1e6, moved_bytes(&x->cost) / t * 1e-9, gflops, 100.0 * x->floor / t,
            100.0 * x->floor / x->timing.minimum, di_ceiling_name(x->bound));
    fflush(r->out);
}

static di_status add_json(const runner *r, const row *x)
{
    if (!r->rows)
        return DI_OK;
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s, s:b, s:i, s:f, s:f, s:I, s:f, s:f, s:f, s:s, s:f}", "operation",
        x->op, "shape", x->shape, "kernel", x->kernel, "isa", di_isa_name(x->isa), "chosen",
        x->is_chosen, "threads", x->n_threads, "median_seconds", x->timing.median, "min_seconds",
        x->timing.minimum, "calls", (json_int_t)x->timing.n_calls, "memory_bytes",
        x->cost.memory_bytes, "cache_bytes", x->cost.cache_bytes, "flops", x->cost.flops, "bound",
        di_ceiling_name(x->bound), "floor_seconds", x->floor);
    if (!object || json_array_append_new(r->rows, object) != 0)
        return di_fail_memory(sizeof(json_t), "a result");
    return DI_OK;
}

static di_status check_going_on(const runner *r)
{
    const di_bench_kernels_options *o = r->options;
    if (o->go_on && !o->go_on(o->user))
        return di_fail(DI_ERR_CANCELLED, "the benchmark was stopped");
    return DI_OK;
}

static di_status measure(const runner *r, const di_bench_case *b, const di_kernel *kernel,
                         bool is_chosen)
{
    for (int i = 0; i < r->n_counts; i++) {
        DI_TRY(check_going_on(r));
        call c = {b, kernel, r->teams[i].pool};
        row x = {.op = di_op_name(b->op),
                 .shape = b->shape,
                 .kernel = kernel->name,
                 .isa = kernel->isa,
                 .is_chosen = is_chosen,
                 .n_threads = r->teams[i].n_workers,
                 .cost = mean_cost(b)};
        di_bench_stay stay;
        di_bench_stay_begin(&r->teams[i], &stay);
        di_timing_run(run_turn, &c, r->seconds, &x.timing);
        di_bench_stay_end(&stay);
        x.bound = di_bench_bound(b->op, &x.cost, kernel->isa, &r->ceilings[i], &x.floor);
        print_row(r, &x);
        DI_TRY(add_json(r, &x));
    }
    return DI_OK;
}

/* The sampler reads each logit at least once, on one thread. */
static di_status take_sampler(void *user, const char *shape, const di_timing *timing)
{
    const runner *r = user;
    DI_TRY(check_going_on(r));
    if (r->options->is_list) {
        fprintf(r->out, "  %-16s %s\n", DI_BENCH_SAMPLER, shape);
        return DI_OK;
    }
    const di_ceilings *c = &r->ceilings[0];
    const row x = {
        .op = DI_BENCH_SAMPLER,
        .shape = shape,
        .kernel = "-",
        .is_chosen = true,
        .n_threads = 1,
        .timing = *timing,
        .cost.cache_bytes = r->sampler_bytes,
        .bound = DI_CEILING_CACHE,
        .floor = r->sampler_bytes / c->rate[DI_CEILING_CACHE] * c->n_threads,
    };
    print_row(r, &x);
    return add_json(r, &x);
}

/* ---------------------------------------------------------------------------------- which rows */

static bool can_run(const runner *r, const di_kernel *k, const di_bench_case *b)
{
    const char *forced = r->mask.forced[b->op];
    if (k->op != b->op || !di_kernel_is_usable(k))
        return false;
    if (forced)
        return strcmp(forced, k->name) == 0;
    if (!di_isa_includes(r->mask.max_isa, k->isa))
        return false;
    return k->width != DI_WIDTH_WIDE || b->n_rows >= DI_WIDE_ROWS;
}

/* The reference is slow, and only there where nothing else is. */
static bool is_wanted(const runner *r, const di_kernel *k, const di_bench_case *b)
{
    if (!can_run(r, k, b))
        return false;
    if (k->isa != DI_ISA_REF || r->options->has_references || r->mask.forced[b->op])
        return true;
    for (int i = 0; i < di_n_kernels; i++)
        if (di_kernels[i].isa != DI_ISA_REF && can_run(r, &di_kernels[i], b))
            return false;
    return true;
}

static di_status run_case(void *user, const di_bench_case *b)
{
    const runner *r = user;
    if (r->options->is_list) {
        fprintf(r->out, "  %-16s %s\n", di_op_name(b->op), b->shape);
        return DI_OK;
    }
    const di_kernel_width width = b->n_rows >= DI_WIDE_ROWS ? DI_WIDTH_WIDE : DI_WIDTH_ANY;
    const di_kernel *chosen = di_kernel_select(b->op, width, r->is_invariant, &r->mask);
    for (int i = 0; i < di_n_kernels; i++)
        if (is_wanted(r, &di_kernels[i], b))
            DI_TRY(measure(r, b, &di_kernels[i], &di_kernels[i] == chosen));
    return DI_OK;
}

/* ------------------------------------------------------------------------------- the whole run */

static di_status find_op(const char *name, int *out)
{
    for (int op = 0; op < DI_N_OPS; op++) {
        if (strcmp(di_op_name((di_op)op), name) == 0) {
            *out = op;
            return DI_OK;
        }
    }
    if (strcmp(name, DI_BENCH_SAMPLER) == 0) {
        *out = DI_N_OPS;
        return DI_OK;
    }
    return di_fail(DI_ERR_ARGUMENT,
                   "op: found \"%s\", wanted one of the operations that `deepinfer kernels` lists, "
                   "or %s",
                   name, DI_BENCH_SAMPLER);
}

/* Teams as engines with so many threads would have them. */
static di_status make_teams(runner *r, const di_effective_options *effective)
{
    const di_bench_kernels_options *o = r->options;
    const int both[] = {1, effective->n_threads};
    const int *counts = o->n_thread_counts ? o->thread_counts : both;
    const size_t n = o->n_thread_counts ? o->n_thread_counts : effective->n_threads == 1 ? 1 : 2;
    if (n > MAX_THREAD_COUNTS)
        return di_fail(DI_ERR_ARGUMENT, "threads: found %zu counts, wanted at most %d", n,
                       MAX_THREAD_COUNTS);
    for (size_t i = 0; i < n; i++) {
        di_effective_options options = *effective;
        options.n_threads = counts[i];
        DI_TRY(di_team_create(&options, NULL, &r->teams[i]));
        r->n_counts++;
    }
    return DI_OK;
}

static di_status make_scratch(runner *r, di_bench_cases *cases, di_arena *arena)
{
    char *scratch;
    for (int i = 0; i < r->n_counts; i++)
        cases->max_threads = (int)di_max_i64(cases->max_threads, r->teams[i].n_workers);
    cases->scratch_bytes = di_worker_scratch_bytes(cases->config);
    DI_TRY(DI_ARENA_NEW(arena, (size_t)(cases->scratch_bytes * cases->max_threads), &scratch));
    cases->scratch = scratch;
    return DI_OK;
}

static di_status run_all(runner *r, di_bench_cases *cases, int only)
{
    if (!r->options->is_list) {
        di_machine_print(r->out);
        DI_TRY(di_ceilings_of_teams(r->teams, r->n_counts, cases->rotation_bytes, r->seconds,
                                    r->out, r->ceilings));
        fprintf(r->out,
                "weights go through %.0f MiB; %%: of the bound, by median and by minimum\n\n"
                "  %-16s %-32s %-10s %2s %11s %11s %8s %8s %6s %6s  %s\n",
                (double)cases->rotation_bytes / 0x1p20, "operation", "shape", "kernel", "T",
                "median us", "min us", "GB/s", "GFLOP/s", "%", "% min", "bound");
    }
    for (int op = 0; op < DI_N_OPS; op++)
        if (only < 0 || only == op)
            DI_TRY(di_bench_cases_run(cases, (di_op)op));
    if (only >= 0 && only != DI_N_OPS)
        return DI_OK;
    r->sampler_bytes = (double)sizeof(float) * (double)cases->config->vocab_size;
    return di_bench_sampler_run(cases->config, r->options->is_list ? 0.0 : r->seconds, take_sampler,
                                r);
}

static di_status start(runner *r, const di_effective_options *effective, const di_config *config,
                       int only)
{
    di_arena arena = {.chunk_bytes = 0};
    di_bench_cases cases = {
        .config = config,
        .rotation_bytes =
            r->options->memory_bytes ? r->options->memory_bytes : di_machine_rotation_bytes(),
        .pages = r->options->has_small_pages ? DI_PAGES_SMALL : DI_PAGES_LARGE,
        .is_dry = r->options->is_list,
        .emit = run_case,
        .user = r,
    };
    di_status status = make_teams(r, effective);
    if (status == DI_OK)
        status = make_scratch(r, &cases, &arena);
    if (status == DI_OK)
        status = run_all(r, &cases, only);
    if (status == DI_OK && r->rows)
        status = di_results_write(r->ceilings, r->n_counts, r->rows, r->options->json);
    di_bench_cases_free(&cases);
    di_arena_free(&arena);
    for (int i = 0; i < r->n_counts; i++)
        di_team_free(&r->teams[i]);
    return status;
}

di_status di_bench_kernels(const di_options *options, const di_bench_kernels_options *bench,
                           FILE *out)
{
    static const di_bench_kernels_options defaults = {.op = NULL};
    runner r = {.options = bench ? bench : &defaults, .out = out};
    di_effective_options effective;
    di_config config;
    int only = -1;
    if (!out)
        return di_fail(DI_ERR_ARGUMENT, "di_bench_kernels: out must not be NULL");
    DI_TRY(di_options_resolve(options, &effective));
    if (r.options->op)
        DI_TRY(find_op(r.options->op, &only));
    DI_TRY(di_shape_load(r.options->config, &config));
    if (r.options->device && !r.options->is_list)
        return di_bench_device(r.options, &effective, &config, only, out);
    DI_TRY(di_kernel_mask_parse(effective.isa, effective.kernels, &r.mask));
    r.is_invariant = effective.is_batch_invariant;
    r.seconds = r.options->seconds > 0.0 ? r.options->seconds : 0.3;
    if (r.options->json && !(r.rows = json_array()))
        return di_fail_memory(sizeof(json_t), "the results");
    const di_status status = start(&r, &effective, &config, only);
    json_decref(r.rows);
    return status;
}
