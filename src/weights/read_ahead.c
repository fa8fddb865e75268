#define _GNU_SOURCE /* preadv2, madvise */

#include "weights/read_ahead.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "base/checked.h"
#include "weights/expert_place.h"

enum {
    N_THREADS = 4,
    CAPACITY = 8192,       /* jobs; what comes beyond is left to page faults */
    ASK_BYTES = 128 << 10, /* some kernels read no more of one request */
    N_PROBES = 16,         /* pages of a range that are looked at */
    ROWS_PER_JOB = 64,
    COLD_PASSES = 16 /* passes without a read after which rows are taken to be resident */
};

/* The rows of one table that a pass asked for: written when no job is left. */
typedef struct row_list {
    const di_engram_weights *table;
    int64_t *rows; /* [n], room for cap */
    size_t n, cap;
    _Atomic int n_jobs;
} row_list;

struct di_read_ahead {
    const di_weights *weights;
    di_io_pool *pool;
    uint32_t *known; /* [experts]: resident as far as known, if it equals epoch */
    uint32_t epoch;  /* counts passes that read from disk, from 1 */
    int n_cold;      /* passes for which rows are asked for, with this one */
    long n_faults, n_blocks;
    row_list lists[DI_MAX_ENGRAM_LAYERS];
    _Atomic uint64_t n_resident, n_asked, bytes_read;
};

/* ------------------------------------------------------------------------------------ the jobs */

static void ask_range(const void *data, int64_t bytes)
{
    const uintptr_t begin = (uintptr_t)data / DI_IO_ALIGN * DI_IO_ALIGN;
    const uintptr_t end = (uintptr_t)data + (uintptr_t)bytes;
    for (uintptr_t at = begin; at < end; at += ASK_BYTES) {
        const size_t n = end - at < ASK_BYTES ? end - at : ASK_BYTES;
        (void)madvise((void *)at, n, MADV_WILLNEED); /* advice: a refusal is a later page fault */
    }
}

/* Whether some pages of a range are in memory, as far as can be told without reading any. */
static bool is_resident(const di_expert_range *range)
{
    const int64_t stride = di_max_i64(DI_IO_ALIGN, range->wanted / N_PROBES);
    for (int64_t at = 0; at < range->wanted; at += stride) {
        char byte;
        const struct iovec to = {&byte, 1};
        if (preadv2(range->shard->mapping.fd, &to, 1, range->offset + at, RWF_NOWAIT) != 1)
            return false;
    }
    return true;
}

static void ask_expert(void *user, int64_t number, int64_t unused)
{
    (void)unused;
    di_read_ahead *ahead = user;
    di_expert_place place;
    bool is_missing = false;
    if (di_expert_place_find(ahead->weights, number, &place) != DI_OK)
        return; /* not in a file: nothing to read */
    for (int i = 0; i < place.n_ranges; i++) {
        const di_expert_range *range = &place.ranges[i];
        if (is_resident(range))
            continue;
        is_missing = true;
        ask_range(range->shard->mapping.data + range->offset, range->wanted);
    }
    atomic_fetch_add(is_missing ? &ahead->n_asked : &ahead->n_resident, 1);
}

static void ask_rows(void *user, int64_t index, int64_t first)
{
    di_read_ahead *ahead = user;
    row_list *list = &ahead->lists[index];
    const di_engram_weights *t = list->table;
    const int64_t last = di_min_i64(first + ROWS_PER_JOB, (int64_t)list->n);
    for (int64_t i = first; i < last; i++) {
        ask_range(t->codes + list->rows[i] * t->head_dim, t->head_dim);
        ask_range(t->scales + list->rows[i] * (t->head_dim / 32), t->head_dim / 32);
    }
    atomic_fetch_sub(&list->n_jobs, 1);
}

/* ---------------------------------------------------------------------------------------- life */

/* Without this a fault on one row reads all that lies around it. */
static void advise_random(const uint8_t *data, int64_t bytes)
{
    const uintptr_t begin = ((uintptr_t)data + DI_IO_ALIGN - 1) / DI_IO_ALIGN * DI_IO_ALIGN;
    const uintptr_t end = ((uintptr_t)data + (uintptr_t)bytes) / DI_IO_ALIGN * DI_IO_ALIGN;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_RANDOM);
}

static void init_tables(di_read_ahead *ahead)
{
    const di_config *c = &ahead->weights->config;
    for (int i = 0; i < c->n_engram_layers; i++) {
        const di_engram_weights *t = ahead->weights->layers[c->engram_layer_ids[i]].engram;
        ahead->lists[i].table = t;
        advise_random(t->codes, t->n_rows * t->head_dim);
        advise_random(t->scales, t->n_rows * (t->head_dim / 32));
    }
}

di_status di_read_ahead_create(const di_weights *weights, di_read_ahead **out)
{
    di_read_ahead *ahead = calloc(1, sizeof *ahead);
    if (!ahead)
        return di_fail_memory(sizeof *ahead, "the read-ahead");
    ahead->weights = weights;
    ahead->n_cold = COLD_PASSES;
    const size_t n = (size_t)di_experts_count(weights);
    ahead->known = calloc(n + 1, sizeof *ahead->known);
    di_status status = ahead->known ? di_io_pool_create(N_THREADS, CAPACITY, &ahead->pool)
                                    : di_fail_memory(n * sizeof *ahead->known, "the read-ahead");
    if (status != DI_OK) {
        di_read_ahead_destroy(ahead);
        return status;
    }
    init_tables(ahead);
    *out = ahead;
    return DI_OK;
}

void di_read_ahead_destroy(di_read_ahead *ahead)
{
    if (!ahead)
        return;
    di_io_pool_destroy(ahead->pool);
    for (int i = 0; i < DI_MAX_ENGRAM_LAYERS; i++)
        free(ahead->lists[i].rows);
    free(ahead->known);
    free(ahead);
}

/* -------------------------------------------------------------------------------------- a pass */

void di_read_ahead_begin(di_read_ahead *ahead)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return;
    const long n_blocks = usage.ru_inblock - ahead->n_blocks;
    const bool is_first = ahead->epoch == 0;
    if (is_first || n_blocks > 0 || usage.ru_majflt != ahead->n_faults) {
        ahead->epoch++;
        ahead->n_cold = COLD_PASSES;
    } else if (ahead->n_cold > 0) {
        ahead->n_cold--;
    }
    if (!is_first)
        atomic_fetch_add(&ahead->bytes_read, (uint64_t)n_blocks * 512);
    ahead->n_blocks = usage.ru_inblock;
    ahead->n_faults = usage.ru_majflt;
}

void di_read_ahead_experts(di_read_ahead *ahead, const di_layer_weights *layer, const int32_t *ids,
                           int64_t n)
{
    enum { MOST = 64 };
    di_io_job jobs[MOST];
    int64_t n_jobs = 0, n_known = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t number = layer->first_expert + ids[i];
        if (ahead->known[number] == ahead->epoch) {
            n_known++;
            continue;
        }
        ahead->known[number] = ahead->epoch;
        jobs[n_jobs++] = (di_io_job){ask_expert, ahead, number, 0};
        if (n_jobs == MOST) {
            di_io_pool_push(ahead->pool, jobs, n_jobs);
            n_jobs = 0;
        }
    }
    if (n_jobs)
        di_io_pool_push(ahead->pool, jobs, n_jobs);
    atomic_fetch_add(&ahead->n_resident, (uint64_t)n_known);
}

void di_read_ahead_rows(di_read_ahead *ahead, int engram_index, const int64_t *rows, int64_t n)
{
    row_list *list = &ahead->lists[engram_index];
    if (ahead->n_cold == 0 || atomic_load(&list->n_jobs) > 0)
        return;
    if (DI_GROW(&list->rows, &list->cap, (size_t)n) != DI_OK)
        return; /* advice only */
    memcpy(list->rows, rows, (size_t)n * sizeof *rows);
    list->n = (size_t)n;
    const int64_t n_jobs = di_ceil_div(n, ROWS_PER_JOB);
    atomic_store(&list->n_jobs, (int)n_jobs);
    for (int64_t i = 0; i < n_jobs; i++) {
        const di_io_job job = {ask_rows, ahead, engram_index, i * ROWS_PER_JOB};
        if (!di_io_pool_push(ahead->pool, &job, 1))
            atomic_fetch_sub(&list->n_jobs, 1);
    }
}

void di_read_ahead_get_stats(const di_read_ahead *ahead, di_read_ahead_stats *out)
{
    *out = (di_read_ahead_stats){.n_resident = atomic_load(&ahead->n_resident),
                                 .n_asked = atomic_load(&ahead->n_asked),
                                 .bytes_read = atomic_load(&ahead->bytes_read)};
}

void di_read_ahead_drain(di_read_ahead *ahead)
{
    di_io_pool_drain(ahead->pool);
}
