#include "bench/device.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/threads.h"
#include "bench/cases.h"
#include "bench/cost.h"
#include "bench/device_compare.h"
#include "bench/timing.h"
#include "device/device.h"
#include "kernels/device_kernel.h"
#include "kernels/device_mirror.h"
#include "model/internal.h"

enum { MOST_CALLS = 96, MOST_SAMPLES = 64, CACHES = 4 };

typedef struct bench {
    const di_bench_kernels_options *options;
    di_kernel_mask mask;
    bool is_invariant;
    double seconds;
    FILE *out;
    json_t *rows; /* NULL: not wanted */
    di_device *device;
    di_stream stream;
    di_event begin, end;
    di_pool *pool;
    di_bench_cases cases;
    di_mirror weights;         /* of the cases' weights and scales, which all share */
    di_bench_memory copied[2]; /* what they are copies of */
    double copy_rate;          /* bytes read and written a second by a copy on the device */
    int n_wrong;
} bench;

/* ----------------------------------------------------------------------------------- the ceiling
 */

static di_status time_between(bench *b, double *seconds)
{
    DI_TRY(di_event_wait(b->end));
    return di_event_seconds(b->begin, b->end, seconds);
}

static di_status measure_copies(bench *b)
{
    enum { ROUNDS = 12 };
    const size_t bytes = (size_t)1 << 30;
    di_region from = {NULL}, to = {NULL};
    double best = 1e9, seconds;
    di_status status = di_region_create(b->device, DI_MEMORY_DEVICE, bytes, "a ceiling", &from);
    if (status == DI_OK)
        status = di_region_create(b->device, DI_MEMORY_DEVICE, bytes, "a ceiling", &to);
    if (status == DI_OK)
        status = di_stream_fill(b->stream, from.data, 0x5a, bytes);
    for (int i = 0; i < ROUNDS && status == DI_OK; i++) {
        status = di_event_record(b->begin, b->stream);
        if (status == DI_OK)
            status = di_stream_copy(b->stream, to.data, from.data, bytes);
        if (status == DI_OK)
            status = di_event_record(b->end, b->stream);
        if (status == DI_OK)
            status = time_between(b, &seconds);
        if (status == DI_OK && seconds < best)
            best = seconds;
    }
    di_region_free(&from);
    di_region_free(&to);
    b->copy_rate = 2.0 * (double)bytes / best;
    return status;
}

/* ------------------------------------------------------------------------------------- a row */

typedef struct row {
    const di_bench_case *at;
    const di_device_kernel *kernel;
    bool is_chosen;
    unsigned char *args; /* [n_turns] translated, DI_MIRROR_ARGS_BYTES each */
    int64_t n_turns;     /* that are used */
    double median, minimum, bytes, flops;
    int64_t n_calls;
    di_bench_difference difference;
} row;

static int64_t items_of(const di_bench_case *c, int64_t turn)
{
    return c->turn_items ? c->turn_items[turn] : c->n_items;
}

static di_status launch(const bench *b, const row *r, int64_t turn)
{
    return r->kernel->launch(r->args + (size_t)turn * DI_MIRROR_ARGS_BYTES, items_of(r->at, turn),
                             b->stream);
}

static di_status launch_calls(const bench *b, const row *r, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        DI_TRY(launch(b, r, i % r->n_turns));
    return DI_OK;
}

/* One graph of n calls, again and again. */
static di_status time_graph(bench *b, row *r, di_graph graph, int64_t n)
{
    double samples[MOST_SAMPLES], total = 0.0;
    size_t n_samples = 0;
    for (int i = -1; i < MOST_SAMPLES && (i < 5 || total < b->seconds); i++) {
        double seconds;
        DI_TRY(di_event_record(b->begin, b->stream));
        DI_TRY(di_graph_launch(graph, b->stream));
        DI_TRY(di_event_record(b->end, b->stream));
        DI_TRY(time_between(b, &seconds));
        if (i < 0) /* the first brings the code and the weights' pages */
            continue;
        samples[n_samples++] = seconds / (double)n;
        total += seconds;
    }
    r->median = di_timing_median(samples, n_samples);
    r->minimum = samples[0];
    r->n_calls = n * (int64_t)n_samples;
    return DI_OK;
}

static di_status time_calls(bench *b, row *r)
{
    double first;
    DI_TRY(di_event_record(b->begin, b->stream));
    DI_TRY(launch(b, r, 0));
    DI_TRY(di_event_record(b->end, b->stream));
    DI_TRY(time_between(b, &first));
    const double most = 0.01 / (first > 1e-7 ? first : 1e-7);
    const int64_t n = most > MOST_CALLS ? MOST_CALLS : most < 2 ? 2 : (int64_t)most;
    di_graph graph = NULL;
    DI_TRY(di_graph_begin(b->stream));
    const di_status launched = launch_calls(b, r, n);
    const di_status ended = di_graph_end(b->stream, &graph);
    di_status status = launched != DI_OK ? launched : ended;
    if (status == DI_OK)
        status = time_graph(b, r, graph, n);
    di_graph_destroy(graph);
    return status;
}

/* Of the turns, which may differ, the mean. */
static void count_work(row *r)
{
    for (int64_t i = 0; i < r->n_turns; i++) {
        const di_bench_cost c =
            di_bench_cost_of(r->at->op, r->at->args + (size_t)i * r->at->args_bytes, r->at->n_rows);
        r->bytes += (c.memory_bytes + c.cache_bytes) / (double)r->n_turns;
        r->flops += c.flops / (double)r->n_turns;
    }
}

static void print_row(const bench *b, const row *r)
{
    static const char *const classes[] = {"exact", "reorder", "lowp"};
    char tflops[16] = "-";
    if (r->flops > 0.0)
        snprintf(tflops, sizeof tflops, "%.2f", r->flops / r->median * 1e-12);
    fprintf(b->out, "%c %-16s %-34s %-8s %-8s %-9s %10.2f %10.2f %9.1f %9s %6.1f\n",
            r->is_chosen ? '*' : ' ', di_op_name(r->at->op), r->at->shape, r->kernel->name,
            classes[r->kernel->numerics], r->difference.text, r->median * 1e6, r->minimum * 1e6,
            r->bytes / r->median * 1e-9, tflops, 100.0 * r->bytes / b->copy_rate / r->median);
    fflush(b->out);
}

static di_status add_json(const bench *b, const row *r)
{
    if (!b->rows)
        return DI_OK;
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:b, s:s, s:f, s:f, s:I, s:f, s:f, s:f}", "operation",
                  di_op_name(r->at->op), "shape", r->at->shape, "kernel", r->kernel->name, "chosen",
                  r->is_chosen, "difference", r->difference.text, "median_seconds", r->median,
                  "min_seconds", r->minimum, "calls", (json_int_t)r->n_calls, "bytes", r->bytes,
                  "flops", r->flops, "copy_rate", b->copy_rate);
    if (!object || json_array_append_new(b->rows, object) != 0)
        return di_fail_memory(sizeof(json_t), "a result");
    return DI_OK;
}

/* -------------------------------------------------------------------------------------- a case */

static bool is_same(const di_bench_memory *a, const di_bench_memory *b)
{
    return a->data == b->data && a->bytes == b->bytes;
}

/* Weights and scales are copied when they are made, the case's own memory for each case. */
static di_status mirror_case(bench *b, di_mirror *own)
{
    const di_bench_memory *w = &b->cases.weights, *s = &b->cases.scales;
    if (!is_same(w, &b->copied[0]) || !is_same(s, &b->copied[1])) {
        di_mirror_free(&b->weights);
        if (w->data)
            DI_TRY(di_mirror_add(&b->weights, w->data, (size_t)w->bytes));
        if (s->data)
            DI_TRY(di_mirror_add(&b->weights, s->data, (size_t)s->bytes));
        b->copied[0] = *w;
        b->copied[1] = *s;
    }
    for (size_t i = 0; i < b->weights.n_parts; i++)
        DI_TRY(di_mirror_lend(own, &b->weights.parts[i]));
    if (b->cases.store.data)
        DI_TRY(di_mirror_add(own, b->cases.store.data, (size_t)b->cases.store.bytes));
    return di_mirror_add_arena(own, &b->cases.arena);
}

static di_status translate_turns(const di_bench_case *c, di_mirror *own, int64_t n_turns,
                                 unsigned char *args)
{
    for (int64_t i = 0; i < n_turns; i++)
        DI_TRY(di_mirror_args(own, c->op, c->args + (size_t)i * c->args_bytes, c->args_bytes,
                              c->n_rows, args + (size_t)i * DI_MIRROR_ARGS_BYTES));
    return DI_OK;
}

/* The first turn on the device, and on the host by its best exact kernel. */
static di_status compare_first(bench *b, row *r, di_mirror *own)
{
    const di_bench_case *c = r->at;
    const di_kernel_mask all = {.max_isa = di_cpu_isa()};
    const di_kernel *host = di_kernel_select(c->op, DI_WIDTH_ANY, true, &all);
    DI_TRY(launch(b, r, 0));
    DI_TRY(di_stream_wait(b->stream));
    di_pool_run(b->pool, host->fn, c->args, items_of(c, 0));
    DI_TRY(di_bench_device_compare(c, r->kernel->numerics, own, &r->difference));
    b->n_wrong += r->difference.is_wrong;
    return DI_OK;
}

static di_status run_kernel(bench *b, row *r)
{
    di_mirror own = {.device = b->device, .stream = b->stream};
    const int64_t n_turns = di_min_i64(r->at->n_turns, MOST_CALLS);
    r->n_turns = n_turns;
    r->args = malloc((size_t)n_turns * DI_MIRROR_ARGS_BYTES);
    if (!r->args)
        return di_fail_memory((size_t)n_turns * DI_MIRROR_ARGS_BYTES, "a benchmark's calls");
    di_status status = mirror_case(b, &own);
    if (status == DI_OK)
        status = translate_turns(r->at, &own, n_turns, r->args);
    if (status == DI_OK)
        status = compare_first(b, r, &own);
    if (status == DI_OK)
        status = time_calls(b, r);
    di_mirror_free(&own);
    free(r->args);
    return status;
}

static bool is_wanted(const bench *b, const di_device_kernel *k, const di_bench_case *c)
{
    if (k->op != c->op || !di_device_kernel_runs_on(k, di_device_info_of(b->device)->capability))
        return false;
    if (b->mask.forced[c->op])
        return strcmp(b->mask.forced[c->op], k->name) == 0;
    return k->width != DI_WIDTH_WIDE || c->n_rows >= DI_WIDE_ROWS;
}

static di_status run_case(void *user, const di_bench_case *c)
{
    bench *b = user;
    const di_kernel_width width = c->n_rows >= DI_WIDE_ROWS ? DI_WIDTH_WIDE : DI_WIDTH_ANY;
    const di_device_kernel *chosen = di_device_kernel_select(
        c->op, width, b->is_invariant, di_device_info_of(b->device)->capability, &b->mask);
    for (int i = 0; i < di_n_device_kernels; i++) {
        if (!is_wanted(b, &di_device_kernels[i], c))
            continue;
        if (b->options->go_on && !b->options->go_on(b->options->user))
            return di_fail(DI_ERR_CANCELLED, "the benchmark was stopped");
        row r = {
            .at = c, .kernel = &di_device_kernels[i], .is_chosen = &di_device_kernels[i] == chosen};
        DI_TRY(run_kernel(b, &r));
        count_work(&r);
        print_row(b, &r);
        DI_TRY(add_json(b, &r));
    }
    return DI_OK;
}

/* ------------------------------------------------------------------------------- the whole run */

static di_status start(bench *b, const di_effective_options *effective)
{
    int index;
    DI_TRY(di_device_parse(b->options->device, &index));
    DI_TRY(di_device_open(index, (int64_t)4 << 30, &b->device));
    DI_TRY(di_stream_create(b->device, &b->stream));
    DI_TRY(di_event_create(b->device, &b->begin));
    DI_TRY(di_event_create(b->device, &b->end));
    b->weights = (di_mirror){.device = b->device, .stream = b->stream};
    DI_TRY(di_pool_create(effective->n_threads, &b->pool));
    b->cases.max_threads = effective->n_threads;
    b->cases.scratch_bytes = di_worker_scratch_bytes(b->cases.config);
    b->cases.scratch = aligned_alloc(64, (size_t)(b->cases.scratch_bytes * effective->n_threads));
    if (!b->cases.scratch)
        return di_fail_memory(b->cases.scratch_bytes, "the host's kernels");
    if (b->cases.rotation_bytes == 0)
        b->cases.rotation_bytes = CACHES * di_device_info_of(b->device)->l2_bytes;
    return DI_OK;
}

static di_status run_all(bench *b, int only)
{
    const di_device_info *d = di_device_info_of(b->device);
    DI_TRY(measure_copies(b));
    fprintf(b->out,
            "%s, compute capability %d.%d, %d processors; copies within its memory: %.0f GB/s read "
            "and written\nweights go through %.0f MiB; %%: of that rate\n\n"
            "  %-16s %-34s %-8s %-8s %-9s %10s %10s %9s %9s %6s\n",
            d->name, d->capability / 10, d->capability % 10, d->n_processors, b->copy_rate * 1e-9,
            (double)b->cases.rotation_bytes / 0x1p20, "operation", "shape", "kernel", "numerics",
            "result", "median us", "min us", "GB/s", "TFLOP/s", "%");
    for (int op = 0; op < DI_N_OPS; op++)
        if (only < 0 || only == op)
            DI_TRY(di_bench_cases_run(&b->cases, (di_op)op));
    if (b->n_wrong > 0)
        return di_fail(DI_ERR_RUNTIME, "results of %d rows differ from the host's", b->n_wrong);
    return DI_OK;
}

static void stop(bench *b)
{
    di_bench_cases_free(&b->cases);
    di_mirror_free(&b->weights);
    free(b->cases.scratch);
    di_pool_destroy(b->pool);
    di_event_destroy(b->begin);
    di_event_destroy(b->end);
    di_stream_destroy(b->stream);
    di_device_close(b->device);
}

di_status di_bench_device(const di_bench_kernels_options *options,
                          const di_effective_options *effective, const di_config *config, int only,
                          FILE *out)
{
    bench b = {.options = options, .out = out};
    DI_TRY(di_device_mask_parse(effective->kernels, &b.mask));
    b.is_invariant = effective->is_batch_invariant;
    b.seconds = options->seconds > 0.0 ? options->seconds : 0.05;
    b.cases = (di_bench_cases){.config = config,
                               .rotation_bytes = options->memory_bytes,
                               .pages = options->has_small_pages ? DI_PAGES_SMALL : DI_PAGES_LARGE,
                               .emit = run_case,
                               .user = &b};
    if (options->json && !(b.rows = json_array()))
        return di_fail_memory(sizeof(json_t), "the results");
    di_status status = start(&b, effective);
    if (status == DI_OK)
        status = run_all(&b, only);
    if (b.rows && status == DI_OK &&
        json_dumpf(b.rows, options->json, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0)
        status = di_fail(DI_ERR_IO, "cannot write the results");
    json_decref(b.rows);
    stop(&b);
    return status;
}
