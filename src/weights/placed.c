#include "weights/placed.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/numa.h"
#include "weights/safetensors.h"
#include "weights/weight_list.h"

enum { ALIGN = 64, READ_BYTES = 8 << 20 };

/* A tensor to be copied. */
typedef struct piece {
    const void **slot;           /* the pointer to it */
    const di_safetensors *shard; /* NULL: it is in memory at *slot */
    int64_t offset;              /* in the shard */
    int64_t at;                  /* in the copy */
    int64_t n_rows, row_bytes;
} piece;

struct di_placed_weights {
    di_large_memory memory;
};

typedef struct placing {
    di_weights *weights; /* NULL: only count */
    di_placed_parts parts;
    piece *pieces;
    size_t n, cap;
    int64_t bytes;
    const di_team *team;
    unsigned char *data;
    pthread_mutex_t lock; /* status and error: of the first part that failed */
    di_status status;
    char error[512];
} placing;

/* ------------------------------------------------------------------------------ what is copied */

/* The embeddings of tokens and of the drafter's Markov head. */
static bool is_lookup(const char *name)
{
    static const char suffix[] = "embed.weight";
    const size_t n = strlen(name), m = sizeof suffix - 1;
    return n >= m && strcmp(name + n - m, suffix) == 0;
}

static bool is_streamed(const placing *p, const di_weight_tensor *t)
{
    if (t->part == DI_PART_VISION || (t->part == DI_PART_DRAFT && !p->parts.has_drafter))
        return false;
    if (t->kind == DI_WEIGHT_KIND_F4) /* routed experts, and they alone */
        return p->parts.has_experts;
    if (t->kind == DI_WEIGHT_KIND_BF16)
        return !is_lookup(t->name);
    return t->kind == DI_WEIGHT_KIND_F8;
}

static void find_shard(const placing *p, piece *t)
{
    size_t n;
    const di_safetensors *shards = di_weights_shards(p->weights, &n);
    for (size_t i = 0; i < n; i++) {
        const uintptr_t begin = (uintptr_t)shards[i].mapping.data, at = (uintptr_t)*t->slot;
        if (at >= begin && at - begin < shards[i].mapping.size) {
            t->shard = &shards[i];
            t->offset = (int64_t)(at - begin);
        }
    }
}

static const void **pointer_of(const di_weight_tensor *t)
{
    if (t->kind == DI_WEIGHT_KIND_BF16)
        return (const void **)&((di_bf16_matrix *)t->slot)->data;
    di_qweight *w = t->slot;
    return (const void **)(t->is_scale ? &w->scales : &w->codes);
}

static di_status add_tensor(void *user, const di_weight_tensor *t)
{
    placing *p = user;
    if (!is_streamed(p, t))
        return DI_OK;
    const int64_t row_bytes = t->shape[1] * (int64_t)di_dtype_bytes(t->dtype);
    piece one = {.at = p->bytes, .n_rows = t->shape[0], .row_bytes = row_bytes};
    p->bytes = (one.at + one.n_rows * row_bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!p->weights)
        return DI_OK;
    one.slot = pointer_of(t);
    find_shard(p, &one);
    DI_TRY(DI_GROW(&p->pieces, &p->cap, p->n + 1));
    p->pieces[p->n++] = one;
    return DI_OK;
}

di_status di_placed_bytes(const di_config *config, di_placed_parts parts, int64_t *bytes)
{
    placing p = {.parts = parts};
    DI_TRY(di_weight_list(config, NULL, add_tensor, &p));
    *bytes = p.bytes;
    return DI_OK;
}

/* ------------------------------------------------------------------------------------- reading */

static di_status read_part(const piece *t, int64_t first, int64_t bytes, unsigned char *to)
{
    if (!t->shard) {
        memcpy(to, (const char *)*t->slot + first, (size_t)bytes);
        return DI_OK;
    }
    for (int64_t done = 0; done < bytes;) {
        const size_t n = (size_t)di_min_i64(READ_BYTES, bytes - done);
        const ssize_t got =
            pread(t->shard->mapping.fd, to + done, n, (off_t)(t->offset + first + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return di_fail(DI_ERR_IO, "%s: %s", t->shard->path, strerror(errno));
        if (got == 0)
            return di_fail(DI_ERR_RUNTIME, "%s: the file was cut while it was read",
                           t->shard->path);
        done += got;
    }
    return DI_OK;
}

static di_status read_parts(const placing *p, int worker)
{
    const di_team *team = p->team;
    for (size_t i = 0; i < p->n; i++) {
        const piece *t = &p->pieces[i];
        const di_numa_split split = {.nodes = team->is_pinned ? team->nodes : NULL,
                                     .n_workers = team->n_workers,
                                     .at = t->at,
                                     .page = DI_LARGE_PAGE,
                                     .n_rows = t->n_rows,
                                     .row_bytes = t->row_bytes};
        const int64_t first = di_numa_part_begin(&split, worker);
        const int64_t bytes = di_numa_part_begin(&split, worker + 1) - first;
        if (bytes > 0)
            DI_TRY(read_part(t, first, bytes, p->data + t->at + first));
    }
    return DI_OK;
}

/* Items are the workers themselves. Where a node cannot be preferred, the pages still come from
 * where a pinned worker runs. */
static void read_item(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    placing *p = *(placing *const *)args;
    const di_team *team = p->team;
    const bool has_nodes = team->is_pinned && team->nodes[0] != team->nodes[team->n_workers - 1];
    for (int64_t i = begin; i < end; i++) {
        const bool is_set = has_nodes && di_numa_prefer(team->nodes[i]) == DI_OK;
        const di_status status = read_parts(p, (int)i);
        if (status != DI_OK) {
            pthread_mutex_lock(&p->lock);
            p->status = status;
            snprintf(p->error, sizeof p->error, "%s", di_last_error());
            pthread_mutex_unlock(&p->lock);
        }
        if (is_set && di_numa_prefer(-1) != DI_OK)
            return; /* the pool's threads end with the copy */
    }
}

static di_status copy(placing *p, di_placed_weights *placed)
{
    DI_TRY(di_weight_list(&p->weights->config, p->weights, add_tensor, p));
    const int64_t machine = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    if (p->bytes > machine)
        return di_fail(DI_ERR_MEMORY,
                       "weights=copy: wanted %lld bytes, found %lld on this machine; use "
                       "weights=map, or weight_cache for the experts",
                       (long long)p->bytes, (long long)machine);
    DI_TRY(di_large_new(p->bytes, &placed->memory));
    p->data = placed->memory.data;
    di_pool_run(p->team->pool, read_item, &p, p->team->n_workers);
    if (p->status != DI_OK)
        return di_fail(p->status, "%s", p->error);
    for (size_t i = 0; i < p->n; i++)
        *p->pieces[i].slot = p->data + p->pieces[i].at;
    return DI_OK;
}

di_status di_weights_place(di_weights *weights, const di_team *team, di_placed_parts parts,
                           di_placed_weights **out)
{
    di_placed_weights *placed = calloc(1, sizeof *placed);
    if (!placed)
        return di_fail_memory(sizeof *placed, "the weights' copy");
    placing p = {
        .weights = weights, .parts = parts, .team = team, .lock = PTHREAD_MUTEX_INITIALIZER};
    const di_status status = copy(&p, placed);
    free(p.pieces);
    if (status == DI_OK)
        *out = placed;
    else
        di_placed_weights_free(placed);
    return status;
}

void di_placed_weights_free(di_placed_weights *placed)
{
    if (!placed)
        return;
    di_large_free(&placed->memory);
    free(placed);
}
